"""Docstrings say what signatures say, and what estimators share is written once."""

import importlib
import inspect

import pytest
from numpydoc.docscrape import get_doc_object
from numpydoc.validate import Validator

from tests.docstrings import ADDED, ESTIMATORS, OWN, SHARED, filled
from tests.test_public_api import PUBLIC

#: numpydoc's codes of parameters that are not documented, and of those that do not exist. The order
#: is free, since most are keywords; and a shape is a description.
CODES = {"PR01", "PR02"}
#: Messages are made from the parameters that people use, and hold the natural ones.
OTHER_SIGNATURE = {"skpc.messages.Beta", "skpc.messages.Gamma", "skpc.messages.Normal"}
FILES = sorted(ESTIMATORS.glob("*.py"))


def documented():
    """Public names, and public methods of classes, whose docstring has a section of parameters."""
    for module, names in PUBLIC.items():
        for name in names:
            path = f"{module}.{name}"
            found = getattr(importlib.import_module(module), name)
            if not callable(found):
                continue
            paths = [path]
            if inspect.isclass(found):
                paths += [f"{path}.{each}" for each in vars(found) if not each.startswith("_")]
            for each in paths:
                if Validator(get_doc_object(Validator._load_obj(each))).doc_parameters:
                    yield each


def faults(path: str) -> list[str]:
    """What numpydoc finds, in its words; of names that have no section of parameters, nothing."""
    doc = Validator(get_doc_object(Validator._load_obj(path)))
    found = [f"{code} {text}" for code, text in doc.parameter_mismatches if code in CODES]
    for name, (kind, description) in doc.doc_parameters.items():
        if not kind:
            found.append(f"{name} has no type")
        if not "".join(description).strip() and " of shape (" not in kind:
            found.append(f"{name} has no description")
    return found


def test_docstrings_have_the_parameters_of_the_signature():
    paths = [*documented()]
    assert len(paths) > 150
    found = {path: faults(path) for path in paths if path not in OTHER_SIGNATURE}
    assert [f"{path}: {text}" for path, texts in found.items() for text in texts] == []


def with_a_fault(value, other):
    """Add.

    Parameters
    ----------
    value : int
        Any.
    others : int
    """
    return value + other


def test_a_docstring_that_differs_is_seen():
    texts = " ".join(faults(f"{__name__}.with_a_fault"))
    assert all(code in texts for code in ("PR01", "PR02", "others has no description"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_estimators_share_is_written_once(path):
    """``python -m tests.docstrings`` fills it in."""
    source = path.read_text(encoding="utf-8")
    assert filled(source) == source


def test_a_shared_text_that_differs_is_filled_in():
    source = '''
class Model:
    """A model.

    Parameters
    ----------
    bounds : list
        Of numbers.
    n_jobs : int
        Of parts.
    """
'''
    text = filled(source)
    assert "    bounds : dict, default=None\n        A dict from columns" in text
    assert "        Of parts. None means 1 unless" in text
    assert filled(text) == text


def test_exceptions_are_of_classes_and_parameters_that_exist():
    sources = "".join(path.read_text(encoding="utf-8") for path in FILES)
    for name, parameter in {*ADDED, *OWN}:
        assert f"class {name}(" in sources
        assert parameter in SHARED
