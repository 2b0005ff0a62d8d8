"""What explainers of other libraries need: features that are hidden, drawn given the others."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skpc._arrays import Bools

__all__ = ["ConditionalMasker"]

#: What shap does to rows of several masks: it joins them.
_JOINED = (np.concatenate,)


class ConditionalMasker:
    """Draws the hidden cells of a row given the others, for the explainers of shap.

    ``shap.Explainer(model.predict, masker)`` explains any model with it, by its algorithms "exact",
    "permutation" and "partition". The values are conditional Shapley values: those of
    :meth:`skpc.ExpectedPredictor.shapley_values`, which are exact for trees, with the noise of
    draws.

    Parameters
    ----------
    density : density estimator
        A fitted density of skpc of the columns that the model reads.
    n_draws : int, default=100
        Draws for each set of hidden cells. The standard error of the expectation is the standard
        deviation of the model over them, over ``sqrt(n_draws)``.
    clustering : ndarray of shape (n_features - 1, 4), default=None
        A hierarchy of the columns, as ``scipy.cluster.hierarchy`` has it, for "partition".
    random_state : int, RandomState instance or None, default=None
        Seeds the draws.

    Attributes
    ----------
    shape : tuple of int
        ``n_draws`` and the number of columns.

    Raises
    ------
    TypeError
        If the density has no draws of missing cells.
    ValueError
        If ``n_draws`` is less than 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc import CutsetNetworkBD
    >>> from skpc.explain import ConditionalMasker
    >>> X = np.repeat([[0.0, 0.0], [1.0, 1.0]], 20, axis=0)
    >>> density = CutsetNetworkBD(random_state=0).fit(X)
    >>> masker = ConditionalMasker(density, n_draws=4, random_state=0)
    >>> (drawn,) = masker(np.array([False, True]), X[0])
    >>> drawn
    array([[0., 0.],
           [0., 0.],
           [0., 0.],
           [0., 0.]])
    """

    #: shap copies what a masker may change; this one makes new rows.
    immutable_outputs = True
    supports_delta_masking = False

    def __init__(
        self, density: Any, n_draws: int = 100, *, clustering: Any = None, random_state: Any = None
    ):
        check_is_fitted(density)
        if not hasattr(density, "row_density"):
            raise TypeError(
                f"density must be a fitted density of skpc, which draws missing cells; got a "
                f"{type(density).__name__}."
            )
        if n_draws < 1:
            raise ValueError(f"n_draws must be at least 1, got {n_draws!r}.")
        self.density = density
        self.clustering = clustering
        self.shape = (int(n_draws), int(density.n_features_in_))
        names = getattr(density, "feature_names_in_", None)
        # shap reads the names of features from here.
        self.feature_names = None if names is None else [*names]
        self.random_state = random_state

    def __repr__(self) -> str:
        return f"ConditionalMasker({self.density!r}, n_draws={self.shape[0]})"

    def __call__(self, mask: Bools, *row: Any) -> tuple[Any, ...]:
        """Rows with the cells of one that are not hidden, and draws of the others.

        Parameters
        ----------
        mask : ndarray of bool of shape (n_features,)
            Which cells are not hidden.
        *row : array-like of shape (n_features,)
            The row, as shap passes it: one array. Its missing cells are drawn too.

        Returns
        -------
        tuple of one table of shape (n_draws, n_features)
            A float64 array, or, where the density learned from a DataFrame, rows that shap hands
            to the model as one, with its data types and categories.
        """
        (cells,) = row
        domain = self.density.domain_
        # An object array keeps the types of the cells as shap passes them.
        known = domain.encode(np.array(cells, dtype=object)[np.newaxis])
        # Each row of draws starts from the same cells; a hidden one is NaN.
        rows = np.repeat(np.where(mask, known, np.nan), self.shape[0], axis=0)
        # An integer gives each mask the same random numbers, so that masks differ less by chance.
        drawn = self.density.row_density.draw_missing(rows, check_random_state(self.random_state))
        decoded = domain.decode(drawn)
        # shap joins the rows of several masks by numpy, which cannot join frames.
        return (decoded if isinstance(decoded, np.ndarray) else _Rows(decoded),)


class _Rows:
    """Rows of a DataFrame that numpy joins to a DataFrame, where it would lose the data types."""

    def __init__(self, frame: Any):
        self.frame = frame

    def __len__(self) -> int:
        return len(self.frame)

    def __getitem__(self, index: Any) -> "_Rows":
        return _Rows(self.frame[index])

    def __array_function__(
        self, function: Any, types: Any, args: tuple[Sequence["_Rows"]], kwargs: Any
    ) -> Any:
        # Anything else that numpy could do with rows is refused by numpy itself.
        if function not in _JOINED:
            return NotImplemented
        frames = [rows.frame for rows in args[0]]
        if hasattr(frames[0], "iloc"):
            import pandas as pd

            return pd.concat(frames, ignore_index=True)
        import polars as pl

        return pl.concat(frames)
