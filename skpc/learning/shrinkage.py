"""Mixtures of cutset networks whose tables are shrunk towards those of the whole table.

A component has only a part of the rows. The prior of its tables is therefore not even: it is some
number of rows that are distributed like the whole table. Held-out rows decide on that number, and
whether the components have structures of their own or that of a single network, which the mixture
then becomes as the number grows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from skpc._arrays import Floats
from skpc.circuit import Circuit
from skpc.learning.mixture import Codes, CutsetMixture
from skpc.learning.network import CutsetNetwork
from skpc.learning.network_cells import NetworkCells
from skpc.learning.smoothing import quarters
from skpc.queries import fit_parameters, uniform_pseudo_counts
from skpc.queries.parameters import pseudo_counts_like

#: Iterations of EM on the tables, which stops once one gains less than this (nats a row).
_MAX_ITER = 20
_TOL = 1e-4
#: Strengths go up from this number of rows by a factor, at least to the last.
_FIRST, _FACTOR, _LAST = 10.0, 10.0**0.5, 1000.0
#: Strengths in turn without a gain on the held-out rows that end the search.
_PATIENCE = 2
#: Strength where there are too few rows to hold any out.
_UNTOLD = 100.0

#: Learns components from some of the rows, chosen by a mask, their weights, and responsibilities
#: to begin with, if there are any.
LearnComponents = Callable[[NDArray[np.bool_], Floats, Floats | None], CutsetMixture]
LearnNetwork = Callable[[Codes, Floats], CutsetNetwork]
#: Log-likelihood (nats) of some of the rows, chosen by a mask, as they were before missing cells
#: were filled, under networks whose counts include pseudo-counts, and their weights.
Marginals = Callable[[NDArray[np.bool_], Sequence[CutsetNetwork], Floats], Floats]


class SmoothedMixture(NamedTuple):
    """A mixture of networks with tables: counts with pseudo-counts, and log probabilities."""

    networks: Sequence[CutsetNetwork]
    cells: Sequence[NetworkCells]
    counts: Sequence[Floats]
    log_prob: Sequence[Floats]
    log_weight: Floats

    def joint(self, codes: Codes) -> Floats:
        """Log probability of each complete row and component."""
        pairs = zip(self.cells, self.log_prob)
        by_component = [cells.log_likelihood(codes, log_prob) for cells, log_prob in pairs]
        return np.column_stack(by_component) + self.log_weight

    def log_likelihood(self, codes: Codes) -> Floats:
        """Log probability of each complete row."""
        return logsumexp(self.joint(codes), axis=1)

    def counted(self) -> list[CutsetNetwork]:
        """The networks with the counts in their tables."""
        parts = zip(self.networks, self.cells, self.counts)
        return [cells.with_counts(network, counts) for network, cells, counts in parts]


class ShrunkenMixture(NamedTuple):
    """A mixture with its networks' counts, pseudo-counts included, and the strength of these."""

    mixture: CutsetMixture
    strength: float


def learn_shrunken_mixture(
    codes: Codes,
    weight: Floats,
    network: CutsetNetwork,
    param_ess: float,
    learn: LearnNetwork,
    learn_components: LearnComponents,
    n_components: int,
    marginals: Marginals | None = None,
) -> ShrunkenMixture:
    """Learn a mixture and shrink its tables as strongly as suits held-out rows.

    Three quarters of the rows teach a single network and components with structures of their own.
    Mixtures of either structure, shrunk more and more strongly, try to predict the last quarter
    better than the single network. The components keep their own structures unless these are not
    safely better than the single network, or its structure is safely better than theirs. The best
    mixture gives the first responsibilities when all rows are learned from.

    Parameters
    ----------
    codes : array of shape (n_rows, n_features)
        States of complete rows.
    weight : array of shape (n_rows,)
        Weights of the rows.
    network : CutsetNetwork
        A single network of all rows.
    param_ess : float
        Equivalent sample size of the parameters of a single network.
    learn, learn_components : callable
        Learn a network from codes and weights, and a mixture from some rows.
    n_components : int
        Number of components.
    marginals : callable, default=None
        Scores held-out rows; needed only where missing cells have been filled.

    Returns
    -------
    ShrunkenMixture
        A mixture to turn into a circuit without further smoothing.
    """
    everyone = np.ones(len(codes), bool)
    kept, held = next(quarters(weight), (weight, None))
    if held is None or kept.sum() < n_components:
        first = learn_components(everyone, weight, None)
        start = _responsibility(first)
        return _shrunken(first, first.networks, codes, weight, start, param_ess, _UNTOLD)
    some, told = kept > 0, held > 0
    first = learn_components(some, kept[some], None)
    single = learn(codes[some], kept[some])

    def score_held(tables: SmoothedMixture) -> Floats:
        if marginals is None:
            return tables.log_likelihood(codes[told])
        return marginals(told, tables.counted(), np.exp(tables.log_weight))

    search = _Search(codes[some], kept[some], param_ess, score_held, held[told])
    own = search.run(first, first.networks, single)
    shared = search.run(first, [single] * len(first.networks), single)
    best = max(own, shared, key=lambda found: found.score)
    if own.score > 0 and search.safe_mean(shared.gain - own.gain) <= 0:
        best = own
    start = _posterior(best.tables.joint(codes))
    if best is shared:
        networks = [network] * len(first.networks)
        return _shrunken(first, networks, codes, weight, start, param_ess, best.strength)
    then = learn_components(everyone, weight, start)
    then = then._replace(n_iter=first.n_iter + then.n_iter)
    start = _responsibility(then)
    return _shrunken(then, then.networks, codes, weight, start, param_ess, best.strength)


def fit_shrunken(
    mixture: Circuit,
    components: Sequence[Circuit],
    complete: Floats,
    rows: Floats,
    weight: Floats,
    param_ess: float,
    strength: float,
    tol: float,
) -> Circuit:
    """Fit a shrunken mixture to rows with missing cells.

    Parameters
    ----------
    mixture : Circuit
        The mixture, learned from rows that were filled.
    components : sequence of Circuit
        Its components, in their order.
    complete, rows : arrays of shape (n_rows, n_features)
        Encoded rows, filled and as they are.
    weight : array of shape (n_rows,)
        Weights of the rows.
    param_ess, strength : float
        Equivalent sample size of the whole table, and of the components.
    tol : float
        EM stops when an iteration gains less than this (nats a row).

    Returns
    -------
    Circuit
        The same structure with new parameters.
    """
    # A component is deterministic: one iteration finds its tables of the whole table.
    wholes = [
        fit_parameters(
            component,
            complete,
            weight,
            pseudo_count=uniform_pseudo_counts(component, param_ess),
            max_iter=1,
        )
        for component in components
    ]
    # The nodes of the mixture are those of the components, one after the other, and the root.
    even = np.full(len(wholes), -np.log(len(wholes))) if len(wholes) > 1 else np.empty(0)
    of_whole = mixture.with_parameters(
        log_weight=np.concatenate([*(whole.log_weight for whole in wholes), even]),
        param=np.concatenate([whole.param for whole in wholes]),
    )
    counts = pseudo_counts_like(of_whole, strength * len(wholes))
    return fit_parameters(mixture, rows, weight, pseudo_count=counts, max_iter=_MAX_ITER, tol=tol)


class _Whole(NamedTuple):
    """Networks, and for each the tables of one row that is distributed like all rows."""

    networks: Sequence[CutsetNetwork]
    cells: list[NetworkCells]
    tables: list[Floats]

    @classmethod
    def of(
        cls, networks: Sequence[CutsetNetwork], codes: Codes, weight: Floats, param_ess: float
    ) -> _Whole:
        """Count the rows and smooth; a network that comes several times is counted once."""
        found: dict[int, tuple[NetworkCells, Floats]] = {}
        for network in networks:
            if id(network) not in found:
                cells = NetworkCells.of(network)
                counts = cells.counts(codes, weight) + param_ess * cells.even
                found[id(network)] = cells, counts / (weight.sum() + param_ess)
        cells_and_tables = [found[id(network)] for network in networks]
        return cls(networks, *map(list, zip(*cells_and_tables)))


class _Found(NamedTuple):
    """A mixture, and what it gains over a single network (nats): by row, and safely on average."""

    gain: Floats
    score: float
    strength: float
    tables: SmoothedMixture


class _Search(NamedTuple):
    """Rows to learn from, what smooths the tables of the whole, and how to score held-out rows."""

    codes: Codes
    weight: Floats
    param_ess: float
    score_held: Callable[[SmoothedMixture], Floats]
    weight_held: Floats

    def run(
        self, first: CutsetMixture, networks: Sequence[CutsetNetwork], single: CutsetNetwork
    ) -> _Found:
        """The strength that suits the held-out rows best, for networks of given structure."""
        whole = _Whole.of(networks, self.codes, self.weight, self.param_ess)
        alone = self._alone(single)
        responsibility = _responsibility(first)
        found: list[_Found] = []
        best, strength = 0, _FIRST
        while len(found) - best <= _PATIENCE and strength <= max(_LAST, self.weight.sum()):
            tables = fit_tables(whole, self.codes, self.weight, responsibility, strength)
            gain = self.score_held(tables) - alone
            found.append(_Found(gain, self.safe_mean(gain), strength, tables))
            best = max(range(len(found)), key=lambda i: found[i].score)
            responsibility = _posterior(tables.joint(self.codes))
            strength *= _FACTOR
        return found[best]

    def _alone(self, single: CutsetNetwork) -> Floats:
        """Log-likelihood of the held-out rows under a single network (nats)."""
        whole = _Whole.of([single], self.codes, self.weight, self.param_ess)
        log_prob = whole.cells[0].log_probabilities(whole.tables[0])
        tables = SmoothedMixture(whole.networks, whole.cells, whole.tables, [log_prob], np.zeros(1))
        return self.score_held(tables)

    def safe_mean(self, gain: Floats) -> float:
        """Mean gain (nats a held-out row) less its standard error.

        So a mixture that owes its gain to few rows does not beat one that is safely no worse.
        """
        mean = np.average(gain, weights=self.weight_held)
        variance = np.average((gain - mean) ** 2, weights=self.weight_held)
        return float(mean - np.sqrt(variance / self.weight_held.sum()))


def fit_tables(
    whole: _Whole,
    codes: Codes,
    weight: Floats,
    responsibility: Floats,
    strength: float,
    max_iter: int = _MAX_ITER,
) -> SmoothedMixture:
    """EM on the tables of a mixture, from given responsibilities on.

    Parameters
    ----------
    whole : _Whole
        The networks, and the tables that they are shrunk towards.
    codes, weight : arrays
        Complete rows and their weights.
    responsibility : array of shape (n_rows, n_components)
        Probabilities of the components.
    strength : float
        Number of rows of the prior of each component.
    max_iter : int
        Number of iterations at most.

    Returns
    -------
    SmoothedMixture
        The tables of greatest posterior density so far.
    """
    before = -np.inf
    networks, cells = whole.networks, whole.cells
    for _ in range(max_iter):
        counts = [
            structure.counts(codes, weight * share) + strength * prior
            for structure, prior, share in zip(cells, whole.tables, responsibility.T)
        ]
        log_prob = [found.log_probabilities(count) for found, count in zip(cells, counts)]
        total = weight @ responsibility + strength
        tables = SmoothedMixture(networks, cells, counts, log_prob, np.log(total / total.sum()))
        joint = tables.joint(codes)
        log_prior = sum(float(prior @ found) for prior, found in zip(whole.tables, log_prob))
        objective = float(weight @ logsumexp(joint, axis=1))
        objective += strength * (log_prior + float(tables.log_weight.sum()))
        if objective - before < _TOL * weight.sum():
            break
        before = objective
        responsibility = _posterior(joint)
    return tables


def _shrunken(
    found: CutsetMixture,
    networks: Sequence[CutsetNetwork],
    codes: Codes,
    weight: Floats,
    responsibility: Floats,
    param_ess: float,
    strength: float,
) -> ShrunkenMixture:
    whole = _Whole.of(networks, codes, weight, param_ess)
    tables = fit_tables(whole, codes, weight, responsibility, strength)
    mixture = found._replace(networks=tables.counted(), weights=np.exp(tables.log_weight))
    return ShrunkenMixture(mixture, strength)


def _responsibility(mixture: CutsetMixture) -> Floats:
    return _posterior(mixture.joint)


def _posterior(joint: Floats) -> Floats:
    return np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
