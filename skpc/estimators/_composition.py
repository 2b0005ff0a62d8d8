"""Estimators made of named member estimators: parameters of members, and lists of them."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from skpc._validation import BaseComposition
from skpc.estimators._estimator import Estimator


class Composition(BaseComposition, Estimator):
    """An estimator made of member estimators, whose parameters it has too, by their names."""

    #: The parameters that may be lists of (name, estimator).
    _member_parameters: ClassVar[tuple[str, ...]]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of the estimator, and of its members as ``name__parameter``.

        Parameters
        ----------
        deep : bool, default=True
            Whether to return the parameters of the members too.

        Returns
        -------
        dict
        """
        params = dict(super().get_params(deep=deep))
        for attribute in self._member_parameters if deep else ():
            for name, member in filter(_is_pair, _entries(params[attribute])):
                nested = member.get_params() if hasattr(member, "get_params") else {}
                params |= {name: member} | {f"{name}__{key}": nested[key] for key in nested}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters of the estimator, or of members as ``name__parameter``.

        Parameters
        ----------
        **params : dict
            A member's name replaces the member.

        Returns
        -------
        Self
            The estimator.
        """
        for attribute in self._member_parameters:
            # Lists of members, and members by name, are set here; other parameters further down.
            given = params.pop(attribute, getattr(self, attribute))
            members = [
                (entry[0], params.pop(entry[0], entry[1])) if _is_pair(entry) else entry
                for entry in _entries(given)
            ]
            # A list whose members all stay remains the same object.
            is_changed = members != [*_entries(given)]
            setattr(self, attribute, type(given)(members) if is_changed else given)
        super().set_params(**params)
        return self

    def _named(self, parameter: str, known: Mapping[str, str] | None = None) -> list[Any]:
        """The members in a parameter, as pairs of names and estimators.

        Parameters
        ----------
        parameter : str
            Name of the parameter, which is a list of such pairs or a single estimator.
        known : mapping of str to str, default=None
            Names that may stand in the list in place of pairs, with the model that each of them
            means; the list may then be empty or None. None: there are no such names.

        Raises
        ------
        ValueError
            If the list does not hold such pairs, or a name is invalid or comes twice.
        """
        given = getattr(self, parameter)
        models = known or {}
        if known is None and not isinstance(given, list | tuple):
            return [(parameter, given)]
        wanted = "pairs (name, estimator)"
        wanted += ", at least one" if known is None else f" or names among {list(known)}"
        entries = given or ([given] if known is None else [])
        pairs = [
            (entry, models[entry]) if isinstance(entry, str) and entry in models else entry
            for entry in entries
        ]
        for pair in pairs:
            if not _is_pair(pair):
                raise ValueError(f"{parameter} must hold {wanted}; got {pair!r}.")
        refuse_repeated([name for name, _ in pairs], parameter)
        self._validate_names([name for name, _ in pairs])
        return [tuple(pair) for pair in pairs]


def _entries(given: Any) -> Sequence[Any]:
    """The entries of a parameter that is a list; none if it is something else."""
    return given if isinstance(given, list | tuple) else ()


def _is_pair(entry: Any) -> bool:
    """Whether an entry of a list is a name and an estimator."""
    return isinstance(entry, list | tuple) and len(entry) == 2 and isinstance(entry[0], str)


def refuse_repeated(names: list[str], parameter: str) -> None:
    """Raise a ValueError if a name comes twice."""
    if len(set(names)) < len(names):
        raise ValueError(f"The names of {parameter} must differ; got {names}. Rename one.")
