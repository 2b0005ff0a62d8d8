"""What estimators have in common: parameters, and checks and encoding of tables."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from types import FunctionType
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

import joblib
import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skpc._arrays import Floats
from skpc._cells import TakesGaps
from skpc._fitting import announce
from skpc._threads import one_thread
from skpc._validation import AUTO, N_JOBS, StrOptions, check_table, check_weight, output_config
from skpc._warnings import warn
from skpc.domain import Declared, Domain, LogMass, events_of_table, present_rows
from skpc.domain.stated import holds_ranges, is_stated, split_ranges
from skpc.variables.events import Events
from skpc.variables.margins import MOST_BINS

#: Which columns are categorical.
CATEGORICAL_FEATURES = ("array-like", StrOptions({"auto", "from_dtype"}), None)
#: Parameters that say what the columns are.
DECLARATIONS = Declared._fields[:-1]
#: Largest number of bins of a numeric column where the user does not give one.
_N_BINS = {"auto": MOST_BINS, "plain": 10}

_T = TypeVar("_T")


def parameter(default: _T, *constraints: Any) -> _T:
    """A parameter of an estimator: its default, and what it may be, as scikit-learn says it."""
    return field(default=default, metadata={"constraints": constraints})


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
class Estimator(BaseEstimator):
    """An estimator whose parameters are the fields of a dataclass, which makes its ``__init__``.

    A subclass becomes such a dataclass; its parameters are made by :func:`parameter`.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclass(kw_only=True, eq=False, repr=False)(cls)
        # A call enters by a public method: BLAS and OpenMP have one thread until it returns.
        for name, method in list(vars(cls).items()):
            if isinstance(method, FunctionType) and not name.startswith("_"):
                setattr(cls, name, one_thread()(method))

    @property
    def _parameter_constraints(self) -> dict[str, Any]:
        # Parameters without constraints, such as estimators, are checked in fit.
        constraints_of_fields = {
            each.name: each.metadata.get("constraints") for each in fields(self)
        }
        return {
            name: constraints_of_fields.get(name) or "no_validation"
            for name in self._get_param_names()
        }

    def set_params(self, **params: Any) -> Self:
        """Set parameters of the estimator, or of one that is a parameter as ``name__parameter``.

        Parameters
        ----------
        **params : dict

        Returns
        -------
        Self
            The estimator.

        Raises
        ------
        ValueError
            If a parameter does not exist, or is that of an estimator that was not given.
        """
        # What the same call sets counts too: an estimator and its parameters may come together.
        given = self.get_params(deep=False) | params
        for key in params:
            name, separator, nested = key.partition("__")
            is_density = separator and name in ("density", "estimators") and name in given
            # scikit-learn's own error would only say that None, or a list, has no set_params.
            if is_density and not hasattr(given[name], "set_params"):
                # Every estimator takes this density, and a parameter that may be a list this list.
                is_list = isinstance(given[name], list | tuple) or name == "estimators"
                raise ValueError(
                    f"{key} sets {nested} of {name}, but {name} is {given[name]!r}. "
                    + (
                        f"Members of a list have names: {name}=[('a', CutsetNetworkBD())] has the "
                        f"parameter a__{nested}."
                        if is_list
                        else f"Give an estimator first, such as {name}=CutsetNetworkBD()."
                    )
                )
        super().set_params(**params)
        return self

    def __dask_tokenize__(self) -> str:
        # dask takes dataclasses for their fields alone, and would not see what has been learned.
        return str(joblib.hash(self))


class TableEstimator(TakesGaps, Estimator):
    """An estimator that learns from tables of numbers and categories with missing cells."""

    random_state: Any = parameter(None, "random_state")
    n_jobs: int | None = parameter(None, *N_JOBS)
    verbose: int = parameter(0, "verbose")

    domain_: Domain = field(init=False)
    #: Whether cells of tables may be ranges and sets.
    _takes_ranges: ClassVar[bool] = False

    def _training_rows(
        self,
        X: Any,
        sample_weight: Any,
        y: Any = None,
        check_y: Callable[[Any, Any, int], Any] | None = None,
        reset: bool = True,
    ) -> tuple[Any, Floats, Any]:
        """The checked table, its weights and its targets, without the rows of weight zero."""
        table = check_table(self, X, reset=reset)
        # Where there is no y, numbers that nobody reads keep what is returned alike.
        target = np.empty(len(table)) if check_y is None else check_y(self, y, len(table))
        weight = check_weight(sample_weight, len(table))
        # A weight of zero equals the absence of the row: not even the domain may see it.
        rows, row_weight = present_rows(table, weight)
        _warn_of_scale(row_weight)
        # Only a fit announces its table: a stream would have a line for each of its parts.
        n_columns = self.n_features_in_
        text = f"{type(self).__name__}: {len(row_weight):,} rows of {n_columns:,} columns"
        announce(text, self.verbose if reset else 0)
        return rows, row_weight, target[weight > 0.0]

    def _encode(self, X: Any) -> tuple[Any, Floats]:
        """The checked table and its encoded rows."""
        table, events, _ = self._events(X, is_scored=False, takes_ranges=False)
        return table, events.rows

    def _encode_with_mass(self, X: Any) -> tuple[Any, Floats, LogMass]:
        """The checked table, its rows of known states, and what its cells add to log densities."""
        table, events, mass = self._events(X, takes_ranges=False)
        return table, events.rows, mass

    def _events(
        self, X: Any, is_scored: bool = True, takes_ranges: bool = True
    ) -> tuple[Any, Events, LogMass]:
        """The same for a table whose cells may be ranges and sets: what its rows say.

        The table comes back without such cells. A value that was not seen is missing in rows that
        are scored, as its mass counts; in other questions the nearest one stands for it.
        """
        check_is_fitted(self)
        domain = self.domain_
        has_ranges = takes_ranges and self._takes_ranges and holds_ranges(X)
        table = check_table(self, X, reset=False)
        stated: dict[int, Any] = {}
        if has_ranges:
            # In a column whose states are intervals, an interval is a value and no statement.
            states = {place: column.labels for place, column in enumerate(domain)}
            has_intervals = [
                p
                for p, column_states in states.items()
                if column_states is not None and is_stated(column_states[0])
            ]
            table, stated = split_ranges(table, has_intervals)
        rows, mass = domain.encode_with_mass(table)
        if is_scored:
            rows = mass.known(rows)
        if not has_ranges:
            return table, Events.of(rows), mass
        events = events_of_table(domain, rows, stated)
        # The mass of known cells has been counted: what is new has a statement, but no value.
        is_new = events.are_stated() & np.isnan(events.rows)
        return table, events, mass.with_stated(is_new, domain.log_prob_seen)


class TableTransformer(OneToOneFeatureMixin, TransformerMixin):
    """What makes tables of tables; arrays of float32 stay so."""

    @property
    def _output(self) -> str | None:
        """The library of the DataFrames that ``set_output`` asks for."""
        wanted = output_config("transform", self)["dense"]
        return None if wanted == "default" else wanted

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _warn_of_scale(weight: Floats) -> None:
    """Say that weights are counts where they look like something else."""
    factor = len(weight) / weight.sum()
    # Weights that are not whole look like counts if their sum is the number of rows up to this
    # factor.
    far_off = 10.0
    if max(factor, 1.0 / factor) > far_off and (weight % 1.0).any():
        warn(
            "Weights of rows are counts: a weight of two equals the row twice. Those of "
            f"{len(weight)} rows sum to {weight.sum():.6g}. If they only say how much rows count "
            f"beside each other, multiply them by {factor:.6g}."
        )


class ColumnsEstimator(TableEstimator):
    """An estimator whose parameters say what the columns are."""

    categorical_features: Any = parameter("auto", *CATEGORICAL_FEATURES)
    categories: Any = parameter("auto", AUTO, list)
    atoms: Any = parameter("auto", AUTO, dict)
    bounds: Any = parameter(None, dict, None)
    handle_unknown: str = parameter("unseen", StrOptions({"unseen", "missing", "error"}))

    @property
    def bins_wanted(self) -> int | None:
        """Largest number of bins of a numeric column; None where the learner needs no bins."""
        if not hasattr(self, "n_bins"):
            return None
        return self.n_bins or _N_BINS[self.margins]

    @property
    def declared(self) -> Declared:
        """What the parameters say of the columns."""
        return Declared(*(getattr(self, name) for name in DECLARATIONS))

    def _domain_of(self, table: Any, weight: Floats, declared: Declared | None = None) -> Domain:
        """What the columns of a checked table are."""
        declared = declared or self.declared
        return Domain.fit(table, declared, sample_weight=weight, n_bins=self.bins_wanted)
