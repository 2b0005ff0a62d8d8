"""The members of a pool as users give them: one, a list with names, or the default ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skpc._arrays import Floats
from skpc.domain import Domain
from skpc.estimators.cutset import CutsetNetworkBD
from skpc.estimators.moat import MixtureOfAllTrees
from skpc.estimators.soft_learn import SoftLearnSPN

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
#: Trees with which the default mixture of all trees estimates a row with missing cells: a pool asks
#: many such rows, and learns how far to trust the answers.
_N_TREES = 50


def default_densities(random_state: np.random.RandomState) -> list[tuple[str, Any]]:
    """A cutset network, a sum-product network and a mixture of all trees."""
    seed = int(random_state.randint(2**31))
    return [
        ("cutset", CutsetNetworkBD(random_state=seed)),
        ("soft", SoftLearnSPN(random_state=seed)),
        ("trees", MixtureOfAllTrees(n_inference_samples=_N_TREES, random_state=seed)),
    ]


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
    found: list[tuple[str, Any]] = []
    if given is None:
        return found
    for entry in given if isinstance(given, (list, tuple)) else (given,):
        if isinstance(entry, str) and entry in known:
            found.append((entry, known[entry]))
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
        found.append((name, model))
    return found


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
