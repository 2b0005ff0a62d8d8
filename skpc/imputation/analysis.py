"""The analysis that completed tables are meant for, as a density of its outcome given a row.

Where the analysis is named, its covariates are drawn from what both their own regressions and the
analysis say: candidates are weighed by the density of the outcome given the row with each of them.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import softmax

from skpc._arrays import SMALLEST_NORMAL, Bools, Floats, Ints, group_sums, picked
from skpc.domain import Domain
from skpc.imputation.passive import columns_read, with_any_cells
from skpc.imputation.regressions import (
    Derivatives,
    LinearDraw,
    LogitDraw,
    MatchedNumbers,
    Standardised,
    draw_linear,
    draw_logit,
    mode_of,
)

#: Rows with near predictions, at most.
_N_NEAR = 50
_EXAMPLE = '("wage", ["school", ("school", "school")])'


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
            # A probability that has underflowed to zero has no logarithm.
            return cls(cells, np.log(np.maximum(prob, SMALLEST_NORMAL)))
        aims = design @ regression.coefficients
        # Candidates of a missing number that are weighed.
        n_candidates = 50
        donors, weight = regression.nearest(aims, n_candidates, random_state)
        # Donors lend their errors, not their numbers: the prediction stays that of the row.
        errors = predictors.scaled(column, regression.values) - regression.predictions
        proposed = aims[:, np.newaxis] + errors[donors]
        # The observed number that is nearest.
        values = predictors.levels[column]
        places = predictors.scaled(column, values)
        middles = 0.5 * (places[1:] + places[:-1])
        cells = values[np.searchsorted(middles, proposed)]
        # Where there are fewer donors than candidates, the others weigh nothing.
        with np.errstate(divide="ignore"):
            return cls(cells, np.log(weight))


class NearOutcomes(NamedTuple):
    """Coefficients of a linear analysis whose outcomes are those of rows with near predictions.

    Counts, and amounts with zeros, are no line with normal errors: a single great outcome would
    rule its covariates, and zeros of rows with great predictions would be impossible.

    Parameters
    ----------
    coefficients : ndarray of shape (n_terms,)
        A draw from their posterior.
    predictions, values : ndarray of shape (n_rows,)
        Predictions, increasing, and outcomes of the rows they are learned from.
    reach : float
        How far outcomes are from those of near rows.
    """

    coefficients: Floats
    predictions: Floats
    values: Floats
    reach: float

    def log_density(self, values: Floats, design: Floats) -> Floats:
        """Log density of outcomes."""
        predictions = design @ self.coefficients
        below = np.searchsorted(self.predictions, predictions)
        upto = np.searchsorted(self.predictions, predictions, side="right")
        # A fifth of few rows: more would be near to all.
        n_near = min(_N_NEAR, len(self.values) // 5)
        # The window is centred on all rows that have the same prediction, however many.
        start = np.clip((below + upto - n_near) // 2, 0, len(self.values) - n_near)
        near = self.values[start[:, np.newaxis] + np.arange(n_near)]
        distance = (values[:, np.newaxis] - near) / self.reach
        # Student's t of three degrees of freedom around each of them.
        share = np.mean((1.0 + distance**2) ** -2.0, axis=1)
        return np.log(share / (0.5 * np.pi * self.reach))


def draw_number(
    design: Floats, values: Floats, weight: Floats, random_state: np.random.RandomState
) -> LinearDraw | NearOutcomes:
    """Draw the coefficients of a linear analysis, and choose how outcomes scatter.

    See :func:`draw_linear`. Every second row judges what the others say.
    """
    drawn = draw_linear(design, values, weight, random_state)
    # The errors of an exact relation are rounding: candidates are weighed by distance alone.
    rounding = np.spacing(np.abs(values).max())
    normal = drawn._replace(sd=max(drawn.sd, rounding))
    if len(values) < 2 * _N_NEAR:
        return normal
    predictions = design @ drawn.estimate
    # Rows with one prediction stand in any order.
    order = random_state.permutation(len(values))
    order = order[np.argsort(predictions[order], kind="stable")]
    # How far outcomes of near rows reach, in mean absolute errors.
    reach_part = 0.4
    reach = reach_part * np.abs(values - predictions).mean() + rounding
    near = NearOutcomes(drawn.coefficients, predictions[order], values[order], reach)
    half = NearOutcomes(drawn.estimate, near.predictions[::2], near.values[::2], reach)
    judges = values[order[1::2]], design[order[1::2]]
    if half.log_density(*judges).sum() > normal.log_density(*judges).sum():
        return near
    return normal


class HazardDraw(NamedTuple):
    """Coefficients of proportional hazards, and Breslow's baseline at these.

    Parameters
    ----------
    standardised : ndarray of shape (n_terms,)
        A draw of the coefficients of standardised terms.
    coefficients : ndarray of shape (n_terms,)
        Those of the terms as they are. That of the constant keeps risks near
        one wherever zero is on the scales of the terms.
    times : ndarray of shape (n_times,)
        Times of events, increasing.
    cumulative : ndarray of shape (n_times,)
        The cumulative hazard of a row whose risk is one, at these times.
    """

    standardised: Floats
    coefficients: Floats
    times: Floats
    cumulative: Floats

    def log_density(self, design: Floats, times: Floats, is_event: Bools) -> Floats:
        """Log density of times given the terms of their rows, up to a constant."""
        log_risk = design @ self.coefficients
        # Before the time of any event, the cumulative hazard is zero.
        before = np.searchsorted(self.times, times, side="right")
        cumulative = np.append(0.0, self.cumulative)[before]
        return np.asarray(is_event * log_risk - cumulative * np.exp(log_risk))


class RiskSets(NamedTuple):
    """The rows that are at risk at the times of events.

    Parameters
    ----------
    times : ndarray of shape (n_times,)
        Times of events, increasing.
    n_events : ndarray of shape (n_times,)
        Weight of the events at each of them.
    order : ndarray of shape (n_rows,), int
        The rows by their times, the last first.
    n_at_risk : ndarray of shape (n_times,), int
        How many of these are at risk.
    """

    times: Floats
    n_events: Floats
    order: Ints
    n_at_risk: Ints

    @classmethod
    def of(cls, times: Floats, is_event: Bools, weight: Floats) -> Self:
        """The risk sets of weighed rows with these times, events or censored."""
        event_times, place = np.unique(times[is_event], return_inverse=True)
        order = np.argsort(-times, kind="stable")
        # Rows stand by falling times: those at risk are the ones up to the last of that time.
        n_at_risk = np.searchsorted(-times[order], -event_times, side="right")
        n_events = group_sums(place, weight[is_event])
        return cls(event_times, n_events, order, n_at_risk)

    def sums(self, values: Floats) -> Floats:
        """Sums over the rows at risk at each time; shape (n_times, ...)."""
        # The rows at risk later are among those at risk before: one cumulated sum has all of them.
        return np.asarray(np.cumsum(values[self.order], axis=0)[self.n_at_risk - 1])

    def cumulative(self, risk: Floats) -> Floats:
        """Breslow's cumulative hazard of a row whose risk is one; shape (n_times,)."""
        return np.cumsum(self.n_events / self.sums(risk))


AnalysisDraw = LinearDraw | NearOutcomes | LogitDraw | HazardDraw


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
        sets = RiskSets.of(*self._times(rows), weight)
        # Where the risk of all rows is one, Breslow's hazard is that of Nelson and Aalen.
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
            As they are filled now.
        missing : ndarray of shape (n_rows, n_features), bool
            Which cells have been filled; rows without an outcome of their own say nothing.
        weight : ndarray of shape (n_rows,)
        random_state : RandomState
        last : AnalysisDraw, default=None
            That of nearly the same rows.
        """
        known = ~missing[:, list(self.outcome)].any(axis=1)
        rows = rows[known]
        weight = weight[known]
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
        """Weigh the candidates of a covariate by how well they explain the outcome, too.

        Parameters
        ----------
        draw : AnalysisDraw
        proposals : Proposals
        rows : ndarray of shape (n_rows, n_features)
            The rows, with any cells of the column.
        column : int

        Returns
        -------
        ndarray of shape (n_rows, n_candidates)
            Their probabilities.
        """
        # Candidates stand below each other, shape (n_rows * n_candidates, n_features).
        repeated = np.repeat(rows, proposals.cells.shape[1], axis=0)
        repeated[:, column] = proposals.cells.ravel()
        log_density = self.log_density(draw, repeated).reshape(proposals.cells.shape)
        return np.asarray(softmax(proposals.log_weight + log_density, axis=1))

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
        A constant is its first term; the baseline takes up its coefficient.
    times : ndarray of shape (n_rows,)
        Of events, or of the end of observation.
    is_event : ndarray of shape (n_rows,), bool
    weight : ndarray of shape (n_rows,)
        Positive; a weight of two counts as two rows.
    random_state : RandomState
    start : ndarray of shape (n_terms,), default=None
        Coefficients of standardised terms to begin with.
    """
    # Under random weights of the rows (the Bayesian bootstrap), the mode is a draw.
    weight = random_state.standard_gamma(weight)
    standard = Standardised.fit(design, weight)
    terms = standard.design
    sets = RiskSets.of(times, is_event, weight)
    event_weight = weight * is_event
    before = np.searchsorted(sets.times, times, side="right")

    # Added to the curvature of standardised coefficients of hazards.
    hazard_ridge = 0.1

    def derivatives(coefficients: Floats) -> Derivatives:
        log_risk = terms @ coefficients
        # The baseline takes up a constant, without which risks may overflow.
        log_risk -= log_risk.max()
        risk = weight * np.exp(log_risk)
        at_risk = sets.sums(risk)
        # Mean terms of the rows at risk at each time, shape (n_times, n_terms).
        mean = sets.sums(risk[:, np.newaxis] * terms) / at_risk[:, np.newaxis]
        # Each row counts by the hazard that it has been under.
        exposure = risk * np.append(0.0, sets.cumulative(risk))[before]
        # Second moments are summed over all risk sets at once, shape (n_terms, n_terms).
        second = (terms * exposure[:, np.newaxis]).T @ terms
        curvature = second - (mean * sets.n_events[:, np.newaxis]).T @ mean
        log_likelihood = event_weight @ log_risk - sets.n_events @ np.log(at_risk)
        return (
            log_likelihood - 0.5 * hazard_ridge * coefficients @ coefficients,
            (event_weight - exposure) @ terms - hazard_ridge * coefficients,
            curvature + hazard_ridge * np.eye(len(coefficients)),
        )

    start = np.zeros(terms.shape[1]) if start is None else start
    mode = mode_of(derivatives, start)
    coefficients = standard.restored(mode)
    risk = weight * np.exp(design @ coefficients)
    return HazardDraw(mode, coefficients, sets.times, sets.cumulative(risk))


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
                # Each term so far times each of the column, shape (n_rows, n_terms * n_indicators).
                product = (product[:, :, np.newaxis] * factor[:, np.newaxis]).reshape(len(rows), -1)
            terms.append(product)
        return np.concatenate(terms, axis=1)


class FormulaTerms(NamedTuple):
    """The right side of a formula, as formulaic or patsy has read it.

    Parameters
    ----------
    right : str
        The right side of the formula.
    domain : Domain
        What the columns are.
    rows : ndarray of shape (n_rows, n_features)
        Complete encoded rows that the formula has been read with.
    spec : formulaic.ModelSpec or patsy.DesignInfo
        What the terms are.
    """

    right: str
    domain: Domain
    rows: Floats
    spec: Any

    @classmethod
    def fit(cls, right: str, domain: Domain, rows: Floats) -> Self:
        """Read the right side of a formula."""
        table = domain.decode(rows)
        with suppress(ImportError):
            from formulaic import model_matrix

            return cls(right, domain, rows, model_matrix(right, table).model_spec)
        try:
            from patsy import dmatrix
        except ImportError as error:
            raise ImportError(
                "A formula needs formulaic or patsy; install one of them, or give the model as a "
                "pair of an outcome and a list of predictors."
            ) from error
        return cls(right, domain, rows, dmatrix(right, _arrays(table)).design_info)

    def __call__(self, rows: Floats) -> Floats:
        """The terms of encoded rows; shape (n_rows, n_terms)."""
        table = self.domain.decode(self.domain.within_ends(rows))
        if hasattr(self.spec, "get_model_matrix"):
            terms = self.spec.get_model_matrix(table)
        else:
            from patsy import build_design_matrices

            terms = build_design_matrices([self.spec], _arrays(table))[0]
        terms = np.asarray(terms, dtype=np.float64)
        if len(terms) != len(rows) or not np.isfinite(terms).all():
            raise ValueError(
                f"The formula must give finite terms for all cells that its columns can have; "
                f"'{self.right.strip()}' does not. Leave out columns that are empty or name the "
                "rows, and state the bounds of numbers in the domain, as bounds={'x': (0, None)}."
            )
        return terms

    def __reduce__(self) -> tuple[Any, ...]:
        # What patsy has read cannot be pickled.
        return FormulaTerms.fit, (self.right, self.domain, self.rows)


def _arrays(table: Any) -> dict[Any, Any]:
    """The columns of a DataFrame, as patsy reads those of any library."""
    return {name: np.asarray(table[name]) for name in table.columns}


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
        name, terms = _read_formula(model, domain, with_any_cells(rows))
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
    for column in outcome:
        if column in covariates:
            name = domain[column].where
            raise ValueError(
                f"model has {name} as its outcome and as a predictor; found {model!r}."
            )
    if len(outcome) == 2:
        _check_times(domain, rows, outcome)
    kind = "hazards" if len(outcome) == 2 else _kind_of(domain, outcome[0])
    return Analysis(kind, outcome, covariates, terms)


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
    """Numbers of columns, which learners see."""
    columns = domain.places([*names], "model").tolist()
    for column in columns:
        if domain.is_hidden[column]:
            name = domain[column].where
            raise ValueError(f"model names {name}, which is empty or names the rows; leave it out.")
    return tuple(columns)


def _kind_of(domain: Domain, column: int) -> str:
    """What kind of regression an outcome needs."""
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
    """Refuse outcomes that are no times with an event or a censoring each."""
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


def _read_formula(formula: str, domain: Domain, rows: Floats) -> tuple[str, FormulaTerms]:
    """The outcome of a formula, and its terms."""
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
    try:
        terms = FormulaTerms.fit(right, domain, rows)
    # It is not the formula that is wrong where no library can read it.
    except ImportError:
        raise
    except Exception as error:
        raise ValueError(f"The formula {formula!r} cannot be read: {error}") from error
    return outcome, terms
