"""Mixtures of cutset networks whose tables are shrunk towards those of the whole table.

A component has only a part of the rows. The prior of its tables is therefore not uniform: it is a
number of rows that are distributed like the whole table, the strength of shrinkage. Held-out rows
decide on the strength, and whether the components have structures of their own or that of a single
network. Networks become circuits at once, and EM is that of circuits.
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

#: When EM on the tables of all components ends.
_STOP = Stop(20, 1e-4)


class TrainingRows(NamedTuple):
    """Encoded rows, NaN where missing; the same with all cells filled; and their weights."""

    rows: Floats
    complete: Floats
    weight: Floats

    def with_weight(self, weight: Floats) -> Self:
        """The rows with other weights, without those of weight zero."""
        is_present = weight > 0
        return type(self)(self.rows[is_present], self.complete[is_present], weight[is_present])

    def refitted(self, circuit: Circuit, prior: PseudoCounts) -> Circuit:
        """A circuit fitted to filled rows, after a step of EM on the rows with missing cells.

        Filled cells are noise, which a single network has learned without.
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
    """Learn a mixture, with the structures and the shrinkage that suit held-out rows.

    A single network and components with structures of their own are learned from three quarters of
    the rows. Mixtures of either kind of structure, shrunk more and more strongly, predict the last
    quarter; each quarter in turn, until a thousand rows have been held out. The components keep
    their own structures unless these are not safely better than the single network, or its
    structure is safely better than theirs (:func:`safe_mean`). The best mixture gives the first
    responsibilities when all rows are learned from. EM with missing cells summed out ends the fit.

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

    # So many stronger shrinkages in a row without a gain on the held-out rows end the search.
    patience = 2

    def finished(
        learned: Fit, networks: Sequence[CutsetNetwork], start: Floats, strength: float
    ) -> tuple[Fit, Circuit, float]:
        """The mixture of networks, learned from all rows from these responsibilities on."""
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
    quarter_fits = list[Fit]()
    separate_paths = []
    shared_paths = []
    for train_weight, held in quarters(weight):
        # There cannot be more components than rows.
        if train_weight.sum() < learner.n_components:
            continue
        taught = training.with_weight(train_weight)
        held_out = training.with_weight(held)
        single = learn_network(*taught[1:])
        quarter_fit = learn_components(*taught[1:], None)
        source = taught, param_ess, learner.build
        (alone,) = Shrunken.from_networks([single], *source).targets
        start = quarter_fit.statistics.responsibility
        log_density_alone = log_likelihood(alone, held_out.rows)
        path_rows = taught, start, held_out.rows, log_density_alone
        networks = quarter_fit.model.networks
        separate_paths.append(Shrunken.from_networks(networks, *source).path(*path_rows))
        shared_paths.append(
            Shrunken.from_networks([single] * len(networks), *source).path(*path_rows)
        )
        quarter_fits.append(quarter_fit)
        held_out_weight.append(held_out.weight)
    # The strength where there are too few rows to hold any out.
    usual_strength = 100.0
    if not quarter_fits:
        learned = learn_components(training.complete, weight, None)
        start = learned.statistics.responsibility
        return finished(learned, learned.model.networks, start, usual_strength)
    test_weight = np.concatenate(held_out_weight)
    separate, shared = (
        best_of(_attempts(paths, test_weight), lambda attempt: attempt.score, patience)
        for paths in (separate_paths, shared_paths)
    )
    # The single network has the score zero.
    best = max(separate, shared, key=lambda attempt: attempt.score)
    # The circuit of an attempt was learned without the first quarter.
    quarter_fit = quarter_fits[0]
    if separate.score > 0 and safe_mean(shared.gain - separate.gain, test_weight) <= 0:
        best = separate
    # A circuit that has learned from some of the rows divides all of them.
    start = posterior(best.circuit, training.complete)
    if best is shared:
        return finished(quarter_fit, [network] * start.shape[1], start, best.strength)
    learned = learn_components(training.complete, weight, start)
    learned = learned._replace(n_iter=quarter_fit.n_iter + learned.n_iter)
    start = learned.statistics.responsibility
    return finished(learned, learned.model.networks, start, best.strength)


class Shrunken(NamedTuple):
    """A mixture whose components are shrunk to their targets.

    Attributes
    ----------
    targets : list of Circuit
        For each component the circuit of its structure with tables of the whole table of rows.
    """

    targets: list[Circuit]

    @classmethod
    def from_networks(
        cls,
        networks: Sequence[CutsetNetwork],
        training: TrainingRows,
        param_ess: float,
        build: Build,
    ) -> Self:
        """The targets: tables of each network are counted on all rows, and smoothed."""
        # A network that several components share is counted once.
        circuit_of: dict[int, Circuit] = {}
        for network in networks:
            if id(network) not in circuit_of:
                circuit = build(network)
                uniform = uniform_pseudo_counts(circuit, param_ess)
                # A component is deterministic: one iteration finds its tables.
                circuit = em_step(circuit, training.complete, training.weight, uniform)
                circuit_of[id(network)] = training.refitted(circuit, uniform)
        return cls([circuit_of[id(network)] for network in networks])

    def prior(self, strength: float) -> PseudoCounts:
        """Pseudo-counts of the mixture: ``strength`` rows like its target for each component."""
        n_components = len(self.targets)
        equal_mixture = mixture(self.targets, np.full(n_components, 1.0 / n_components))
        return pseudo_counts_from(equal_mixture, strength * n_components)

    def fitted(
        self,
        rows: Floats,
        weight: Floats,
        responsibility: Floats,
        strength: float,
        stop: Stop = _STOP,
    ) -> Circuit:
        """The mixture after EM on its tables, from responsibilities (n_rows, n_components) on."""
        # Each component starts from the rows that belong to it and rows like its target.
        weights = weight[:, np.newaxis] * responsibility
        parts = [
            em_step(
                target,
                rows[is_member],
                member_weight[is_member],
                pseudo_counts_from(target, strength),
            )
            for target, member_weight, is_member in zip(self.targets, weights.T, weights.T > 0.0)
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
        """Mixtures of increasing strength: the strength, gains of held-out rows, the circuit."""
        # Strengths begin here and grow by the factor, to this number of rows or to all rows.
        weakest = 10.0
        factor = 10.0**0.5
        strongest = 1000.0
        strength = weakest
        while strength <= max(strongest, taught.weight.sum()):
            circuit = self.fitted(*taught[1:], start, strength)
            # The next strength begins with these responsibilities.
            start = posterior(circuit, taught.complete)
            circuit = taught.refitted(circuit, self.prior(strength))
            yield strength, log_likelihood(circuit, held_out) - log_density_alone, circuit
            strength *= factor


def posterior(circuit: Circuit, complete: Floats) -> Floats:
    """Posterior of the components of a fitted mixture given each complete row."""
    return softmax(log_joint(circuit, complete), axis=1)


class _Attempt(NamedTuple):
    """A mixture of one strength and its gains (nats) over a single network on held-out rows.

    ``gain`` has one for each row, ``score`` is their :func:`safe_mean`.
    """

    gain: Floats
    score: float
    strength: float
    circuit: Circuit


def _attempts(
    paths: Sequence[Iterator[tuple[float, Floats, Circuit]]], weight: Floats
) -> Iterator[_Attempt]:
    """The mixtures of increasing strength, scored on all quarters that were held out."""
    # The quarters have the same strengths; the circuit that is kept is that of the first.
    for steps in zip(*paths):
        gain = np.concatenate([gain for _, gain, _ in steps])
        strength, _, circuit = steps[0]
        yield _Attempt(gain, safe_mean(gain, weight), strength, circuit)


def safe_mean(gain: Floats, weight: Floats) -> float:
    """Mean gain (nats a held-out row) less its standard error: a gain by few rows counts little."""
    mean = np.average(gain, weights=weight)
    variance = np.average((gain - mean) ** 2, weights=weight)
    return float(mean - np.sqrt(variance / weight.sum()))
