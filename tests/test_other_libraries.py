"""The blocks of the page on other libraries run, where the library of a section is installed.

``tests/other_libraries.txt`` lists the packages for an environment of its own.
"""

import re
import textwrap
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from skpc import CutsetNetworkBD, DensityClassifier

PAGE = Path(__file__).parents[1] / "doc" / "user_guide" / "other_libraries.rst"
#: What the sections import.
LIBRARIES = {
    "pyarrow and narwhals": ("pyarrow", "narwhals"),
    "skrub": ("skrub",),
    "mlflow": ("mlflow.sklearn", "skops"),
    "mapie": ("mapie.regression",),
    "shap": ("shap", "matplotlib"),
    "optuna": ("optuna",),
    "imbalanced-learn": ("imblearn",),
    "sdmetrics": ("sdmetrics.single_column",),
    "statsmodels": ("statsmodels.formula.api",),
}
#: Libraries warn of what they will change.
pytestmark = pytest.mark.filterwarnings("ignore")


def blocks_of_sections():
    """The code of each section by its title; that of the page's head has the title of the page."""
    parts = re.split(r"^(.+)\n(?:-{3,}|={3,})\n", PAGE.read_text(), flags=re.MULTILINE)
    sections = {}
    for title, text in zip(parts[1::2], parts[2::2]):
        blocks = re.findall(r"^\.\. code-block:: python\n\n((?:   .*\n|\n)+)", text, re.MULTILINE)
        sections[title] = "\n".join(map(textwrap.dedent, blocks))
    return sections


def run(title, tmp_path, monkeypatch):
    for library in LIBRARIES[title]:
        pytest.importorskip(library, reason=f"{library} is optional")
    monkeypatch.chdir(tmp_path)
    sections, names = blocks_of_sections(), {}
    for code in (sections["With other libraries"], sections[title]):
        exec(compile(code, PAGE, "exec"), names)
    return names


def covered(bounds, y):
    return np.mean((bounds[:, 0, 0] <= y) & (y <= bounds[:, 1, 0]))


def test_every_section_is_run():
    assert set(blocks_of_sections()) == {"With other libraries", *LIBRARIES}


def test_pyarrow_and_narwhals(tmp_path, monkeypatch):
    names = run("pyarrow and narwhals", tmp_path, monkeypatch)
    assert names["filled"].schema.types == names["arrow"].schema.types
    assert sum(column.null_count for column in names["filled"].columns) == 0


def test_skrub_keeps_dates_and_categories(tmp_path, monkeypatch):
    names = run("skrub", tmp_path, monkeypatch)
    assert names["classifier"].n_features_in_ == 4
    # What skrub hands over does not depend on what is learned from it.
    quick = DensityClassifier(CutsetNetworkBD(), joint=True, classifiers=None)
    default = names["skrub"].tabular_pipeline(quick).fit(names["X"], names["y"])
    assert default[-1].n_features_in_ == 21
    cleaned = names["skrub"].Cleaner().fit_transform(names["raw"])
    assert cleaned["day"].dtype.kind == "M"


def test_mlflow_saves_and_loads_the_same_model(tmp_path, monkeypatch):
    names = run("mlflow", tmp_path, monkeypatch)
    rows = names["table"]
    score = names["model"].score_samples(rows)
    np.testing.assert_array_equal(names["loaded"].score_samples(rows), score)


def test_mlflow_serves_probabilities(tmp_path, monkeypatch):
    names = run("mlflow", tmp_path, monkeypatch)
    from mlflow.pyfunc import load_model

    X, y = names["table"].drop(columns="cultivar"), names["complete"]["cultivar"]
    model = names["DensityClassifier"](names["density"], random_state=0).fit(X, y)
    dumps, types_of = names["skops"].io.dumps, names["skops"].io.get_untrusted_types
    options = {"skops_trusted_types": types_of(data=dumps(model))}
    names["save_model"](model, "classifier", pyfunc_predict_fn="predict_proba", **options)
    served = load_model("classifier").predict(X)
    np.testing.assert_array_equal(served, model.predict_proba(X))


def test_mapie_covers_held_out_targets(tmp_path, monkeypatch):
    names = run("mapie", tmp_path, monkeypatch)
    y = names["y"][130:]
    for conformal in (names["split"], names["quantiles"]):
        bounds = conformal.predict_interval(names["X"][130:])[1]
        assert 0.6 <= covered(bounds, y) <= 1.0
    assert np.ptp(np.diff(names["bounds"][:, :, 0])) > 1.0


def test_shap_adds_up_to_the_prediction(tmp_path, monkeypatch):
    import matplotlib as mpl

    mpl.use("agg")
    names = run("shap", tmp_path, monkeypatch)
    explanation = names["explanation"]
    total = explanation.values.sum(axis=1) + explanation.base_values
    expected = names["model"].predict_proba(names["X"][50:60])
    np.testing.assert_allclose(total, expected, atol=1e-8)


def test_optuna_finds_a_number_of_components(tmp_path, monkeypatch):
    names = run("optuna", tmp_path, monkeypatch)
    values = [trial.value for trial in names["study"].trials]
    assert len(values) == 10
    assert names["study"].best_value == max(values)


def test_imbalanced_learn_gets_as_many_rows_of_both_classes(tmp_path, monkeypatch):
    names = run("imbalanced-learn", tmp_path, monkeypatch)
    counts = names["more_y"].value_counts()
    assert counts[0] == counts[1]
    assert [*names["more_X"]] == ["alcohol", "flavanoids", "proline"]
    assert names["pipeline"].predict(names["X"]).shape == (178,)


def test_sdmetrics_agrees_with_the_report(tmp_path, monkeypatch):
    from skpc.synthesis import table_report

    names = run("sdmetrics", tmp_path, monkeypatch)
    report = table_report(names["complete"], names["drawn"], random_state=0)
    assert isinstance(report.columns, pd.DataFrame)
    assert names["of_numbers"] > 0.8
    assert names["of_classes"] > 0.8


def test_statsmodels_is_combined(tmp_path, monkeypatch):
    names = run("statsmodels", tmp_path, monkeypatch)
    assert "alcohol" in names["combined"].table.index
    assert names["combined"].n_tables == 5
