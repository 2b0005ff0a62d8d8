"""Several mixtures of all trees as the components of one distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import log_softmax, softmax

from skpc._arrays import Floats, Ints
from skpc.all_trees.all_trees import AllTrees
from skpc.all_trees.directed import DirectedParameters
from skpc.all_trees.pair_tables import PairTables
from skpc.all_trees.undirected import UndirectedParameters
from skpc.all_trees.workspace import Workspace


class Components(NamedTuple):
    """A finite mixture of mixtures of all trees.

    Parameters
    ----------
    log_weight : array of shape (n_components,)
        Logs of the weights of the components.
    models : tuple of AllTrees
        The components, over the same variables.
    """

    log_weight: Floats
    models: tuple[AllTrees, ...]

    def __repr__(self) -> str:
        return f"Components(n_components={len(self.models)}, each {self.models[0]!r})"

    def log_joint(self, states: Ints) -> Floats:
        """Log probability of each row together with each component.

        Parameters
        ----------
        states : array of shape (n_rows, n_vertices)
            As :meth:`AllTrees.states_of` gives them.

        Returns
        -------
        ndarray of shape (n_rows, n_components)
            In nats.
        """
        of_models = [model.log_likelihood(states) for model in self.models]
        return np.column_stack(of_models) + self.log_weight

    def log_likelihood(self, states: Ints) -> Floats:
        """Log-likelihood of complete rows, shape (n_rows,), in nats."""
        if len(self.models) == 1:
            return self.models[0].log_likelihood(states)
        return np.asarray(np.logaddexp.reduce(self.log_joint(states), axis=1))


class ComponentParameters(NamedTuple):
    """The free parameters of several components, as one vector without constraints.

    First the logits of the weights of the components, then the parameters of each.

    Parameters
    ----------
    of_one : DirectedParameters or UndirectedParameters
        What the parameters of one component are.
    n_components : int
        Number of components.
    """

    of_one: DirectedParameters | UndirectedParameters
    n_components: int

    def start(self, tables: Sequence[PairTables], proportion: Floats) -> Floats:
        """Parameters to start from: the tables of each component, its proportion of the rows."""
        return np.concatenate([np.log(proportion), *(self.of_one.start(t) for t in tables)])

    def model(self, vector: Floats) -> Components:
        """The mixture that has these parameters."""
        models = tuple(self.of_one.model(part) for part in self._parts(vector))
        return Components(log_softmax(vector[: self.n_components]), models)

    def ascent(
        self, vector: Floats, states: Ints, weight: Floats, workspace: Workspace | None = None
    ) -> tuple[Floats, Floats]:
        """Log-likelihood of complete rows, and the direction in which it rises.

        That is the gradient of expected complete-data log-likelihood of EM: every component counts
        each row by its responsibility for it. At the parameters that give the responsibilities,
        both gradients are the same.

        Parameters
        ----------
        vector : array of shape (n_parameters,)
            The parameters.
        states : array of shape (n_rows, n_vertices)
            Complete rows, as :meth:`AllTrees.states_of` gives them.
        weight : array of shape (n_rows,)
            Their weights.
        workspace : Workspace or None, default=None
            Memory to use, that of the gradient included; None takes new.

        Returns
        -------
        log_likelihood : ndarray of shape (n_rows,)
            In nats.
        gradient : ndarray of shape (n_parameters,)
            Derivative of ``weight @ log_likelihood``.
        """
        workspace = Workspace() if workspace is None else workspace
        gradient, k = workspace.array("gradient", vector.shape), self.n_components
        models = [
            self.of_one.model(part, workspace.array(f"factor {i}", self.of_one.shape))
            for i, part in enumerate(self._parts(vector))
        ]
        mixture = Components(log_softmax(vector[:k]), tuple(models))
        log_joint = mixture.log_joint(states) if k > 1 else np.zeros((len(states), 1))
        share = softmax(log_joint, axis=1) * weight[:, np.newaxis]
        gradient[:k] = share.sum(axis=0) - weight.sum() * np.exp(mixture.log_weight)
        for model, of_rows, out in zip(models, share.T, self._parts(gradient)):
            expectation = model.expect(states, np.ascontiguousarray(of_rows), workspace)
            self.of_one.gradient(model, expectation, out)
        if k == 1:
            return expectation.log_likelihood, gradient
        return np.asarray(np.logaddexp.reduce(log_joint, axis=1)), gradient

    def _parts(self, vector: Floats) -> list[Floats]:
        return np.split(vector[self.n_components :], self.n_components)
