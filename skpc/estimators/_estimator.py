"""What estimators have in common: parameters, checks of tables and targets, answers by chunks."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import partial, wraps
from inspect import signature
from numbers import Number
from types import FunctionType
from typing import Any, ClassVar, Self, TypeVar, cast, dataclass_transform

import joblib
import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    OneToOneFeatureMixin,
    TransformerMixin,
)
from sklearn.utils import assert_all_finite, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d

from skpc._arrays import Floats, Ints
from skpc._cells import TakesGaps
from skpc._fitting import announce, noted
from skpc._frames import is_from, like_native, native
from skpc._threads import in_threads, one_thread, slices, threads
from skpc._validation import (
    AUTO,
    N_JOBS,
    StrOptions,
    check_finite,
    check_magnitude,
    check_n_samples,
    check_table,
    check_weight,
    kinds_of_cells,
    missing_cells,
    objects_of,
    output_config,
    unmasked,
)
from skpc._warnings import collected, warn
from skpc.domain import Declared, Domain, LogMass, events_of_table, present_rows
from skpc.domain.stated import holds_ranges, is_stated, split_ranges
from skpc.variables.events import Events
from skpc.variables.margins import MOST_BINS

#: Which columns are categorical.
CATEGORICAL_FEATURES = ("array-like", StrOptions({"auto", "from_dtype"}), None)
#: Cells of an array that are answered for at a time.
_ANSWERED_CELLS = 2**20

#: Parameters that say what the columns are.
DECLARATIONS = Declared._fields[:-1]
#: Largest number of bins of a numeric column where the user does not give one.
_N_BINS = {"auto": MOST_BINS, "plain": 10}

_T = TypeVar("_T")
_Method = TypeVar("_Method", bound=Callable[..., Any])


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
        return table, events, mass.with_stated(is_new, domain.log_seen)


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


def check_target(estimator: Any, y: Any, n_rows: int) -> Floats:
    """Check the numbers that a regressor learns to predict.

    Parameters
    ----------
    estimator : estimator
        Named in the error where targets are missing.
    y : array-like of shape (n_rows,)
        Finite numbers; a single column is flattened with a warning.
    n_rows : int
        How many rows there are.

    Returns
    -------
    target : ndarray of shape (n_rows,), float64

    Raises
    ------
    ValueError
        If ``y`` is None, has another length, or is not finite.
    TypeError
        If ``y`` holds dates, or other objects that are no numbers.
    """
    values = _one_for_each_row(estimator, y, n_rows)
    is_time = values.dtype.kind in "mM"
    if is_time or values.dtype == object:
        # NumPy would turn dates into numbers of nanoseconds, or of days.
        for row, cell in enumerate(values):
            if is_time or not isinstance(cell, Number | str):
                raise TypeError(
                    f"y must hold numbers; found {cell!r} of type {type(cell).__name__} in row "
                    f"{row}. Turn dates into numbers: days since the first one, for example."
                )
    # Objects and strings may hold numbers all the same; else the error names the value.
    if values.dtype.kind in "OUS":
        try:
            values = values.astype(np.float64)
        except ValueError as error:
            raise ValueError(f"y must hold numbers; {error}. Classes need a classifier.") from error
    target = check_array(values, ensure_2d=False, dtype=np.float64, input_name="y")
    check_magnitude(target, ["y"], 0)
    return target


def check_labels(estimator: Any, y: Any, n_rows: int) -> np.ndarray:
    """Check the classes that a classifier learns to predict, numbers or strings.

    Parameters
    ----------
    estimator : estimator
        Named in the error where labels are missing.
    y : array-like of shape (n_rows,)
        A single column is flattened with a warning.
    n_rows : int
        How many rows there are.

    Returns
    -------
    labels : ndarray of shape (n_rows,)

    Raises
    ------
    ValueError
        If ``y`` is None, has another length, holds NaN or infinity, or numbers of a regression.
    TypeError
        If ``y`` mixes strings and other things.
    """
    labels = _one_for_each_row(estimator, y, n_rows)
    # The kinds are those of the user's cells, as NumPy makes strings of mixed lists.
    kinds = kinds_of_cells(objects_of(y).reshape(-1).tolist())
    if kinds == {"bool"}:
        # In a column of objects, or of a dtype that can say "missing".
        labels = labels.astype(bool)
    if "string" in kinds and len(kinds) > 1:
        raise TypeError(
            "y must hold classes of one kind; found "
            f"{' and '.join(f'{kind}s' for kind in sorted(kinds))}. Convert one kind to the other."
        )
    check_classification_targets(labels)
    return labels


def _one_for_each_row(estimator: Any, y: Any, n_rows: int) -> np.ndarray:
    """The values of ``y``, no more and no fewer than there are rows."""
    if y is None:
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but the target y "
            "is None."
        )
    y = unmasked(y)
    labels = column_or_1d(y, warn=True)
    # In a list of strings NumPy turns NaN into the string "nan".
    cells = np.asarray(y if isinstance(y, list | tuple) else labels, dtype=object)
    missing = missing_cells(cells).reshape(-1)
    if missing.any():
        raise ValueError(
            f"y contains NaN or None in row {int(missing.argmax())}. Leave the rows without y out "
            "of X and y."
        )
    assert_all_finite(labels, input_name="y")
    if len(labels) != n_rows:
        raise ValueError(
            f"X and y need the same number of rows; found {n_rows} rows in X and {len(labels)} "
            "values in y (inconsistent numbers of samples)."
        )
    return labels


def is_lazy(X: Any) -> bool:
    """Whether a table is a collection of dask."""
    return is_from("dask", X) and hasattr(X, "to_delayed")


def by_chunks(method: _Method) -> _Method:
    """Let a method of an estimator answer for a large array of numbers chunk by chunk.

    The method takes the table ``X`` first and answers for each of its rows with an array or a tuple
    of arrays. The chunks make memory independent of the number of rows, also where ``X`` is mapped
    to a file. They, or parts of them, are answered side by side by ``n_jobs`` threads where the
    estimator has it, else within a ``joblib.parallel_config``. A ``random_state`` seeds each chunk.
    The answer for a dask collection is a dask collection too, which is computed where the chunks
    are. Tables for tables of pyarrow and frames of narwhals are of their library.

    Queries divide their rows too, but into pieces of work for threads, when a float64 copy of the
    table and its encoded rows stand in memory already. The chunks bound these.
    """

    @wraps(method)
    def answer(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        # A dask collection is answered where its chunks are, each of them by this function.
        if is_lazy(X):
            return _lazily(signature(method).bind(self, X, *args, **kwargs).arguments, answer, X)
        # Tables of pyarrow and narwhals are answered as what they wrap, and turned back.
        frame = native(X)
        if frame is not X:
            frame_answers = _several(answer(self, frame, *args, **kwargs))
            answers = tuple(like_native(each, frame, X) for each in frame_answers)
            return answers if len(answers) > 1 else answers[0]
        with threads(getattr(self, "n_jobs", None)):
            # Chunks bound the memory of large arrays of numbers; all else is answered at once.
            is_numbers = isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "biuf"
            if not is_numbers or len(X) < 2 or X.size <= _ANSWERED_CELLS:
                return method(self, X, *args, **kwargs)
            call = signature(method).bind(self, X, *args, **kwargs).arguments
            return _side_by_side(call, answer, X)

    return cast(_Method, answer)


def dask_chunks(X: Any) -> list[Any]:
    """The chunks of rows of a collection of dask, as its delayed objects."""
    whole_rows = X.rechunk({1: -1}) if hasattr(X, "rechunk") else X
    return list(np.ravel(whole_rows.to_delayed()))


def _side_by_side(call: dict[str, Any], answer: Callable[..., Any], X: Any) -> Any:
    """The answer for an array, made of those for its chunks."""
    chunks = slices(len(X), max(1, _ANSWERED_CELLS // X.shape[1]))
    tasks = list(zip(chunks, _seeded(call, len(chunks))))
    wholes: list[np.ndarray] = []

    def write(task: tuple[slice, dict[str, Any]]) -> tuple[bool, dict[type[Warning], str]]:
        """Whether a chunk is answered by a tuple, and the first of each kind of its warnings."""
        chunk, arguments = task
        note = f"Rows are counted from row {chunk.start} of X, the first of a chunk."
        with noted(note), collected() as warnings:
            part = answer(**(arguments | {"X": X[chunk]}))
        # The first chunk is done before threads begin, so that no two of them allocate.
        if not wholes:
            wholes.extend(
                np.empty((len(X), *part_answer.shape[1:]), part_answer.dtype)
                for part_answer in _several(part)
            )
        for whole, part_answer in zip(wholes, _several(part)):
            whole[chunk] = part_answer
        # In reverse, so that the first warning of each kind is the one that stays.
        texts = {kind: f"{text} {note}" for text, kind in reversed(warnings)}
        return isinstance(part, tuple), texts

    try:
        # The first chunk tells the shape of the answer.
        written = [write(tasks[0]), *in_threads(write, tasks[1:])]
    except ValueError:
        # An infinite cell is named by its row in the whole.
        check_finite(X)
        raise
    # Among chunks too, the first warning of each kind stays.
    warned = {kind: text for _, texts in reversed(written) for kind, text in texts.items()}
    for kind, text in warned.items():
        warn(text, kind)
    return tuple(wholes) if written[0][0] else wholes[0]


def _several(answer: Any) -> tuple[Any, ...]:
    return answer if isinstance(answer, tuple) else (answer,)


def _seeded(call: dict[str, Any], n_chunks: int) -> list[dict[str, Any]]:
    """The arguments for each chunk."""
    if call.get("random_state") is None:
        # Without a seed there is nothing to share out: each chunk draws anew.
        return [call] * n_chunks
    # With one seed in common, rows at the same places of two chunks would have the same draws.
    seeds = check_random_state(call["random_state"]).randint(2**31, size=n_chunks)
    return [call | {"random_state": int(seed)} for seed in seeds]


def _lazily(call: dict[str, Any], answer: Callable[..., Any], X: Any) -> Any:
    """The answer for a dask collection, as dask arrays and DataFrames."""
    from dask import delayed as task

    # The answer for one row tells dask the kinds and dtypes of all.
    head = X.head(1, npartitions=-1) if hasattr(X, "head") else X[:1].compute()
    head_answer = answer(**(call | {"X": head}))
    head_answers = _several(head_answer)
    chunks = dask_chunks(X)
    # Each task gets a chunk in place of the whole table.
    del call["X"]
    seeded = zip(_seeded(call, len(chunks)), chunks)
    parts = [
        task(_of_chunk)(partial(answer, **seeded_call), chunk, head_answers)
        for seeded_call, chunk in seeded
    ]
    # A DataFrame of dask does not know the sizes of its partitions.
    sizes = X.chunks[0] if hasattr(X, "chunks") else [np.nan] * len(parts)
    answers = [
        _collection([part[i] for part in parts], sizes, head_part)
        for i, head_part in enumerate(head_answers)
    ]
    return tuple(answers) if isinstance(head_answer, tuple) else answers[0]


def _of_chunk(
    answer: Callable[..., Any], chunk: Any, head_answers: tuple[Any, ...]
) -> tuple[Any, ...]:
    # A chunk without rows is not asked about: its answers are those of the head without rows.
    return _several(answer(X=chunk)) if len(chunk) else tuple(head[:0] for head in head_answers)


def _collection(parts: list[Any], sizes: Any, head: Any) -> Any:
    """One dask collection of the answers for chunks, which look like a known one."""
    if not isinstance(head, np.ndarray):
        from dask import dataframe

        return dataframe.from_delayed(parts, meta=head[:0])
    from dask import array

    shapes = [(size, *head.shape[1:]) for size in sizes]
    return array.concatenate(
        [array.from_delayed(part, shape, head.dtype) for part, shape in zip(parts, shapes)],
        allow_unknown_chunksizes=True,
    )


class ProbabilisticClassifier(ClassifierMixin, TableEstimator):
    """A classifier of incomplete rows that is a joint density of rows and classes."""

    classes_: np.ndarray = field(init=False)

    @abstractmethod
    def _log_posterior(self, events: Events) -> Floats:
        """Log probability of each class given the observed cells of encoded rows."""

    @abstractmethod
    def _log_density(self, events: Events) -> Floats:
        """Log density of the observed cells of encoded rows, whatever their class."""

    @abstractmethod
    def _draw(self, n_rows: int, random_state: np.random.RandomState) -> tuple[Floats, Ints]:
        """Draw encoded rows, and the numbers of their classes."""

    @by_chunks
    def predict_log_proba(self, X: Any) -> Floats:
        """Log probability of each class given the observed cells of each row.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells. A row may lack all of them.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            In nats; classes in the order of ``classes_``.
        """
        return self._log_posterior(self._events(X, is_scored=False)[1])

    def predict_proba(self, X: Any) -> Floats:
        """Probability of each class given the observed cells of each row.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells. A row may lack all of them.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Classes in the order of ``classes_``.
        """
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.

        Returns
        -------
        ndarray of shape (n_samples,)
            Classes.
        """
        # An estimator that is not fitted says so, and has no classes.
        most_probable = self.predict_proba(X).argmax(axis=1)
        return self.classes_[most_probable]

    @by_chunks
    def score_samples(self, X: Any) -> Floats:
        """Log density of each row, whatever its class, with missing cells integrated out.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.

        Returns
        -------
        ndarray of shape (n_samples,)
            Log densities in nats, with respect to the counting measure on categories and the
            Lebesgue measure on numbers. Low where a row is unlike the training rows. A category
            that was not seen counts as in :meth:`CutsetNetworkBD.score_samples`; it says nothing
            about the class.
        """
        _, events, mass = self._events(X)
        return mass.with_rows(self._log_density(events))

    def sample(self, n_samples: int = 1, random_state: Any = None) -> tuple[Any, np.ndarray]:
        """Draw rows and their classes.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows.
        random_state : int, RandomState instance or None, default=None
            The same seed gives the same rows. ``None`` draws anew at each call; the estimator's
            own ``random_state`` is not used.

        Returns
        -------
        X : ndarray or DataFrame of shape (n_samples, n_features)
            Complete rows in original units, of the kind that ``fit`` was given.
        y : ndarray of shape (n_samples,)
            Their classes.
        """
        check_is_fitted(self)
        n_samples = check_n_samples(n_samples)
        random_state = check_random_state(random_state)
        rows, code = self._draw(n_samples, random_state)
        return self.domain_.decode(self.domain_.name(rows, random_state)), self.classes_[code]
