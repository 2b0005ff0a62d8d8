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
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints, offsets
from skpc._fast_math import fast_exp
from skpc._jit import inlined, internal_kernel, kernel
from skpc.kernels._expectations import leaf_expectations, leaf_second_moments
from skpc.kernels._kernel import RBF, ColumnKernel
from skpc.variables import Columns, Normals
from skpc.variables.gaussian import MultivariateGaussian
from skpc.variables.gaussian_cells import ConditionalNormals

#: Choices less probable than this are not followed.
_NOTHING = 1e-17
#: Choices, column by column, that are visited for a pair of sets of distributions.
_MOST_VISITS = 2**20


class JointSide(NamedTuple):
    """One side of expected kernels: leaves of one scope, and their conditional distributions."""

    leaves: MultivariateGaussian
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
        gamma = np.array([f.gamma if isinstance(f, RBF) else 0.0 for f in factors])
        centre = np.where(gamma > 0.0, cells.mean(axis=2), 0.0)
        apart = np.where(gamma > 0.0, np.square(cells - centre[:, :, np.newaxis]).sum(axis=2), 0.0)
        root = np.sqrt(2.0 * gamma * cells.shape[2])
        return cls(cells, np.ascontiguousarray(centre), root, np.exp(-apart @ gamma))


class _Side(NamedTuple):
    """One side as kernels read it: distributions of scores, and atoms.

    The atoms of column ``v`` are ``atom[atom_ptr[v]:atom_ptr[v + 1]]``; leaf ``k`` has their
    probabilities ``prob[k, atom_ptr[v] : atom_ptr[v + 1]]``, and that of the rest ``rest[k, v]``.
    """

    row: Ints
    set_ptr: Ints
    mean: Floats
    leaf: Ints
    missing: NDArray[np.bool_]
    covariance: Floats
    atom_ptr: Ints
    atom: Floats
    prob: Floats
    rest: Floats

    @classmethod
    def from_leaves(cls, side: JointSide) -> Self:
        leaves, columns, normals = side
        atoms = [_atoms(leaves, columns, at) for at in range(len(leaves.variables))]
        probs = [np.exp(leaves.log_prob_of(at)) for at in range(len(leaves.variables))]
        ptr = offsets([len(scores) for scores in atoms])
        of_atoms = np.hstack([prob[:, :-1] for prob in probs])
        rest = np.column_stack([prob[:, -1] for prob in probs])
        return cls(*normals, ptr, np.concatenate(atoms), of_atoms, rest)

    @classmethod
    def from_points(cls, points: JointPoints) -> Self:
        n, d = points.centre.shape
        exact = np.zeros(1, np.int64), np.zeros((1, d), dtype=bool), np.zeros((1, d, d))
        no_atoms = np.zeros(d + 1, np.int64), np.empty(0), np.empty((1, 0))
        one_set = ConditionalNormals(np.arange(n), np.array([0, n]), points.centre, *exact)
        return cls(*one_set, *no_atoms, np.ones((1, d)))


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
        q = _Side.from_points(right)
    else:
        gamma = np.array([f.gamma if isinstance(f, RBF) else 0.0 for f in factors])
        root = np.sqrt(2.0 * gamma)
        q = _Side.from_leaves(right)
    out = np.zeros((len(left.normals.row), len(q.row)))
    _add_gaussian_part(left.leaves, _Side.from_leaves(left), q, root, out)
    if isinstance(right, JointPoints):
        out *= right.height
    # Other kernels see only whether two cells are equal: each column has a factor of its own.
    for place in np.flatnonzero(root == 0.0).tolist():
        form = _column_form(left, place)
        if isinstance(right, JointSide):
            out *= leaf_expectations(factors[place], form, _column_form(right, place))
            continue
        cells = right.cells[:, place].T
        if len(cells) == 2:
            out *= leaf_second_moments(factors[place], form, cells[0], cells[1])
        else:
            known = Normals(cells[0], np.zeros(len(cells[0])))
            out *= leaf_expectations(factors[place], form, known)
    return out


def _add_gaussian_part(
    leaves: MultivariateGaussian, p: _Side, q: _Side, root: Floats, out: Floats
) -> None:
    """Add expectations of Gaussian kernels between two sides; ``leaves`` are those of the left."""
    n_atoms = np.diff(p.atom_ptr)
    n_others = np.diff(q.atom_ptr)
    # Columns without choices come first: those with some share what these add.
    order = np.argsort(n_atoms + n_others, kind="stable")
    beyond = _add_pairs(p, q, order[root[order] > 0.0], root, out)
    if beyond >= 0:
        s, t = divmod(beyond, len(q.leaf))
        choices = (p.missing[s] & (n_atoms > 0)) | (q.missing[t] & (n_others > 0))
        variables = leaves.variables[choices & (root > 0.0)].tolist()
        raise ValueError(
            f"an expected kernel sums over which of the missing cells of a leaf hold atoms, but "
            f"{len(variables)} variables with atoms {variables} are missing there, and too many "
            "sets of them are probable; draw rows (sample_missing) and pass them as points, or "
            'learn a density whose leaves have one number each (leaves="univariate")'
        )


def _column_form(side: JointSide, at: int) -> Normals:
    """What is known of the numbers of one column: cells, atoms, and a normal score for the rest."""
    normals = side.normals
    of_set = side.normals.of_set
    is_missing = normals.missing[of_set, at]
    missing = np.flatnonzero(is_missing)
    known = np.flatnonzero(~is_missing)
    values, which = np.unique(normals.mean[known, at], return_inverse=True)
    atoms = _atoms(side.leaves, side.columns, at)
    prob = np.exp(side.leaves.log_prob_of(at))
    rows = np.zeros((len(of_set), len(values) + prob.shape[1]))
    rows[known, which] = 1.0
    rows[missing, len(values) :] = prob[normals.leaf[of_set[missing]]]
    sd = np.append(np.zeros(len(values) + len(atoms)), 1.0)
    return Normals(np.concatenate([values, atoms, [0.0]]), sd, rows)


def _atoms(leaves: MultivariateGaussian, columns: Columns, at: int) -> Floats:
    """Scores of the atoms of a column."""
    column = columns.axis_of(int(leaves.variables[at]))
    return np.asarray(column.transform(column.atoms))


@kernel(new_arrays=True)
def _add_pairs(p: _Side, q: _Side, order: Ints, root: Floats, out: Floats) -> int:
    """Add expectations, set by set; the first pair of sets with too many choices, or -1."""
    n_sets = len(q.leaf)
    most = 1
    # The workspace holds the largest sets.
    for ptr in (p.set_ptr, q.set_ptr):
        for s in range(len(ptr) - 1):
            most = max(most, ptr[s + 1] - ptr[s])
    white = np.empty((2, len(root), most))
    for s in range(len(p.leaf)):
        for t in range(n_sets):
            if p.set_ptr[s] == p.set_ptr[s + 1] or q.set_ptr[t] == q.set_ptr[t + 1]:
                continue
            # Sets of leaves that differ in their means only share all factors.
            if not _walk(p, q, s, t, order, root, white, out):
                return s * n_sets + t
    return -1


@internal_kernel(new_arrays=True)
def _walk(
    p: _Side, q: _Side, s: int, t: int, order: Ints, root: Floats, white: Floats, out: Floats
) -> bool:
    """Add the sum over all choices for two sets, depth first; False if there are too many.

    =====  =============  =====================================================================
    p, q   _Side          the left and the right side
    s, t   int            their sets
    order  (n_columns,)   columns with Gaussian kernels, one for each depth
    root   (d,)           the diagonal of G
    white  (2, d, n)      workspace: a row of whitened scores of both sides for each depth
    out    (n_p, n_q)     receives the sums
    =====  =============  =====================================================================
    """
    d = len(order)
    choice = np.zeros(d + 1, np.int64)
    inside = np.empty((d, 2), np.bool_)
    prob = np.ones(d + 1)
    height = np.ones(d + 1)
    factor = np.empty((d, d))
    # Columns in which a side is in its Gaussian, and how many of them there are at each depth.
    active = np.empty(d, np.int64)
    n_active = np.zeros(d + 1, np.int64)
    n_visits = 0
    k = 0
    while k >= 0:
        # All columns have a choice: their terms are known.
        if k == d:
            _add_term(p, q, s, t, d, prob[k] * height[k], white, out)
            k -= 1
            continue
        v = order[k]
        c = choice[k]
        # A side is in its Gaussian (or known), or at one of its atoms: counted from -1, so that
        # choices of two sides are the digits of one number.
        n_left = _n_choices(p, s, v)
        n_right = _n_choices(q, t, v)
        if c == n_left * n_right:
            k -= 1
            continue
        choice[k] = c + 1
        # The number of choices grows exponentially with the columns that have atoms.
        n_visits += 1
        if n_visits > _MOST_VISITS:
            return False
        a = c // n_right - 1
        b = c % n_right - 1
        likely = prob[k] * _probability(p, s, v, a) * _probability(q, t, v, b)
        # What follows can only be less likely.
        if likely < _NOTHING:
            continue
        inside[k, 0] = p.missing[s, v] and a < 0
        inside[k, 1] = q.missing[t, v] and b < 0
        # Both sides are whitened by themselves: members share the work of their sets.
        _fill(p, s, v, a, root[v], white[0, k])
        _fill(q, t, v, b, root[v], white[1, k])
        n = n_active[k]
        height[k + 1] = height[k]
        prob[k + 1] = likely
        # Sides at atoms and known sides have no covariance with other columns.
        if inside[k, 0] or inside[k, 1]:
            active[n] = k
            n += 1
            for j in range(n):
                m = active[j]
                u = order[m]
                rest = 0.0
                if inside[k, 0] and inside[m, 0]:
                    rest += p.covariance[s, v, u]
                if inside[k, 1] and inside[m, 1]:
                    rest += q.covariance[t, v, u]
                rest *= root[v] * root[u]
                for i in range(j):
                    rest -= factor[k, active[i]] * factor[m, active[i]]
                factor[k, m] = rest * factor[m, m] if m < k else 1.0 / math.sqrt(1.0 + rest)
            _whiten(factor[k], active[:n], p.set_ptr[s + 1] - p.set_ptr[s], white[0])
            _whiten(factor[k], active[:n], q.set_ptr[t + 1] - q.set_ptr[t], white[1])
            height[k + 1] *= factor[k, k]
        n_active[k + 1] = n
        k += 1
        choice[k] = 0
    return True


@inlined
def _n_choices(side: _Side, s: int, v: int) -> int:
    """Number of choices of a cell of a set."""
    return 1 + side.atom_ptr[v + 1] - side.atom_ptr[v] if side.missing[s, v] else 1


@inlined
def _probability(side: _Side, s: int, v: int, a: int) -> float:
    """Probability of a choice of a cell of a set."""
    # A known cell, an atom among them, leaves no choice.
    if not side.missing[s, v]:
        return 1.0
    k = side.leaf[s]
    return side.rest[k, v] if a < 0 else side.prob[k, side.atom_ptr[v] + a]


@internal_kernel
def _fill(side: _Side, s: int, v: int, a: int, root: float, white: Floats) -> None:
    """Write the scores of a set in a column, or an atom in their place, in units of the kernel."""
    first = side.set_ptr[s]
    for e in range(side.set_ptr[s + 1] - first):
        white[e] = root * (side.mean[first + e, v] if a < 0 else side.atom[side.atom_ptr[v] + a])


@internal_kernel
def _whiten(factor: Floats, active: Ints, n: Any, white: Floats) -> None:
    """Whiten the last of the active rows of ``n`` scores by a row of the factor."""
    k = active[-1]
    for m in active[:-1]:
        for e in range(n):
            white[k, e] -= factor[m] * white[m, e]
    for e in range(n):
        # The factor holds reciprocals on its diagonal.
        white[k, e] *= factor[k]


@internal_kernel(new_arrays=True)
def _add_term(
    p: _Side, q: _Side, s: int, t: int, d: int, weight: float, white: Floats, out: Floats
) -> None:
    """Add a term of the sum for each pair of two sets.

    ======  ==========  =============================================================
    p, q    _Side       the left and the right side
    s, t    int         their sets
    d       int         number of columns
    weight  float       probability of the choices, and height of the kernel
    white   (2, d, n)   whitened scores of both sides
    out     (n_p, n_q)  receives the terms
    ======  ==========  =============================================================
    """
    first = q.set_ptr[t]
    n = q.set_ptr[t + 1] - q.set_ptr[t]
    square = np.empty(n)
    for e in range(p.set_ptr[s + 1] - p.set_ptr[s]):
        square[:] = 0.0
        # Innermost loops run over members, which stand side by side.
        for k in range(d):
            for f in range(n):
                square[f] += (white[0, k, e] - white[1, k, f]) ** 2
        for f in range(n):
            out[p.set_ptr[s] + e, first + f] += weight * fast_exp(-0.5 * square[f])
