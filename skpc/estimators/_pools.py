"""What DensityClassifier and DensityRegressor have in common: parameters and their checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from sklearn.base import is_classifier

from skpc._arrays import Floats
from skpc.domain import Domain, group_rows, merge_rows
from skpc.estimators._estimator import TableEstimator
from skpc.pooling.folds import given_splits
from skpc.pooling.pool import Member

#: What a pool asks of a density, and the parameters by which it declares the columns.
_METHODS = ("fit_rows", "score_samples", "sample")
_DECLARATIONS = (
    "categorical_features",
    "categories",
    "margins",
    "atoms",
    "bounds",
    "handle_unknown",
)


@dataclass(kw_only=True, eq=False, repr=False)
class PoolEstimator(TableEstimator):
    """A pool of densities, and of models that learn from masked copies of rows."""

    density: Any = field(default=None, kw_only=False)
    cv: Any = 5
    missing_rates: Sequence[float] = (0.0, 0.3, 0.6)

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **TableEstimator._parameter_constraints,
        "density": "no_validation",
        "cv": ["cv_object"],
        "missing_rates": ["array-like"],
    }

    def _labelled_rows(
        self, densities: list[tuple[str, Any]], X: Any, y: Any, sample_weight: Any, checked: Any
    ) -> tuple[Floats, Floats, Any]:
        """Learn the domain; distinct encoded rows with the target as last column, weights, splits.

        ``checked`` are the table, its weights and its targets without the rows of weight zero.
        """
        table, weight, target = checked
        self.domain_ = shared_domain(densities, type(self).__name__, table, weight)
        labelled = np.column_stack([self.domain_.encode(table), target])
        distinct = group_rows(labelled)[1]
        splits = given_splits(self.cv, X, y, sample_weight, distinct, is_classifier(self))
        return *merge_rows(labelled, weight), splits


def check_names(members: Sequence[Member], others: str) -> None:
    """Raise a ValueError if a density and another model have one name."""
    names = [member.name for member in members]
    if len(set(names)) < len(names):
        raise ValueError(
            f"The names of densities and {others} must differ, got {names}; rename one."
        )


def named(given: Any, parameter: str) -> list[tuple[str, Any]]:
    """Pairs of names and estimators from what the user gave: such a list, or one estimator.

    Raises
    ------
    ValueError
        If the list is empty, does not hold such pairs, or has a name twice.
    """
    if not isinstance(given, Sequence) or isinstance(given, str):
        return [(parameter, given)]
    pairs = [tuple(pair) if isinstance(pair, (tuple, list)) else (pair,) for pair in given]
    if not pairs or not all(len(pair) == 2 and isinstance(pair[0], str) for pair in pairs):
        raise ValueError(
            f"{parameter} must hold pairs (name, estimator), at least one; got {given!r}."
        )
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise ValueError(f"The names of {parameter} must differ; got {names}.")
    return pairs


def named_models(given: Any, known: dict[str, str], parameter: str) -> list[tuple[str, Any]]:
    """Names, and models that learn from masked copies, from what the user gave.

    Parameters
    ----------
    given : sequence of str or pairs, or None
    known : dict
        What the strings stand for.
    parameter : {"classifiers", "regressors"}

    Raises
    ------
    TypeError, ValueError
        If there is anything else, or a classifier has no ``predict_proba``.
    """
    models: list[tuple[str, Any]] = []
    if given is None:
        return models
    for entry in given if isinstance(given, (list, tuple)) else (given,):
        if isinstance(entry, str) and entry in known:
            models.append((entry, known[entry]))
            continue
        if not (isinstance(entry, (tuple, list)) and len(entry) == 2):
            raise ValueError(
                f"{parameter} must hold pairs (name, estimator) or names among {list(known)}; got "
                f"{entry!r}."
            )
        name, model = entry
        wanted = "predict_proba" if parameter == "classifiers" else "predict"
        if not hasattr(model, wanted):
            raise TypeError(f"{parameter} need {wanted}; {name!r}, {model!r}, has none.")
        models.append((name, model))
    return models


def shared_domain(
    densities: Sequence[tuple[str, Any]], owner: str, table: Any, weight: Floats
) -> Domain:
    """The domain of a table that all densities share.

    Raises
    ------
    TypeError
        If one is not a density of skpc.
    ValueError
        If they declare different columns.
    """
    for _, density in densities:
        refuse_other_density(density, owner)
    first_name, first = densities[0]
    declared = {name: getattr(first, name) for name in _DECLARATIONS}
    for name, density in densities[1:]:
        for key, value in declared.items():
            if repr(getattr(density, key)) != repr(value):
                raise ValueError(
                    f"The densities of {owner} must declare the same columns, but {key} is "
                    f"{value!r} of {first_name!r} and {getattr(density, key)!r} of {name!r}."
                )
    n_bins = [density._n_bins for _, density in densities if density._n_bins is not None]
    largest = max(n_bins) if n_bins else None
    return Domain.fit(table, sample_weight=weight, n_bins=largest, **declared)


def check_rates(missing_rates: Any) -> list[float]:
    """Proportions of cells to remove.

    Raises
    ------
    ValueError
        If the sequence is empty, or a rate is not in [0, 1).
    """
    rates = np.asarray(missing_rates, dtype=np.float64).ravel()
    if not len(rates) or not ((rates >= 0.0) & (rates < 1.0)).all():
        raise ValueError(
            "missing_rates must be proportions from 0 to below 1, at least one; got "
            f"{missing_rates!r}."
        )
    return list(rates.tolist())


def refuse_other_density(density: Any, owner: str) -> None:
    """Raise a TypeError if this is not a density of skpc."""
    if isinstance(density, type):
        raise TypeError(
            f"{owner} needs an estimator, not the class {density.__name__}; give "
            f"{density.__name__}()."
        )
    lacking = [name for name in (*_METHODS, *_DECLARATIONS) if not hasattr(density, name)]
    if lacking:
        raise TypeError(
            f"The density of {owner} needs {', '.join(_METHODS)} and the parameters "
            f"{', '.join(_DECLARATIONS)}; {density!r} has no {lacking[0]}. Give a density of skpc, "
            "such as CutsetNetworkBD()."
        )
