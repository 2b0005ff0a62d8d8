r"""Expectations of products of column kernels under leaves of several numbers.

The difference of independent normal scores is normal. Let m and S be its mean and covariance, and
:math:`G = \operatorname{diag}(\sqrt{2 \gamma_v})`. Gaussian kernels of the missing columns have the
expectation

.. math:: |I + G S G|^{-1/2} \exp(-\tfrac12 |L^{-1} G m|^2), \qquad L L^T = I + G S G.

A point is a distribution without missing cells, and known cells have no covariance. A missing cell
is at an atom, if the column has some, or in its Gaussian. All choices are visited depth first, one
column after the other, and share the rows of L of the columns before. Other kernels see only
whether two cells are equal. They have one factor for each column, whatever the other columns do.
The plain twin is ``tests/naive/blocks.py``.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from skpc._arrays import Bools, Floats, Ints, offsets
from skpc._fast_math import fast_exp
from skpc._jit import inlined, internal_kernel, kernel
from skpc.kernels._expectations import leaf_expectations, leaf_second_moments
from skpc.kernels._kernel import RBF, ColumnKernel
from skpc.variables import Columns, Normals
from skpc.variables.block_cells import ConditionalNormals
from skpc.variables.blocks import BlockLeaves


class JointSide(NamedTuple):
    """One side of expected kernels: leaves of one scope, and their conditional distributions."""

    leaves: BlockLeaves
    columns: Columns
    normals: ConditionalNormals


class JointPoints(NamedTuple):
    """Points, or pairs of points, in the variables of leaves of one scope.

    The product of a Gaussian kernel at two cells is a narrower one in the middle between them.

    Parameters
    ----------
    cells : ndarray of shape (n_points, n_columns, n_cells)
        Scores of the cells: one, or two of a pair.
    centre : ndarray of shape (n_points, n_columns)
        Their middle.
    root : ndarray of shape (n_columns,)
        The diagonal of G; 0 for a column whose kernel is not Gaussian.
    height : ndarray of shape (n_points,)
        What Gaussian kernels count in the middle.
    """

    cells: Floats
    centre: Floats
    root: Floats
    height: Floats

    @classmethod
    def from_cells(cls, factors: Sequence[ColumnKernel], cells: Floats) -> Self:
        """Points as column kernels see them."""
        gamma = _gammas(factors)
        is_gaussian = gamma > 0.0
        centre = np.where(is_gaussian, cells.mean(axis=2), 0.0)
        deviation = cells - centre[:, :, np.newaxis]  # (n_points, n_columns, n_cells)
        apart = np.square(deviation).sum(axis=2)
        apart = np.where(is_gaussian, apart, 0.0)
        root = np.sqrt(2.0 * gamma * cells.shape[2])
        height = np.exp(-apart @ gamma)
        return cls(cells, np.ascontiguousarray(centre), root, height)


class _Side(NamedTuple):
    """One side as kernels read it: distributions of scores, and atoms.

    The atoms of column ``v`` are ``atom[atom_ptr[v]:atom_ptr[v + 1]]``; leaf ``k`` has their
    probabilities ``prob[k, atom_ptr[v] : atom_ptr[v + 1]]``, and that of a number of its Gaussian
    ``density[k, v]``.
    """

    row: Ints
    set_ptr: Ints
    mean: Floats
    leaf: Ints
    missing: Bools
    covariance: Floats
    atom_ptr: Ints
    atom: Floats
    prob: Floats
    density: Floats

    @classmethod
    def from_leaves(cls, side: JointSide) -> Self:
        leaves = side.leaves
        places = range(len(leaves.variables))
        atoms = [_atoms(side, place) for place in places]
        # The last state of a column is its Gaussian.
        probs = [np.exp(leaves.log_prob_of(place)) for place in places]
        atom_ptr = offsets([len(scores) for scores in atoms])
        atom_prob = np.hstack([prob[:, :-1] for prob in probs])
        density = np.column_stack([prob[:, -1] for prob in probs])
        return cls(*side.normals, atom_ptr, np.concatenate(atoms), atom_prob, density)

    @classmethod
    def from_points(cls, points: JointPoints) -> Self:
        n_points, n_columns = points.centre.shape
        # All points are one set without missing cells, and so without covariance.
        set_ptr = np.array([0, n_points])
        leaf = np.zeros(1, np.int64)
        missing = np.zeros((1, n_columns), dtype=bool)
        covariance = np.zeros((1, n_columns, n_columns))
        means = (np.arange(n_points), set_ptr, points.centre)
        no_atoms = (np.zeros(n_columns + 1, np.int64), np.empty(0), np.empty((1, 0)))
        return cls(*means, leaf, missing, covariance, *no_atoms, np.ones((1, n_columns)))


def joint_expectations(
    factors: Sequence[ColumnKernel], left: JointSide, right: JointSide | JointPoints
) -> Floats:
    """Expectation of a product of column kernels between distributions, or at points.

    Parameters
    ----------
    factors : sequence of ColumnKernel
        The kernels of the variables of the leaves.
    left : JointSide
        Leaves of a scope, and conditional distributions under them.
    right : JointSide or JointPoints
        Distributions of the same variables, or points. At pairs of points the expectation is that
        of the product of both kernels.

    Returns
    -------
    ndarray of shape (n_left, n_right)

    Raises
    ------
    ValueError
        If too many cells with atoms are missing for a sum over all sets of them.
    """
    if isinstance(right, JointPoints):
        root = right.root
        right_side = _Side.from_points(right)
    else:
        root = np.sqrt(2.0 * _gammas(factors))
        right_side = _Side.from_leaves(right)
    out = np.zeros((len(left.normals.row), len(right_side.row)))
    _add_gaussian_part(left.leaves, _Side.from_leaves(left), right_side, root, out)
    if isinstance(right, JointPoints):
        out *= right.height
    # Other kernels see only whether two cells are equal: each column has a factor of its own.
    for place in np.flatnonzero(root == 0.0).tolist():
        factor = factors[place]
        form = _column_form(left, place)
        if isinstance(right, JointSide):
            out *= leaf_expectations(factor, form, _column_form(right, place))
            continue
        cells = right.cells[:, place].T
        if len(cells) == 2:
            out *= leaf_second_moments(factor, form, *cells)
        else:
            # A known cell is a normal distribution without spread.
            known = Normals(cells[0], np.zeros(len(cells[0])))
            out *= leaf_expectations(factor, form, known)
    return out


def _gammas(factors: Sequence[ColumnKernel]) -> Floats:
    """Inverse squared length scales of Gaussian kernels; 0 for other kernels."""
    return np.array([factor.gamma if isinstance(factor, RBF) else 0.0 for factor in factors])


def _add_gaussian_part(
    leaves: BlockLeaves, left: _Side, right: _Side, root: Floats, out: Floats
) -> None:
    """Add expectations of Gaussian kernels between two sides; ``leaves`` are those of the left."""
    n_left_atoms = np.diff(left.atom_ptr)
    n_right_atoms = np.diff(right.atom_ptr)
    # Columns without choices come first: those with atoms share what these add.
    order = np.argsort(n_left_atoms + n_right_atoms, kind="stable")
    order = order[root[order] > 0.0]
    beyond = _add_pairs(left, right, order, root, out)
    if beyond >= 0:
        left_set, right_set = divmod(beyond, len(right.leaf))
        choices = left.missing[left_set] & (n_left_atoms > 0)
        choices |= right.missing[right_set] & (n_right_atoms > 0)
        # The error names the variables whose choices multiply.
        variables = leaves.variables[choices & (root > 0.0)].tolist()
        raise ValueError(
            f"an expected kernel sums over which of the missing cells of a leaf hold atoms, but "
            f"{len(variables)} variables with atoms {variables} are missing there, and too many "
            "sets of them are probable; draw rows (sample_missing) and pass them as points, or "
            'learn a density whose leaves have one number each (leaves="univariate")'
        )


def _column_form(side: JointSide, place: int) -> Normals:
    """What is known of a column: cells, atoms, and a normal score where neither is known."""
    normals = side.normals
    set_of_row = normals.set_of_row
    is_missing = normals.missing[set_of_row, place]
    missing = np.flatnonzero(is_missing)
    known = np.flatnonzero(~is_missing)
    values, value_of_row = np.unique(normals.mean[known, place], return_inverse=True)
    n_values = len(values)
    atoms = _atoms(side, place)
    prob = np.exp(side.leaves.log_prob_of(place))
    # One column for each known value, one for each atom, one for the Gaussian.
    rows = np.zeros((len(set_of_row), n_values + prob.shape[1]))
    rows[known, value_of_row] = 1.0
    # A missing cell may be at each atom of its leaf, or in its Gaussian.
    leaf = normals.leaf[set_of_row[missing]]
    rows[missing, n_values:] = prob[leaf]
    sd = np.zeros(n_values + len(atoms))
    mean = np.concatenate([values, atoms, [0.0]])
    return Normals(mean, np.append(sd, 1.0), rows)


def _atoms(side: JointSide, place: int) -> Floats:
    """Scores of the atoms of a column."""
    variable = int(side.leaves.variables[place])
    column = side.columns.axis_of(variable)
    return column.transform(column.atoms)


@kernel(new_arrays=True)
def _add_pairs(left: _Side, right: _Side, order: Ints, root: Floats, out: Floats) -> int:
    """Add expectations, set by set; the first pair of sets with too many choices, or -1."""
    n_right_sets = len(right.leaf)
    # The workspace is made once, and holds the largest sets.
    largest = 1
    for ptr in (left.set_ptr, right.set_ptr):
        for start, stop in zip(ptr[:-1], ptr[1:]):
            largest = max(largest, stop - start)
    white = np.empty((2, len(root), largest))
    for left_set in range(len(left.leaf)):
        if left.set_ptr[left_set] == left.set_ptr[left_set + 1]:
            continue
        for right_set in range(n_right_sets):
            if right.set_ptr[right_set] == right.set_ptr[right_set + 1]:
                continue
            # Sets of leaves that differ in their means only share all factors.
            if not _walk(left, right, left_set, right_set, order, root, white, out):
                return left_set * n_right_sets + right_set
    return -1


@internal_kernel(new_arrays=True)
def _walk(
    left: _Side,
    right: _Side,
    left_set: int,
    right_set: int,
    order: Ints,
    root: Floats,
    white: Floats,
    out: Floats,
) -> bool:
    """Add the sum over all choices for two sets, depth first; False if there are too many.

    ===================  =================  ======================================================
    left, right          _Side              the sides
    left_set, right_set  int                their sets
    order                (n_columns,)       columns with Gaussian kernels, one for each depth
    root                 (d,)               the diagonal of G
    white                (2, d, n)          workspace: whitened scores of both sides, by depth
    out                  (n_left, n_right)  receives the sums
    ===================  =================  ======================================================
    """
    n_columns = len(order)
    n_left_members = left.set_ptr[left_set + 1] - left.set_ptr[left_set]
    n_right_members = right.set_ptr[right_set + 1] - right.set_ptr[right_set]
    left_white = white[0]
    right_white = white[1]
    # One place for each column, and one for the end of the way down.
    n_depths = n_columns + 1
    choice = np.zeros(n_depths, np.int64)
    inside = np.empty((n_columns, 2), np.bool_)
    # What the choices of the columns above a depth have: their probability, and the root of the
    # determinant of their columns, |I + G S G|^(-1/2).
    prob = np.ones(n_depths)
    height = np.ones(n_depths)
    factor = np.empty((n_columns, n_columns))
    # Depths whose columns are in the Gaussian of a side, and how many there are at each depth.
    active = np.empty(n_columns, np.int64)
    n_active = np.zeros(n_depths, np.int64)
    n_visits = 0
    depth = 0
    while depth >= 0:
        # All columns have a choice, and so their terms are known.
        if depth == n_columns:
            weight = prob[depth] * height[depth]
            _add_term(left, right, left_set, right_set, n_columns, weight, white, out)
            depth -= 1
            continue
        column = order[depth]
        digits = choice[depth]
        # A side is in its Gaussian (or known), or at one of its atoms: counted from -1, so that
        # choices of two sides are the digits of one number.
        n_left = _n_choices(left, left_set, column)
        n_right = _n_choices(right, right_set, column)
        if digits == n_left * n_right:
            depth -= 1
            continue
        choice[depth] += 1
        # The number of choices grows exponentially with the columns that have atoms.
        n_visits += 1
        if n_visits > 2**20:
            return False
        left_atom = digits // n_right
        left_atom -= 1
        right_atom = digits % n_right
        right_atom -= 1
        likely = prob[depth] * _probability(left, left_set, column, left_atom)
        likely *= _probability(right, right_set, column, right_atom)
        # What follows can only be less likely, and this is less than the rounding of a sum to 1.
        if likely < 1e-17:
            continue
        left_inside = left.missing[left_set, column] and left_atom < 0
        right_inside = right.missing[right_set, column] and right_atom < 0
        depth_inside = inside[depth]
        depth_inside[0] = left_inside
        depth_inside[1] = right_inside
        # Both sides are whitened by themselves: members share the work of their sets.
        column_root = root[column]
        _fill(left, left_set, column, left_atom, column_root, left_white[depth])
        _fill(right, right_set, column, right_atom, column_root, right_white[depth])
        n_inside = n_active[depth]
        following = depth + 1
        height[following] = height[depth]
        prob[following] = likely
        # Sides at atoms and known sides have no covariance with other columns.
        if left_inside or right_inside:
            # A new row of L, by Cholesky; earlier rows are those of the columns above.
            factor_row = factor[depth]
            active[n_inside] = depth
            n_inside += 1
            for place in range(n_inside):
                above = active[place]
                above_row = factor[above]
                above_inside = inside[above]
                above_column = order[above]
                # Both sides are independent: the covariance of a difference is a sum.
                covariance = 0.0
                if left_inside and above_inside[0]:
                    covariance += left.covariance[left_set, column, above_column]
                if right_inside and above_inside[1]:
                    covariance += right.covariance[right_set, column, above_column]
                covariance *= column_root * root[above_column]
                for solved in active[:place]:
                    covariance -= factor_row[solved] * above_row[solved]
                # The factor holds reciprocals on its diagonal.
                if above < depth:
                    factor_row[above] = covariance * above_row[above]
                else:
                    factor_row[above] = 1.0 / math.sqrt(1.0 + covariance)
            _whiten(factor_row, active[:n_inside], n_left_members, left_white)
            _whiten(factor_row, active[:n_inside], n_right_members, right_white)
            height[following] *= factor_row[depth]
        depth = following
        n_active[depth] = n_inside
        choice[depth] = 0
    return True


@inlined
def _n_choices(side: _Side, place: int, column: int) -> int:
    """Number of choices of a cell of a set."""
    if not side.missing[place, column]:
        return 1
    return 1 + side.atom_ptr[column + 1] - side.atom_ptr[column]


@inlined
def _probability(side: _Side, place: int, column: int, atom: int) -> float:
    """Probability of a choice of a cell of a set."""
    # A known cell, an atom among them, leaves no choice.
    if not side.missing[place, column]:
        return 1.0
    leaf = side.leaf[place]
    if atom < 0:
        return side.density[leaf, column]
    return side.prob[leaf, side.atom_ptr[column] + atom]


@internal_kernel
def _fill(side: _Side, place: int, column: int, atom: int, root: float, scores: Floats) -> None:
    """Write the scores of a set in a column, or an atom in their place, in units of the kernel."""
    # The distributions of a set differ in their means only, which stand together.
    ptr = side.set_ptr
    start = ptr[place]
    stop = ptr[place + 1]
    for member in range(stop - start):
        if atom < 0:
            score = side.mean[start + member, column]
        else:
            score = side.atom[side.atom_ptr[column] + atom]
        score *= root
        scores[member] = score


@internal_kernel
def _whiten(factor: Floats, active: Ints, n_members: Any, white: Floats) -> None:
    """Whiten the last of the active rows of ``n_members`` scores by a row of the factor."""
    depth = active[-1]
    row = white[depth]
    for above in active[:-1]:
        weight = factor[above]
        above_row = white[above]
        for member in range(n_members):
            row[member] -= weight * above_row[member]
    # The factor holds reciprocals on its diagonal.
    scale = factor[depth]
    for member in range(n_members):
        row[member] *= scale


@internal_kernel(new_arrays=True)
def _add_term(
    left: _Side,
    right: _Side,
    left_set: int,
    right_set: int,
    n_columns: int,
    weight: float,
    white: Floats,
    out: Floats,
) -> None:
    """Add a term of the sum for each pair of two sets.

    ===================  =================  ======================================================
    left, right          _Side              the sides
    left_set, right_set  int                their sets
    n_columns            int                number of columns
    weight               float              probability of the choices, and height of the kernel
    white                (2, d, n)          whitened scores of both sides
    out                  (n_left, n_right)  receives the terms
    ===================  =================  ======================================================
    """
    left_ptr = left.set_ptr
    left_start = left_ptr[left_set]
    left_stop = left_ptr[left_set + 1]
    right_ptr = right.set_ptr
    right_start = right_ptr[right_set]
    right_stop = right_ptr[right_set + 1]
    n_right_members = right_stop - right_start
    # Of one member of the left and all of the right: squared distances of whitened scores.
    square = np.empty(n_right_members)
    for member in range(left_stop - left_start):
        square[:] = 0.0
        # Innermost loops run over members, which stand side by side.
        for depth in range(n_columns):
            score = white[0, depth, member]
            for opposite in range(n_right_members):
                square[opposite] += (score - white[1, depth, opposite]) ** 2
        left_row = left_start + member
        row = out[left_row]
        for opposite in range(n_right_members):
            row[right_start + opposite] += weight * fast_exp(-0.5 * square[opposite])
