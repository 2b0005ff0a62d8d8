"""A mixture of all trees as the density of encoded rows: states, and numbers within their bins."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from skpc._arrays import Floats, Ints, log_or_inf, offsets, picked, within
from skpc._random import row_seeds
from skpc._threads import threads
from skpc._warnings import warn
from skpc.all_trees.all_trees import Components
from skpc.all_trees.completions import Estimates
from skpc.all_trees.incomplete import draw_rows, estimate_missing, local_modes
from skpc.all_trees.spanning_trees import draw_trees
from skpc.circuit import Circuit, decision_circuit, mixture
from skpc.counting.trees import tree_vertices
from skpc.domain import Domain, group_codes
from skpc.queries import Events
from skpc.variables import Bins, Form, Points, Predictive


class AllTreesDensity(NamedTuple):
    """The density of encoded rows whose states have the distribution of a mixture of all trees.

    Equal rows have equal answers, whatever the other rows.

    Parameters
    ----------
    mixture : Components
        The distribution of the states.
    domain : Domain
        What the columns are. Within a state, numbers follow their axis.
    seed : int
        What the estimates of rows with missing cells start from.
    method, n_samples
        See :func:`estimate_missing`.
    n_jobs : int or None
        Number of threads; None leaves it to ``joblib.parallel_config``.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.domain import Domain
    >>> from skpc.all_trees.all_trees import AllTrees, Components
    >>> from skpc.all_trees.density import AllTreesDensity
    >>> half = np.full((5, 5), 0.5)
    >>> trees = AllTrees(
    ...     np.array([0, 2, 4, 5]), np.ones((3, 3)), half, np.zeros(5), False
    ... )
    >>> domain = Domain.fit(np.array([[0.0, 1.0], [1.0, 0.0]]))
    >>> density = AllTreesDensity(
    ...     Components(np.zeros(1), (trees,)), domain, 0, "collapsed", 100
    ... )
    >>> np.exp(density.log_density(np.array([[0.0, 1.0], [0.0, np.nan]]))).round(2)
    array([0.25, 0.5 ])
    """

    mixture: Components
    domain: Domain
    seed: int
    method: str
    n_samples: int
    n_jobs: int | None = None

    def log_density(self, rows: Any, given: Ints | None = None) -> Floats:
        """Log density of each row in nats, or of its other cells given those of some columns.

        Missing cells are summed out. The probability of a single other cell is the one in
        :meth:`posteriors`. For several it is the ratio of two estimates, at most one.
        """
        rows = _values_of(rows)
        if given is None:
            log_density, size = self._log_probability(self._codes(rows))
            log_density += self.domain.axis_table.log_density(rows)
        else:
            log_density, size = self._log_conditional(rows, given)
        _warn_of_few_trees(size)
        return log_density

    def _log_conditional(self, rows: Floats, given: Ints) -> tuple[Floats, Floats]:
        """Log density of the other cells given some columns, and the effective sample sizes."""
        codes = self._codes(rows)
        distinct, group = group_codes(codes)
        known = np.full_like(distinct, -1)
        known[:, given] = distinct[:, given]
        asked_cells = distinct != known
        is_single = asked_cells.sum(axis=1) == 1
        log_ratio = np.empty(len(distinct))
        size = np.empty(len(distinct))
        # Several cells: a ratio of two estimates, which noise may lift above one.
        joint = self._estimates(distinct[~is_single])
        condition = self._estimates(known[~is_single])
        log_change = joint.log_likelihood - condition.log_likelihood
        log_ratio[~is_single] = np.minimum(log_change, 0.0)
        size[~is_single] = np.minimum(joint.effective_sample_size, condition.effective_sample_size)
        # A single cell: its share among the states of its column, which add up to one.
        condition = self._estimates(known[is_single], marginals=True)
        column = asked_cells[is_single].argmax(axis=1)
        state = offsets(self.domain.n_states)[column] + distinct[is_single, column]
        log_ratio[is_single] = log_or_inf(picked(condition.marginals, state))
        size[is_single] = condition.effective_sample_size
        cells = np.where(asked_cells[group], rows, np.nan)
        return log_ratio[group] + self.domain.axis_table.log_density(cells), size[group]

    def effective_sample_size(self, rows: Floats) -> Floats:
        """What the answers for each row are worth in independent trees; infinite if exact."""
        return self._log_probability(self._codes(rows))[1]

    def posteriors(self, rows: Any, columns: Any = None) -> list[Predictive]:
        """Distribution of the cells of each column (of all where None) given the observed ones."""
        rows = _values_of(rows)
        marginals = self._marginals(rows)
        posteriors = []
        for column in range(rows.shape[1]) if columns is None else columns:
            prob = marginals[column]
            labels = self.domain[column].states
            form: Form = Points(np.arange(float(prob.shape[1])), prob)
            if labels is None:
                form = Bins(self.domain.axis_of(column), prob)
            # What numbers within a state are, such as whole ones.
            number = self.domain[column].law
            posteriors.append(Predictive([form], rows[:, column], labels, law=number))
        return posteriors

    def _marginals(self, rows: Floats) -> list[Floats]:
        """Probabilities of the states of every cell, one array a column."""
        distinct, group = group_codes(self._codes(rows))
        estimates = self._estimates(distinct, marginals=True)
        _warn_of_few_trees(estimates.effective_sample_size[group])
        cuts = offsets(self.domain.n_states)[1:-1]
        return np.split(estimates.marginals[group], cuts, axis=1)

    def means(self, rows: Any, columns: Sequence[int] | None = None) -> Floats:
        """The rows with posterior means of missing numbers, most probable missing categories.

        Those of all columns come from one and the same sample of trees.
        """
        rows = _values_of(rows)
        filled = rows.copy()
        marginals = self._marginals(rows)
        for column in range(rows.shape[1]) if columns is None else columns:
            prob = marginals[column]
            missing = np.isnan(rows[:, column])
            if self.domain.is_categorical[column]:
                filled[missing, column] = prob[missing].argmax(axis=1)
            else:
                filled[missing, column] = prob[missing] @ self.domain.axis_of(column).moments()[0]
        return filled

    def log_cells(self, rows: Floats) -> Floats:
        """Log density of each observed cell given the other observed cells of its row, in nats."""
        log_cells = np.full(rows.shape, np.nan)
        least = np.full(len(rows), np.inf)
        # Each column in turn is asked for given all others.
        for column in range(rows.shape[1]):
            given_columns = np.delete(np.arange(rows.shape[1]), column)
            observed = ~np.isnan(rows[:, column])
            log_cells[observed, column], size = self._log_conditional(rows[observed], given_columns)
            least[observed] = np.minimum(least[observed], size)
        _warn_of_few_trees(least)
        return log_cells

    def modes(self, rows: Floats) -> Floats:
        """The rows completed such that no change of a single cell makes them more probable."""
        codes = self._codes(rows)
        numeric = ~self.domain.is_categorical
        # A state of numbers is worth its density where that is greatest.
        peaks = [
            self.domain.axis_of(column).log_peaks() if is_numeric else np.zeros(n_states)
            for column, (is_numeric, n_states) in enumerate(zip(numeric, self.domain.n_states))
        ]
        values = [log_or_inf(prob) + peak for prob, peak in zip(self._marginals(rows), peaks)]
        start = np.column_stack([value.argmax(axis=1) for value in values])
        start = np.where(codes < 0, start, codes)
        with threads(self.n_jobs):
            states = local_modes(self.mixture, codes, start, peaks)
        filled = np.where(np.isnan(rows), states, rows)
        for column in np.flatnonzero(numeric).tolist():
            missing = np.isnan(rows[:, column])
            filled[missing, column] = self.domain.axis_of(column).modes()[states[missing, column]]
        return self.domain.snap_to_values(filled, rows)

    def draw(
        self, n_rows: int, random_state: np.random.RandomState, given: Events | None = None
    ) -> Floats:
        """Draw rows; exact."""
        codes = draw_rows(self.mixture, n_rows, random_state)
        nothing = np.full(codes.shape, np.nan)
        seed = int(random_state.randint(2**31))
        return self.domain.snap_to_values(self.domain.axis_table.draw(codes, nothing, seed))

    def draw_missing(self, rows: Any, random_state: np.random.RandomState) -> Floats:
        """The rows, their missing cells filled by a joint draw each."""
        rows = _values_of(rows)
        filled = self._codes(rows)
        missing = np.flatnonzero((filled < 0).any(axis=1))
        _, group = group_codes(filled[missing])
        sorted_rows = missing[np.argsort(group, kind="stable")]
        # Equal rows share their trees, but at most this number of draws share one sample of trees:
        # if few of its trees matter, all draws would be from the same few.
        n_most = 100
        place_in_group = within(np.bincount(group))
        starts = np.flatnonzero(place_in_group % n_most == 0)
        n_draws = np.diff(np.append(starts, len(sorted_rows)))
        seeds = random_state.randint(2**31, size=len(starts)).astype(np.uint64)
        sizes = np.full(len(rows), np.inf)
        # Samples of equally many draws are asked for together.
        for size in np.unique(n_draws):
            is_size = n_draws == size
            places = sorted_rows[starts[is_size, np.newaxis] + np.arange(size)]
            sample_codes = filled[places[:, 0]]
            sample_seeds = seeds[is_size]
            estimates = self._estimates(sample_codes, n_draws=size, seeds=sample_seeds)
            filled[places] = estimates.draws
            sizes[places] = estimates.effective_sample_size[:, np.newaxis]
        _warn_of_few_trees(sizes)
        seed = int(random_state.randint(2**31))
        drawn = self.domain.axis_table.draw(filled, rows, seed)
        return self.domain.snap_to_values(drawn, rows)

    def sampled_circuit(self, n_trees: int, random_state: np.random.RandomState) -> Circuit:
        """A finite mixture of trees that are drawn from the mixture of all, of equal weights."""
        columns = np.arange(self.domain.n_features)
        variables = self.domain.n_states, self.domain.axes
        counts = random_state.multinomial(n_trees, np.exp(self.mixture.log_weight))
        circuits = []
        weights = []
        for model, n_model_trees in zip(self.mixture.models, counts):
            tables = model.tree_tables()
            seed = np.uint64(random_state.randint(2**31))
            parents, _ = draw_trees(tables.into, int(n_model_trees), seed)
            blocks = [slice(start, stop) for start, stop in zip(tables.ptr, tables.ptr[1:])]
            # A tree that is drawn twice is one of twice the weight.
            for parent, count in zip(*np.unique(parents, axis=0, return_counts=True)):
                # The last block is that of the root, which is the parent -1.
                log_prob = [
                    np.log(tables.conditional[block, blocks[above]]).T
                    for block, above in zip(blocks, parent)
                ]
                decisions = tree_vertices(columns, parent, log_prob)
                circuits.append(decision_circuit(*variables, decisions))
                weights.append(count / n_trees)
        return mixture(circuits, np.array(weights))

    def _codes(self, rows: Floats) -> Ints:
        return self.domain.codes(rows).astype(np.int64)

    def _log_probability(self, codes: Ints) -> tuple[Floats, Floats]:
        """Log probability of the observed states of each row, and its effective sample size."""
        distinct, group = group_codes(codes)
        estimates = self._estimates(distinct)
        return estimates.log_likelihood[group], estimates.effective_sample_size[group]

    def _estimates(
        self,
        codes: Ints,
        marginals: bool = False,
        n_draws: int = 0,
        seeds: NDArray[np.uint64] | None = None,
    ) -> Estimates:
        """Exact or estimated answers for rows of states with missing cells."""
        if seeds is None:
            seeds = row_seeds(codes, self.seed)
        with threads(self.n_jobs):
            return estimate_missing(
                self.mixture, codes, seeds, self.method, self.n_samples, marginals, n_draws
            )


def _values_of(rows: Any) -> Floats:
    """Encoded rows, which must have neither ranges nor sets."""
    events = Events.of(rows)
    if events.has_intervals:
        raise NotImplementedError(
            "a mixture of all trees answers for values and missing cells (score_samples, "
            "marginals, sample); ranges and sets, and what probability and log_probability are "
            "asked, are sums that are no determinants. Ask the circuit of to_mixture(n_trees)"
        )
    return events.rows


def _warn_of_few_trees(size: Floats) -> None:
    """Say how many rows have answers that hang on a handful of trees."""
    # An answer that is worth less hangs on a handful of trees.
    least = 10
    n_poor = int((size < least).sum())
    if n_poor:
        warn(
            f"The answers for {n_poor} of {len(size)} rows are worth fewer than {least} "
            "independent trees each (see effective_sample_size): log densities may be wrong by "
            "tenths of a nat, probabilities by a tenth. Raise n_inference_samples, or fit with "
            "orientation='undirected', where trees differ less.",
            ConvergenceWarning,
        )
