"""Checks of variables and leaves, when circuits are built and when files are read."""

from typing import Any

import numpy as np
from scipy.linalg import lapack

from skpc._arrays import Floats, Ints, group_sums, segment
from skpc.exceptions import StructureError
from skpc.variables.blocks import blocks_by_scope, split_params
from skpc.variables.families import BLOCK, FAMILIES, FORMULAS
from skpc.variables.histogram import Histogram
from skpc.variables.law import Law
from skpc.variables.leaf_tables import formula_params
from skpc.variables.leaves import Leaves, axis_in, states_of_leaves
from skpc.variables.score import ATOMS

#: How far the probabilities of a distribution may be from summing to one.
TOLERANCE = 1e-6
#: Greatest difference between a covariance and its transpose, relative to its entries.
_UNEVEN = 1e-9
#: Scores of numbers up to this size must not overflow.
_FAR = 1e300


def check_variable(var: int, count: int, axis: Histogram | Law | None) -> None:
    """Refuse an axis that is invalid, or that does not fit the number of states."""
    # States are int16 codes, and one more code stands for a missing cell.
    most_states = 32767
    if count < 0:
        raise ValueError(f"variable {var} needs 0 or more states, got {count}")
    if count > most_states:
        raise ValueError(f"variable {var} may have {most_states} states at most, got {count}")
    if axis is None:
        return
    if count != axis.n_states:
        raise ValueError(
            f"the axis of variable {var} does not fit its {count} states: it has {axis.n_states}"
        )
    if isinstance(axis, Histogram):
        _check_histogram(var, axis)
    else:
        _check_law(var, axis)


def _check_histogram(var: int, axis: Histogram) -> None:
    """Refuse edges, tails, states, shares or atoms that make no histogram."""
    edges = np.asarray(axis.edges, dtype=np.float64)
    lower = axis.lower_scale
    upper = axis.upper_scale
    if edges.ndim != 1 or len(edges) < 1 or not np.all(np.isfinite(edges)):
        raise ValueError(f"the axis of variable {var} needs at least one finite edge, got {edges}")
    # The distance of edges may overflow; such a width is refused below.
    with np.errstate(over="ignore"):
        width = np.diff(edges)
    if not np.all((width > 0) & (width < np.inf)):
        raise ValueError(f"the edges of variable {var} must increase, got {edges}")
    if not (0 < lower < np.inf and 0 < upper < np.inf):
        raise ValueError(
            f"the tails of variable {var} need positive scales, got {lower} and {upper}"
        )
    if not (axis.low <= edges[0] and edges[-1] <= axis.high and 0.0 <= axis.step < np.inf):
        raise ValueError(
            f"the tails of variable {var} need ends beyond their edges and a step of 0 or more, "
            f"got {axis.low} to {axis.high} and {axis.step}"
        )
    states = axis.states
    shares = axis.shares
    points = axis.points
    if any(np.shape(part) != (len(edges) + 1,) for part in (states, shares, points)):
        raise ValueError(f"the axis of variable {var} needs {len(edges) + 1} cells")
    if not np.array_equal(np.unique(states), np.arange(axis.n_states)):
        raise ValueError(f"the cells of variable {var} need states from 0 on, got {states}")
    # Shares are parts of a state, and sum to one in each of them.
    total = group_sums(states.astype(np.int64), shares)
    if not (np.all(shares >= 0) and np.all(np.abs(total - 1.0) <= TOLERANCE)):
        raise ValueError(f"the shares of the states of variable {var} must sum to 1, got {total}")
    low = np.append(-np.inf, edges)
    high = np.append(edges, np.inf)
    if not np.all(np.isnan(points) | ((low <= points) & (points < high) & np.isfinite(points))):
        raise ValueError(f"the atoms of variable {var} must lie in their cells, got {points}")


def _check_law(var: int, law: Law) -> None:
    """Refuse atoms, sizes or a score that make no law."""
    atoms = np.asarray(law.atoms)
    sizes = [law.step, law.reach, law.smallest_sd, law.gap]
    if atoms.ndim != 1 or not np.all(np.isfinite(atoms)) or not np.all(atoms[1:] > atoms[:-1]):
        raise ValueError(f"the atoms of variable {var} must be finite and increase, got {atoms}")
    if not (np.all(np.isfinite(sizes)) and min(sizes) >= 0.0):
        raise ValueError(
            f"variable {var} needs a step, a reach, a smallest sd and a gap of 0 or more, got "
            f"{sizes}"
        )
    score = law.score
    # The power transform by itself must not overflow; the other fields are checked below.
    power_alone = score._replace(lower=-np.inf, upper=np.inf, centre=0.0, spread=1.0)
    ends = np.clip([score.low, score.high], -_FAR, _FAR)
    finite = np.isfinite([score.centre, score.spread, score.power]).all()
    if not (
        finite
        and score.spread > 0.0
        and 0.0 <= score.soft < np.inf
        and -np.inf <= score.lower < score.upper
        and score.low <= score.high
        and not np.isnan(power_alone.transform(ends)).any()
    ):
        raise ValueError(f"the score of variable {var} is not an increasing bijection: {score}")


def axis_in_file(var: int, part: Floats, count: int) -> Histogram | Law | None:
    """The axis that a stretch of a file holds, checked; None where it is empty."""
    # A histogram axis has five numbers for each edge, and nine more.
    fits = len(part) >= 14 and len(part) % 5 == 4
    if len(part) and not (len(part) == ATOMS + count - 1 if part[0] == 0.0 else fits):
        raise ValueError(f"the axis of variable {var} does not fit its {count} states")
    # States that are not whole numbers are cast, and differ from the file below.
    with np.errstate(invalid="ignore"):
        axis = axis_in(part)
    check_variable(var, count, axis)
    # A file holds log densities, too, which other versions may have rounded differently.
    rounding = 1e-9
    if axis is not None and not np.allclose(axis.flat, part, rounding, rounding, equal_nan=True):
        raise ValueError(
            f"the axis of variable {var} does not fit its {count} states: the states or "
            f"densities of variable {var} are not those of its cells"
        )
    return axis


def check_families(leaves: Leaves, n_states: Ints, axis_ptr: Ints, axis: Floats) -> None:
    """Refuse leaves that have a variable twice, or variables that do not suit their family."""
    size = np.diff(leaves.scope_ptr)
    scope = leaves.scope
    node = leaves.node
    owner = leaves.owner
    # They come in any order: that of a circuit whose columns have been reordered is not increasing.
    order = np.lexsort((scope, owner))
    wrong = np.flatnonzero((np.diff(owner[order]) == 0) & (np.diff(scope[order]) == 0))
    if len(wrong):
        leaf = int(owner[order[wrong[0]]])
        variables = scope[segment(leaves.scope_ptr, leaf)].tolist()
        raise ValueError(f"the variables of node {node[leaf]} must differ, got {variables}")
    wrong = np.flatnonzero((size > 1) & (leaves.family != BLOCK))
    if len(wrong):
        raise ValueError(
            f"node {node[wrong[0]]} has {size[wrong[0]]} variables, but its family takes one; only "
            "blocks have several"
        )
    # The first number of each axis tells its kind; a variable without an axis has NaN.
    head = np.append(axis, np.nan)[np.where(np.diff(axis_ptr) > 0, axis_ptr[:-1], -1)]
    without_axis = np.where(n_states > 0, "states and no axis", "no states")
    text_with_axis = np.where(head > 0.0, "a histogram axis", "atoms and a score")
    actual = np.where(np.isnan(head), without_axis, text_with_axis)[scope]
    needed = np.array([family.variable for family in FAMILIES.values()])[leaves.family[owner]]
    wrong = np.flatnonzero(needed != actual)
    if len(wrong):
        wrong_leaf = wrong[0]
        leaf = owner[wrong_leaf]
        raise StructureError(
            f"node {node[leaf]} is a {FAMILIES[leaves.family[leaf]].name} leaf and needs a "
            f"variable with {needed[wrong_leaf]}, but variable {scope[wrong_leaf]} has "
            f"{actual[wrong_leaf]}"
        )


def check_params(leaves: Leaves, param: Floats, n_states: Ints) -> None:
    """Refuse parameters of leaves that are not a distribution, by the node of the first one."""
    states = states_of_leaves(leaves, n_states)
    if len(states.leaf):
        # A log probability above zero is wrong anyway; here it must not overflow.
        total = np.add.reduceat(np.exp(np.minimum(param[states.param], 1.0)), states.begin)
        # The comparison is turned round so that NaN is refused, too.
        wrong = np.flatnonzero(~(np.abs(total - 1.0) <= TOLERANCE))
        if len(wrong):
            raise ValueError(
                f"the probabilities of node {leaves.node[states.leaf[wrong[0]]]} must sum to 1, "
                f"got {total[wrong[0]]:.9g}"
            )
    for _, leaf, params in formula_params(leaves, param):
        check_formula(int(leaves.family[leaf[0]]), params, leaves.node[leaf])
    for leaf, variables in blocks_by_scope(leaves):
        _, mean, covariance = split_params(leaf, variables, leaves, param, n_states)
        check_gaussians(variables.tolist(), mean, covariance)


def check_formula(family: int, params: Any, node: Any = None) -> None:
    """Refuse parameters of leaves with a formula, each an array or a number, that do not fit it."""
    formula = FORMULAS[family]
    wrong = np.flatnonzero(~np.asarray(formula.fits(*params)))
    if len(wrong):
        values = " and ".join(str(float(np.ravel(row)[wrong[0]])) for row in params)
        leaf = "a" if node is None else f"node {node[wrong[0]]}, a"
        name = FAMILIES[family].name
        raise ValueError(f"{leaf} {name} leaf needs {formula.NEEDED}, got {values}")


def check_gaussians(variables: list[int], mean: Floats, covariance: Floats) -> None:
    """Refuse invalid Gaussians of blocks; shapes (n_leaves, d) and (n_leaves, d, d)."""
    finite = np.isfinite(mean).all(axis=1) & np.isfinite(covariance).all(axis=(1, 2))
    if not finite.all():
        raise ValueError(f"the block of variables {variables} needs finite means and covariances")
    for matrix in covariance:
        uneven = np.abs(matrix - matrix.T).max()
        # Only positive definite matrices have a Cholesky factor.
        if uneven > _UNEVEN * np.abs(matrix).max() or lapack.dpotrf(matrix, lower=1)[1]:
            raise ValueError(
                f"the covariance of the block of variables {variables} must be symmetric and "
                f"positive definite; it differs from its transpose by {uneven:g}, and its "
                f"smallest eigenvalue is {np.linalg.eigvalsh(matrix)[0]:g}"
            )
