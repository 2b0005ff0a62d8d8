"""The public names, reviewed as one list."""

import importlib
import subprocess
import sys

import numpy as np
import pytest

import skpc
from skpc import KernelEPOperator, MixtureOfAllTrees
from skpc.circuit import CircuitBuilder
from skpc.discrepancies import BlackBoxImportanceSampler
from skpc.factor_graphs import FactorGraph, GibbsSampler
from skpc.kernels import ExponentialHamming
from skpc.messages import (
    ImportanceSamplingOracle,
    JustInTimeOperator,
    LinearEP,
    LogisticFactor,
    Normal,
    QuadratureOracle,
)
from skpc.plotting import CircuitDisplay
from skpc.queries import KernelExpansion

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
        "inner_length_scale_sq",
        "message_moments",
        "outer_length_scale_sq",
        "precision_posterior",
    ],
    "skpc.exceptions": ["IncompatibleError", "StructureError"],
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
            if callable(getattr(importlib.import_module(module), name)):
                yield f"{module}.{name}"


@pytest.mark.parametrize("name", list(public_functions()))
def test_public_docstrings_have_an_example(name):
    module, _, attribute = name.rpartition(".")
    doc = getattr(importlib.import_module(module), attribute).__doc__ or ""
    assert doc.strip(), name
    without = {"skpc.circuit.Structure", "skpc.queries.PseudoCounts"}
    without |= {f"skpc.kernels.{part}" for part in ("Kernel", "ColumnKernel", *FAMILIES)}
    if name not in without:
        assert ">>> " in doc, f"{name} has no example"


def shown() -> dict[str, object]:
    """Objects that are no estimators, and what they print."""
    graph = FactorGraph.ising_grid(2, 2, coupling=0.3)
    oracle = QuadratureOracle(LogisticFactor(), target=1)
    X = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]] * 9)
    trees = MixtureOfAllTrees(max_iter=1, random_state=0).fit(X)
    circuit = trees.to_mixture(1, random_state=0)
    inputs = ImportanceSamplingOracle(
        lambda z, random_state: z, [Normal(0.0, 1.0)], output="normal", target=0, random_state=0
    )
    kernel = ExponentialHamming(0.5)
    expansion = KernelExpansion(circuit, X[:2], np.ones((2, 1)), kernel)
    sampler = GibbsSampler(graph, burn_in=10, random_state=np.random.RandomState(0))
    learner = JustInTimeOperator(KernelEPOperator(), oracle, threshold=[-8.0, -7.0], n_initial=9)
    by_factor = f"QuadratureOracle(factor={LogisticFactor()!r}, target=1)"
    return {
        f"GibbsSampler(graph={graph!r}, burn_in=10, random_state=<RandomState>)": sampler,
        f"BlackBoxImportanceSampler(target={graph!r}, collapse=0.5)": (
            BlackBoxImportanceSampler(graph, collapse=0.5)
        ),
        by_factor: oracle,
        f"LinearEP(operator={by_factor}, n_iter=5)": LinearEP(oracle, n_iter=5),
        f"JustInTimeOperator(regressor=KernelEPOperator(), oracle={by_factor}, "
        "threshold=[-8.0, -7.0], n_initial=9)": learner,
        "ImportanceSamplingOracle(factor_sampler=<lambda>, proposal=(Normal(mean=0.0, "
        "variance=1.0),), output='normal', target=0)": inputs,
        f"KernelExpansion(n_points=2, n_functions=1, {kernel!r})": expansion,
        "CircuitBuilder(n_features=2, n_nodes=0)": CircuitBuilder([2, 2]),
        f"CircuitDisplay(circuit={circuit!r})": CircuitDisplay(circuit),
    }


def test_objects_show_what_they_are():
    for text, found in shown().items():
        assert repr(found) == text


def test_public_objects_do_not_show_addresses():
    for module in PUBLIC:
        for name in importlib.import_module(module).__all__:
            found = getattr(importlib.import_module(module), name)
            abstract = {"ColumnKernel", "Kernel", "MessageOperator"}
            if isinstance(found, type) and name not in abstract:
                assert found.__repr__ is not object.__repr__, f"{module}.{name}"


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
