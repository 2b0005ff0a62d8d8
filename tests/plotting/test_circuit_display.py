import re
import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.patches import FancyArrowPatch
from sklearn.exceptions import NotFittedError

from skpc import (
    CutsetNetworkBD,
    DensityClassifier,
    LogisticEPClassifier,
    MixtureOfAllTrees,
    SoftLearnSPN,
)
from skpc.circuit import CircuitBuilder, decision_circuit
from skpc.counting.trees import tree_vertices
from skpc.learning.cutset import CutsetOptions, learn_cutset_network
from skpc.learning.network import cutset_circuit
from skpc.plotting import CircuitDisplay
from skpc.plotting._network import Cut, read_network
from skpc.variables import Law
from skpc.variables.score import Score
from tests.zoo import (
    ATOMS_AXIS,
    one_block,
    random_circuit,
    random_deterministic_circuit,
)


def texts(ax):
    return [text.get_text() for text in ax.texts]


def edges(ax):
    """Numbers of lines with and without arrowheads."""
    patches = [patch for patch in ax.patches if isinstance(patch, FancyArrowPatch)]
    n_arrows = sum(type(patch.get_arrowstyle()).__name__ == "CurveFilledB" for patch in patches)
    return n_arrows, len(patches) - n_arrows


def overlapping_texts(display):
    """Pairs of texts whose frames cover each other."""
    renderer = display.figure_.canvas.get_renderer()
    display.figure_.draw(renderer)
    frames = []
    for text in display.ax_.texts:
        patch = text.get_bbox_patch()
        frames.append((patch or text).get_window_extent(renderer).padded(-0.5))
    return [
        (display.ax_.texts[i].get_text(), display.ax_.texts[j].get_text())
        for i in range(len(frames))
        for j in range(i)
        if frames[i].overlaps(frames[j])
    ]


def switched_table(n_rows=600, seed=0):
    """The kind of a shop decides whether rain or wind goes with its sales."""
    rng = np.random.default_rng(seed)
    shop = rng.choice(["ice cream parlour", "umbrellas"], n_rows, p=[0.25, 0.75])
    rain, wind = rng.integers(2, size=(2, n_rows))
    follows = np.where(shop == "umbrellas", rain, wind)
    sales = np.where(rng.random(n_rows) < 0.05, 1 - follows, follows)
    return pd.DataFrame({"shop": shop, "rain": rain, "wind": wind, "sales": sales})


@pytest.fixture(scope="module")
def shops():
    return CutsetNetworkBD(param_ess=None).fit(switched_table())


def structure_of(network, node=0):
    """A learned network as nested tuples: the slow truth for what the circuit must show."""
    if network.variable[node] >= 0:
        branches = [structure_of(network, branch) for branch in network.branches(node).tolist()]
        return ("cut", int(network.variable[node]), tuple(branches))
    tree = network.trees[network.leaf[node]]
    pairs = zip(tree.variables[tree.parent].tolist(), tree.variables.tolist(), tree.parent.tolist())
    return ("tree", frozenset((above, below) for above, below, at in pairs if at >= 0))


def structure_shown(part):
    if isinstance(part, Cut):
        branches = tuple(structure_shown(branch.part) for branch in part.branches)
        return ("cut", part.variable, branches)
    found, pending = set(), list(part)
    while pending:
        vertex = pending.pop()
        found |= {(vertex.variable, child.variable) for child in vertex.children}
        pending += vertex.children
    return ("tree", frozenset(found))


@pytest.mark.parametrize("seed", range(8))
def test_the_structure_read_from_a_circuit_is_the_one_that_was_learned(seed):
    rng = np.random.default_rng(seed)
    n_states = rng.integers(2, 5, 6)
    codes = (rng.random((120, 6)) ** 2 * n_states).astype(np.int16)
    codes[:, 5] = (codes[:, 0] * codes[:, 1] + codes[:, 2]) % n_states[5]
    # A huge equivalent sample size makes cuts cheap.
    network = learn_cutset_network(
        codes, np.ones(120), n_states, CutsetOptions(ess=60.0, max_depth=3)
    )
    assert network.n_cuts > 0
    (part,) = read_network(cutset_circuit(network))
    assert structure_shown(part) == structure_of(network)


def test_a_network_is_drawn_with_its_names_categories_and_probabilities(shops):
    assert shops.n_cuts_ == 1
    ax = CircuitDisplay.from_estimator(shops).ax_
    shown = texts(ax)
    share = 100 * (switched_table()["shop"] == "umbrellas").mean()
    labels = [text for text in shown if "\n" in text]
    assert len(labels) == 2
    name, percent = labels[1].split("\n")
    assert name == "umbrellas"
    assert float(percent.removesuffix(" %")) == pytest.approx(share, abs=0.1)
    assert shown.count("shop") == 1
    assert shown.count("rain") == shown.count("wind") == shown.count("sales") == 2


def test_every_tree_edge_is_an_arrow_and_every_branch_a_line(shops):
    assert edges(CircuitDisplay.from_estimator(shops).ax_) == (2 * 2, 2)


def test_bins_are_labelled_with_their_ranges_in_original_units():
    rng = np.random.default_rng(0)
    level = rng.normal(100.0, 15.0, 900)
    a, b = rng.integers(2, size=(2, 900))
    X = pd.DataFrame({"level": level, "a": a, "b": b, "c": np.where(level > 100, a, b)})
    model = CutsetNetworkBD(n_bins=2, margins="plain").fit(X)
    edge = model.domain_.axes[0][0]
    assert model.circuit_.decision_var[model.circuit_.n_nodes - 1] == 0
    labels = [text.split("\n")[0] for text in texts(CircuitDisplay.from_estimator(model).ax_)]
    assert f"< {edge[0]:.3g}" in labels
    assert f"{edge[0]:.3g} to {edge[1]:.3g}" in labels
    assert f"≥ {edge[2]:.3g}" in labels


def test_edges_of_bins_that_lie_close_together_are_shown_with_enough_digits():
    builder = CircuitBuilder([4], [(np.array([1000.1, 1000.2, 1000.3]), 1.0, 1.0)])
    indicators = [builder.indicator(0, state) for state in range(4)]
    builder.sum(indicators, np.log([0.1, 0.2, 0.3, 0.4]))
    shown = texts(CircuitDisplay(builder.build()).plot().ax_)
    assert {"x0 < 1000.1", "x0 = 1000.1 to 1000.2", "x0 ≥ 1000.3"} <= set(shown)


@pytest.mark.parametrize("ess", [0.1, 60.0])
def test_no_text_covers_another_one(ess):
    X = np.random.default_rng(1).integers(0, 3, (60, 7))
    display = CircuitDisplay.from_estimator(CutsetNetworkBD(ess=ess, max_depth=2).fit(X))
    assert overlapping_texts(display) == []


def test_no_text_covers_another_one_in_small_axes_of_the_user(shops):
    figure, axes = plt.subplots(1, 2, figsize=(6, 2))
    display = CircuitDisplay.from_estimator(shops, ax=axes[1])
    assert display.ax_ is axes[1]
    assert display.figure_ is figure
    assert overlapping_texts(display) == []


def test_max_depth_counts_what_lies_below(shops):
    shown = texts(CircuitDisplay.from_estimator(shops, max_depth=0).ax_)
    assert shown[:2] == ["shop", "+3 variables"]
    shown = texts(CircuitDisplay.from_estimator(shops, max_depth=1).ax_)
    assert shown.count("+2 more") == 2


def test_cuts_below_max_depth_are_counted():
    # A tiny equivalent sample size and many states cut even noise.
    X = np.random.default_rng(1).integers(0, 6, (60, 5))
    model = CutsetNetworkBD(ess=0.1, categorical_features=[0, 1, 2, 3, 4]).fit(X)
    assert model.n_cuts_ > 3
    shown = texts(CircuitDisplay.from_estimator(model, max_depth=0).ax_)
    assert shown[1] == f"+{model.n_cuts_ - 1} cuts, 4 variables"


def test_a_chain_of_two_thousand_variables_is_refused_with_advice_that_helps():
    n = 2000
    row = np.log([[0.4, 0.6], [0.7, 0.3]])
    decisions = tree_vertices(np.arange(n), np.arange(-1, n - 1), [row[:1], *[row] * (n - 1)])
    display = CircuitDisplay(decision_circuit([2] * n, None, decisions))
    with pytest.raises(ValueError, match=r"300 cuts and variables.* 2000 variables.*max_depth=2"):
        display.plot()
    assert texts(display.plot(max_depth=2).ax_)[:4] == ["x0", "x1", "x2", "+1997 more"]


def test_constant_columns_stand_beside_the_network():
    X = switched_table().assign(country="here")
    model = CutsetNetworkBD().fit(X)
    assert model.n_cuts_ == 1
    assert texts(CircuitDisplay.from_estimator(model).ax_).count("country") == 1


def test_states_of_several_cells_are_labelled_with_their_ends_and_atoms_with_their_values():
    builder = CircuitBuilder([4], [ATOMS_AXIS])
    indicators = [builder.indicator(0, state) for state in range(4)]
    builder.sum(indicators, np.log([0.1, 0.2, 0.3, 0.4]))
    shown = texts(CircuitDisplay(builder.build()).plot().ax_)
    assert {"x0 < 1.25", "x0 = 0", "x0 = 1.25", "x0 ≥ 1.25"} <= set(shown)


@pytest.mark.parametrize("seed", range(3))
def test_any_other_small_circuit_is_drawn_with_all_its_nodes_and_edges(seed):
    circuit = random_circuit(seed, n_features=3, depth=2)
    ax = CircuitDisplay(circuit).plot().ax_
    shown = texts(ax)
    assert shown.count("+") == (circuit.kind == 1).sum()
    assert shown.count("×") == (circuit.kind == 2).sum()
    assert sum(text.startswith("x") for text in shown) == (circuit.kind == 0).sum()
    assert edges(ax) == (0, circuit.n_edges)


def test_decisions_that_make_no_cutset_network_are_drawn_as_a_graph():
    found = [random_deterministic_circuit(seed, n_features=5) for seed in range(20)]
    graphs = [c for c in found if read_network(c) is None and c.n_nodes <= 200]
    assert graphs
    assert edges(CircuitDisplay(graphs[0]).plot().ax_) == (0, graphs[0].n_edges)


def test_a_leaf_of_numbers_shows_its_moments_whatever_its_family():
    builder = CircuitBuilder([0, 0])
    numbers = [(builder.gaussian(0, mean, 0.25), builder.poisson(1, 4.0)) for mean in (1.5, 2.0)]
    builder.sum([builder.product(pair) for pair in numbers], np.log([0.5, 0.5]))
    shown = texts(CircuitDisplay(builder.build()).plot().ax_)
    assert {"x0: mean 1.5, sd 0.25", "x1: mean 4, sd 2"} <= set(shown)


def test_a_leaf_of_several_variables_shows_their_names_beside_leaves_of_one():
    builder = CircuitBuilder([1, 1], [Law(Score(), np.empty(0))] * 2)
    both = builder.block([0, 1], [[0.0], [0.0]], [5.0, 6.0], np.eye(2))
    alone = [builder.scored(0, [0.0], 1.5, 0.25), builder.scored(1, [0.0], 2.5, 0.5)]
    builder.sum([both, builder.product(alone)], np.log([0.5, 0.5]))
    shown = texts(CircuitDisplay(builder.build()).plot().ax_)
    leaves = [text for text in shown if text.startswith("x")]
    assert sorted(leaves) == ["x0, x1: joint", "x0: mean 1.5, sd 0.25", "x1: mean 2.5, sd 0.5"]


def test_a_block_alone_is_drawn_with_no_more_names_than_can_be_read():
    columns = [Law(Score(), np.empty(0))] * 7
    shown = texts(CircuitDisplay(one_block(0, columns)).plot().ax_)
    assert shown[0] == "x0, x1, x2, x3 and 3 more: joint"


def test_a_large_graph_is_refused_with_its_size():
    builder = CircuitBuilder([0])
    leaves = [builder.gaussian(0, mean, 1.0) for mean in range(300)]
    builder.sum(leaves, np.full(300, -np.log(300)))
    with pytest.raises(ValueError, match="up to 200 nodes, this one has 301"):
        CircuitDisplay(builder.build()).plot()


def test_max_depth_of_a_graph_is_refused():
    with pytest.raises(ValueError, match="max_depth=1 needs a cutset network"):
        CircuitDisplay(random_circuit(0, n_features=3, depth=2)).plot(max_depth=1)


def test_a_negative_max_depth_is_refused(shops):
    with pytest.raises(ValueError, match="at least 0, got -1"):
        CircuitDisplay.from_estimator(shops, max_depth=-1)


def test_a_domain_with_other_columns_is_refused(shops):
    circuit = random_circuit(0, n_features=3, depth=2)
    with pytest.raises(ValueError, match="the 3 columns of the circuit, got 4"):
        CircuitDisplay(circuit, domain=shops.domain_).plot()


def test_an_estimator_that_is_not_fitted_is_refused():
    with pytest.raises(NotFittedError):
        CircuitDisplay.from_estimator(CutsetNetworkBD())


def test_without_matplotlib_the_error_says_how_to_get_it(shops, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="CircuitDisplay.plot requires matplotlib.*pip install"):
        CircuitDisplay(shops.circuit_).plot()


@pytest.mark.parametrize("font", ["DejaVu Sans", "DejaVu Sans Mono"])
def test_the_caption_is_inside_the_picture_at_any_resolution(shops, font):
    soft = SoftLearnSPN(random_state=0).fit(np.random.default_rng(0).integers(0, 2, (60, 2)))
    for model in (shops, soft):
        with plt.rc_context({"font.family": font}):
            figure = CircuitDisplay.from_estimator(model).figure_
            for dpi in (50, 72, 96, 100, 120, 200):
                figure.set_dpi(dpi)
                figure.canvas.draw()
                caption = figure.axes[0].texts[-1].get_window_extent()
                assert 0 <= caption.x0 <= caption.x1 <= figure.bbox.width
                assert caption.y0 >= 0


def test_what_has_no_circuit_is_refused_with_what_can_be_drawn(shops):
    X = np.random.default_rng(0).integers(0, 2, (60, 3))
    trees = MixtureOfAllTrees(max_iter=1, random_state=0).fit(X)
    with pytest.raises(TypeError, match="MixtureOfAllTrees has not; .*to_mixture") as refusal:
        CircuitDisplay.from_estimator(trees)
    advice = re.search(r"CircuitDisplay\(model.*\.plot\(\)", str(refusal.value)).group()
    drawn = eval(advice, {"CircuitDisplay": CircuitDisplay, "model": trees})
    assert texts(drawn.ax_)
    classifier = DensityClassifier(CutsetNetworkBD(), joint=True, classifiers=None).fit(X, X[:, 0])
    with pytest.raises(TypeError, match="DensityClassifier has not; draw one of its densities_"):
        CircuitDisplay.from_estimator(classifier)
    CircuitDisplay.from_estimator(classifier.densities_["density joint"][0])
    with pytest.raises(TypeError, match="draw a density"):
        CircuitDisplay.from_estimator(LogisticEPClassifier().fit(X, X[:, 0]))


def test_a_circuit_built_by_hand_is_sent_to_where_it_is_taken():
    builder = CircuitBuilder(n_states=[2])
    builder.discrete(0, np.log([0.3, 0.7]))
    circuit = builder.build()
    with pytest.raises(TypeError, match=r"got a Circuit; .*CircuitDisplay\(circuit\).plot"):
        CircuitDisplay.from_estimator(circuit)
