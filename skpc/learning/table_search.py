"""The search for mixtures of Gaussians and tables that suit held-out rows of a table.

A :class:`_Search` tries candidates one after another, a :class:`_Learner` fits them to the rows of
one part, and :func:`learn_table_mixture` learns those that are chosen from all rows.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from skpc._arrays import Floats, segment
from skpc._fitting import Stop, best_of
from skpc._threads import each
from skpc.circuit import Circuit, mixture
from skpc.counting.clustering import cluster_points
from skpc.learning.gaussian_mixture import (
    TAILS,
    GaussianMixture,
    MixtureParams,
    MixtureRows,
    crossed,
    fit_gaussian_mixture,
)
from skpc.learning.hidden_tree import Counts
from skpc.learning.hidden_tree_search import TreeChoice
from skpc.learning.simplex import mixture_weights
from skpc.learning.table_mixture import (
    Candidate,
    Choices,
    LearnedMixture,
    TableColumns,
    TableRows,
    table_circuit,
)
from skpc.learning.table_tree import TableTree, choose_table_tree, learn_table_tree
from skpc.queries import log_likelihood
from skpc.variables.score import Score

#: Numbers of components to choose from; ``_PATIENCE`` in a row that are not better end a walk.
N_COMPONENTS = (1, 2, 3, 5, 8, 12, 20, 32, 50, 80, 120)
_PATIENCE = 2
#: Parameters of shrinkage and their values to choose from, increasing.
_SHRINKAGE: dict[str, tuple[float, ...]] = {
    "strength": (0.1, 0.5, 2.0, 8.0),
    "to_diagonal": (0.0, 0.1, 0.4, 1.0),
}
#: Columns get linear scores where the others explain more than one of these shares of the variance.
_EXPLAINED_SHARES = (math.inf, 0.9, -math.inf)
#: Rounds of all choices; a round that changes nothing is the last.
_ROUNDS = 2
#: Numbers of factors, tried where there are more columns of numbers than this share of the rows.
_N_FACTORS = (1, 2, 4, 8, 16, 32)
#: Candidates that are worse than the best by more nats a row are not mixed with it.
_NEAR_NATS = 2.0
#: Candidates that would weigh less in the stack are left out.
_LEAST_SHARE = 0.05
#: Starts of a single mixture of a given number of components; the likeliest result is kept.
_N_STARTS = 10
#: Steps that are reported to progress bars.
N_STAGES = _ROUNDS * (len(_SHRINKAGE) + 3) + 4


class HeldOutRows(NamedTuple):
    """Rows to learn from with their weights, and rows that are held out with theirs."""

    rows: Floats
    weight: Floats
    test_rows: Floats
    test_weight: Floats


def learn_table_mixture(
    table: TableRows,
    parts: Sequence[HeldOutRows],
    n_components: int | str | None,
    seed: int,
    advance: Callable[[float], object],
) -> LearnedMixture:
    """Learn a mixture of Gaussians of scores and tables of states.

    Held-out rows choose the number of components, how far their covariances are drawn together and
    to the diagonal, whether tails are heavy, which scores are linear, and in wide tables numbers of
    factors. The choices are made one after another, each around the best so far. Candidates that
    are nearly as good are mixed by weights that suit the held-out rows best, and learned anew from
    all rows. With a given number of components, the likeliest of ten starts is kept.

    Parameters
    ----------
    table : TableRows
        Rows to learn from.
    parts : sequence of HeldOutRows
        Held-out rows of the same table. Without any, nothing is chosen.
    n_components : int, "states", "last" or None
        A number: that of a single mixture. "states": one for each combination of states of the
        columns of fewest states, as long as a combination has ten rows on average. "last": held-out
        rows choose the number for each state of the last column. None: they choose the number.
    seed : int
        Seeds the clusterings at the start.
    advance : callable
        Called after each of ``N_STAGES`` steps.

    Returns
    -------
    LearnedMixture
    """
    # Rows for each combination of states that has a component, on average.
    rows_of_combination = 10.0
    crossed_tables: tuple[int, ...] = ()
    if isinstance(n_components, str):
        state_ptr = _columns_for(table, Candidate(MixtureParams(1))).state_ptr
        last = len(state_ptr) - 2
        n_combinations = table.weight.sum() / rows_of_combination
        is_last = n_components == "last"
        crossed_tables = (last,) if is_last else tuple(crossed(state_ptr, n_combinations).tolist())
        n_components = None if is_last else 1
    search = _Search(table, parts, n_components, seed, crossed_tables)
    n_steps = 0
    for _ in search.steps() if parts else ():
        n_steps += 1
        advance(1.0)
    choices = search.stack() if n_components is None else Choices(np.ones(1), [search.best])
    n_starts = _N_STARTS if search.counts[0] > 1 and n_components else 1
    mixture = learn_chosen(table, choices, seed, n_starts)
    advance(N_STAGES - n_steps)
    return mixture


def try_tree(table: TableRows, part: HeldOutRows, seed: int) -> tuple[TreeChoice, Floats] | None:
    """A tree of hidden variables above all columns, where it beats a few Gaussians.

    It is tried in tables in which some columns have states and some an order.

    Returns
    -------
    choice : TreeChoice
        How :class:`TreeBeside` learns it.
    log_density : ndarray
        Log densities (nats) of the held-out rows. None in place of both, if a few Gaussians and
        independent tables describe these rows better, or no tree is tried.
    """
    search = _few_gaussians(table, part, seed)
    has_order = search.n_numbers or any(axis is not None for axis in table.axes)
    if not (search.may_try_tree and has_order):
        return None
    choice, log_density = search._try_tree()
    is_better = search.test_weight @ log_density > search.score(search.best)
    return (choice, log_density) if is_better else None


def linear_scores(table: TableRows, part: HeldOutRows, seed: int) -> dict[int, Score]:
    """The columns that should have linear scores, and these scores; held-out rows choose.

    A mixture of a few Gaussians describes the rows. Its gain by linear scores has to be more than
    twice its standard error.
    """
    if not any(_are_bent(table)):
        return {}
    search = _few_gaussians(table, part, seed)
    unchanged = search.best
    search.choose_scores()
    gain = search.log_densities[search.best] - search.log_densities[unchanged]
    mean_gain = search.test_weight @ gain
    variance = search.test_weight @ (gain - mean_gain) ** 2
    error = math.sqrt(variance * (search.test_weight @ search.test_weight))
    best = search.best if mean_gain > 2.0 * error else unchanged
    return {
        column: best.score_of(law, column)
        for column, law in enumerate(table.numbers)
        if law is not None and column in best.linear
    }


class TreeBeside(NamedTuple):
    """A tree of hidden variables above encoded rows, to be mixed with a circuit of these rows."""

    columns: TableColumns
    tree: TableTree

    @classmethod
    def from_table(cls, table: TableRows, choice: TreeChoice, seed: int) -> Self:
        """Learn the tree from all rows of a table."""
        columns = _columns_for(table, Candidate(MixtureParams(1)))
        return cls(columns, learn_table_tree(columns, table.rows, table.weight, choice, seed))

    def expected(self, rows: Floats, weight: Floats) -> Counts:
        """The E-step."""
        return self.tree.expected(self.columns, rows, weight)

    def m_step(self, counts: Counts) -> Self:
        """The tree with parameters from counts of all rows."""
        return self._replace(tree=self.tree.m_step(counts))

    def beside(self, circuit: Circuit, share: float) -> Circuit:
        """A circuit mixed with the tree, and with a background."""
        tree = table_circuit(self.columns, None, circuit.n_features, self.tree, 1.0, circuit)
        return mixture([circuit, tree], [1.0 - share, share])


def weigh_tree(log_densities: Floats, tree: Floats | None, weight: Floats) -> tuple[Floats, float]:
    """Weights of densities, which sum to one, and of a tree beside them, by held-out rows.

    ``log_densities`` (n_rows, n_densities) and ``tree`` (n_rows,) are log densities in nats. A tree
    that would hardly have any weight gets none.
    """
    weights = mixture_weights(log_densities, weight)
    tree_weight = 0.0
    if tree is not None:
        *mixture_shares, tree_weight = mixture_weights(
            np.column_stack([log_densities, tree]), weight
        ).tolist()
        if tree_weight >= _LEAST_SHARE and sum(mixture_shares) > 0.0:
            weights = np.array(mixture_shares) / sum(mixture_shares)
    # A tree of hidden variables leaves some weight to the mixtures.
    most_of_tree = 0.999
    return weights, min(tree_weight, most_of_tree) if tree_weight >= _LEAST_SHARE else 0.0


def learn_chosen(
    table: TableRows, choices: Choices, seed: int, n_starts: int = 1
) -> LearnedMixture:
    """Learn the mixtures that have been chosen; see :func:`learn_table_mixture`."""
    candidates = choices.candidates
    # Candidates that are mixed have the same scores, and therefore the same columns.
    columns = _columns_for(table, candidates[0])
    learner = _Learner(columns, table.rows, table.weight, seed)
    # Missing cells make the steps of EM short: with many missingness patterns the tolerance is this
    # part of the usual one.
    tol_part = 0.25
    if learner.cells.have_many_patterns:
        learner.tol *= tol_part
    tasks = ((candidate.params, n_starts) for candidate in candidates)
    models = each(learner.fit, tasks, _work(table.rows, candidates))
    stacked = GaussianMixture.stacked(models, choices.weights)
    tree = None
    if choices.tree is not None:
        tree = learn_table_tree(columns, table.rows, table.weight, choices.tree, seed)
    return LearnedMixture(columns, stacked, choices, models, tree)


class _Learner:
    """Fits mixtures to rows, and keeps the starts and the last fits for the next ones."""

    def __init__(self, columns: TableColumns, rows: Floats, weight: Floats, seed: int):
        # EM ends when an iteration raises the mean log density (nats a row) by less. The tolerance
        # grows with the numbers of a row where there are more than so many.
        tol = 1e-2
        usual_numbers = 50
        self.columns = columns
        self.weight = weight
        self.seed = seed
        self.cells = columns.cells(rows)
        self.points = columns.points(rows, weight)
        self.tol = tol * max(1.0, len(columns.numbers) / usual_numbers)
        self.starts: dict[tuple[int, int], Floats] = {}
        self.fitted: dict[MixtureParams, GaussianMixture] = {}

    def fit(self, params: MixtureParams, n_starts: int = 1) -> GaussianMixture:
        """The mixture with these parameters; EM starts from clusters of the rows."""
        return self._fit_from([self._start(params, start) for start in range(n_starts)], params)

    def _start(self, params: MixtureParams, number: int) -> Floats:
        """Clusters of the rows, shape (n_clusters, n_rows).

        In the first start all columns count alike; in the others some count more, so that groups
        that differ in one column are found.
        """
        key = (params.n_components, number)
        random_state = np.random.RandomState(self.seed)
        if key not in self.starts:
            points = self.points
            if number:
                scales = np.random.RandomState(self.seed + number)
                # Squared, so that few columns count for much in each start.
                points = points * scales.standard_exponential(points.shape[1]) ** 2
            # Each combination of crossed states has clusters of its own.
            combinations = _combinations(self.columns, self.cells.states, params.crossed)
            clusters = [
                self._clusters(points, share, params.n_components, random_state)
                for share in combinations
            ]
            # Rows this far away would dominate a covariance; they are left to the background.
            is_far = self.columns.is_far(self.cells.scores)
            self.starts[key] = np.where(is_far, 0.0, np.vstack(clusters))
        return self.starts[key]

    def _clusters(self, points: Floats, share: Floats, count: int, random_state: Any) -> Floats:
        """At most ``count`` clusters of the rows with a positive share, (n_clusters, n_rows)."""
        present = np.flatnonzero(share)
        clusters = np.zeros((min(count, len(present)), len(share)))
        if len(clusters):
            memberships = cluster_points(
                points[present], self.weight[present], count, random_state
            ).T
            clusters = clusters[: len(memberships)]
            clusters[:, present] = memberships * share[present]
        return clusters

    def fit_like(self, params: MixtureParams) -> GaussianMixture:
        """The mixture with these parameters; EM goes on from the last one shrunk otherwise, if any.

        That is nearer than clusters of the rows.
        """
        unshrunk = params._replace(strength=0.0, to_diagonal=0.0)
        start = self.fitted.get(unshrunk)
        model = self.fit(params) if start is None else self._fit_from([start], params)
        self.fitted[unshrunk] = model
        return model

    def _fit_from(
        self, starts: Sequence[GaussianMixture | Floats], params: MixtureParams
    ) -> GaussianMixture:
        max_iter = 60
        rows = self.cells
        prior = self.columns.prior
        stop = Stop(max_iter, self.tol)
        fit = fit_gaussian_mixture(rows, self.weight, starts, prior, params, stop)
        return fit.model.mixture

    def test(self, cells: MixtureRows, params: MixtureParams) -> Floats:
        """Log densities (nats) of held-out rows under the mixture with these parameters."""
        return self.columns.log_density(self.fit_like(params), cells)


class _Search:
    """The best candidate so far, and the log densities of held-out rows under each candidate."""

    def __init__(
        self,
        table: TableRows,
        parts: Sequence[HeldOutRows],
        n_components: int | None,
        seed: int,
        crossed_tables: tuple[int, ...] = (),
    ):
        # Numbers for each row, from which on a table is wide and factors are tried.
        wide_ratio = 0.1
        # Rows for each component, at least; numbers in all covariances, at most; and components for
        # each state of a last column, at most.
        rows_each = 2.0
        most_numbers = 2**24
        most_of_state = 20
        self.table = table
        self.parts = parts
        self.seed = seed
        self.log_densities: dict[Candidate, Floats] = {}
        self.learners: dict[Candidate, list[tuple[_Learner, MixtureRows]]] = {}
        # Each part has to teach all components, the smallest one too.
        n_rows = min((part.weight.sum() for part in parts), default=0.0)
        self.n_numbers = int((table.n_states == 0).sum())
        is_wide = self.n_numbers > wide_ratio * table.weight.sum()
        #: The greatest number of factors to try.
        self.most_factors = self.n_numbers - 1 if is_wide and not crossed_tables else 0
        #: Whether a tree may be tried. Where nearly all columns are numbers, a tree gains by values
        #: that repeat, but spoils conditionals that Gaussians know better: a regression of
        #: electricity prices lost .5 nats and a third of its precision.
        n_tables = int((table.n_states > 1).sum())
        has_enough_tables = 2 * n_tables >= max(self.n_numbers, 1)
        self.may_try_tree = has_enough_tables and not is_wide and not crossed_tables
        #: Whether the number of components is that of each state of a last column.
        self.counts_of_state = bool(crossed_tables) and n_components is None
        if self.counts_of_state:
            n_rows = min(n_rows / table.n_states[-1], rows_each * most_of_state)
        most_components = min(n_rows / rows_each, most_numbers / max(self.n_numbers, 1) ** 2)
        allowed_counts = tuple(k for k in N_COMPONENTS if k == 1 or k <= most_components)
        self.counts = allowed_counts if n_components is None else (n_components,)
        self.best = Candidate(MixtureParams(self.counts[0], crossed=crossed_tables))
        if parts:
            test_weight = np.concatenate([part.test_weight for part in parts])
            self.test_weight = test_weight / test_weight.sum()

    def steps(self) -> Iterator[None]:
        """Make the choices one after another; yields after each stage."""
        self._walk("n_components", self.counts)
        yield
        self._try_factors()
        yield
        for _ in range(_ROUNDS):
            before = self.best
            if self.n_numbers:
                self.choose_scores()
                yield
                self._try(self.best.but(widths=widths) for widths in ((1.0,), TAILS))
                yield
            for name, amounts in _SHRINKAGE.items() if self.n_numbers else ():
                self._walk(name, amounts)
                yield
            if self.counts_of_state:
                # Few rows of a state gain little by a second round.
                return
            self._walk("n_components", self.counts)
            yield
            if self.best == before:
                break
        count = self.best.params.n_components
        # The counts are coarse: up to this number of components, one less and one more are tried.
        most_refined = 20
        if len(self.counts) > 1 and count <= min(most_refined, self.counts[-1]):
            self._try(self.best.but(n_components=k) for k in (count - 1, count + 1) if k > 0)
        yield

    def choose_scores(self) -> None:
        """Choose the columns whose scores are linear, and whether their ends bend few values."""
        self._try(self.best.but(linear=columns) for columns in _linear(self.table))
        if self.best.linear:
            self._try(self.best.but(is_sharp=is_sharp) for is_sharp in (False, True))

    def score(self, candidate: Candidate) -> float:
        """Mean log density (nats) of the held-out rows."""
        if candidate not in self.log_densities:
            learners = self._learners(candidate)
            tasks = ((learner, cells, candidate.params) for learner, cells in learners)
            work = sum(_work(part.rows, [candidate]) for part in self.parts)
            self.log_densities[candidate] = np.concatenate(each(_Learner.test, tasks, work))
        return float(self.test_weight @ self.log_densities[candidate])

    def stack(self) -> Choices:
        """The candidates that are nearly best, with the weights that suit held-out rows best."""
        if not self.log_densities:
            return Choices(np.ones(1), [self.best])
        least = self.score(self.best) - _NEAR_NATS
        # Only candidates whose scores are the same are mixed.
        alike = [c for c in self.log_densities if c[1:] == self.best[1:]]
        near = [candidate for candidate in alike if self.score(candidate) >= least]
        log_densities = np.array([self.log_densities[candidate] for candidate in near]).T
        tree, log_density_of_tree = self._try_tree() if self.may_try_tree else (None, None)
        weights, tree_weight = weigh_tree(log_densities, log_density_of_tree, self.test_weight)
        # The heaviest candidate stays, even where many share the weight.
        are_kept = weights >= min(_LEAST_SHARE, weights.max())
        chosen = [candidate for candidate, is_kept in zip(near, are_kept) if is_kept]
        tree = tree if tree_weight > 0.0 else None
        return Choices(weights[are_kept] / weights[are_kept].sum(), chosen, tree, tree_weight)

    def _try_tree(self) -> tuple[TreeChoice, Floats]:
        """How a tree of hidden variables is learned, and its log densities of held-out rows."""
        columns = self._learners(self.best)[0][0].columns
        first_part = self.parts[0]
        tree, choice = choose_table_tree(columns, *first_part, self.seed)
        log_density_of_parts = []
        for part in self.parts:
            if part is not first_part:
                tree = learn_table_tree(columns, part.rows, part.weight, choice, self.seed)
            circuit = table_circuit(columns, None, part.rows.shape[1], tree, 1.0)
            log_density_of_parts.append(log_likelihood(circuit, part.test_rows))
        return choice, np.concatenate(log_density_of_parts)

    def _learners(self, candidate: Candidate) -> list[tuple[_Learner, MixtureRows]]:
        """For each part a learner of its rows, and its held-out rows."""
        # Learners depend on the scores of columns, not on the mixture.
        scores_alike = candidate._replace(params=MixtureParams(1))
        if scores_alike not in self.learners:
            columns = _columns_for(self.table, candidate)
            self.learners[scores_alike] = [
                (
                    _Learner(columns, part.rows, part.weight, self.seed),
                    columns.cells(part.test_rows),
                )
                for part in self.parts
            ]
        return self.learners[scores_alike]

    def _try(self, candidates: Iterable[Candidate]) -> None:
        """Try all candidates, however many of them are no better."""
        self.best = best_of([self.best, *candidates], self.score, math.inf)

    def _walk(self, name: str, values: Sequence[Any]) -> None:
        """Try greater and lower values of a parameter until some in a row are no better."""
        value_now = getattr(self.best.params, name)
        greater = [value for value in values if value > value_now]
        lower = [value for value in values if value < value_now][::-1]
        for ordered in (greater, lower):
            self.best = best_of(self._along(name, ordered), self.score, _PATIENCE)

    def _along(self, name: str, values: Sequence[Any]) -> Iterator[Candidate]:
        """The best candidate, then those with other values until one is much worse."""
        base = self.best
        candidates = [base, *(base.but(**{name: value}) for value in values)]
        for place, candidate in enumerate(candidates):
            yield candidate
            if self.score(candidate) < max(map(self.score, candidates[: place + 1])) - _NEAR_NATS:
                return

    def _try_factors(self) -> None:
        """Try numbers of factors in a wide table: powers of two, then steps that are halved."""
        if self.most_factors < 1:
            return
        without_factors = self.best
        count = self.counts[0]
        self.best = without_factors._replace(params=MixtureParams(count, n_factors=1))
        self._walk("n_factors", [n for n in _N_FACTORS if n <= self.most_factors])
        step = self.best.params.n_factors // 4 or 1
        while step:
            n = self.best.params.n_factors
            near = [m for m in (n - step, n + step) if 0 < m <= self.most_factors]
            self._try(self.best.but(n_factors=m) for m in near)
            step //= 2
        self._try([without_factors])


def _few_gaussians(table: TableRows, part: HeldOutRows, seed: int) -> _Search:
    """A search whose mixtures have a few Gaussians: enough to compare scores, or a tree, with."""
    n_components = 8
    return _Search(table, [part], n_components, seed)


def _combinations(columns: TableColumns, states: Any, crossed: tuple[int, ...]) -> Floats:
    """Which combination of crossed states each row has, as shares; (n_combinations, n_rows).

    A row whose state is missing is divided by the shares of the states in the column.
    """
    dense = (states.toarray() if hasattr(states, "toarray") else states).T
    shares = np.ones((1, dense.shape[1]))
    for table in crossed:
        part = segment(columns.state_ptr, table)
        known = dense[part].any(axis=0)
        share = np.where(known, dense[part], columns.share[part, np.newaxis])
        shares = (shares[:, np.newaxis] * share).reshape(-1, dense.shape[1])
    return shares


def _work(rows: Floats, candidates: Sequence[Candidate]) -> float:
    """About how many products it takes to fit candidates to rows."""
    n_components = sum(candidate.params.n_components for candidate in candidates)
    # Iterations that a fit usually takes.
    usual_iterations = 10.0
    return usual_iterations * n_components * float(rows.size) * rows.shape[1]


def _columns_for(table: TableRows, candidate: Candidate) -> TableColumns:
    """The columns, with the scores of a candidate."""
    numbers = [
        n and n._replace(score=candidate.score_of(n, v)) for v, n in enumerate(table.numbers)
    ]
    return TableColumns.from_rows(*table[:3], numbers, table.axes)


def _are_bent(table: TableRows) -> list[bool]:
    """Whether the score of each column is not linear."""
    return [law is not None and law.score != law.linear_score for law in table.numbers]


def _linear(table: TableRows) -> list[tuple[int, ...]]:
    """Sets of columns whose scores may be linear instead: none, those others explain, and all."""
    explained = np.where(_are_bent(table), explained_by_others(table), -np.inf)
    return [tuple(np.flatnonzero(explained > least).tolist()) for least in _EXPLAINED_SHARES]


def explained_by_others(table: TableRows) -> Floats:
    """Share of the variance of each linear score that the others explain; -inf for categories.

    One Gaussian of all numbers tells it; the share is adjusted for the number of columns.
    """
    numbers = np.flatnonzero(table.n_states == 0)
    candidate = Candidate(MixtureParams(1), tuple(numbers.tolist()))
    columns = _columns_for(table, candidate)
    gaussian = _Learner(columns, table.rows, table.weight, 0).fit(candidate.params).gaussians
    alone = 1.0 / np.diagonal(gaussian.precision[0]) / np.diagonal(gaussian.covariance[0])
    n_rows = table.weight.sum()
    explained = np.full(len(table.n_states), -np.inf)
    if n_rows > len(numbers):
        explained[numbers] = 1.0 - alone * (n_rows - 1.0) / (n_rows - len(numbers))
    return explained
