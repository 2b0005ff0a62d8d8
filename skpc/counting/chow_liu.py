"""Chow-Liu trees: maximum spanning trees of mutual information, with their counts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints
from skpc._jit import kernel
from skpc.counting.count_tables import CountTables

#: Information up to so many units (5e-7 nats) counts alike: rounding may make it of none.
_NO_INFORMATION = np.int64(8)


class ChowLiuTree(NamedTuple):
    """A tree over variables and the counts along its edges.

    Parameters
    ----------
    variables : array of shape (m,)
        The variables, increasing.
    parent : array of shape (m,)
        Position of the tree parent among ``variables``; -1 for the root, which comes first.
    tables : CountTables
        Counts of each variable given its parent.
    """

    variables: Ints
    parent: Ints
    tables: CountTables


class ScoredTree(NamedTuple):
    """A Chow-Liu tree of some rows with what the search wants to know of them.

    Parameters
    ----------
    tree : ChowLiuTree
        The tree.
    score : float
        Its structure score in nats.
    entropy : array of shape (m,)
        Entropy in nats of the other variables given a variable, summed over them and times
        the weight of the rows: what a cut on that variable leaves over (eqs. 13-15).
    """

    tree: ChowLiuTree
    score: float
    entropy: Floats


@kernel
def maximum_spanning_tree(weight: Ints, parent: Ints) -> None:
    """Find the maximum spanning tree of a complete graph by Prim's algorithm.

    Parameters
    ----------
    weight : array of shape (m, m)
        Symmetric non-negative weights, information in units; of equal ones the lowest vertex wins.
    parent : array of shape (m,)
        Overwritten with the tree, rooted at vertex 0 whose parent is -1.
    """
    m = len(parent)
    best = np.empty(m, np.int64)
    for v in range(m):
        best[v] = -1
    parent[0] = -1
    newest = 0
    for _ in range(m - 1):
        best[newest] = -2
        following = 0
        for v in range(m):
            found = max(weight[newest, v], _NO_INFORMATION)
            if best[v] != -2 and found > best[v]:
                best[v] = found
                parent[v] = newest
            if best[v] > best[following]:
                following = v
        newest = following


@kernel
def binary_spanning_tree(
    pairs: NDArray[np.uint32],
    ones: NDArray[np.uint32],
    n_rows: int,
    columns: NDArray[np.uint32],
    plogp: Ints,
    margin: Ints,
    parent: Ints,
    row_sums: Ints,
) -> None:
    """Find the Chow-Liu tree of binary variables straight from their pair counts.

    Prim's algorithm asks for the information of a vertex with the vertices outside the tree
    only, so every pair is evaluated once, when its first end joins, and is not stored.

    Parameters
    ----------
    pairs : array of shape (n, n)
        Rows in which two variables are both one.
    ones : array of shape (n,)
        Rows in which a variable is one.
    n_rows : int
        Number of rows.
    columns : array of shape (m,)
        The vertices, as increasing columns of ``pairs``; the first one is the root.
    plogp : array of shape (> n_rows,)
        ``(c + a) log(c + a)`` of a count c and the pseudo-count a of a cell, in units of
        1 / :data:`UNITS_PER_NAT`.
    margin : array of shape (n,)
        The same function of the two smoothed marginal counts of a column, summed, less half
        of its value for all rows.
    parent : array of shape (m,)
        Overwritten with the position of the parent among ``columns``; -1 for the root.
    row_sums : array of shape (2, m)
        Overwritten with the sums of ``plogp`` over the cells of all pairs in which a vertex
        is zero and in which it is one.
    """
    m = len(columns)
    # Unsigned numbers spare every look-up the test for a negative index.
    total = np.uint64(n_rows)
    outside = np.empty(m, np.uint32)
    joined_by = np.empty(m, np.int64)
    best = np.empty(m, np.int64)
    information = np.empty(m, np.int64)
    zero_sums, one_sums = row_sums[0], row_sums[1]
    for t in range(m):
        outside[t] = t
        best[t] = -1
        joined_by[t] = -1
        zero_sums[t] = 0
        one_sums[t] = 0
    newest = np.uint32(0)
    place = 0
    parent[0] = -1
    for n_outside in range(m - 1, 0, -1):
        # The last vertex outside takes the place of the one that joined.
        outside[place] = outside[n_outside]
        best[place] = best[n_outside]
        joined_by[place] = joined_by[n_outside]
        column = columns[newest]
        with_newest = pairs[column]
        ones_of = ones[column]
        zero_sum = 0
        one_sum = 0
        for t in range(n_outside):
            vertex = outside[t]
            other = columns[vertex]
            n11 = with_newest[other]
            n01 = ones[other] - n11
            p11 = plogp[n11]
            p01 = plogp[n01]
            p10 = plogp[ones_of - n11]
            p00 = plogp[total - ones_of - n01]
            one_sum += p11 + p10
            zero_sum += p01 + p00
            one_sums[vertex] += p11 + p01
            zero_sums[vertex] += p10 + p00
            information[t] = p11 + p10 + p01 + p00 - margin[column] - margin[other]
        one_sums[newest] += one_sum
        zero_sums[newest] += zero_sum
        largest = np.int64(-1)
        for t in range(n_outside):
            found = max(information[t], _NO_INFORMATION)
            if found > best[t]:
                best[t] = found
                joined_by[t] = newest
            largest = max(largest, best[t])
        following = np.uint32(m)
        for t in range(n_outside):
            if best[t] == largest and outside[t] < following:
                following = outside[t]
                place = t
        newest = following
        parent[newest] = joined_by[place]
