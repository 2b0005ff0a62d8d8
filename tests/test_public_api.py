"""The public names, reviewed as one list."""

import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

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
        "CellErrorDetector",
        "CircuitImputer",
        "CutsetNetworkBD",
        "DensityClassifier",
        "DensityRegressor",
        "ExpectedKernelSVC",
        "ExpectedKernelSVR",
        "ExpectedPredictor",
        "ExtraCutsets",
        "GenerativeForest",
        "HiddenChowLiuTree",
        "HiddenForest",
        "KernelEPOperator",
        "LogisticEPClassifier",
        "MixtureOfAllTrees",
        "MultipleImputer",
        "SoftLearnSPN",
        "StackedDensity",
        "Strudel",
        "TableMixture",
        "__version__",
        "ranges",
        "show_versions",
    ],
    "skpc.variables": [
        "CATEGORICAL",
        "GAUSSIAN",
        "HISTOGRAM",
        "POISSON",
        "SCORED",
        "BLOCK",
        "Histogram",
        "HistogramTable",
        "Bins",
        "Columns",
        "Form",
        "Leaves",
        "Normals",
        "Points",
        "Predictive",
        "Law",
        "ScoredNormals",
        "fit_histogram",
        "plain_axis",
    ],
    "skpc.circuit": [
        "LEAF",
        "PRODUCT",
        "SUM",
        "Circuit",
        "CircuitBuilder",
        "Decisions",
        "Structure",
        "decision_circuit",
        "load_circuit",
        "mixture",
        "save_circuit",
        "scope_text",
    ],
    "skpc.queries": [
        "AtPoints",
        "Events",
        "Intervals",
        "KernelExpansion",
        "Paths",
        "PseudoCounts",
        "Weights",
        "bd_score",
        "condition",
        "expected_gram",
        "expected_kernel",
        "expected_value",
        "fit_parameters",
        "flows",
        "log_conditional",
        "log_expectation",
        "log_likelihood",
        "marginals",
        "moments",
        "mpe",
        "posteriors",
        "quantiles",
        "sample",
        "sample_missing",
        "score_cells",
        "uniform_pseudo_counts",
    ],
    "skpc.densities": ["CircuitAnswers", "Density"],
    "skpc.kernels": [
        "ColumnKernel",
        "Delta",
        "ExponentialHamming",
        "Kernel",
        "KernelCircuit",
        "KernelNode",
        "ProductKernel",
        "RBF",
        "SumKernel",
        "leaf_expectations",
        "leaf_second_moments",
        "product_terms",
    ],
    "skpc.discrepancies": ["BlackBoxImportanceSampler", "kdsd", "mmd2", "stein_gram"],
    "skpc.comparisons": [
        "ComparisonResult",
        "DriftMonitor",
        "feature_importance_test",
        "goodness_of_fit_test",
        "independence_test",
        "two_sample_test",
    ],
    "skpc.imputation": [
        "CombinedEstimates",
        "combine_estimates",
        "energy_distance",
        "energy_i_score",
        "long_table",
    ],
    "skpc.synthesis": [
        "Rule",
        "RuledDensity",
        "Rules",
        "TableReport",
        "WithGaps",
        "find_rules",
        "keep_rules",
        "table_report",
    ],
    "skpc.explain": ["ConditionalMasker"],
    "skpc.datasets": [
        "URLS",
        "fetch_debd",
        "load_digit_bits",
        "load_tumours",
        "load_wines",
        "make_chow_liu",
        "make_ising",
        "make_missing",
    ],
    "skpc.domain": [
        "Categories",
        "Column",
        "Declared",
        "Domain",
        "Empty",
        "Face",
        "LogMass",
        "Numbers",
        "OrderedStates",
        "RowNames",
        "canonical_order",
        "column_moments",
        "group_codes",
        "group_rows",
        "join_tables",
        "merge_codes",
        "merge_rows",
        "named_columns",
        "one_hot",
        "present_rows",
        "read_events",
    ],
    "skpc.messages": [
        "BayesianRegression",
        "Beta",
        "CODECS",
        "CholeskyFeatures",
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
        "SeparateRegressions",
        "WeightPosterior",
        "embedding_kernel",
        "embedding_products",
        "inner_length_scale_sq",
        "message_moments",
        "noise_of_greatest_evidence",
        "noise_of_least_error",
        "outer_length_scale_sq",
        "precision_posterior",
    ],
    "skpc.exceptions": ["IncompatibleError", "StructureError"],
    "skpc.warmup": ["warmup"],
    "skpc.plotting": ["CircuitDisplay", "ImputationDisplay", "MarginalsDisplay"],
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


#: Packages and modules without public names.
INTERNAL = ["skpc.all_trees", "skpc.counting", "skpc.estimators", "skpc.learning", "skpc.pooling"]
#: Public names without an example in their docstring, and why.
WITHOUT_EXAMPLE = {
    "skpc.circuit.Decisions": "a record; decision_circuit has an example",
    "skpc.queries.Paths": "a record; expected_value has an example",
    "skpc.circuit.Structure": "a part of a circuit; CircuitBuilder makes it",
    "skpc.densities.Density": "a protocol; CircuitAnswers shows it at work",
    "skpc.domain.Categories": "a kind of Column, which has an example",
    "skpc.domain.Empty": "a kind of Column, which has an example",
    "skpc.domain.Numbers": "a kind of Column, which has an example",
    "skpc.domain.OrderedStates": "a kind of Column, which has an example",
    "skpc.domain.RowNames": "a kind of Column, which has an example",
    "skpc.kernels.Kernel": "abstract; its subclasses have examples",
    "skpc.queries.PseudoCounts": "a record; uniform_pseudo_counts makes it",
    "skpc.synthesis.Rule": "a record; find_rules makes it",
    "skpc.synthesis.Rules": "a record; find_rules makes it",
    "skpc.synthesis.TableReport": "a record; table_report makes it",
    "skpc.variables.Columns": "a record that kernels read; Circuit.columns makes it",
    "skpc.variables.Form": "abstract; its subclasses have examples",
    "skpc.variables.Leaves": "a record that kernels read; Structure.leaves makes it",
}


def public_names(module):
    """The list of a package; of a module, else, what it defines without an underscore."""
    home = importlib.import_module(module)
    own = (n for n, x in vars(home).items() if getattr(x, "__module__", None) == module)
    return getattr(home, "__all__", [name for name in own if not name.startswith("_")])


def test_public_names_are_those_of_the_list():
    for module, names in PUBLIC.items():
        assert sorted(public_names(module)) == sorted(names), module


def test_every_package_is_public_or_says_that_it_is_not():
    packages = {m.name for m in pkgutil.iter_modules(skpc.__path__, "skpc.") if m.ispkg}
    assert packages <= {*PUBLIC, *INTERNAL}
    for name in INTERNAL:
        assert "Internal: " in importlib.import_module(name).__doc__, name


def test_the_reference_lists_the_public_names():
    page = (Path(__file__).parents[1] / "doc" / "api" / "index.rst").read_text()
    parts = page.split(".. currentmodule:: ")[1:]
    for module, names in PUBLIC.items():
        text = " ".join(part for part in parts if part.split()[0] == module)
        missing = set(names) - {"Circuit", "__version__"} - set(re.findall(r"\w+", text))
        others = set(re.findall(r"^   (\w+)$", text, flags=re.MULTILINE)) - set(names)
        assert not missing | others, module


def public_functions():
    for module, names in PUBLIC.items():
        for name in names:
            if callable(getattr(importlib.import_module(module), name)):
                yield f"{module}.{name}"


def test_public_docstrings_have_an_example():
    for name in public_functions():
        module, _, attribute = name.rpartition(".")
        doc = getattr(importlib.import_module(module), attribute).__doc__ or ""
        assert doc.strip(), name
        assert (">>> " in doc) != (name in WITHOUT_EXAMPLE), f"{name}: an example, or a reason"


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
        for name in public_names(module):
            found = getattr(importlib.import_module(module), name)
            abstract = {"ColumnKernel", "Density", "Form", "Kernel", "MessageOperator"}
            if isinstance(found, type) and name not in abstract:
                assert found.__repr__ is not object.__repr__, f"{module}.{name}"


def test_importing_the_package_loads_no_optional_library_of_its_own():
    code = (
        "import sys, sklearn.utils.validation; before = set(sys.modules); import skpc;"
        "optional = {'matplotlib', 'pandas', 'polars', 'dask', 'tqdm'};"
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


def loaded_by(statement: str) -> set[str]:
    """The modules that a new process has loaded after a statement."""
    code = f"{statement}; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_a_program_pays_for_what_it_uses():
    alone = loaded_by("import skpc")
    assert not {"numba", "sklearn", "skpc.circuit", "skpc.estimators"} & alone
    one = loaded_by("from skpc import TableMixture")
    assert "skpc.estimators.table_mixture" in one
    others = {"sklearn.svm", "sklearn.calibration", "sklearn.ensemble", "matplotlib", "cvxopt"}
    assert not (others | {"skpc.pooling", "skpc.plotting"}) & one


def test_all_names_are_seen_before_they_are_imported():
    assert set(skpc.__all__) == set(dir(skpc))
    assert all(hasattr(skpc, name) for name in skpc.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'TableMixtures'"):
        skpc.TableMixtures  # noqa: B018
