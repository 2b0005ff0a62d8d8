"""Mixtures of cutset networks whose tables are shrunk towards those of the whole table.

A component has only a part of the rows. The prior of its tables is therefore not even: it is some
number of rows that are distributed like the whole table. Held-out rows decide on that number, and
whether the components have structures of their own or that of a single network, which the mixture
then becomes as the number grows. Networks become circuits at once, and EM is that of circuits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from skpc._arrays import Floats
from skpc.circuit import Circuit, mixture
from skpc.learning.mixture import CutsetMixture
from skpc.learning.network import CutsetNetwork
from skpc.learning.smoothing import quarters
from skpc.queries import fit_parameters, log_likelihood, uniform_pseudo_counts
from skpc.queries.flows import PseudoCounts, pseudo_counts_from
from skpc.queries.parameters import em_step
from skpc.queries.passes.induced import log_joint

#: Iterations of EM on the tables, which stops once one gains less than this (nats a row).
_MAX_ITER = 20
_TOL = 1e-4
#: Strengths go up from this number of rows by a factor, at least to the last.
_FIRST, _FACTOR, _LAST = 10.0, 10.0**0.5, 1000.0
#: Strengths in turn without a gain on the held-out rows that end the search.
_PATIENCE = 2
#: Strength where there are too few rows to hold any out.
_UNTOLD = 100.0

Marks = NDArray[np.bool_]


class Learners(NamedTuple):
    """What learns from some rows, chosen by a mask, and their weights.

    Attributes
    ----------
    network : callable
        Learns a single network.
    components : callable
        Learns a mixture, from responsibilities to begin with if there are any.
    circuit : callable
        Turns a network into a circuit.
    """

    network: Callable[[Marks, Floats], CutsetNetwork]
    components: Callable[[Marks, Floats, Floats | None], CutsetMixture]
    circuit: Callable[[CutsetNetwork], Circuit]


class TrainingRows(NamedTuple):
    """Encoded rows as they are, the same with their missing cells filled, and their weights."""

    rows: Floats
    complete: Floats
    weight: Floats

    def some(self, chosen: Marks, weight: Floats) -> TrainingRows:
        """The rows of a mask, with other weights."""
        return TrainingRows(self.rows[chosen], self.complete[chosen], weight[chosen])


class ShrunkenMixture(NamedTuple):
    """The networks, the circuit of their mixture, and the strength of its pseudo-counts."""

    mixture: CutsetMixture
    circuit: Circuit
    strength: float


def learn_shrunken_mixture(
    training: TrainingRows,
    network: CutsetNetwork,
    param_ess: float,
    learners: Learners,
    n_components: int,
    tol: float,
) -> ShrunkenMixture:
    """Learn a mixture and shrink its tables as strongly as suits held-out rows.

    Three quarters of the rows teach a single network and components with structures of their own.
    Mixtures of either structure, shrunk more and more strongly, try to predict the last quarter
    better than the single network. The components keep their own structures unless these are not
    safely better than the single network, or its structure is safely better than theirs. The best
    mixture gives the first responsibilities when all rows are learned from. EM on the rows as they
    are, with missing cells summed out, ends the fit.

    Parameters
    ----------
    training : TrainingRows
        The rows.
    network : CutsetNetwork
        A single network of all rows.
    param_ess : float
        Equivalent sample size of the parameters of a single network.
    learners : Learners
        Learn from complete rows.
    n_components : int
        Number of components.
    tol : float
        EM on rows with missing cells stops when an iteration gains less than this (nats a row).

    Returns
    -------
    ShrunkenMixture
    """
    everyone = np.ones(len(training.weight), bool)

    def finished(
        learned: CutsetMixture, networks: Sequence[CutsetNetwork], start: Floats, strength: float
    ) -> ShrunkenMixture:
        shrunken = Shrunken.from_networks(networks, training, param_ess, learners.circuit)
        rows, complete, weight = training
        circuit = shrunken.fitted(complete, weight, start, strength)
        if np.isnan(rows).any():
            prior = shrunken.prior(strength)
            circuit = fit_parameters(
                circuit, rows, weight, pseudo_count=prior, max_iter=_MAX_ITER, tol=tol
            )
        return ShrunkenMixture(learned._replace(networks=list(networks)), circuit, strength)

    kept, held = next(quarters(training.weight), (training.weight, None))
    if held is None or kept.sum() < n_components:
        learned = learners.components(everyone, training.weight, None)
        return finished(learned, learned.networks, softmax(learned.joint, axis=1), _UNTOLD)
    taught = training.some(kept > 0, kept)
    first = learners.components(kept > 0, taught.weight, None)
    single = learners.network(kept > 0, taught.weight)
    search = _Search(taught, training.some(held > 0, held), param_ess, learners.circuit)
    separate = search.run(first, first.networks, single)
    shared = search.run(first, [single] * len(first.networks), single)
    best = max(separate, shared, key=lambda attempt: attempt.score)
    if separate.score > 0 and search.safe_mean(shared.gain - separate.gain) <= 0:
        best = separate
    start = posterior(best.circuit, training.complete)
    if best is shared:
        return finished(first, [network] * len(first.networks), start, best.strength)
    then = learners.components(everyone, training.weight, start)
    then = then._replace(n_iter=first.n_iter + then.n_iter)
    return finished(then, then.networks, softmax(then.joint, axis=1), best.strength)


class Shrunken(NamedTuple):
    """Components whose parameters are those of the whole table, which all are shrunk towards."""

    wholes: list[Circuit]

    @classmethod
    def from_networks(
        cls,
        networks: Sequence[CutsetNetwork],
        training: TrainingRows,
        param_ess: float,
        build: Callable[[CutsetNetwork], Circuit],
    ) -> Shrunken:
        """Count all rows and smooth; a network that comes several times is counted once."""
        made: dict[int, Circuit] = {}
        for network in networks:
            if id(network) not in made:
                circuit = build(network)
                even = uniform_pseudo_counts(circuit, param_ess)
                # A component is deterministic: one iteration finds its tables.
                made[id(network)] = em_step(circuit, training.complete, training.weight, even)
        return cls([made[id(network)] for network in networks])

    def prior(self, strength: float) -> PseudoCounts:
        """Pseudo-counts of the mixture: for each component so many rows like the whole table."""
        n_components = len(self.wholes)
        even = mixture(self.wholes, np.full(n_components, 1.0 / n_components))
        return pseudo_counts_from(even, strength * n_components)

    def fitted(
        self,
        rows: Floats,
        weight: Floats,
        responsibility: Floats,
        strength: float,
        max_iter: int = _MAX_ITER,
        tol: float = _TOL,
    ) -> Circuit:
        """EM on the tables of the mixture, from given responsibilities on."""
        weights = weight[:, np.newaxis] * responsibility
        parts = [
            em_step(whole, rows[some], of_part[some], pseudo_counts_from(whole, strength))
            for whole, of_part, some in zip(self.wholes, weights.T, weights.T > 0.0)
        ]
        if len(parts) == 1:
            return parts[0]
        total = weights.sum(axis=0) + strength
        start, prior = mixture(parts, total / total.sum()), self.prior(strength)
        return fit_parameters(start, rows, weight, pseudo_count=prior, max_iter=max_iter, tol=tol)


def posterior(circuit: Circuit, complete: Floats) -> Floats:
    """Posterior of the components of a fitted mixture given each complete row."""
    return np.asarray(softmax(log_joint(circuit, complete), axis=1))


class _Attempt(NamedTuple):
    """A mixture, and what it gains over a single network (nats): by row, and safely on average."""

    gain: Floats
    score: float
    strength: float
    circuit: Circuit


class _Search(NamedTuple):
    """Rows to learn from and held-out rows, and what makes circuits of networks."""

    taught: TrainingRows
    held_out: TrainingRows
    param_ess: float
    build: Callable[[CutsetNetwork], Circuit]

    def run(
        self, first: CutsetMixture, networks: Sequence[CutsetNetwork], single: CutsetNetwork
    ) -> _Attempt:
        """The strength that suits the held-out rows best, for networks of given structure."""
        shrunken = Shrunken.from_networks(networks, self.taught, self.param_ess, self.build)
        (alone,) = Shrunken.from_networks([single], self.taught, self.param_ess, self.build).wholes
        log_density_alone = log_likelihood(alone, self.held_out.rows)
        responsibility = softmax(first.joint, axis=1)
        attempts: list[_Attempt] = []
        best, strength = 0, _FIRST
        while len(attempts) - best <= _PATIENCE and strength <= max(
            _LAST, self.taught.weight.sum()
        ):
            circuit = shrunken.fitted(*self.taught[1:], responsibility, strength)
            gain = log_likelihood(circuit, self.held_out.rows) - log_density_alone
            attempts.append(_Attempt(gain, self.safe_mean(gain), strength, circuit))
            best = max(range(len(attempts)), key=lambda i: attempts[i].score)
            responsibility = posterior(circuit, self.taught.complete)
            strength *= _FACTOR
        return attempts[best]

    def safe_mean(self, gain: Floats) -> float:
        """Mean gain (nats a held-out row) less its standard error.

        So a mixture that owes its gain to few rows does not beat one that is safely no worse.
        """
        weight = self.held_out.weight
        mean = np.average(gain, weights=weight)
        variance = np.average((gain - mean) ** 2, weights=weight)
        return float(mean - np.sqrt(variance / weight.sum()))
