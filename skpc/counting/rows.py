"""What the search for a cutset network asks of the rows of a node."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from skpc._arrays import Floats, Ints
from skpc.counting.chow_liu import ChowLiuTree
from skpc.counting.scores import Score

__all__ = ["Rows", "ScoredTree"]


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


class Rows(Protocol):
    """The rows of a node over its free variables, and how they are counted."""

    #: The free variables, increasing.
    variables: Ints

    def state_counts(self, column: int) -> Floats:
        """Weight of the rows in each state of a column."""

    def tree(self, score: Score) -> ScoredTree:
        """Chow-Liu tree of all columns."""

    def branch_trees(self, column: int, score: Score, share: Floats) -> list[ScoredTree]:
        """Chow-Liu trees of the rows in each state of a column, over the other columns.

        A row in which the column is missing is in every branch, with its share of the weight.
        """

    def branch(self, column: int, state: int, share: Floats) -> Rows:
        """The rows in a state of a column, without that column."""
