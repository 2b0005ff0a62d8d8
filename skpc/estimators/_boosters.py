"""Models of XGBoost, LightGBM and CatBoost, which answer by margins too and tell their trees."""

import json
import sys
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.utils.metaestimators import available_if

from skpc._arrays import Floats
from skpc._warnings import warn
from skpc.estimators._trees import Tree, catboost_trees, lightgbm_trees, xgboost_trees

#: Makes rows that hold the states of a column in turn.
RowsOf = Callable[[int], Any]


def with_margin(model: Any) -> Any:
    """The model, or a face for one of another library that has ``decision_function``.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> with_margin(Ridge())
    Ridge()
    """
    # A frozen model does not show the library that it comes from.
    inner = model.estimator if isinstance(model, FrozenEstimator) else model
    faces = {"xgboost": XGBoostModel, "lightgbm": LightGBMModel, "catboost": CatBoostModel}
    face = faces.get(type(inner).__module__.partition(".")[0])
    return model if face is None else face(inner)


class BoosterModel(BaseEstimator):
    """A model of another library, whose trees are read.

    Parameters
    ----------
    model : estimator or Booster
        A trained Booster is a classifier of the classes 0, 1, ... if its objective is one.
    """

    #: What stands before the numbers of columns that have no names.
    counted = ""
    #: What stands for a space within a name.
    space = " "

    def __init__(self, model: Any):
        self.model = model

    @cached_property
    def is_bare(self) -> bool:
        """Whether the model has none of the methods of scikit-learn."""
        return not hasattr(self.model, "get_params")

    @cached_property
    def n_classes(self) -> int:
        """Number of classes of a bare booster, 0 of a regression."""
        raise NotImplementedError

    @property
    def names(self) -> Any:
        """Names of the columns, or their numbers behind a word where the model counts them.

        None where XGBoost learned from an array, or CatBoost has not learned.
        """
        raise NotImplementedError

    def margin(self, X: Any) -> Floats:
        """The sum of the trees, shape (n_rows,) or (n_rows, n_classes)."""
        raise NotImplementedError

    def answer(self, X: Any) -> Floats:
        """What a bare booster predicts."""
        raise NotImplementedError

    def trees(self, rows_of: RowsOf) -> Iterable[Tree]:
        """The trees, whose sum is the margin up to a constant; see :meth:`read`."""
        raise NotImplementedError

    def states(self, labels: list[Any], declared: dict[int, list[Any]]) -> dict[int, list[Any]]:
        """The categories of columns in the order of the codes that the model has for them.

        ``labels`` are the states of each column, None of numbers; ``declared`` the categories of
        those that pandas has as such.
        """
        raise NotImplementedError

    def read(self, rows_of: RowsOf) -> list[Tree] | None:
        """The trees; None where they cannot be read, which is told.

        ``rows_of`` makes rows that hold the states of a column in turn.
        """
        try:
            return [*self.trees(rows_of)]
        except (KeyError, ValueError, IndexError, TypeError) as error:
            self.goes_by_draws(f"{type(error).__name__}: {error}")
            return None

    def goes_by_draws(self, reason: str) -> None:
        """Tell why the model has no exact expectations."""
        library = self._library
        warn(
            f"Trees of {library.__name__} must be a sum of constant leaves to have exact "
            f"expectations; those of this model of version {library.__version__} were not read "
            f"({reason}). Its expectations are means over draws."
        )

    @property
    def _library(self) -> Any:
        """What the model comes from, which is imported as the model exists."""
        return sys.modules[type(self.model).__module__.partition(".")[0]]

    @property
    def classes_(self) -> Any:
        """The classes of a classifier."""
        if not self.is_bare:
            return self.model.classes_
        if self.n_classes == 0:
            raise AttributeError("A booster of a regression has no classes.")
        return np.arange(self.n_classes)

    @property
    def feature_names_in_(self) -> Any:
        """Names of the columns, where the model has them."""
        names = self.names
        # Names that only count the columns came from the library, and tables need not have them.
        if names is None or [*names] == [f"{self.counted}{v}" for v in range(len(names))]:
            raise AttributeError("The model was trained without names of columns.")
        return np.array(names, dtype=object)

    @property
    def n_features_in_(self) -> int:
        """Number of columns."""
        return len(self.names)

    def check_trained(self) -> None:
        """Raise a NotFittedError if the model is not trained."""
        # CatBoost has no names of columns then, and the others raise errors.
        try:
            int(self.n_features_in_)
        except (TypeError, ValueError):
            raise NotFittedError(
                f"{type(self.model).__name__} is not trained; train it before it is given."
            ) from None

    def predict(self, X: Any) -> Any:
        """What the model predicts: classes, or numbers."""
        if not self.is_bare:
            return self.model.predict(X)
        if self.n_classes:
            return self.predict_proba(X).argmax(axis=1)
        return self.answer(X)

    def decision_function(self, X: Any) -> Floats:
        """The margin."""
        return np.asarray(self.margin(X), dtype=np.float64)

    @available_if(lambda self: hasattr(self, "classes_"))
    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the classes."""
        if not self.is_bare:
            return np.asarray(self.model.predict_proba(X), dtype=np.float64)
        margin = self.decision_function(X)
        # Two classes share one margin, more have one each.
        name = "softmax" if margin.ndim > 1 else "expit"
        return linked(name, margin.reshape(len(margin), -1))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if not self.is_bare:
            return self.model.__sklearn_tags__()
        tags.estimator_type = "classifier" if self.n_classes else "regressor"
        return tags


class XGBoostModel(BoosterModel):
    """A model of XGBoost."""

    @cached_property
    def _booster(self) -> Any:
        return self.model if self.is_bare else self.model.get_booster()

    @property
    def _learner(self) -> Any:
        # It is large: nothing keeps it.
        return json.loads(self._booster.save_raw("json"))["learner"]

    @property
    def names(self) -> Any:
        """See :class:`BoosterModel`."""
        return self._booster.feature_names

    @property
    def n_features_in_(self) -> int:
        """See :class:`BoosterModel`."""
        return self._booster.num_features()

    @cached_property
    def n_classes(self) -> int:
        """See :class:`BoosterModel`."""
        objective = self._learner["objective"]["name"]
        # Two classes have num_class 0, as regressions do.
        if objective.startswith("binary:"):
            return 2
        return int(self._learner["learner_model_param"]["num_class"])

    def margin(self, X: Any) -> Floats:
        """See :class:`BoosterModel`."""
        return self.answer(X, True) if self.is_bare else self.model.predict(X, output_margin=True)

    def answer(self, X: Any, output_margin: bool = False) -> Floats:
        """See :class:`BoosterModel`."""
        matrix = self._library.DMatrix(X, enable_categorical=True)
        return np.asarray(self.model.predict(matrix, output_margin=output_margin), dtype=np.float64)

    def trees(self, rows_of: RowsOf) -> Iterable[Tree]:
        """See :class:`BoosterModel`."""
        # A bare booster answers by all its trees.
        # A model that was stopped early predicts by the trees up to its best iteration.
        is_stopped = not self.is_bare and "best_iteration" in self._booster.attributes()
        n_iterations = self.model.best_iteration + 1 if is_stopped else -1
        # A model may take a number for missing; a bare booster takes NaN alone.
        missing = float(getattr(self.model, "missing", np.nan))
        return xgboost_trees(self._learner["gradient_booster"], n_iterations, missing)

    def states(self, labels: list[Any], declared: dict[int, list[Any]]) -> dict[int, list[Any]]:
        """See :class:`BoosterModel`."""
        saved = self._learner["gradient_booster"]
        # DART keeps its trees one level deeper.
        encoded = saved.get("gbtree", saved)["model"].get("cats", {}).get("enc", ())
        return declared | {
            column: _values_of(listed)
            for column, listed in enumerate(encoded)
            if len(listed["values"])
        }


def _values_of(listed: Any) -> list[Any]:
    """Categories that XGBoost saves as numbers, or as the bytes of all strings together."""
    if "offsets" not in listed:
        return [*listed["values"]]
    octets = np.array(listed["values"]).astype(np.uint8).tobytes()
    pairs = zip(listed["offsets"], listed["offsets"][1:])
    return [octets[begin:end].decode() for begin, end in pairs]


class LightGBMModel(BoosterModel):
    """A model of LightGBM."""

    counted = "Column_"
    space = "_"

    @cached_property
    def _booster(self) -> Any:
        return self.model if self.is_bare else self.model.booster_

    @property
    def names(self) -> Any:
        """See :class:`BoosterModel`."""
        return self._booster.feature_name()

    @cached_property
    def n_classes(self) -> int:
        """See :class:`BoosterModel`."""
        if "\nobjective=binary" in self._header:
            return 2
        n_outputs = self._booster.num_model_per_iteration()
        return n_outputs if "\nobjective=multiclass" in self._header else 0

    def margin(self, X: Any) -> Floats:
        """See :class:`BoosterModel`."""
        total = np.asarray(self.model.predict(X, raw_score=True))
        # A forest averages its trees, but calls their sum its raw score.
        is_mean = "\naverage_output\n" in self._header
        return total / self._booster.current_iteration() if is_mean else total

    def answer(self, X: Any) -> Floats:
        """See :class:`BoosterModel`."""
        return np.asarray(self.model.predict(X))

    @cached_property
    def _header(self) -> str:
        """What the saved model tells before its trees, or with the first."""
        return self._booster.model_to_string(num_iteration=1)

    def trees(self, rows_of: RowsOf) -> Iterable[Tree]:
        """See :class:`BoosterModel`."""
        return lightgbm_trees(self._booster.model_to_string())

    def states(self, labels: list[Any], declared: dict[int, list[Any]]) -> dict[int, list[Any]]:
        """See :class:`BoosterModel`."""
        # LightGBM lists the categories of such columns in their order, without their numbers.
        return dict(zip(declared, self._booster.pandas_categorical or declared.values()))


class CatBoostModel(BoosterModel):
    """A model of CatBoost, with trees that divide all nodes of a level by one split."""

    @property
    def classes_(self) -> Any:
        """See :class:`BoosterModel`."""
        if not hasattr(self.model, "predict_proba"):
            raise AttributeError("A model without probabilities has no classes.")
        return self.model.classes_

    @property
    def names(self) -> Any:
        """See :class:`BoosterModel`."""
        return self.model.feature_names_

    def margin(self, X: Any) -> Floats:
        """See :class:`BoosterModel`."""
        return np.asarray(self.model.predict(X, prediction_type="RawFormulaVal"))

    def predict(self, X: Any) -> Any:
        """See :class:`BoosterModel`."""
        answer = super().predict(X)
        # CatBoost answers with a column where there are several classes.
        return answer[:, 0] if answer.shape[1:] == (1,) else answer

    def trees(self, rows_of: RowsOf) -> Iterable[Tree]:
        """See :class:`BoosterModel`."""
        with TemporaryDirectory() as folder:
            path = Path(folder, "model.json")
            self.model.save_model(str(path), format="json")
            saved = json.loads(path.read_bytes())
        # Its splits of categories are hashes and statistics of the target: the model itself says
        # which categories they send where.
        leaves = {
            column: self.model.calc_leaf_indexes(rows_of(column))
            for column in self.model.get_cat_feature_indices()
        }
        return catboost_trees(saved, leaves)

    def states(self, labels: list[Any], declared: dict[int, list[Any]]) -> dict[int, list[Any]]:
        """See :class:`BoosterModel`."""
        return {column: labels[column] for column in self.model.get_cat_feature_indices()}


def link_of(margin: Floats, answer: Floats) -> str | None:
    """The function of the margin that an answer is: "identity", "exp", "expit" or "softmax".

    None where it is none of these.
    """
    scale = np.abs(answer).max(initial=0.0)
    for name in LINKS:
        # Where exp is not the link, a large margin may overflow, and does not match then.
        with np.errstate(over="ignore"):
            value = linked(name, margin)
        # Models of single precision have seven digits.
        if value.shape == answer.shape and np.abs(value - answer).max() <= 1e-5 * scale:
            return name
    return None


#: Functions of margins that models answer by.
LINKS = ("identity", "exp", "expit", "softmax")


def linked(name: str, margin: Floats) -> Floats:
    """A function of margins of shape (n_rows, n_outputs)."""
    if name == "exp":
        return np.exp(margin)
    if name == "expit":
        return np.hstack([expit(-margin), expit(margin)])
    return softmax(margin, axis=1) if name == "softmax" else margin
