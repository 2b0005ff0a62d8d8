r"""Expectations of products of column kernels under blocks.

The difference of independent normal scores is normal. Let m and S be its mean and covariance, and
:math:`G = \operatorname{diag}(\sqrt{2 \gamma_v})` the inverse length scales. A product of Gaussian
kernels has the expectation

.. math:: |I + G S G|^{-1/2} \exp(-\tfrac12 |L^{-1} G m|^2), \qquad L L^T = I + G S G.

A point is a distribution without missing cells, and known cells have no covariance. A missing cell
of a column with atoms is at one of these or has a score from the Gaussian. So the expectation is a
sum over the choices of all such cells. They are visited depth first, one column after the other,
and share the rows of L of the columns before. Other kernels see only whether two cells are equal,
and have one factor for each column. The plain twin is ``tests/naive/blocks.py``.
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


class BlockSide(NamedTuple):
    """One side of expected kernels: blocks of one scope, and conditionals under them."""

    leaves: BlockLeaves
    columns: Columns
    normals: ConditionalNormals


class BlockPoints(NamedTuple):
    """Points, or pairs of points, in the variables of blocks of one scope.

    A pair stands for the product of the kernels at both points. For a Gaussian kernel that is a
    narrower Gaussian kernel at the point in the middle, times a height.

    Parameters
    ----------
    cells : ndarray of shape (n_points, n_columns, n_cells)
        Scores of the cells: one, or two of a pair.
    centre : ndarray of shape (n_points, n_columns)
        The cell of a point, or the middle of a pair.
    inverse_scale : ndarray of shape (n_columns,)
        The diagonal of G; 0 for a column whose kernel is not Gaussian.
    height : ndarray of shape (n_points,)
        The product of the Gaussian kernels of a pair at its middle; 1 for a point.
    """

    cells: Floats
    centre: Floats
    inverse_scale: Floats
    height: Floats

    @classmethod
    def from_cells(cls, factors: Sequence[ColumnKernel], cells: Floats) -> Self:
        """Points, or pairs, as column kernels of these factors compare them."""
        gamma = _gammas(factors)
        is_gaussian = gamma > 0.0
        centre = np.where(is_gaussian, cells.mean(axis=2), 0.0)
        deviation = cells - centre[:, :, np.newaxis]  # (n_points, n_columns, n_cells)
        squared_distance = np.square(deviation).sum(axis=2)
        squared_distance = np.where(is_gaussian, squared_distance, 0.0)
        inverse_scale = np.sqrt(2.0 * gamma * cells.shape[2])
        height = np.exp(-squared_distance @ gamma)
        return cls(cells, np.ascontiguousarray(centre), inverse_scale, height)


class _Side(NamedTuple):
    """One side as compiled code reads it: distributions of scores, and atoms.

    The first six fields are those of :class:`ConditionalNormals`. The atoms of column ``v`` are
    ``atom[atom_ptr[v]:atom_ptr[v + 1]]``. A missing cell of the column is at one of these with the
    probabilities ``atom_prob[k, atom_ptr[v]:atom_ptr[v + 1]]`` under leaf ``k``, and is Gaussian
    with probability ``gaussian_prob[k, v]``.
    """

    row: Ints
    set_ptr: Ints
    mean: Floats
    leaf: Ints
    missing: Bools
    covariance: Floats
    atom_ptr: Ints
    atom: Floats
    atom_prob: Floats
    gaussian_prob: Floats

    @classmethod
    def from_leaves(cls, side: BlockSide) -> Self:
        leaves = side.leaves
        places = range(len(leaves.variables))
        atoms = [_atoms(side, place) for place in places]
        # The last state of a column stands for all values but the atoms.
        probs = [np.exp(leaves.log_prob_of(place)) for place in places]
        atom_ptr = offsets([len(scores) for scores in atoms])
        atom_prob = np.hstack([prob[:, :-1] for prob in probs])
        gaussian_prob = np.column_stack([prob[:, -1] for prob in probs])
        return cls(*side.normals, atom_ptr, np.concatenate(atoms), atom_prob, gaussian_prob)

    @classmethod
    def from_points(cls, points: BlockPoints) -> Self:
        n_points, n_columns = points.centre.shape
        # All points are one set without missing cells, and so without covariance.
        set_ptr = np.array([0, n_points])
        leaf = np.zeros(1, np.int64)
        missing = np.zeros((1, n_columns), dtype=bool)
        covariance = np.zeros((1, n_columns, n_columns))
        means = (np.arange(n_points), set_ptr, points.centre)
        no_atoms = (np.zeros(n_columns + 1, np.int64), np.empty(0), np.empty((1, 0)))
        return cls(*means, leaf, missing, covariance, *no_atoms, np.ones((1, n_columns)))


def block_expectations(
    factors: Sequence[ColumnKernel], left: BlockSide, right: BlockSide | BlockPoints
) -> Floats:
    """Expectation of a product of column kernels between distributions, or at points.

    Parameters
    ----------
    factors : sequence of ColumnKernel
        The kernel of each variable of the scope.
    left : BlockSide
        Blocks of a scope, and conditional distributions under them.
    right : BlockSide or BlockPoints
        Distributions of the same variables, or points. Pairs of points have the expectation of the
        product of both kernels.

    Returns
    -------
    ndarray of shape (n_left, n_right)

    Raises
    ------
    ValueError
        If too many cells with atoms are missing for a sum over all sets of them.
    """
    if isinstance(right, BlockPoints):
        inverse_scale = right.inverse_scale
        right_side = _Side.from_points(right)
    else:
        inverse_scale = np.sqrt(2.0 * _gammas(factors))
        right_side = _Side.from_leaves(right)
    out = np.zeros((len(left.normals.row), len(right_side.row)))
    left_side = _Side.from_leaves(left)
    _add_gaussian_expectations(left.leaves, left_side, right_side, inverse_scale, out)
    if isinstance(right, BlockPoints):
        out *= right.height
    # Columns whose kernels are not Gaussian have one factor each.
    for place in np.flatnonzero(inverse_scale == 0.0).tolist():
        factor = factors[place]
        form = _column_form(left, place)
        if isinstance(right, BlockSide):
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
    """The parameters of Gaussian kernels; 0 for other kernels."""
    return np.array([factor.gamma if isinstance(factor, RBF) else 0.0 for factor in factors])


def _add_gaussian_expectations(
    leaves: BlockLeaves, left: _Side, right: _Side, inverse_scale: Floats, out: Floats
) -> None:
    """Add expectations of Gaussian kernels between two sides to ``out``, (n_left, n_right).

    ``leaves`` are those of the left side.
    """
    n_left_atoms = np.diff(left.atom_ptr)
    n_right_atoms = np.diff(right.atom_ptr)
    # Columns without atoms come first: their rows of L serve all choices of the others.
    order = np.argsort(n_left_atoms + n_right_atoms, kind="stable")
    order = order[inverse_scale[order] > 0.0]
    refused_pair = _add_pairs_of_sets(left, right, order, inverse_scale, out)
    if refused_pair >= 0:
        left_set, right_set = divmod(refused_pair, len(right.leaf))
        has_choices = left.missing[left_set] & (n_left_atoms > 0)
        has_choices |= right.missing[right_set] & (n_right_atoms > 0)
        # The error names the variables whose choices multiply.
        variables = leaves.variables[has_choices & (inverse_scale > 0.0)].tolist()
        raise ValueError(
            f"an expected kernel sums over which of the missing cells of a leaf hold atoms, but "
            f"{len(variables)} variables with atoms {variables} are missing there, and too many "
            "sets of them are probable; draw rows (sample_missing) and pass them as points, or "
            'learn a density whose leaves have one number each (leaves="univariate")'
        )


def _column_form(side: BlockSide, place: int) -> Normals:
    """Distributions of one column on a side: mixtures of its known cells, atoms and a normal.

    Only whether two cells are equal counts here, so that one normal stands for all scores.
    """
    normals = side.normals
    set_of_row = normals.set_of_row
    is_missing = normals.missing[set_of_row, place]
    missing = np.flatnonzero(is_missing)
    known = np.flatnonzero(~is_missing)
    values, value_of_row = np.unique(normals.mean[known, place], return_inverse=True)
    n_values = len(values)
    atoms = _atoms(side, place)
    prob = np.exp(side.leaves.log_prob_of(place))
    # One column for each known value, one for each atom, one for the normal.
    rows = np.zeros((len(set_of_row), n_values + prob.shape[1]))
    rows[known, value_of_row] = 1.0
    # A missing cell is at an atom or Gaussian, with the probabilities of its leaf.
    leaf = normals.leaf[set_of_row[missing]]
    rows[missing, n_values:] = prob[leaf]
    sd = np.zeros(n_values + len(atoms))
    mean = np.concatenate([values, atoms, [0.0]])
    return Normals(mean, np.append(sd, 1.0), rows)


def _atoms(side: BlockSide, place: int) -> Floats:
    """Scores of the atoms of a column."""
    variable = int(side.leaves.variables[place])
    column = side.columns.axis_of(variable)
    return column.transform(column.atoms)


@kernel(new_arrays=True)
def _add_pairs_of_sets(
    left: _Side, right: _Side, order: Ints, inverse_scale: Floats, out: Floats
) -> int:
    """Add expectations for each pair of sets; return the first with too many choices, or -1.

    See :func:`_add_pair` for the arguments.
    """
    n_right_sets = len(right.leaf)
    # The workspace is made once, and has room for the largest set.
    largest = 1
    for ptr in (left.set_ptr, right.set_ptr):
        for start, stop in zip(ptr[:-1], ptr[1:]):
            largest = max(largest, stop - start)
    white = np.empty((2, len(inverse_scale), largest))
    for left_set in range(len(left.leaf)):
        if left.set_ptr[left_set] == left.set_ptr[left_set + 1]:
            continue
        for right_set in range(n_right_sets):
            if right.set_ptr[right_set] == right.set_ptr[right_set + 1]:
                continue
            if not _add_pair(left, right, left_set, right_set, order, inverse_scale, white, out):
                return left_set * n_right_sets + right_set
    return -1


@internal_kernel(new_arrays=True)
def _add_pair(
    left: _Side,
    right: _Side,
    left_set: int,
    right_set: int,
    order: Ints,
    inverse_scale: Floats,
    white: Floats,
    out: Floats,
) -> bool:
    """Add the sum over all choices for two sets, depth first; False if there are too many.

    The members of a set differ in their means alone, so that they share the rows of L.

    ===================  =================  ======================================================
    left, right          _Side              the sides
    left_set, right_set  int                their sets
    order                (n_columns,)       columns with Gaussian kernels, one for each depth
    inverse_scale        (d,)               the diagonal of G
    white                (2, d, n)          workspace: whitened scores of both sides, by depth
    out                  (n_left, n_right)  receives the sums
    ===================  =================  ======================================================
    """
    n_columns = len(order)
    n_left_members = left.set_ptr[left_set + 1] - left.set_ptr[left_set]
    n_right_members = right.set_ptr[right_set + 1] - right.set_ptr[right_set]
    left_white = white[0]
    right_white = white[1]
    # One depth for each column, and one where all columns have a choice.
    n_depths = n_columns + 1
    # The next choice at each depth, and whether the cell of each side is Gaussian in the current.
    next_choice = np.zeros(n_depths, np.int64)
    is_gaussian = np.empty((n_columns, 2), np.bool_)
    # For the choices above each depth: their probability, and |I + G S G|^(-1/2) of their columns.
    prob = np.ones(n_depths)
    height = np.ones(n_depths)
    # The matrix L, with reciprocals on its diagonal.
    factor = np.empty((n_columns, n_columns))
    # Depths where the cell of a side is Gaussian, and how many of them are above each depth.
    active = np.empty(n_columns, np.int64)
    n_active = np.zeros(n_depths, np.int64)
    n_visits = 0
    depth = 0
    while depth >= 0:
        if depth == n_columns:
            weight = prob[depth] * height[depth]
            _add_term(left, right, left_set, right_set, n_columns, weight, white, out)
            depth -= 1
            continue
        column = order[depth]
        choice = next_choice[depth]
        # A missing cell is Gaussian or at one of its atoms. The choices for both sides are numbered
        # together, as digits of one number.
        n_left = _n_choices(left, left_set, column)
        n_right = _n_choices(right, right_set, column)
        if choice == n_left * n_right:
            depth -= 1
            continue
        next_choice[depth] += 1
        # The number of choices grows exponentially with the columns that have atoms.
        n_visits += 1
        if n_visits > 2**20:
            return False
        # Atom -1 stands for a Gaussian cell, or a known one.
        left_atom = choice // n_right
        left_atom -= 1
        right_atom = choice % n_right
        right_atom -= 1
        choice_prob = prob[depth] * _probability(left, left_set, column, left_atom)
        choice_prob *= _probability(right, right_set, column, right_atom)
        # The choices below are less probable still, and lost in the rounding of a sum to 1.
        if choice_prob < 1e-17:
            continue
        left_is_gaussian = left.missing[left_set, column] and left_atom < 0
        right_is_gaussian = right.missing[right_set, column] and right_atom < 0
        depth_is_gaussian = is_gaussian[depth]
        depth_is_gaussian[0] = left_is_gaussian
        depth_is_gaussian[1] = right_is_gaussian
        # Each side is whitened alone, as there are fewer members than pairs of them.
        column_scale = inverse_scale[column]
        _write_scores(left, left_set, column, left_atom, column_scale, left_white[depth])
        _write_scores(right, right_set, column, right_atom, column_scale, right_white[depth])
        n_gaussian = n_active[depth]
        next_depth = depth + 1
        height[next_depth] = height[depth]
        prob[next_depth] = choice_prob
        # Atoms and known cells have no covariance with other columns.
        if left_is_gaussian or right_is_gaussian:
            # A new row of L, by Cholesky, from the rows of the columns above.
            factor_row = factor[depth]
            active[n_gaussian] = depth
            n_gaussian += 1
            for place in range(n_gaussian):
                above = active[place]
                above_row = factor[above]
                above_is_gaussian = is_gaussian[above]
                above_column = order[above]
                # Both sides are independent: the covariance of a difference is a sum.
                covariance = 0.0
                if left_is_gaussian and above_is_gaussian[0]:
                    covariance += left.covariance[left_set, column, above_column]
                if right_is_gaussian and above_is_gaussian[1]:
                    covariance += right.covariance[right_set, column, above_column]
                covariance *= column_scale * inverse_scale[above_column]
                for solved in active[:place]:
                    covariance -= factor_row[solved] * above_row[solved]
                if above < depth:
                    factor_row[above] = covariance * above_row[above]
                else:
                    factor_row[above] = 1.0 / math.sqrt(1.0 + covariance)
            _whiten(factor_row, active[:n_gaussian], n_left_members, left_white)
            _whiten(factor_row, active[:n_gaussian], n_right_members, right_white)
            height[next_depth] *= factor_row[depth]
        depth = next_depth
        n_active[depth] = n_gaussian
        next_choice[depth] = 0
    return True


@inlined
def _n_choices(side: _Side, place: int, column: int) -> int:
    """Number of choices for the cell of a set in a column: the Gaussian, or one of the atoms."""
    if not side.missing[place, column]:
        return 1
    return 1 + side.atom_ptr[column + 1] - side.atom_ptr[column]


@inlined
def _probability(side: _Side, place: int, column: int, atom: int) -> float:
    """Probability of a choice for the cell of a set in a column; -1 stands for the Gaussian."""
    # A known cell, which may be an atom, leaves no choice.
    if not side.missing[place, column]:
        return 1.0
    leaf = side.leaf[place]
    if atom < 0:
        return side.gaussian_prob[leaf, column]
    return side.atom_prob[leaf, side.atom_ptr[column] + atom]


@internal_kernel
def _write_scores(
    side: _Side, place: int, column: int, atom: int, inverse_scale: float, scores: Floats
) -> None:
    """Write the mean scores of a set in a column, or an atom, in units of the length scale."""
    ptr = side.set_ptr
    start = ptr[place]
    stop = ptr[place + 1]
    for member in range(stop - start):
        if atom < 0:
            score = side.mean[start + member, column]
        else:
            score = side.atom[side.atom_ptr[column] + atom]
        score *= inverse_scale
        scores[member] = score


@internal_kernel
def _whiten(factor: Floats, active: Ints, n_members: Any, white: Floats) -> None:
    """Whiten the scores of the last active depth: a step of solving L z = G m for all members.

    ===========  =============  =======================================================
    factor       (n_columns,)   the row of L of that depth, its diagonal a reciprocal
    active       (n_active,)    depths where a side is Gaussian, in increasing order
    n_members    int            number of members of the set
    white        (d, n)         whitened scores of the depths above, then those of this one
    ===========  =============  =======================================================
    """
    depth = active[-1]
    row = white[depth]
    for above in active[:-1]:
        weight = factor[above]
        above_row = white[above]
        for member in range(n_members):
            row[member] -= weight * above_row[member]
    reciprocal = factor[depth]
    for member in range(n_members):
        row[member] *= reciprocal


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
    """Add the term of one choice of all columns for each pair of members of two sets.

    ===================  =================  ======================================================
    left, right          _Side              the sides
    left_set, right_set  int                their sets
    n_columns            int                number of columns
    weight               float              probability of the choice times |I + G S G|^(-1/2)
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
    # Squared distances of whitened scores, from one member of the left to all of the right.
    squared_distance = np.empty(n_right_members)
    for member in range(left_stop - left_start):
        squared_distance[:] = 0.0
        # Innermost loops run over members, which stand side by side in memory.
        for depth in range(n_columns):
            score = white[0, depth, member]
            for opposite in range(n_right_members):
                squared_distance[opposite] += (score - white[1, depth, opposite]) ** 2
        left_row = left_start + member
        row = out[left_row]
        for opposite in range(n_right_members):
            row[right_start + opposite] += weight * fast_exp(-0.5 * squared_distance[opposite])
