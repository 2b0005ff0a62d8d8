"""The analysis that completed tables are meant for: a regression of an outcome on other columns.

Where a user names the analysis, missing covariates are drawn in agreement with it: their own
regressions propose candidates, and these are weighed by the density of the outcome given the row
with each candidate. Outcomes are numbers, two categories, or times of events.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import softmax

from skpc._arrays import SMALLEST_NORMAL, Bools, Floats, picked
from skpc.domain import Domain
from skpc.imputation.column_regressions import MatchedNumbers
from skpc.imputation.passive import columns_read, with_any_cells
from skpc.imputation.regressions import (
    HazardDraw,
    LinearDraw,
    LogitDraw,
    RiskSets,
    draw_hazards,
    draw_linear,
    draw_logit,
)
from skpc.imputation.terms import ProductTerms, read_formula

#: Greatest number of rows from which the density of an outcome is estimated.
_N_NEAR = 50
_EXAMPLE = '("wage", ["school", ("school", "school")])'


class Proposals(NamedTuple):
    """Candidates for the missing cells of one column, proposed by its own regression.

    Parameters
    ----------
    cells : ndarray of shape (n_rows, n_candidates)
        Encoded cells.
    log_weight : ndarray of shape (n_rows, n_candidates)
        Log probabilities of the candidates by the regression, up to a constant.
    """

    cells: Floats
    log_weight: Floats

    @classmethod
    def of(
        cls,
        regression: Any,
        design: Floats,
        random_state: np.random.RandomState,
        predictors: Any,
        column: int,
    ) -> Self:
        """Propose all categories; or predictions plus errors of donors, as observed numbers.

        ``design`` (n_rows, n_terms) are the terms of the rows that lack the cell; ``predictors``
        those of the chain, which have the scale and the observed numbers of the column.
        """
        if not isinstance(regression, MatchedNumbers):
            prob = regression.probabilities(design)
            cells = np.broadcast_to(np.arange(float(prob.shape[1])), prob.shape)
            # A probability that has underflowed to zero has no logarithm.
            return cls(cells, np.log(np.maximum(prob, SMALLEST_NORMAL)))
        row_predictions = design @ regression.coefficients
        # Candidates for a missing number.
        n_candidates = 50
        donors, weight = regression.nearest(row_predictions, n_candidates, random_state)
        # Donors lend their errors, not their numbers, to the prediction of the row.
        errors = predictors.scaled(column, regression.values) - regression.predictions
        proposed = row_predictions[:, np.newaxis] + errors[donors]
        # Each candidate is rounded to the nearest observed number.
        values = predictors.levels[column]
        places = predictors.scaled(column, values)
        middles = 0.5 * (places[1:] + places[:-1])
        cells = values[np.searchsorted(middles, proposed)]
        # With fewer donors than candidates, the last candidates have weight zero.
        with np.errstate(divide="ignore"):
            return cls(cells, np.log(weight))


class NearOutcomes(NamedTuple):
    """A linear analysis whose errors are estimated from rows with similar predictions.

    Counts, and amounts with zeros, have no normal errors. Under normal errors a great outcome would
    decide its covariates alone, and zeros would be impossible where predictions are great.

    Parameters
    ----------
    coefficients : ndarray of shape (n_terms,)
        A draw of the coefficients from their posterior.
    predictions, values : ndarray of shape (n_rows,)
        Predictions, increasing, and outcomes of the rows that were learned from.
    bandwidth : float
        Scale of the kernel around each outcome of a near row.
    """

    coefficients: Floats
    predictions: Floats
    values: Floats
    bandwidth: float

    def log_density(self, values: Floats, design: Floats) -> Floats:
        """Log density of outcomes given the terms of their rows."""
        predictions = design @ self.coefficients
        begin = np.searchsorted(self.predictions, predictions)
        end = np.searchsorted(self.predictions, predictions, side="right")
        # Of few rows only a fifth have similar predictions.
        n_near = min(_N_NEAR, len(self.values) // 5)
        # The window is centred on all rows that have the same prediction, however many.
        start = np.clip((begin + end - n_near) // 2, 0, len(self.values) - n_near)
        near = self.values[start[:, np.newaxis] + np.arange(n_near)]
        distance = (values[:, np.newaxis] - near) / self.bandwidth
        # The kernel is Student's t of three degrees of freedom.
        kernel = np.mean((1.0 + distance**2) ** -2.0, axis=1)
        return np.log(kernel / (0.5 * np.pi * self.bandwidth))


def draw_number(
    design: Floats, values: Floats, weight: Floats, random_state: np.random.RandomState
) -> LinearDraw | NearOutcomes:
    """Draw the coefficients of a linear analysis, and choose normal errors or those of near rows.

    See :func:`draw_linear` for the parameters. Errors of near rows are chosen if half of the rows
    predict the outcomes of the other half better than normal errors do.
    """
    drawn = draw_linear(design, values, weight, random_state)
    # An exact relation has rounding errors, by which candidates can still be weighed.
    rounding = np.spacing(np.abs(values).max())
    normal = drawn._replace(sd=max(drawn.sd, rounding))
    if len(values) < 2 * _N_NEAR:
        return normal
    predictions = design @ drawn.estimate
    # Rows with the same prediction stand in a random order.
    order = random_state.permutation(len(values))
    order = order[np.argsort(predictions[order], kind="stable")]
    # The bandwidth in mean absolute errors.
    bandwidth_part = 0.4
    bandwidth = bandwidth_part * np.abs(values - predictions).mean() + rounding
    near = NearOutcomes(drawn.coefficients, predictions[order], values[order], bandwidth)
    near_by_half = NearOutcomes(drawn.estimate, near.predictions[::2], near.values[::2], bandwidth)
    test_data = values[order[1::2]], design[order[1::2]]
    if near_by_half.log_density(*test_data).sum() > normal.log_density(*test_data).sum():
        return near
    return normal


AnalysisDraw = LinearDraw | NearOutcomes | LogitDraw | HazardDraw


class Analysis(NamedTuple):
    """A regression of an outcome on terms of other columns.

    Parameters
    ----------
    kind : {"linear", "logistic", "hazards"}
        The regression: of a number, of two categories, or of times of events.
    outcome : tuple of int
        The column of the outcome; or the columns of a time, and of whether the time is that of an
        event.
    covariates : frozenset of int
        The columns that the terms read.
    terms : callable
        Takes encoded rows of shape (n_rows, n_features), returns terms of shape (n_rows, n_terms).
    """

    kind: str
    outcome: tuple[int, ...]
    covariates: frozenset[int]
    terms: Callable[[Floats], Floats]

    def design(self, rows: Floats) -> Floats:
        """The terms of each row, after a constant."""
        return np.column_stack([np.ones(len(rows)), self.terms(rows)])

    def hazard(self, rows: Floats, weight: Floats) -> tuple[Any, ...]:
        """The column of times, the times of events, and the standardised Nelson-Aalen hazard there.

        Empty for other outcomes.
        """
        if self.kind != "hazards":
            return ()
        sets = RiskSets.of(*self._times(rows), weight)
        # With all risks equal to one, Breslow's estimate is that of Nelson and Aalen.
        cumulative = sets.cumulative(weight)
        spread = np.std(cumulative)
        standard = (cumulative - cumulative.mean()) / (spread if spread > 0.0 else 1.0)
        return self.outcome[0], sets.times, standard

    def draw(
        self,
        rows: Floats,
        missing: Bools,
        weight: Floats,
        random_state: np.random.RandomState,
        last: Any = None,
    ) -> AnalysisDraw:
        """Draw the coefficients given complete rows.

        Parameters
        ----------
        rows : ndarray of shape (n_rows, n_features)
            The rows, filled.
        missing : ndarray of shape (n_rows, n_features), bool
            Which cells were filled; rows with a filled outcome are left out.
        weight : ndarray of shape (n_rows,)
        random_state : RandomState
        last : AnalysisDraw, default=None
            A draw given nearly the same rows.
        """
        has_outcome = ~missing[:, list(self.outcome)].any(axis=1)
        rows = rows[has_outcome]
        weight = weight[has_outcome]
        design = self.design(rows)
        if self.kind == "linear":
            return draw_number(design, rows[:, self.outcome[0]], weight, random_state)
        # The last draw is near the new one, so that Newton's method needs few steps from there.
        start = None if last is None else last.standardised
        if self.kind == "logistic":
            states = rows[:, self.outcome[0]].astype(np.int64)
            return draw_logit(design, states, 2, weight, random_state, start)
        return draw_hazards(design, *self._times(rows), weight, random_state, start)

    def log_density(self, draw: Any, rows: Floats) -> Floats:
        """Log density of the outcome of each complete row, up to a constant (nats)."""
        design = self.design(rows)
        if self.kind == "linear":
            return np.asarray(draw.log_density(rows[:, self.outcome[0]], design))
        if self.kind == "logistic":
            prob = draw.probabilities(design)
            states = rows[:, self.outcome[0]].astype(np.int64)
            return np.log(np.maximum(picked(prob, states), SMALLEST_NORMAL))
        return draw.log_density(design, *self._times(rows))

    def weighed(self, draw: Any, proposals: Proposals, rows: Floats, column: int) -> Floats:
        """Probabilities of the candidates for a covariate, given the row and its outcome.

        Parameters
        ----------
        draw : AnalysisDraw
        proposals : Proposals
        rows : ndarray of shape (n_rows, n_features)
            The rows; their cells of the column do not matter.
        column : int
            The covariate.

        Returns
        -------
        ndarray of shape (n_rows, n_candidates)
            Probabilities of the candidates.
        """
        # Candidates stand below each other, shape (n_rows * n_candidates, n_features).
        repeated = np.repeat(rows, proposals.cells.shape[1], axis=0)
        repeated[:, column] = proposals.cells.ravel()
        log_density = self.log_density(draw, repeated).reshape(proposals.cells.shape)
        return np.asarray(softmax(proposals.log_weight + log_density, axis=1))

    def _times(self, rows: Floats) -> tuple[Floats, Bools]:
        """The time of each row, and whether it is that of an event."""
        time, event = self.outcome
        return rows[:, time], rows[:, event] == 1.0


def read_analysis(model: Any, domain: Domain, rows: Floats) -> Analysis:
    """Read the analysis that a user has named.

    Parameters
    ----------
    model : tuple or str
        An outcome, or a pair of a time and an event, and a list of predictors: names, and tuples of
        names for their products. Or a formula.
    domain : Domain
        What the columns are.
    rows : ndarray of shape (n_rows, n_features)
        Encoded rows, NaN where missing.

    Returns
    -------
    Analysis

    Raises
    ------
    TypeError
        If the model has another form.
    ValueError
        If a column does not exist, the outcome is a predictor, or of the wrong kind.
    ImportError
        If a formula is given, and neither formulaic nor patsy is installed.
    """
    terms: Any
    if isinstance(model, str):
        name, terms = read_formula(model, domain, with_any_cells(rows))
        outcome = _columns(domain, [name])
        covariates = frozenset(columns_read(terms, terms.rows).tolist())
    else:
        outcome_names, predictors = _checked_model(model)
        outcome = _columns(domain, outcome_names)
        names = [term if isinstance(term, tuple) else (term,) for term in predictors]
        products = tuple(_columns(domain, term) for term in names)
        covariates = frozenset(column for columns in products for column in columns)
        n_states = np.where(domain.is_categorical, domain.n_states, 0).tolist()
        terms = ProductTerms(products, tuple(n_states))
    if not covariates:
        raise ValueError(f"model must have at least one predictor, as {_EXAMPLE}; found {model!r}.")
    # An outcome among its own predictors would explain itself.
    for column in outcome:
        if column in covariates:
            name = domain[column].where
            raise ValueError(
                f"model has {name} as its outcome and as a predictor; found {model!r}."
            )
    return Analysis(_kind_of(domain, rows, outcome), outcome, covariates, terms)


def _checked_model(model: Any) -> tuple[list[Any], list[Any]]:
    """The names of the outcome, and the predictors."""
    if not isinstance(model, tuple) or len(model) != 2 or not isinstance(model[1], list):
        raise TypeError(
            "model must be a pair of an outcome and a list of predictors, such as "
            f"{_EXAMPLE}, or a formula; found {model!r}."
        )
    outcome, predictors = model
    names = list(outcome) if isinstance(outcome, tuple) else [outcome]
    if len(names) not in (1, 2):
        raise ValueError(
            "The outcome of model must be a column, or a pair of the columns of a time and of "
            f"whether it is that of an event; found {outcome!r}."
        )
    return names, predictors


def _columns(domain: Domain, names: Any) -> tuple[int, ...]:
    """Numbers of columns by their names; refuses columns that learners do not see."""
    columns = domain.column_numbers_of([*names], "model").tolist()
    for column in columns:
        if domain.is_hidden[column]:
            name = domain[column].where
            raise ValueError(f"model names {name}, which is empty or names the rows; leave it out.")
    return tuple(columns)


def _kind_of(domain: Domain, rows: Floats, outcome: tuple[int, ...]) -> str:
    """The kind of regression that an outcome needs; refuses outcomes of no kind."""
    if len(outcome) == 2:
        _check_times(domain, rows, outcome)
        return "hazards"
    (column,) = outcome
    labels = domain[column].states
    if labels is None:
        return "linear"
    if len(labels) == 2:
        return "logistic"
    raise ValueError(
        f"The outcome {domain[column].where} of model must be a number or "
        f"have two categories; found {len(labels)} categories. Leave model out, or state the "
        "column as a number."
    )


def _check_times(domain: Domain, rows: Floats, outcome: tuple[int, ...]) -> None:
    """Refuse pairs of columns that are not times and whether each is that of an event."""
    time, event = outcome
    labels = domain[event].states
    is_binary = labels is not None and len(labels) == 2
    if domain.is_categorical[time] or not is_binary or not (rows[:, event] == 1.0).any():
        raise ValueError(
            "The outcome of model must be a column of times and one of two categories, the second "
            "of which is an event (True of False and True, 1 of 0 and 1) and occurs; found "
            f"{domain[time].where} and "
            f"{domain[event].where}."
        )
    # Strings are in the order of the alphabet, which says nothing of what an event is.
    if domain[event].why == "strings":
        first, second = map(repr, domain[event].labels)
        raise ValueError(
            f"model needs to know which value of {domain[event].where} is an event, and strings do "
            f"not say it; found {first} and {second}. Make it a column of True and False, or a "
            "pandas.Categorical whose second category is an event."
        )
    for column in outcome:
        n_missing = int(np.isnan(rows[:, column]).sum())
        if n_missing:
            raise ValueError(
                "Times and events must be complete, a censored time being that of the end of "
                f"observation; found {n_missing} missing in {domain[column].where}. Leave these "
                "rows out."
            )
