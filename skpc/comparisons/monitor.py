"""A monitor that tests batch after batch of a stream for drift, by betting on p-values."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skpc._arrays import Floats
from skpc._fitting import all_or_nothing
from skpc._validation import AT_LEAST_ONE, FRACTION, HasMethods, check_table, fit_context
from skpc.comparisons.result import ComparisonResult, pvalues
from skpc.comparisons.two_sample import cell_values, compare_columns, draw_labels
from skpc.domain import present_rows
from skpc.estimators.soft_learn import SoftLearnSPN

#: Powers of the bets: with one nothing is at stake, with smaller ones small p-values pay more.
POWERS = np.array([1.0, 0.3, 0.1])
#: Share of the capital that is spread evenly over the bets before each batch: a part that has come
#: near zero could not recover otherwise.
SPREAD_SHARE = 0.03


class Capital(NamedTuple):
    """The capital of a test martingale, in a part for each of ``POWERS``."""

    parts: Floats

    @classmethod
    def at_start(cls) -> Self:
        """A total of one, in equal parts."""
        return cls(np.full(len(POWERS), 1.0 / len(POWERS)))

    @property
    def total(self) -> float:
        """The sum of the parts."""
        return float(self.parts.sum())

    def after(self, pvalue: float) -> Self:
        """The capital after a bet, before which a share of it is spread evenly over the parts."""
        spread = SPREAD_SHARE * self.parts.mean()
        staked = (1.0 - SPREAD_SHARE) * self.parts + spread
        return type(self)(staked * POWERS * pvalue ** (POWERS - 1.0))


@dataclass(kw_only=True, eq=False, repr=False)
class DriftMonitor(BaseEstimator):
    """Watch a stream of tables, with a bound on false alarms however long it runs.

    Each batch is compared with the rows before it by :func:`two_sample_test`, and its p-value is
    bet against: a capital starts at 1, and grows where p-values are small. As long as the rows are
    exchangeable, it is a martingale, and reaches ``1 / level`` with probability ``level`` at most.

    Parameters
    ----------
    density : density estimator, default=None
        Learns from half of the reference; a clone of it does. None: a :class:`~skpc.SoftLearnSPN`.
    level : float, default=0.05
        Probability of a false alarm, over all batches up to the first alarm together.
    n_permutations : int, default=999
        Number of times that rows are dealt at random, for each batch.
    random_state : int, RandomState instance or None, default=None
        Divides the reference, deals rows, and breaks ties of p-values.

    Attributes
    ----------
    density_ : density estimator
        Fitted on one half of the reference.
    history_ : list of dict
        One for each batch: "pvalue" (ties being broken at random, uniform as long as nothing has
        changed), "capital" that is reached, "alarm", and "column", the one that differs most.

    Notes
    -----
    The p-values of the batches are independent and uniform, if all rows are exchangeable (Vovk). A
    bet with power a multiplies its part of the capital by :math:`a p^{a - 1}`; the parts are dealt
    anew a little at each batch, so that capital is left for a late change. After an alarm the
    capital is 1 again, and the rows stay: after a lasting change fit a new monitor.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.comparisons import DriftMonitor
    >>> rng = np.random.default_rng(0)
    >>> monitor = DriftMonitor(random_state=0).fit(rng.normal(size=(600, 2)))
    >>> for shift in (0.0, 0.0, 1.0, 1.0):
    ...     result = monitor.test(rng.normal(size=(100, 2)) + [shift, 0.0])
    >>> (
    ...     [batch["alarm"] for batch in monitor.history_],
    ...     monitor.history_[2]["column"],
    ... )
    ([False, False, False, True], 0)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "density": [HasMethods(["fit", "score_cells"]), None],
        "level": [FRACTION],
        "n_permutations": [AT_LEAST_ONE],
        "random_state": ["random_state"],
    }

    density: Any = field(default=None, kw_only=False)
    level: float = 0.05
    n_permutations: int = 999
    random_state: Any = None

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, reference: Any) -> Self:
        """Learn from one half of the reference, and keep the other one to compare with.

        Parameters
        ----------
        reference : array-like or DataFrame of shape (n_rows, n_features)
            Rows of the time before any change; NaN (or None) marks missing cells.

        Returns
        -------
        DriftMonitor
            The fitted monitor.
        """
        with all_or_nothing(self):
            self._random_state = check_random_state(self.random_state)
            table = check_table(self, reference, reset=True)
            # A density finds its training rows more probable than new ones, so one half of the rows
            # teaches it and the other one is kept to compare with.
            is_kept = self._random_state.permutation(len(table)) % 2 == 1
            model = SoftLearnSPN(random_state=0) if self.density is None else clone(self.density)
            # `present_rows` leaves out rows of weight zero.
            training_rows, _ = present_rows(table, 1.0 * ~is_kept)
            reference_rows, _ = present_rows(table, 1.0 * is_kept)
            self.density_ = model.fit(training_rows)
            self._values, _ = cell_values(self.density_, reference_rows, missingness=True)
            self.history_: list[dict[str, Any]] = []
            self._capital = Capital.at_start()
        return self

    def test(self, batch: Any) -> ComparisonResult:
        """Compare a batch with all rows before it, and bet.

        Parameters
        ----------
        batch : array-like or DataFrame of shape (n_rows, n_features)
            The next rows of the stream.

        Returns
        -------
        ComparisonResult
            Of this batch alone, as from :func:`two_sample_test`; ``history_`` says whether there
            is an alarm. Its p-values count ties against a change; the one in ``history_`` breaks
            them at random.

        Raises
        ------
        ValueError
            If the batch has other columns than the reference.
        """
        check_is_fitted(self)
        batch = check_table(self, batch, reset=False)
        batch_values, column_of_value = cell_values(self.density_, batch, missingness=True)
        n_before = len(self._values)
        values = np.vstack([self._values, batch_values])
        # Each row is a unit of its own.
        unit = np.arange(len(values))
        is_batch = unit >= n_before
        label_batches = draw_labels(is_batch, unit, self.n_permutations, self._random_state)
        result, null_statistics = compare_columns(
            values, column_of_value, is_batch, self.density_.domain_, label_batches
        )
        # Ties broken at random make the p-value uniform, which the bets need.
        tie_break = self._random_state.uniform()
        pvalue = float(pvalues(np.array(result.statistic), null_statistics, tie_break))
        capital = self._capital.after(pvalue)
        alarm = capital.total >= 1.0 / self.level
        # After an alarm the capital starts anew, or all later batches would raise an alarm too.
        self._capital = Capital.at_start() if alarm else capital
        # The next batch is compared with this one too.
        self._values = values
        column = result.columns["statistic"].idxmax()
        entry = {"pvalue": pvalue, "capital": capital.total, "alarm": alarm, "column": column}
        self.history_.append(entry)
        return result
