"""The public names, reviewed as one list."""

import importlib
import subprocess
import sys

import pytest

import skpc

PUBLIC = {
    "skpc": [
        "Circuit",
        "CircuitImputer",
        "CutsetNetworkBD",
        "DensityClassifier",
        "ExpectedKernelSVC",
        "ExpectedKernelSVR",
        "KernelEPOperator",
        "LogisticEPClassifier",
        "MixtureOfAllTrees",
        "SoftLearnSPN",
        "__version__",
        "show_versions",
    ],
    "skpc.circuit": [
        "CATEGORICAL",
        "GAUSSIAN",
        "HISTOGRAM",
        "LEAF",
        "PRODUCT",
        "SUM",
        "Circuit",
        "CircuitBuilder",
        "Structure",
        "load_circuit",
        "save_circuit",
    ],
    "skpc.queries": [
        "KernelExpansion",
        "PseudoCounts",
        "condition",
        "expected_gram",
        "expected_kernel",
        "fit_parameters",
        "flows",
        "log_conditional",
        "log_likelihood",
        "marginals",
        "moments",
        "mpe",
        "quantiles",
        "sample",
        "sample_missing",
        "surprise",
        "uniform_pseudo_counts",
    ],
    "skpc.kernels": [
        "Bins",
        "ColumnKernel",
        "Delta",
        "ExponentialHamming",
        "Kernel",
        "Normals",
        "ProductKernel",
        "RBF",
        "States",
        "SumKernel",
        "leaf_expectations",
        "leaf_second_moments",
    ],
    "skpc.discrepancies": ["BlackBoxImportanceSampler", "kdsd", "mmd2", "stein_gram"],
    "skpc.datasets": ["URLS", "fetch_debd", "make_chow_liu", "make_ising", "make_missing"],
    "skpc.domain": [
        "Domain",
        "column_moments",
        "group_codes",
        "group_rows",
        "merge_codes",
        "merge_rows",
        "present_rows",
    ],
    "skpc.messages": [
        "BayesianRegression",
        "Beta",
        "CODECS",
        "Codec",
        "CompoundGammaFactor",
        "Gamma",
        "ImportanceSamplingOracle",
        "JustInTimeOperator",
        "LearnedOperator",
        "LinearEP",
        "LogisticEP",
        "LogisticFactor",
        "Message",
        "MessageFeatures",
        "MessageLayout",
        "MessageOperator",
        "Moments",
        "Normal",
        "QuadratureOracle",
        "WeightPosterior",
        "embedding_products",
        "inner_widths",
        "message_moments",
        "outer_width",
        "precision_posterior",
    ],
    "skpc.warmup": ["warmup"],
    "skpc.plotting": ["CircuitDisplay", "MarginalsDisplay"],
    "skpc.factor_graphs": [
        "FactorGraph",
        "GibbsSampler",
        "compile",
        "load_asia",
        "log_partition",
        "min_fill_vtree",
        "read_uai",
        "sum_out",
        "write_uai",
    ],
}


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names_are_those_of_the_list(module):
    assert sorted(importlib.import_module(module).__all__) == sorted(PUBLIC[module])


#: Plain records of distributions, shown in the example of leaf_expectations.
FAMILIES = ("Bins", "Normals", "States")


def public_functions():
    for module, names in PUBLIC.items():
        for name in names:
            found = getattr(importlib.import_module(module), name)
            if callable(found):
                yield f"{module}.{name}", found


@pytest.mark.parametrize(("name", "found"), list(public_functions()), ids=lambda x: str(x))
def test_public_docstrings_have_an_example(name, found):
    doc = found.__doc__ or ""
    assert doc.strip(), name
    without = {"skpc.circuit.Structure", "skpc.queries.PseudoCounts"}
    without |= {f"skpc.kernels.{part}" for part in ("Kernel", "ColumnKernel", *FAMILIES)}
    if name not in without:
        assert ">>> " in doc, f"{name} has no example"


def test_importing_the_package_loads_no_optional_library_of_its_own():
    code = (
        "import sys, sklearn.utils.validation; before = set(sys.modules); import skpc;"
        "optional = {'matplotlib', 'pandas', 'polars', 'dask', 'cvxopt', 'tqdm'};"
        "print(optional & (set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_show_versions_names_the_package_and_its_dependencies(capsys):
    skpc.show_versions()
    shown = capsys.readouterr().out
    assert f"skpc: {skpc.__version__}" in shown
    for name in ("numpy", "scikit-learn", "numba", "python"):
        assert f"{name}: " in shown
