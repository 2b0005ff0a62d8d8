"""Trees of fitted models, read into one form, whoever grew them.

Trees of XGBoost, LightGBM and CatBoost are read from what these save: their public texts tell the
values that a model takes for missing, and the codes of categories, where readers of others do not.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.tree import BaseDecisionTree

from skpc._arrays import Floats, Ints, segment
from skpc._validation import hist_predictors

#: LightGBM takes numbers up to this for zero.
_ZERO = float(np.float32(1e-35))


class Tree(NamedTuple):
    """The nodes of a tree.

    Parameters
    ----------
    left, right : ndarrays of int of shape (n_nodes,)
        The children; ``left`` is -1 at leaves.
    column : ndarray of int of shape (n_nodes,)
        The column that a node reads.
    threshold : ndarray of shape (n_nodes,)
        The largest float64 that goes left.
    value : ndarray of shape (n_nodes, n_outputs)
        What leaves add.
    states : dict from int to ndarray of int
        The codes that go left, at nodes that divide categories.
    default : dict from int to bool
        Whether a value that the model takes for missing goes left, at nodes where it is one.
    missing : tuple of two floats
        The interval, open below, of the values that are taken for missing.
    """

    left: Ints
    right: Ints
    column: Ints
    threshold: Floats
    value: Floats
    states: dict[int, Ints]
    default: dict[int, bool]
    missing: tuple[float, float] = (0.0, 0.0)


def largest_below(threshold: Any, is_strict: bool = False) -> Floats:
    """The largest float64 that, rounded to float32, is at most (or below) a threshold."""
    single = np.asarray(threshold, dtype=np.float32)
    is_beyond = single >= threshold if is_strict else single > threshold
    lower = np.where(is_beyond, np.nextafter(single, np.float32(-np.inf)), single)
    # Numbers up to the middle between two floats are rounded to the lower one.
    upper = np.nextafter(lower, np.float32(np.inf)).astype(np.float64)
    middle = lower + 0.5 * (upper - lower)
    # What lies between two floats goes to the even one.
    rounds_up = middle.astype(np.float32) != lower
    return np.where(rounds_up, np.nextafter(middle, -np.inf), middle)


def trees_of(model: Any) -> Iterable[Tree] | None:
    """The trees of a model of scikit-learn, as if it took their sum, or their mean."""
    if hasattr(model, "_predictors"):
        return _hist_trees(model)
    if isinstance(model, BaseDecisionTree):
        members = np.array([[model]])
        rate = 1.0
    else:
        members = np.asarray(getattr(model, "estimators_", []), dtype=object)
        rate = getattr(model, "learning_rate", 1.0)
        # Forests list their trees, and average them; boosting has an array (iterations, outputs).
        if members.ndim == 1:
            members = members[:, np.newaxis]
            rate = 1.0 / max(len(members), 1)
    are_trees = [isinstance(member, BaseDecisionTree) for member in members.flat]
    if not are_trees or not all(are_trees):
        return None
    if any(member.n_outputs_ > 1 for member in members.flat):
        return None
    # Line k takes what a tree says to output k.
    scales = rate * np.eye(members.shape[1])
    return [
        _plain_tree(member, scales[[output]])
        for iteration in members
        for output, member in enumerate(iteration)
    ]


def _plain_tree(model: Any, scale: Floats) -> Tree:
    tree = model.tree_
    value = tree.value[:, 0, :]
    # (n_nodes, n_classes) for classes; a number, (n_nodes, 1), goes to its output.
    value = value * scale if hasattr(model, "classes_") else value @ scale
    threshold = largest_below(tree.threshold)
    return Tree(tree.children_left, tree.children_right, tree.feature, threshold, value, {}, {})


def _hist_trees(model: Any) -> Iterator[Tree]:
    # Nodes have no public names; columns of categories stand before the others.
    order = np.arange(model.n_features_in_)
    if model.is_categorical_ is not None:
        order = np.argsort(~model.is_categorical_, kind="stable")
    for iteration in hist_predictors(model):
        for output, predictor in enumerate(iteration):
            nodes = predictor.nodes
            # A set of categories is a row of bits, the lowest first.
            octets = predictor.raw_left_cat_bitsets.view(np.uint8)
            bits = np.unpackbits(octets, axis=1, bitorder="little")
            states = {
                node: np.flatnonzero(bits[nodes["bitset_idx"][node]])
                for node in np.flatnonzero(nodes["is_categorical"]).tolist()
            }
            left, right = (nodes[side].astype(np.int64) for side in ("left", "right"))
            # In trees of scikit-learn a leaf has -1 for children.
            left[nodes["is_leaf"] > 0] = -1
            value = nodes["value"][:, np.newaxis] * np.eye(len(iteration))[[output]]
            column = order[nodes["feature_idx"]]
            yield Tree(left, right, column, nodes["num_threshold"], value, states, {})


def xgboost_trees(saved: Any, n_iterations: int, missing: float) -> Iterator[Tree]:
    """The trees that ``Booster.save_raw("json")`` tells of.

    Parameters
    ----------
    saved : dict
        Its entry "gradient_booster" of the learner.
    n_iterations : int
        How many iterations answer; -1: all.
    missing : float
        The value that is taken for missing.

    Raises
    ------
    KeyError
        If the model has no trees, or they are told in another form.
    """
    # DART keeps its trees one level deeper, and a weight for each.
    drop = saved.get("weight_drop")
    model = saved["gbtree"]["model"] if drop else saved["model"]
    # Number -1 takes the last entry, which is the number of all trees.
    n_trees = model["iteration_indptr"][n_iterations]
    groups = model["tree_info"][:n_trees]
    weights = drop or np.ones(n_trees)
    outputs = np.eye(max(groups) + 1)
    # Intervals are open below: this one holds a single number.
    interval = (float(np.nextafter(missing, -np.inf)), missing)
    for said, group, weight in zip(model["trees"], groups, weights):
        left = np.array(said["left_children"])
        right = np.array(said["right_children"])
        condition = np.array(said["split_conditions"], dtype=np.float32)
        value = condition[:, np.newaxis] * outputs[group]
        if int(said["tree_param"]["size_leaf_vector"]) > 1:
            value = _leaf_vectors(said, left, right)
        # The categories of all nodes stand in one list; each node has a part of it.
        sizes = zip(said["categories_nodes"], np.cumsum([0, *said["categories_sizes"]]))
        ends = np.cumsum(said["categories_sizes"]).tolist()
        states = {
            node: np.array(said["categories"][begin:end]) for (node, begin), end in zip(sizes, ends)
        }
        # The categories that are listed go right.
        nodes = list(states)
        is_left = np.array(said["default_left"], dtype=bool)
        is_left[nodes] ^= True
        left[nodes], right[nodes] = right[nodes], left[nodes]
        # Where NaN is missing no default is needed: rows that are asked about have no gaps.
        default = {} if np.isnan(missing) else dict(enumerate(is_left.tolist()))
        column = np.array(said["split_indices"])
        # XGBoost sends a number to the left where it is less, LightGBM where it is equal too.
        threshold = largest_below(condition, is_strict=True)
        yield Tree(left, right, column, threshold, weight * value, states, default, interval)


def _leaf_vectors(said: Any, left: Ints, right: Ints) -> Floats:
    """Values of several outputs: those of leaves, or of all nodes in versions before 3.1."""
    if "leaf_weights" not in said:
        return np.reshape(said["base_weights"], (len(left), -1))
    vectors = np.reshape(said["leaf_weights"], (int((left < 0).sum()), -1))
    # The right child of a leaf is the number of its vector.
    return vectors[np.where(left < 0, right, 0)]


def lightgbm_trees(text: str) -> list[Tree]:
    """The trees that ``Booster.model_to_string()`` tells of.

    Raises
    ------
    KeyError, ValueError
        If trees are linear in their leaves, or told in another form.
    """
    header, *blocks = text.partition("\nend of trees")[0].split("\nTree=")
    lines = header.splitlines()
    n_outputs = int(_entries(lines)["num_tree_per_iteration"])
    scale = np.eye(n_outputs)
    # A forest has the mean over its iterations.
    if "average_output" in lines:
        scale *= n_outputs / len(blocks)
    return [
        _lightgbm_tree(_entries(block.splitlines()), scale[number % n_outputs])
        for number, block in enumerate(blocks)
    ]


def _entries(lines: list[str]) -> dict[str, str]:
    parts = (line.partition("=") for line in lines)
    return {name: value for name, _, value in parts}


def _lightgbm_tree(said: dict[str, str], scale: Floats) -> Tree:
    if int(said.get("is_linear", 0)):
        raise ValueError("Trees must have constant leaves to be summed; these are linear.")

    def numbers(name: str, dtype: Any = np.int64) -> Any:
        return np.array(said.get(name, "").split(), dtype=dtype)

    leaf = numbers("leaf_value", np.float64)
    decision = numbers("decision_type")
    n_splits = len(decision)
    # Leaves stand behind the splits, where a child ~i is leaf i.
    left = np.full(n_splits + len(leaf), -1)
    right = left.copy()
    for side, name in ((left, "left_child"), (right, "right_child")):
        child = numbers(name)
        side[:n_splits] = np.where(child < 0, n_splits + ~child, child)
    value = np.concatenate([np.zeros(n_splits), leaf])[:, np.newaxis] * scale
    # LightGBM compares in float64: no threshold has to be rounded.
    threshold = numbers("threshold", np.float64)
    begin = numbers("cat_boundaries")
    words = numbers("cat_threshold").astype(np.uint32)
    states = {}
    # Bit 0 says categories, bit 1 that missing cells go left, bits 2 and 3 what is missing.
    for node in np.flatnonzero(decision & 1).tolist():
        # Such a node has the number of its set for a threshold.
        place = int(threshold[node])
        octets = words[segment(begin, place)].view(np.uint8)
        states[node] = np.flatnonzero(np.unpackbits(octets, bitorder="little"))
    # Numbers whose missing cells are zeros: bit 0 is off, and of bits 2 and 3 the former is on.
    are_zeros = np.flatnonzero((decision & 13) == 4).tolist()
    default = {node: bool(decision[node] & 2) for node in are_zeros}
    zeros = (float(np.nextafter(-_ZERO, -1.0)), _ZERO)
    return Tree(left, right, numbers("split_feature"), threshold, value, states, default, zeros)


def catboost_trees(saved: Any, leaves: dict[int, Ints]) -> Iterator[Tree]:
    """The trees of a model of CatBoost, from ``save_model(..., format="json")``.

    Parameters
    ----------
    saved : dict
        The model. Only symmetric trees are in this form.
    leaves : dict from int to ndarray of int of shape (n_states, n_trees)
        For columns of categories, the leaves of rows that hold the states in turn and are otherwise
        the same.

    Raises
    ------
    KeyError, ValueError
        If trees are not symmetric, or a split combines several columns.
    """
    features = saved["features_info"]
    categories = features.get("categorical_features", [])
    # Splits are numbered: by borders, by equality, and by statistics of categories.
    column_of = [
        feature["flat_feature_index"]
        for feature in [*features.get("float_features", []), *categories]
        for _ in feature.get("borders") or feature.get("values") or []
    ]
    for statistic in features.get("ctrs", []):
        element, *other_elements = statistic["elements"]
        if other_elements:
            raise ValueError("a split combines categories; max_ctr_complexity=1 avoids it")
        column = categories[element["cat_feature_index"]]["flat_feature_index"]
        column_of += [column] * len(statistic["borders"])
    # The bias is left out, since answers of the model tell what the sum lacks.
    scale = saved["scale_and_bias"][0]
    for number, tree in enumerate(saved["oblivious_trees"]):
        # The bits of the number of a leaf are the sides of the splits; the root has the highest.
        splits = (tree["splits"] or [])[::-1]
        n_inner = 2 ** len(splits) - 1
        # Nodes of a complete binary tree: node k has the children 2 k + 1 and 2 k + 2.
        node = np.arange(2 * n_inner + 1)
        left = np.where(node < n_inner, 2 * node + 1, -1)
        level = np.log2(node[:n_inner] + 1).astype(np.int64)
        columns = np.array([column_of[split["split_index"]] for split in splits], dtype=np.int64)
        threshold = largest_below([split.get("border", np.nan) for split in splits])
        states = {}
        for inner, depth in enumerate(level.tolist()):
            if splits[depth]["split_type"] != "FloatFeature":
                # The bit of this split in the leaf that a state reaches is the side that it takes.
                side = leaves[columns[depth]][:, number] >> (len(splits) - 1 - depth) & 1
                states[inner] = np.flatnonzero(side == 0)
        value = np.reshape(tree["leaf_values"], (n_inner + 1, -1)) * scale
        # Leaves stand after the inner nodes, in the order of their numbers.
        value = np.concatenate([np.zeros((n_inner, value.shape[1])), value])
        yield Tree(left, left + 1, columns[level], threshold[level], value, states, {})
