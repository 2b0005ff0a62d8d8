"""The analysis that completed tables are meant for, as a density of its outcome given a row.

Where the analysis is named, its covariates are drawn from what both their own regressions and the
analysis say: candidates are weighed by the density of the outcome given the row with each of them.
"""

import io
import tokenize
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import stats
from scipy.special import softmax

from skpc._arrays import Bools, Floats
from skpc._validation import describe_column
from skpc.domain import Domain
from skpc.imputation.regressions import (
    LogitDraw,
    MatchedNumbers,
    Standardised,
    draw_linear,
    draw_logit,
    draw_states,
)

#: Candidates of a missing number that are weighed.
_N_CANDIDATES = 50
#: Degrees of freedom that errors of a linear analysis may have: those of Student's t that fits them
#: best. Errors of counts and amounts are longer than normal ones, whose density would let a single
#: great outcome rule its covariates.
_FREEDOMS = np.array([2.0, 3.0, 4.0, 6.0, 10.0, 20.0, 50.0, 1000.0])
_N_SCALE_STEPS = 20
#: Steps of Newton's method for hazards; the longest one, and the one that ends them.
_MAX_STEPS, _LONGEST_STEP, _SMALL_STEP = 25, 3.0, 1e-6
#: Added to the curvature of standardised coefficients of hazards.
_HAZARD_RIDGE = 0.1


class Proposals(NamedTuple):
    """Candidates for the missing cells of one column, by the regression of the column alone.

    Parameters
    ----------
    cells : ndarray of shape (n_rows, n_candidates)
        Encoded cells.
    log_weight : ndarray of shape (n_rows, n_candidates)
        Their log probabilities by the regression, up to a constant.
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
        """All categories; or predictions with errors of near donors, as numbers of the column."""
        if not isinstance(regression, MatchedNumbers):
            prob = regression.probabilities(design)
            cells = np.broadcast_to(np.arange(float(prob.shape[1])), prob.shape)
            return cls(cells, np.log(np.maximum(prob, np.finfo(float).tiny)))
        aims = design @ regression.coefficients
        donors, weight = regression.nearest(aims, _N_CANDIDATES, random_state)
        errors = predictors.scaled(column, regression.values) - regression.predictions
        proposed = aims[:, np.newaxis] + errors[donors]
        # The number of the column that is nearest.
        values = np.unique(regression.values)
        places = predictors.scaled(column, values)
        middles = 0.5 * (places[1:] + places[:-1])
        cells = values[np.searchsorted(middles, proposed)]
        with np.errstate(divide="ignore"):
            return cls(cells, np.log(weight))


class NumberDraw(NamedTuple):
    """Coefficients of a linear analysis, and the distribution of its errors.

    Parameters
    ----------
    coefficients : ndarray of shape (n_terms,)
        A draw from their posterior.
    freedom, scale : float
        Of the errors, which have Student's t distribution.
    """

    coefficients: Floats
    freedom: float
    scale: float

    @classmethod
    def fit(
        cls, design: Floats, values: Floats, weight: Floats, random_state: np.random.RandomState
    ) -> Self:
        """Draw the coefficients; see :func:`draw_linear`."""
        drawn = draw_linear(design, values, weight, random_state)
        errors = values - design @ drawn.estimate
        freedom, scale = _student(errors, weight)
        spread = np.sqrt(weight @ errors**2 / weight.sum())
        # The scale is as uncertain as the standard deviation.
        uncertainty = drawn.sd / spread if spread > 0.0 else 1.0
        return cls(drawn.coefficients, freedom, scale * uncertainty)

    def log_density(self, errors: Floats) -> Floats:
        """Log density of errors, up to a constant."""
        # An exact relation weighs by distance alone.
        scale = self.scale if self.scale > 0.0 else np.finfo(float).tiny
        with np.errstate(over="ignore"):
            squares = (errors / scale) ** 2 / self.freedom
        return np.asarray(-0.5 * (self.freedom + 1.0) * np.log1p(squares))


def _student(errors: Floats, weight: Floats) -> tuple[float, float]:
    """Degrees of freedom and scale of Student's t that fit errors best."""
    best = -np.inf
    freedom, scale = float(_FREEDOMS[-1]), float(np.sqrt(weight @ errors**2 / weight.sum()))
    if scale == 0.0:
        return freedom, scale
    for candidate in _FREEDOMS:
        square = scale**2
        # Expectation and maximisation of a scale mixture of normals.
        for _ in range(_N_SCALE_STEPS):
            precision = (candidate + 1.0) / (candidate + errors**2 / square)
            square = weight @ (precision * errors**2) / weight.sum()
        log_density = stats.t.logpdf(errors, candidate, scale=np.sqrt(square))
        fit = float(weight @ log_density)
        if fit > best:
            best, freedom, scale = fit, float(candidate), float(np.sqrt(square))
    return freedom, scale


class HazardDraw(NamedTuple):
    """Coefficients of proportional hazards, and Breslow's baseline at these.

    Parameters
    ----------
    mode : ndarray of shape (n_terms,)
        Those with the greatest partial likelihood, of standardised terms.
    coefficients : ndarray of shape (n_terms,)
        A draw from their posterior, of the terms as they are.
    times : ndarray of shape (n_times,)
        Times of events, increasing.
    cumulative : ndarray of shape (n_times,)
        The cumulative hazard of a row whose terms are zero, at these times.
    """

    mode: Floats
    coefficients: Floats
    times: Floats
    cumulative: Floats


AnalysisDraw = NumberDraw | LogitDraw | HazardDraw


class Analysis(NamedTuple):
    """A regression of an outcome on terms of other columns.

    Parameters
    ----------
    kind : {"linear", "logistic", "hazards"}
        What the outcome is.
    outcome : tuple of int
        Its column, or those of a time and of whether it is that of an event.
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
        """The column of times, and the Nelson-Aalen hazard at times; empty for other outcomes."""
        if self.kind != "hazards":
            return ()
        times, cumulative = _cumulative_hazard(*self._times(rows), weight, weight)
        spread = np.std(cumulative)
        standard = (cumulative - cumulative.mean()) / (spread if spread > 0.0 else 1.0)
        return self.outcome[0], times, standard

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
            As they are filled now.
        missing : ndarray of shape (n_rows, n_features), bool
            Which cells have been filled; rows without an outcome of their own say nothing.
        weight : ndarray of shape (n_rows,)
        random_state : RandomState
        last : AnalysisDraw, default=None
            That of nearly the same rows.
        """
        known = ~missing[:, list(self.outcome)].any(axis=1)
        rows, weight = rows[known], weight[known]
        design = self.design(rows)
        if self.kind == "linear":
            return NumberDraw.fit(design, rows[:, self.outcome[0]], weight, random_state)
        start = None if last is None else last.mode
        if self.kind == "logistic":
            states = rows[:, self.outcome[0]].astype(np.int64)
            return draw_logit(design, states, 2, weight, random_state, start)
        return draw_hazards(design[:, 1:], *self._times(rows), weight, random_state, start)

    def log_density(self, draw: Any, rows: Floats) -> Floats:
        """Log density of the outcome of each complete row, up to a constant (nats)."""
        design = self.design(rows)
        if self.kind == "linear":
            return draw.log_density(rows[:, self.outcome[0]] - design @ draw.coefficients)
        if self.kind == "logistic":
            prob = draw.probabilities(design)
            states = rows[:, self.outcome[0]].astype(np.int64)
            return np.log(np.maximum(prob[np.arange(len(rows)), states], np.finfo(float).tiny))
        times, is_event = self._times(rows)
        log_risk = design[:, 1:] @ draw.coefficients
        before = np.searchsorted(draw.times, times, side="right")
        cumulative = np.append(0.0, draw.cumulative)[before]
        return np.asarray(is_event * log_risk - cumulative * np.exp(log_risk))

    def chosen(
        self,
        draw: AnalysisDraw,
        proposals: Proposals,
        rows: Floats,
        column: int,
        random_state: np.random.RandomState,
    ) -> Floats:
        """Choose among the candidates of a covariate by how well they explain the outcome.

        Parameters
        ----------
        draw : AnalysisDraw
        proposals : Proposals
        rows : ndarray of shape (n_rows, n_features)
            The rows, with any cells of the column.
        column : int
        random_state : RandomState

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        n_candidates = proposals.cells.shape[1]
        repeated = np.repeat(rows, n_candidates, axis=0)
        repeated[:, column] = proposals.cells.ravel()
        log_density = self.log_density(draw, repeated).reshape(proposals.cells.shape)
        weight = softmax(proposals.log_weight + log_density, axis=1)
        place = draw_states(weight, random_state).astype(np.int64)
        return proposals.cells[np.arange(len(rows)), place]

    def _times(self, rows: Floats) -> tuple[Floats, Bools]:
        time, event = self.outcome
        return rows[:, time], rows[:, event] == 1.0


def draw_hazards(
    design: Floats,
    times: Floats,
    is_event: Bools,
    weight: Floats,
    random_state: np.random.RandomState,
    start: Floats | None = None,
) -> HazardDraw:
    """Draw the coefficients of proportional hazards, with Breslow's way of equal times.

    Parameters
    ----------
    design : ndarray of shape (n_rows, n_terms)
        Without a constant.
    times : ndarray of shape (n_rows,)
        Of events, or of the end of observation.
    is_event : ndarray of shape (n_rows,), bool
    weight : ndarray of shape (n_rows,)
        Positive; a weight of two counts as two rows.
    random_state : RandomState
    start : ndarray of shape (n_terms,), default=None
        Coefficients of standardised terms to begin with.
    """
    standard = Standardised.fit(np.insert(design, 0, 1.0, axis=1), weight)
    order = np.argsort(-times, kind="stable")
    terms = standard.design[order, 1:]
    mass, happened = weight[order], is_event[order]
    # The rows at risk at a time stand before the last row of this time.
    last = np.searchsorted(-times[order], -times[order], side="right") - 1
    n_terms = design.shape[1]
    mode = np.zeros(n_terms) if start is None else start
    event_weight = mass * happened
    for _ in range(_MAX_STEPS):
        log_risk = terms @ mode
        risk = mass * np.exp(log_risk - log_risk.max())
        at_risk = np.cumsum(risk)[last]
        mean = np.cumsum(risk[:, np.newaxis] * terms, axis=0)[last] / at_risk[:, np.newaxis]
        slope = event_weight @ (terms - mean) - _HAZARD_RIDGE * mode
        # Each row counts by the hazard that it has been under.
        hazard = event_weight / at_risk
        exposure = np.zeros(len(hazard))
        np.add.at(exposure, last, hazard)
        exposure = risk * np.cumsum(exposure[::-1])[::-1]
        second = (terms * exposure[:, np.newaxis]).T @ terms
        curvature = second - (mean * event_weight[:, np.newaxis]).T @ mean
        curvature += _HAZARD_RIDGE * np.eye(n_terms)
        step = np.linalg.solve(curvature, slope)
        longest = np.abs(step).max(initial=0.0)
        mode = mode + step * min(1.0, _LONGEST_STEP / max(longest, _LONGEST_STEP))
        if longest < _SMALL_STEP:
            break
    root = np.linalg.cholesky(curvature)
    noise = np.linalg.solve(root.T, random_state.normal(size=n_terms))
    scale = standard.scale[1:]
    coefficients = (mode + noise) / scale
    risk = weight * np.exp(design @ coefficients)
    return HazardDraw(mode, coefficients, *_cumulative_hazard(times, is_event, weight, risk))


def _cumulative_hazard(
    times: Floats, is_event: Bools, weight: Floats, risk: Floats
) -> tuple[Floats, Floats]:
    """Times of events, increasing, and the hazard until then of a row whose risk is one."""
    event_times, place = np.unique(times[is_event], return_inverse=True)
    n_events = np.bincount(place, weight[is_event])
    order = np.argsort(times)
    before = np.append(0.0, np.cumsum(risk[order]))
    is_past = np.searchsorted(times[order], event_times, side="left")
    at_risk = before[-1] - before[is_past]
    return event_times, np.cumsum(n_events / at_risk)


class ProductTerms(NamedTuple):
    """Terms that are products of columns: of numbers, and of indicators of categories.

    Parameters
    ----------
    products : tuple of tuple of int
        The columns of each term; a column that comes twice is squared.
    n_states : tuple of int
        Number of categories of each column, zero for numbers. All but the first have an indicator.
    """

    products: tuple[tuple[int, ...], ...]
    n_states: tuple[int, ...]

    def __call__(self, rows: Floats) -> Floats:
        """The terms of encoded rows; shape (n_rows, n_terms)."""
        terms = []
        for columns in self.products:
            product = np.ones((len(rows), 1))
            for column in columns:
                factor = rows[:, [column]]
                if self.n_states[column]:
                    factor = (factor == np.arange(1.0, self.n_states[column])).astype(np.float64)
                product = (product[:, :, np.newaxis] * factor[:, np.newaxis]).reshape(len(rows), -1)
            terms.append(product)
        return np.concatenate(terms, axis=1)


class FormulaTerms(NamedTuple):
    """The right side of a formula, as formulaic or patsy has read it.

    Parameters
    ----------
    domain : Domain
        What the columns are.
    spec : formulaic.ModelSpec or patsy.DesignInfo
        What the terms are.
    """

    domain: Domain
    spec: Any

    @classmethod
    def fit(cls, right: str, domain: Domain, rows: Floats) -> Self:
        """Read the right side of a formula.

        Parameters
        ----------
        right : str
        domain : Domain
        rows : ndarray of shape (n_rows, n_features)
            Complete encoded rows in which all categories occur.
        """
        table = domain.decode(rows)
        with suppress(ImportError):
            from formulaic import model_matrix

            return cls(domain, model_matrix(right, table).model_spec)
        try:
            from patsy import dmatrix
        except ImportError as error:
            raise ImportError(
                "A formula needs formulaic or patsy; install one of them, or give the model as a "
                "pair of an outcome and a list of predictors."
            ) from error
        return cls(domain, dmatrix(right, table).design_info)

    def __call__(self, rows: Floats) -> Floats:
        """The terms of encoded rows; shape (n_rows, n_terms)."""
        table = self.domain.decode(rows)
        if hasattr(self.spec, "get_model_matrix"):
            return np.asarray(self.spec.get_model_matrix(table), dtype=np.float64)
        from patsy import build_design_matrices

        return np.asarray(build_design_matrices([self.spec], table)[0], dtype=np.float64)


def read_analysis(model: Any, domain: Domain, rows: Floats) -> Analysis:
    """Read what a user says of an analysis.

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
        name, covariates, terms = _read_formula(model, domain, rows)
        outcome = _columns(domain, [name])
    else:
        outcome_names, predictors = _checked_model(model)
        outcome = _columns(domain, outcome_names)
        names = [term if isinstance(term, tuple) else (term,) for term in predictors]
        products = tuple(_columns(domain, term) for term in names)
        covariates = frozenset(column for columns in products for column in columns)
        n_states = [0 if known is None else len(known) for known in domain.categories]
        terms = ProductTerms(products, tuple(n_states))
    for column in outcome:
        if column in covariates:
            name = describe_column(column, domain.feature_names)
            raise ValueError(
                f"model has {name} as its outcome and as a predictor; found {model!r}."
            )
    if len(outcome) == 2:
        _check_times(domain, rows, outcome)
    kind = "hazards" if len(outcome) == 2 else _kind_of(domain, outcome[0])
    return Analysis(kind, outcome, covariates, terms)


def _checked_model(model: Any) -> tuple[list[Any], list[Any]]:
    """The names of the outcome, and the predictors."""
    example = '("wage", ["school", ("school", "school")])'
    if not isinstance(model, tuple) or len(model) != 2 or not isinstance(model[1], list):
        raise TypeError(
            "model must be a pair of an outcome and a list of predictors, such as "
            f"{example}, or a formula; found {model!r}."
        )
    outcome, predictors = model
    if not predictors:
        raise ValueError(f"model must name at least one predictor, as {example}; found {model!r}.")
    names = list(outcome) if isinstance(outcome, tuple) else [outcome]
    if len(names) > 2:
        raise ValueError(
            "The outcome of model must be a column, or a pair of the columns of a time and of "
            f"whether it is that of an event; found {outcome!r}."
        )
    return names, predictors


def _columns(domain: Domain, names: Any) -> tuple[int, ...]:
    """Numbers of columns, which learners see."""
    columns = domain.columns([*names], "model").tolist()
    for column in columns:
        if domain.unseen.is_hidden[column]:
            name = describe_column(column, domain.feature_names)
            raise ValueError(f"model names {name}, which is empty or names the rows; leave it out.")
    return tuple(columns)


def _kind_of(domain: Domain, column: int) -> str:
    """What kind of regression an outcome needs."""
    labels = domain.categories[column]
    if labels is None:
        return "linear"
    if len(labels) == 2:
        return "logistic"
    raise ValueError(
        f"The outcome {describe_column(column, domain.feature_names)} of model must be a number or "
        f"have two categories; found {len(labels)} categories. Leave model out, or state the "
        "column as a number."
    )


def _check_times(domain: Domain, rows: Floats, outcome: tuple[int, ...]) -> None:
    """Refuse outcomes that are no times with an event or a censoring each."""
    time, event = outcome
    labels = domain.categories[event]
    if domain.is_categorical[time] or labels is None or len(labels) != 2:
        raise ValueError(
            "The outcome of model must be a column of times and one of two categories, the second "
            "of which is an event (True of False and True, 1 of 0 and 1); found "
            f"{describe_column(time, domain.feature_names)} and "
            f"{describe_column(event, domain.feature_names)}."
        )
    lost = np.isnan(rows[:, list(outcome)]).any(axis=1)
    if lost.any():
        raise ValueError(
            "Times and events must be complete, a censored time being that of the end of "
            f"observation; found a missing cell in row {int(lost.argmax())}. Leave these rows out."
        )


def _read_formula(
    formula: str, domain: Domain, rows: Floats
) -> tuple[str, frozenset[int], FormulaTerms]:
    """The outcome of a formula, the columns it reads, and its terms."""
    names = domain.feature_names
    if names is None:
        raise ValueError(f"A formula needs a table with names of columns; found {formula!r}.")
    outcome, separator, right = formula.partition("~")
    outcome = outcome.strip()
    if not separator or outcome not in names:
        raise ValueError(
            "The left side of the formula must be the name of a column, as in 'y ~ x'; found "
            f"{formula!r}."
        )
    words = tokenize.generate_tokens(io.StringIO(right).readline)
    read = {word.string for word in words if word.type == tokenize.NAME}
    variables = [name for name in names if name in read]
    terms = FormulaTerms.fit(right, domain, _with_any_cells(rows))
    return outcome, frozenset(_columns(domain, variables)), terms


def _with_any_cells(rows: Floats) -> Floats:
    """The rows with an observed cell of its column in the place of each missing one."""
    observed = ~np.isnan(rows)
    return np.where(observed, rows, rows[observed.argmax(axis=0), np.arange(rows.shape[1])])
