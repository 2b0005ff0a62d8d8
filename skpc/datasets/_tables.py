"""The small tables of the examples, with categories by name; scikit-learn ships the numbers."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.utils import Bunch

_CULTIVARS = np.array(["Barolo", "Grignolino", "Barbera"], dtype=object)
#: Grey levels of the digits run from 0 to 16; above this a pixel is ink.
_INK = 7


def load_wines(*, return_X_y: bool = False, as_frame: bool = False) -> Any:
    """Load 178 Italian wines: 13 measurements and the cultivar.

    The table of :func:`sklearn.datasets.load_wine` with its classes by their names.

    Parameters
    ----------
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` in place of a Bunch.
    as_frame : bool, default=False
        Whether ``data`` and ``target`` are a DataFrame and a Series, which needs pandas.

    Returns
    -------
    Bunch or tuple
        ``data``: the measurements, of shape (178, 13). ``target``: the cultivars "Barolo",
        "Grignolino" and "Barbera". ``frame``: both as one DataFrame with the column ``cultivar``;
        None without ``as_frame``. ``feature_names``, ``target_names`` and ``DESCR``.

    Examples
    --------
    >>> from skpc import CutsetNetworkBD
    >>> from skpc.datasets import load_wines
    >>> wines = load_wines(as_frame=True).frame
    >>> CutsetNetworkBD(random_state=0).fit(wines).sample(
    ...     1, given={"cultivar": "Barolo"}
    ... ).shape
    (1, 14)
    """
    raw = load_wine()
    about = (
        "178 wines of one region of Italy, from three cultivars: 13 chemical measurements (alcohol "
        "in percent, magnesium in mg/l, and so on). UCI Machine Learning Repository, CC BY 4.0; "
        "sklearn.datasets.load_wine holds the numbers and describes them."
    )
    return _table(raw, _CULTIVARS[raw.target], "cultivar", about, return_X_y, as_frame)


def load_tumours(*, return_X_y: bool = False, as_frame: bool = False) -> Any:
    """Load 569 breast tumours: 30 measurements of cell nuclei and the diagnosis.

    The table of :func:`sklearn.datasets.load_breast_cancer` with its classes by their names.

    Parameters
    ----------
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` in place of a Bunch.
    as_frame : bool, default=False
        Whether ``data`` and ``target`` are a DataFrame and a Series, which needs pandas.

    Returns
    -------
    Bunch or tuple
        ``data``: the measurements, of shape (569, 30). ``target``: the diagnoses "benign" and
        "malignant". ``frame``: both as one DataFrame with the column ``diagnosis``; None without
        ``as_frame``. ``feature_names``, ``target_names`` and ``DESCR``.

    Examples
    --------
    >>> from skpc.datasets import load_tumours
    >>> X, y = load_tumours(return_X_y=True)
    >>> X.shape, sorted(set(y))
    ((569, 30), ['benign', 'malignant'])
    """
    raw = load_breast_cancer()
    diagnosis = raw.target_names.astype(object)[raw.target]
    about = (
        "569 breast tumours: mean, standard error and worst value of ten measurements of the cell "
        "nuclei in an image. Wisconsin Diagnostic Breast Cancer, UCI Machine Learning Repository, "
        "CC BY 4.0; sklearn.datasets.load_breast_cancer holds the numbers and describes them."
    )
    return _table(raw, diagnosis, "diagnosis", about, return_X_y, as_frame)


def load_digit_bits(*, return_X_y: bool = False, as_frame: bool = False) -> Any:
    """Load 1797 handwritten digits in black and white: 64 binary pixels and the digit.

    The images of :func:`sklearn.datasets.load_digits`; grey levels above 7 of 16 are ink.

    Parameters
    ----------
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` in place of a Bunch.
    as_frame : bool, default=False
        Whether ``data`` and ``target`` are a DataFrame and a Series, which needs pandas.

    Returns
    -------
    Bunch or tuple
        ``data``: zeros and ones of shape (1797, 64), the 8 x 8 pixels row by row. ``target``: the
        digits 0 to 9. ``frame``: both as one DataFrame with the column ``digit``; None without
        ``as_frame``. ``feature_names``, ``target_names`` and ``DESCR``.

    Examples
    --------
    >>> from skpc.datasets import load_digit_bits
    >>> load_digit_bits().data[0].reshape(8, 8)[:2].astype(int)
    array([[0, 0, 0, 1, 1, 0, 0, 0],
           [0, 0, 1, 1, 1, 1, 0, 0]])
    """
    raw = load_digits()
    about = (
        "1797 handwritten digits of 8 x 8 pixels, ink or not. Optical Recognition of Handwritten "
        "Digits, test set, UCI Machine Learning Repository, CC BY 4.0; "
        "sklearn.datasets.load_digits holds the grey levels and describes them."
    )
    raw.data = (raw.data > _INK).astype(np.float64)
    return _table(raw, raw.target, "digit", about, return_X_y, as_frame)


def _table(
    raw: Bunch, target: NDArray[Any], name: str, about: str, return_X_y: bool, as_frame: bool
) -> Any:
    """What a loader returns: the columns of scikit-learn's table and another target."""
    data, names = raw.data, list(map(str, raw.feature_names))
    frame = None
    if as_frame:
        from pandas import DataFrame

        frame = DataFrame(data, columns=names).assign(**{name: target})
        data, target = frame[names], frame[name]
    if return_X_y:
        return data, target
    known = {"feature_names": names, "target_names": np.unique(target), "DESCR": about}
    return Bunch(data=data, target=target, frame=frame, **known)
