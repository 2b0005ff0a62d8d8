"""Pools of densities and other models: what classifiers and regressors of this kind share."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone, is_classifier

from skpc._arrays import Floats, Ints
from skpc.domain import Domain, LogMass, canonical_order, group_rows, merge_rows
from skpc.estimators._composition import Composition, refuse_repeated
from skpc.estimators._estimator import DECLARATIONS, TableEstimator, parameter
from skpc.estimators._ranges import domain_and_events, merged_events
from skpc.pooling.folds import given_splits, make_folds
from skpc.pooling.pool import Member, labelled, learn_pool
from skpc.queries import Events
from skpc.variables.margins import MOST_BINS

#: Up to this number of distinct rows the default densities may be those that cost most.
FEW_ROWS = 1_500
#: What a pool asks of a density.
_METHODS = ("fit_rows", "score_samples", "sample")


class PoolEstimator(Composition, TableEstimator):
    """A pool of densities, and of models that learn from masked copies of rows."""

    density: Any = field(default=None, kw_only=False)
    cv: Any = parameter(3, "cv_object")
    missing_rates: Sequence[float] = parameter((0.0, 0.3, 0.6), "array-like")

    #: Names and densities of the members by default.
    _default_densities: ClassVar[tuple[tuple[str, Any], ...]]
    #: The parameter of members that are no densities, a method that they need, and the names that
    #: it may hold in place of models, with what each of them stands for.
    _model_parameter: ClassVar[str]
    _model_method: ClassVar[str]
    _known_models: ClassVar[Mapping[str, str]]

    def _densities(self, random_state: np.random.RandomState) -> list[tuple[str, Any]]:
        """Names and densities, as given or by default."""
        if self.density is not None:
            return self._named("density")
        # Only default densities need a seed: given ones have their own.
        seed = random_state.randint(2**31)
        return [
            (name, clone(model).set_params(random_state=seed))
            for name, model in self._default_densities
        ]

    def _with_others(self, members: list[Member]) -> list[Member]:
        """All members: densities, and models that learn from masked copies.

        Raises
        ------
        TypeError, ValueError
            If a model is not given as it should be, lacks a method, or has the name of a density.
        """
        named_models = self._named(self._model_parameter, self._known_models)
        for name, model in named_models:
            if not isinstance(model, str) and not hasattr(model, self._model_method):
                raise TypeError(
                    f"{self._model_parameter} need {self._model_method}; {name!r}, {model!r}, has "
                    "none."
                )
        members = [*members, *(Member(name, model, False) for name, model in named_models)]
        refuse_repeated(
            [member.name for member in members], f"densities and {self._model_parameter}"
        )
        return members

    def _labelled_rows(
        self, densities: list[tuple[str, Any]], X: Any, y: Any, sample_weight: Any, checked: Any
    ) -> tuple[Floats, Floats, Any]:
        """Learn the domain; distinct encoded rows with the target as last column, weights, splits.

        ``checked`` are the table, its weights and its targets without the rows of weight zero.
        """
        table, weight, target = checked
        named_models = self._named(self._model_parameter, self._known_models)
        # A forest has tables of bins.
        n_bins = MOST_BINS if "forest" in [model for _, model in named_models] else 0
        self.domain_ = shared_domain(densities, type(self).__name__, table, weight, n_bins)
        rows = labelled(self.domain_.encode(table), target)
        distinct = group_rows(rows)[1]
        # Folds that a user gives are about rows of the table, and become those of distinct rows.
        splits = given_splits(self.cv, X, y, sample_weight, distinct, is_classifier(self))
        rows, weight = merge_rows(rows, weight)
        row_order = self._order_columns(rows, weight)
        # A user's own model may name columns by their places: with one, these stay as they are.
        if not all(isinstance(model, str) for _, model in named_models):
            self._order = np.arange(self.domain_.n_features)
        # The folds follow their rows into the new order.
        if isinstance(splits, list):
            splits = [(train_weight[row_order], held[row_order]) for train_weight, held in splits]
        places = np.append(self._order, len(self._order))
        return rows[np.ix_(row_order, places)], weight[row_order], splits

    def _labelled_events(
        self,
        densities: list[tuple[str, Any]],
        X: Any,
        y: Any,
        sample_weight: Any,
        checked: Any,
        random_state: np.random.RandomState,
    ) -> tuple[Events, Floats, Any]:
        """The same of a table with ranges and sets, whose rows are events."""
        table, weight, target = checked
        refuse_without_ranges(densities, "Cells")
        learn_domain = partial(shared_domain, densities, type(self).__name__)
        intervals = densities[0][1].interval_columns
        self.domain_, events = domain_and_events(
            table, weight, intervals, random_state, learn_domain
        )
        events = events.with_cells(labelled(events.rows, target))
        self._order_columns(events.rows, weight)
        events = events.with_columns(np.append(self._order, len(self._order)))
        events, weight, distinct = merged_events(events, weight)
        splits = given_splits(self.cv, X, y, sample_weight, distinct, is_classifier(self))
        return events, weight, splits

    def _order_columns(self, rows: Floats, weight: Floats) -> Ints:
        """Set the order in which members learn the columns, whatever their order in the table.

        The last column, which stays last, is the target. Returned is an order of the rows.
        """
        # The target is of categories for a classifier, else of numbers.
        is_categorical = np.append(self.domain_.is_categorical, is_classifier(self))
        order = canonical_order(rows, weight, is_categorical)
        self._order = order.columns[order.columns != self.domain_.n_features]
        return order.rows

    @property
    def _ordered_domain(self) -> Domain:
        """What the columns are, in the order of the members."""
        return self.domain_.taken(self._order)

    def _events(
        self, X: Any, is_scored: bool = True, takes_ranges: bool = True
    ) -> tuple[Any, Events, LogMass]:
        table, events, mass = super()._events(X, is_scored, takes_ranges)
        return table, events.with_columns(self._order), mass

    def _of_table(self, density: Any, n_more: int = 0) -> Any:
        """A member that takes the columns of the table as they are, and some more after them."""
        added_places = len(self._order) + np.arange(n_more)
        return density.reordered(np.append(np.argsort(self._order), added_places))

    def _learn_pool(
        self,
        data: Any,
        members: Sequence[Member],
        weight: Floats,
        group: Ints,
        splits: Any,
        random_state: np.random.RandomState,
    ) -> None:
        """Learn the members and weigh them; a single one has nothing to be weighed by."""
        self.member_names_ = [member.name for member in members]
        # What a member has learned elsewhere is no choice for this table.
        members = [
            old_member._replace(model=clone(old_member.model, safe=False)) for old_member in members
        ]
        folds = []
        if len(members) > 1:
            folds = make_folds(data.rows, weight, group, splits, data.rates, random_state)
        self._pool: Any = learn_pool(
            data, members, weight, folds, self.n_jobs, random_state, self.verbose
        )


def refuse_without_ranges(densities: Sequence[tuple[str, Any]], what: str) -> None:
    """Raise a TypeError if a density cannot learn from ranges."""
    for name, density in densities:
        if not getattr(density, "_takes_ranges", False):
            raise TypeError(
                f"{what} known as ranges need densities that are circuits, such as TableMixture; "
                f"{name!r}, {density!r}, is none. Leave it out."
            )


def shared_domain(
    densities: Sequence[tuple[str, Any]], owner: str, table: Any, weight: Floats, n_bins: int = 0
) -> Domain:
    """The domain of a table that all densities share, with as many bins as any wants.

    Raises
    ------
    TypeError
        If one is not a density of skpc.
    ValueError
        If they declare different columns.
    """
    first_name, first_density = densities[0]
    for name, density in densities:
        refuse_other_density(density, owner)
        for key in DECLARATIONS:
            if repr(getattr(density, key)) != repr(getattr(first_density, key)):
                raise ValueError(
                    f"The densities of {owner} must declare the same columns, but {key} is "
                    f"{getattr(first_density, key)!r} of {first_name!r} and "
                    f"{getattr(density, key)!r} of {name!r}."
                )
    n_bins = max(n_bins, most_bins(densities) or 0)
    declared = first_density.declared
    return Domain.fit(table, declared, sample_weight=weight, n_bins=n_bins or None)


def most_bins(densities: Sequence[tuple[str, Any]]) -> int | None:
    """The greatest number of bins that a density wants; None if none wants any."""
    return max((density.bins_wanted or 0 for _, density in densities), default=0) or None


def check_rates(missing_rates: Any) -> list[float]:
    """Proportions of cells to remove.

    Raises
    ------
    ValueError
        If the sequence is empty, or a rate is not in [0, 1).
    """
    rates = np.asarray(missing_rates).ravel()
    is_number = len(rates) and rates.dtype.kind in "iuf"
    if not is_number or not ((rates >= 0.0) & (rates < 1.0)).all():
        raise ValueError(
            "missing_rates must be proportions from 0 to below 1, at least one; got "
            f"{missing_rates!r}."
        )
    return list(rates.tolist())


def refuse_other_density(
    density: Any,
    owner: str,
    methods: Sequence[str] = _METHODS,
    parameters: Sequence[str] = DECLARATIONS,
) -> None:
    """Raise a TypeError if this lacks what the owner needs of a density."""
    if isinstance(density, type):
        raise TypeError(
            f"{owner} needs an estimator, not the class {density.__name__}; give "
            f"{density.__name__}()."
        )
    lacking = [name for name in (*methods, *parameters) if not hasattr(density, name)]
    if lacking:
        raise TypeError(
            f"The density of {owner} needs {', '.join(methods)} and the parameters "
            f"{', '.join(parameters)}; {density!r} has no {lacking[0]}. Give a density of skpc, "
            "such as CutsetNetworkBD()."
        )
