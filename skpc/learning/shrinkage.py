"""Mixtures of cutset networks whose tables are shrunk towards those of the whole table.

A component has only a part of the rows. The prior of its tables is therefore not even: it is some
number of rows that are distributed like the whole table. Held-out rows decide on that number, and
whether the components have structures of their own or that of a single network, which the mixture
then becomes as the number grows. Networks become circuits at once, and EM is that of circuits.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Self

import numpy as np
from scipy.special import softmax

from skpc._arrays import Floats
from skpc._fitting import Fit, Rows, Stop, best_of
from skpc.circuit import Circuit, mixture
from skpc.learning.held_out import quarters
from skpc.learning.mixture import Build, NetworkLearner
from skpc.learning.network import CutsetNetwork
from skpc.queries import log_likelihood, uniform_pseudo_counts
from skpc.queries.flows import PseudoCounts, pseudo_counts_from
from skpc.queries.parameters import em_step, fit_to_rows
from skpc.queries.passes.induced import log_joint

#: When EM on the tables ends.
_STOP = Stop(20, 1e-4)


class TrainingRows(NamedTuple):
    """Encoded rows as they are, the same with their missing cells filled, and their weights."""

    rows: Floats
    complete: Floats
    weight: Floats

    def with_weight(self, weight: Floats) -> Self:
        """The rows that have some of other weights."""
        is_present = weight > 0
        return type(self)(self.rows[is_present], self.complete[is_present], weight[is_present])

    def as_they_are(self, circuit: Circuit, prior: PseudoCounts) -> Circuit:
        """A circuit that filled rows have fitted, after a step of EM on the rows as they are.

        What has been filled into cells is noise, and a single network has learned without it.
        """
        if not np.isnan(self.rows).any():
            return circuit
        return em_step(circuit, self.rows, self.weight, prior)


def learn_shrunken_mixture(
    training: TrainingRows,
    network: CutsetNetwork,
    param_ess: float,
    learner: NetworkLearner,
    learn_network: Callable[[Floats, Floats], CutsetNetwork],
    learn_components: Callable[[Floats, Floats, Floats | None], Fit],
    tol: float,
) -> tuple[Fit, Circuit, float]:
    """Learn a mixture and shrink its tables as strongly as suits held-out rows.

    Three quarters of the rows teach a single network and components with structures of their own.
    Mixtures of either structure, shrunk more and more strongly, try to predict the last quarter
    better than the single network; each quarter in turn, until a thousand rows have been held out.
    The components keep their own structures unless these are not safely better than the single
    network, or its structure is safely better than theirs. The best mixture gives the first
    responsibilities when all rows are learned from. EM on the rows as they are, with missing cells
    summed out, ends the fit.

    Parameters
    ----------
    training : TrainingRows
        The rows.
    network : CutsetNetwork
        A single network of all rows.
    param_ess : float
        Equivalent sample size of the parameters of a single network.
    learner : NetworkLearner
        What the components are.
    learn_network : callable
        Learns a single network from complete rows and their weights.
    learn_components : callable
        Learns a mixture from complete rows, their weights, and responsibilities to begin with if
        there are any; see :func:`skpc.learning.mixture.learn_mixture`.
    tol : float
        EM on rows with missing cells stops when an iteration gains less than this (nats a row).

    Returns
    -------
    Fit, Circuit, float
        The networks, the circuit of their mixture, and the strength of its pseudo-counts.
    """

    # Strengths in turn without a gain on the held-out rows that end the search.
    patience = 2

    def finished(
        learned: Fit, networks: Sequence[CutsetNetwork], start: Floats, strength: float
    ) -> tuple[Fit, Circuit, float]:
        shrunken = Shrunken.from_networks(networks, training, param_ess, learner.build)
        rows, complete, weight = training
        circuit = shrunken.fitted(complete, weight, start, strength)
        if np.isnan(rows).any():
            prior = shrunken.prior(strength)
            stop = _STOP._replace(tol=tol)
            circuit = fit_to_rows(circuit, Rows(rows, weight), prior, stop).model.circuit
        model = learned.model._replace(networks=list(networks))
        return learned._replace(model=model), circuit, strength

    weight = training.weight
    held_out_weight = []
    firsts = list[Fit]()
    separate_paths = []
    shared_paths = []
    for train_weight, held in quarters(weight):
        # There cannot be more components than rows.
        if train_weight.sum() < learner.n_components:
            continue
        taught = training.with_weight(train_weight)
        held_out = training.with_weight(held)
        single = learn_network(*taught[1:])
        first_fit = learn_components(*taught[1:], None)
        wholes = taught, param_ess, learner.build
        (alone,) = Shrunken.from_networks([single], *wholes).wholes
        start = first_fit.statistics.responsibility
        log_density_alone = log_likelihood(alone, held_out.rows)
        path = taught, start, held_out.rows, log_density_alone
        networks = first_fit.model.networks
        separate_paths.append(Shrunken.from_networks(networks, *wholes).path(*path))
        shared_paths.append(Shrunken.from_networks([single] * len(networks), *wholes).path(*path))
        firsts.append(first_fit)
        held_out_weight.append(held_out.weight)
    # Strength where there are too few rows to hold any out.
    untold = 100.0
    if not firsts:
        learned = learn_components(training.complete, weight, None)
        start = learned.statistics.responsibility
        return finished(learned, learned.model.networks, start, untold)
    test_weight = np.concatenate(held_out_weight)
    separate, shared = (
        best_of(_attempts(paths, test_weight), lambda attempt: attempt.score, patience)
        for paths in (separate_paths, shared_paths)
    )
    best = max(separate, shared, key=lambda attempt: attempt.score)
    # The circuit of an attempt is that of the first quarter held out.
    first_fit = firsts[0]
    if separate.score > 0 and safe_mean(shared.gain - separate.gain, test_weight) <= 0:
        best = separate
    # The circuit has learned from some of the rows, and divides all of them.
    start = posterior(best.circuit, training.complete)
    if best is shared:
        return finished(first_fit, [network] * start.shape[1], start, best.strength)
    then = learn_components(training.complete, weight, start)
    then = then._replace(n_iter=first_fit.n_iter + then.n_iter)
    start = then.statistics.responsibility
    return finished(then, then.model.networks, start, best.strength)


class Shrunken(NamedTuple):
    """Components whose parameters are those of the whole table, which all are shrunk towards."""

    wholes: list[Circuit]

    @classmethod
    def from_networks(
        cls,
        networks: Sequence[CutsetNetwork],
        training: TrainingRows,
        param_ess: float,
        build: Build,
    ) -> Self:
        """Count all rows and smooth; a network that comes several times is counted once."""
        made: dict[int, Circuit] = {}
        for network in networks:
            if id(network) not in made:
                circuit = build(network)
                even = uniform_pseudo_counts(circuit, param_ess)
                # A component is deterministic: one iteration finds its tables.
                circuit = em_step(circuit, training.complete, training.weight, even)
                made[id(network)] = training.as_they_are(circuit, even)
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
        stop: Stop = _STOP,
    ) -> Circuit:
        """EM on the tables of the mixture, from given responsibilities on."""
        weights = weight[:, np.newaxis] * responsibility
        parts = [
            em_step(
                whole,
                rows[is_member],
                member_weight[is_member],
                pseudo_counts_from(whole, strength),
            )
            for whole, member_weight, is_member in zip(self.wholes, weights.T, weights.T > 0.0)
        ]
        if len(parts) == 1:
            return parts[0]
        total = weights.sum(axis=0) + strength
        start = mixture(parts, total / total.sum())
        prior = self.prior(strength)
        fit = fit_to_rows(start, Rows(rows, weight), prior, stop)
        return fit.model.circuit

    def path(
        self, taught: TrainingRows, start: Floats, held_out: Floats, log_density_alone: Floats
    ) -> Iterator[tuple[float, Floats, Circuit]]:
        """Stronger and stronger shrinkage: the strength, gains of held-out rows, the mixture."""
        # Strengths go up from this number of rows by a factor, at least to the last.
        first = 10.0
        factor = 10.0**0.5
        last = 1000.0
        strength = first
        while strength <= max(last, taught.weight.sum()):
            circuit = self.fitted(*taught[1:], start, strength)
            # Each strength begins with what the one before it has found.
            start = posterior(circuit, taught.complete)
            circuit = taught.as_they_are(circuit, self.prior(strength))
            yield strength, log_likelihood(circuit, held_out) - log_density_alone, circuit
            strength *= factor


def posterior(circuit: Circuit, complete: Floats) -> Floats:
    """Posterior of the components of a fitted mixture given each complete row."""
    return softmax(log_joint(circuit, complete), axis=1)


class _Attempt(NamedTuple):
    """A mixture, and what it gains over a single network (nats): by row, and safely on average."""

    gain: Floats
    score: float
    strength: float
    circuit: Circuit


def _attempts(
    paths: Sequence[Iterator[tuple[float, Floats, Circuit]]], weight: Floats
) -> Iterator[_Attempt]:
    """Stronger and stronger shrinkage of all quarters; the mixture is that of the first."""
    for steps in zip(*paths):
        gain = np.concatenate([gain for _, gain, _ in steps])
        strength, _, circuit = steps[0]
        yield _Attempt(gain, safe_mean(gain, weight), strength, circuit)


def safe_mean(gain: Floats, weight: Floats) -> float:
    """Mean gain (nats a held-out row) less its standard error.

    So a mixture that owes its gain to few rows does not beat one that is safely no worse.
    """
    mean = np.average(gain, weights=weight)
    variance = np.average((gain - mean) ** 2, weights=weight)
    return float(mean - np.sqrt(variance / weight.sum()))
