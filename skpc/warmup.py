"""Compile what the estimators need, once: ``python -m skpc.warmup [names of estimators]``.

Compiled functions are cached on disk, so that later processes load them. Run it in the recipe of a
container, or before a cluster starts many workers at once.
"""

import argparse
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.tree import DecisionTreeClassifier

import skpc
from skpc._jit import KERNELS, compile_for_others, ship
from skpc._shipped import OWN_FILE, processor
from skpc.circuit import CircuitBuilder
from skpc.counting.rows import count_state_pairs
from skpc.discrepancies import BlackBoxImportanceSampler
from skpc.factor_graphs import FactorGraph, GibbsSampler
from skpc.kernels import RBF
from skpc.queries import Events, KernelExpansion, expected_gram, sample
from skpc.variables import Law
from skpc.variables.score import Score

__all__ = ["warmup"]


#: Methods, and what each is called with beside rows; an estimator is asked those that it has.
_CALLS: list[tuple[str, dict[str, Any]]] = [
    ("score_samples", {}),
    ("marginals", {}),
    *[("complete", {"strategy": name, "random_state": 0}) for name in ("mean", "mpe", "sample")],
    ("interval", {}),
    ("score_cells", {}),
    ("predict", {}),
    ("predict_proba", {}),
    ("transform", {}),
]
#: Estimators that are called in a way of their own.
_OTHERS = {"ExpectedKernelSVR", "KernelEPOperator", "LogisticEPClassifier"}


def warmup(*names: str) -> None:
    """Fit estimators to small tables, and call each of their methods once.

    Parameters
    ----------
    *names : str
        Names of estimators, such as ``"TableMixture"``. None: all of them, and what else there is.

    Raises
    ------
    ValueError
        If an estimator is not known.

    Examples
    --------
    >>> from skpc.warmup import warmup
    >>> warmup("TableMixture")  # doctest: +SKIP
    """
    # Names are checked first, as compiling takes minutes.
    known = {type(estimator).__name__ for estimator in _estimators_of_tables()} | _OTHERS
    unknown = sorted(set(names) - known)
    if unknown:
        raise ValueError(
            f"There is no estimator {unknown[0]!r} to compile for; there are {sorted(known)}."
        )
    # Two classes that say nothing: only the types of the arrays matter.
    labels = np.arange(60) % 2
    for X in _tables():
        incomplete = X.copy()
        # Gaps in different rows and columns, so that some rows are complete.
        incomplete[::2, 0] = incomplete[1::3, -1] = np.nan
        # Too many completions to be summed: trees are sampled.
        incomplete[1, 1:] = np.nan
        for estimator in _estimators_of_tables():
            if not names or type(estimator).__name__ in names:
                _use(estimator.fit(X, labels), X, incomplete)
                _use(estimator.fit(incomplete, labels), incomplete)
        if not names or "ExpectedKernelSVR" in names:
            machine = skpc.ExpectedKernelSVR(skpc.CutsetNetworkBD())
            machine.fit(X, X[:, 1]).predict(incomplete, return_std=True)
    # Numbers of the mixed table serve as messages.
    messages = _tables()[1]
    if not names or "KernelEPOperator" in names:
        _use(skpc.KernelEPOperator(n_inner=10, n_outer=10).fit(messages, labels + 0.0), messages)
    if not names or "LogisticEPClassifier" in names:
        _use(skpc.LogisticEPClassifier().fit(messages, labels), messages)
    if not names:
        _other_shapes()


def _other_shapes() -> None:
    """What only other tables, or no tables, come to."""
    # Trees over many columns are eliminated another way.
    many_columns = np.random.default_rng(0).integers(0, 2, (20, 201))
    skpc.MixtureOfAllTrees(max_iter=1, random_state=0).fit(many_columns)
    # Many pairs of cells are counted as bits.
    count_state_pairs(np.zeros((100, 40), dtype=np.int16), np.ones(100), np.full(40, 2))
    # Rows of circuits with many edges a column are counted along their induced trees.
    many_states = np.repeat(np.arange(20.0), 10)[:, np.newaxis] + np.zeros(2)
    skpc.CutsetNetworkBD(categorical_features=[0, 1]).fit(many_states).partial_fit(many_states)
    _blocks()
    graph = FactorGraph.ising_grid(2, 2, coupling=0.2, field=0.1)
    samples = GibbsSampler(graph, burn_in=10, thinning=4, random_state=0).sample(20)
    BlackBoxImportanceSampler(graph, collapse=0.5, random_state=0).fit(samples).marginals()


def _use(fitted: Any, *tables: np.ndarray) -> None:
    """Call each method that a fitted estimator has, on each of the tables."""
    for rows in tables:
        # Methods that an estimator does not have need no kernels.
        for method, arguments in _CALLS:
            if hasattr(fitted, method):
                getattr(fitted, method)(rows, **arguments)
    if hasattr(fitted, "marginals"):
        # Conditionals have a path of their own.
        fitted.score_samples(tables[-1], given=[0])
        fitted.sample(3, random_state=0)
    if hasattr(fitted, "to_mixture"):
        fitted.to_mixture(2, random_state=0)


def _tables() -> list[np.ndarray]:
    """Binary, mixed, and of three states each, whose names are not their numbers."""
    rng = np.random.default_rng(0)
    binary = rng.integers(0, 2, (60, 8)).astype(np.float64)
    mixed = np.column_stack([rng.integers(0, 3, 60), rng.normal(size=(60, 3))])
    return [binary, mixed, rng.integers(1, 4, (60, 8)) + 0.0]


def _estimators_of_tables() -> list[Any]:
    # Its smoothing is given: a fit takes a fraction of the time.
    network = skpc.CutsetNetworkBD(param_ess=1.0, random_state=0)
    trees = partial(skpc.MixtureOfAllTrees, max_iter=1, n_inference_samples=100, random_state=0)
    return [
        skpc.CutsetNetworkBD(random_state=0),
        skpc.CutsetNetworkBD(criterion="bic"),
        skpc.CutsetNetworkBD(n_components=2, param_ess=1.0, random_state=0),
        skpc.CutsetNetworkBD(structured=True),
        skpc.SoftLearnSPN(random_state=0),
        skpc.SoftLearnSPN(clusterer="em", random_state=0),
        skpc.TableMixture(n_components=2, random_state=0),
        skpc.HiddenChowLiuTree(random_state=0),
        skpc.HiddenForest(random_state=0),
        skpc.ExtraCutsets(2, random_state=0),
        skpc.StackedDensity([("network", network)], random_state=0),
        skpc.Strudel(random_state=0),
        trees(),
        trees(orientation="undirected"),
        trees(orientation="undirected", inference="collapsed"),
        # What these are made of by default is compiled with the densities.
        skpc.CellErrorDetector(network, random_state=0),
        skpc.CircuitImputer(network),
        skpc.MultipleImputer(network, n_imputations=2, random_state=0),
        skpc.DensityClassifier(network, classifiers=None, cv=2),
        skpc.DensityRegressor(network, regressors=None, cv=2),
        skpc.ExpectedKernelSVC(network),
        skpc.ExpectedPredictor(DecisionTreeClassifier(), network),
        skpc.GenerativeForest(2, random_state=0),
    ]


def _blocks() -> None:
    """Expected kernels under a leaf of several numbers with atoms, and an event."""
    column = Law(Score(), np.zeros(1))
    states = np.log([0.5, 0.5])
    builder = CircuitBuilder([2, 2], [column, column])
    builder.block([0, 1], [states, states], np.zeros(2), np.eye(2))
    rows = np.array([[1.0, np.nan], [np.nan, np.nan]])
    points = np.ones((1, 2))
    for columns_rows in (None, points):
        expected_gram(builder.build(), rows, columns_rows, RBF(1.0))
    weights = np.ones((1, 1))
    expansion = KernelExpansion(builder.build(), points, weights, RBF(1.0))
    expansion.variance(rows)
    # A range of one of its columns, as an event.
    place = np.zeros(1, dtype=np.int64)
    ends = (np.zeros(1), np.ones(1))
    sample(builder.build(), 1, 0, Events.from_intervals(rows[1:], place, place, *ends))


def _main() -> None:
    description = """
        Compile what skpc needs, once, by using every estimator (or those that are named) on small
        tables. Later processes load the machine code from where numba keeps it: next to the modules
        of skpc, or in the directory that the environment variable NUMBA_CACHE_DIR names.
    """
    parser = argparse.ArgumentParser("python -m skpc.warmup", description=description)
    parser.add_argument("names", nargs="*", help="estimators, such as TableMixture; default: all")
    parser.add_argument(
        "--ship",
        nargs="?",
        const=OWN_FILE,
        type=Path,
        metavar="FILE",
        help="also write the machine code, for other processors of this kind: to the file of this "
        "copy of skpc, which every process reads; or to FILE, for a wheel",
    )
    options = parser.parse_args()
    if options.ship is not None:
        # What cannot be shipped is refused before anything is compiled for minutes.
        if processor() is None:
            parser.error("no machine code is shipped for this processor; leave out --ship")
        compile_for_others()
    start = time.perf_counter()
    try:
        warmup(*options.names)
    except ValueError as error:
        parser.error(str(error))
    # The others were found in numba's cache, from an earlier process.
    misses = sum(sum(kernel.stats.cache_misses.values()) for kernel in KERNELS)
    seconds = time.perf_counter() - start
    lines = [
        f"skpc is warm after {seconds:.0f} s: {misses} functions compiled, the others were on disk "
        "already."
    ]
    if options.ship is not None:
        n_kernels = ship(KERNELS, options.ship)
        size = options.ship.stat().st_size / 1e6
        lines.append(f"{n_kernels} functions are in {options.ship} ({size:.1f} MB).")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    _main()
