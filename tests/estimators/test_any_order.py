"""Whatever is done to a density, and in whatever order, it stays one density."""

import copy
import pickle

import hypothesis.strategies as st
import numpy as np
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from numpy.testing import assert_array_equal
from sklearn.base import clone

from skpc import CutsetNetworkBD, MixtureOfAllTrees, SoftLearnSPN

DENSITIES = [
    CutsetNetworkBD(random_state=0),
    CutsetNetworkBD(n_components=2, max_iter=2, param_ess=1.0, random_state=0),
    SoftLearnSPN(random_state=0),
    MixtureOfAllTrees(max_iter=1, n_inference_samples=20, random_state=0),
]


def table(seed: int) -> np.ndarray:
    """A table with missing cells; its columns are the same for every seed."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.permutation(np.arange(40.0) % 3), rng.normal(size=(40, 2))])
    X[rng.random(X.shape) < 0.1] = np.nan
    return X


class AnyOrder(RuleBasedStateMachine):
    @initialize(which=st.sampled_from(range(len(DENSITIES))))
    def start(self, which):
        self.density = clone(DENSITIES[which])
        self.fitted_to = None

    def fresh(self):
        """A new estimator that has seen nothing but the last fit."""
        return clone(self.density).fit(table(self.fitted_to))

    @rule(seed=st.integers(0, 2))
    def fit(self, seed):
        assert self.density.fit(table(seed)) is self.density
        self.fitted_to = seed

    @rule()
    def fit_to_what_cannot_be_learned(self):
        try:
            self.density.fit(np.full((3, 3), np.nan))
        except ValueError:
            return
        raise AssertionError("an empty table was learned")

    @rule()
    def send_to_another_process(self):
        self.density = pickle.loads(pickle.dumps(self.density))

    @rule()
    def copy(self):
        self.density = copy.deepcopy(self.density)

    @precondition(lambda self: self.fitted_to is not None)
    @rule(seed=st.integers(0, 2))
    def score(self, seed):
        scores = self.density.score_samples(table(seed))
        assert np.isfinite(scores).all()
        assert_array_equal(scores, self.fresh().score_samples(table(seed)))

    @precondition(lambda self: self.fitted_to is not None)
    @rule(n_samples=st.integers(0, 5))
    def draw(self, n_samples):
        drawn = self.density.sample(n_samples, random_state=1)
        assert drawn.shape == (n_samples, 3)
        assert_array_equal(drawn, self.fresh().sample(n_samples, random_state=1))

    @precondition(lambda self: self.fitted_to is not None)
    @rule(seed=st.integers(0, 2), strategy=st.sampled_from(["mean", "mpe", "sample"]))
    def complete(self, seed, strategy):
        X = table(seed)
        before = X.copy()
        full = self.density.complete(X, strategy=strategy, random_state=2)
        assert_array_equal(X, before)
        assert not np.isnan(full).any()
        assert_array_equal(full[~np.isnan(X)], X[~np.isnan(X)])
        assert_array_equal(full, self.fresh().complete(X, strategy=strategy, random_state=2))

    @invariant()
    def knows_whether_it_is_fitted(self):
        assert hasattr(self.density, "n_features_in_") == (self.fitted_to is not None)


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=8, stateful_step_count=12, deadline=None)
