"""Ensembles of cutset networks with random cuts: extremely randomised trees for densities.

Cuts are drawn, not scored, so that a network costs little more than the Chow-Liu trees at its
leaves. A single network with random cuts is poor; a mixture of many with equal weights is not,
since their errors differ.
"""

from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy.special import logsumexp

from skpc._arrays import Codes, Floats, Ints, group_sums, offsets, whole_rows
from skpc._fitting import best_of
from skpc.counting.rows import node_rows
from skpc.counting.tables import BayesDirichlet, CountTables, Score, smoothed_log_probabilities
from skpc.counting.trees import ChowLiuTree
from skpc.learning.held_out import quarters
from skpc.learning.network import CutsetNetwork, Visited, frozen_network


class RandomCuts(NamedTuple):
    """How the networks of an ensemble are grown.

    Attributes
    ----------
    n_states : ndarray of shape (n_features,)
        Number of states of each column.
    param_ess : float
        Equivalent sample size of the parameters at the root; divided by the branches of a cut.
    n_columns : int
        Number of columns that may be cut, drawn for each network.
    bootstrap : bool
        Whether each network learns from rows drawn with replacement.
    n_jobs : int or None
        Networks learned at a time, by joblib.
    """

    n_states: Ints
    param_ess: float
    n_columns: int
    bootstrap: bool
    n_jobs: int | None

    def learn(
        self,
        codes: Codes,
        weight: Floats,
        min_samples_split: float,
        seeds: Ints,
        shown: Codes | None = None,
    ) -> list[CutsetNetwork]:
        """Grow a network for each seed.

        Parameters
        ----------
        codes : ndarray of shape (n_rows, n_features)
            States of complete rows.
        weight : ndarray of shape (n_rows,)
            Their weights.
        min_samples_split : float
            Nodes whose rows have less weight are leaves.
        seeds : sequence of int
        shown : ndarray of shape (n_rows, n_features), default=None
            The states before missing cells were filled, -1 where they are missing. Cuts are on
            columns that most rows have, and trees are learned from observed cells.

        Examples
        --------
        >>> import numpy as np
        >>> from skpc.learning.random_cuts import RandomCuts
        >>> codes = np.random.default_rng(0).integers(0, 2, (200, 3)).astype(np.int16)
        >>> cuts = RandomCuts(np.array([2, 2, 2]), 100.0, 3, False, None)
        >>> cuts.learn(codes, np.ones(200), 150.0, [0])
        [CutsetNetwork(n_features=3, n_cuts=1, n_parameters=7)]
        """
        rows = np.require(codes, np.int16), weight, min_samples_split, shown
        grow = delayed(_grow)
        return Parallel(n_jobs=self.n_jobs)(grow(self, int(seed), *rows) for seed in seeds)

    def choose_split(self, codes: Codes, weight: Floats, seeds: Ints) -> float:
        """The ``min_samples_split`` with which a few networks predict held-out rows best.

        It is tried from the greatest on, until a smaller one is worse.
        """
        splits = (1000.0, 500.0, 200.0, 100.0, 50.0)
        n_networks = 10
        held_out = list(quarters(weight))

        def score(split: float) -> float:
            total = 0.0
            for train_weight, held in held_out:
                networks = self.learn(
                    codes[train_weight > 0],
                    train_weight[train_weight > 0],
                    split,
                    seeds[:n_networks],
                )
                rows = codes[held > 0]
                joint = [log_density(network, rows) for network in networks]
                # Networks weigh the same: to divide by their number would only add a constant.
                total += held[held > 0] @ logsumexp(joint, axis=0)
            return total

        return best_of(splits, score) if held_out else splits[0]


def _grow(
    cuts: RandomCuts,
    seed: int,
    codes: Codes,
    weight: Floats,
    min_samples_split: float,
    shown: Codes | None,
) -> CutsetNetwork:
    """Grow a network whose cuts are drawn; see :meth:`RandomCuts.learn`."""
    random_state = np.random.RandomState(seed)
    if cuts.bootstrap:
        total = weight.sum()
        drawn = random_state.multinomial(max(whole_rows(total), 1), weight / total)
        shown = None if shown is None else shown[drawn > 0]
        codes = codes[drawn > 0]
        weight = drawn[drawn > 0].astype(np.float64)
    variables = np.flatnonzero(cuts.n_states > 1)
    if not len(variables):
        # If no column varies, one stays: a tree has a node.
        variables = np.zeros(1, np.int64)
    may_cut = random_state.permutation(variables)[: cuts.n_columns]
    if shown is not None:
        # A cut on a column of mostly filled cells would divide rows by what was drawn for them.
        share = np.average(shown[:, may_cut] >= 0, axis=0, weights=weight)
        may_cut = may_cut[share > 0.5]
    prior: Score = BayesDirichlet(cuts.param_ess)
    # Nodes still to be visited: their rows, variables, prior, and the number of the node above.
    visited = list[Visited]()
    pending = [(np.arange(len(codes)), variables, prior, -1)]
    while pending:
        row, variables, score, above = pending.pop()
        rows_weight = weight[row]
        cut = None
        if rows_weight.sum() >= min_samples_split and len(variables) > 1:
            candidates = random_state.permutation(np.intersect1d(may_cut, variables))
            cut = _first_cut(candidates, codes, row, rows_weight, cuts.n_states)
        if cut is None:
            # Trees at leaves are learned from the cells as they were before they were filled.
            cells = codes if shown is None else shown
            leaf = np.ascontiguousarray(cells[np.ix_(row, variables)])
            counted = node_rows(leaf, rows_weight, cuts.n_states[variables], variables)
            visited.append(Visited(above, -1, np.empty(0), counted.tree(score).trees[0]))
            continue
        column, counts = cut
        other_variables = variables[variables != column]
        below = score.after_cut(len(counts))
        state = codes[row, column]
        # Reversed, for a stack hands out last what it got first: states come in their order.
        pending += [
            (row[state == s], other_variables, below, len(visited))
            for s in reversed(range(len(counts)))
        ]
        visited.append(Visited(above, column, counts, None))
    return frozen_network(visited, cuts.n_states, prior, np.nan)


def _first_cut(
    candidates: Ints, codes: Codes, row: Ints, weight: Floats, n_states: Ints
) -> tuple[int, Floats] | None:
    """The first column that divides the rows well enough, and the weights of its branches."""
    # At least two branches of a cut have this weight, and this part of the weight of the node.
    least_rows = 5.0
    least_part = 0.01
    least_weight = max(least_rows, least_part * weight.sum())
    for column in candidates.tolist():
        counts = group_sums(codes[row, column], weight, n_states[column])
        if np.count_nonzero(counts >= least_weight) > 1:
            return column, counts
    return None


def log_density(network: CutsetNetwork, codes: Codes) -> Floats:
    """Log probability (nats) of complete rows of states.

    It is 4 to 7 times as fast as the circuit of the network on plants.

    Parameters
    ----------
    network : CutsetNetwork
    codes : ndarray of shape (n_rows, n_features)
        States.

    Returns
    -------
    ndarray of shape (n_rows,)
    """
    out = np.zeros(len(codes))
    pending = [(0, np.arange(len(codes)), network.prior)]
    while pending:
        node, row, prior = pending.pop()
        column = network.variable[node]
        if column < 0:
            out[row] += _tree_log_density(network.trees[network.leaf[node]], prior, codes[row])
            continue
        counts = CountTables.from_states(network.branch_counts(node))
        # The proportion of the branch of each row, then the subtree below it.
        state = codes[row, column]
        out[row] += smoothed_log_probabilities(counts, prior)[0][0][state]
        below = prior.after_cut(len(network.branches(node)))
        for s in np.unique(state).tolist():
            pending.append((int(network.branches(node)[s]), row[state == s], below))
    return out


def _tree_log_density(tree: ChowLiuTree, prior: Score, codes: Codes) -> Floats:
    """Log probability of the columns of a tree in each row."""
    tables = smoothed_log_probabilities(tree.tables, prior)
    start = offsets([table.size for table in tables])[:-1]
    cells = codes[:, tree.variables].astype(np.int64)
    # The root has one line in its table; its parent, -1, would read the last column.
    above = np.where(tree.tables.n_parent_states == 1, 0, cells[:, tree.parent])
    # Tables stand end to end, with a line for each state of the parent.
    place = start + above * tree.tables.n_states + cells
    return np.concatenate([table.ravel() for table in tables])[place].sum(axis=1)
