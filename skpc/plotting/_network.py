"""Cutset networks: cuts, and trees of variables below them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from skpc._arrays import segment
from skpc.circuit import PRODUCT, Circuit
from skpc.plotting._drawing import HALF_BOX, Block, draw_blocks, text_width
from skpc.plotting._names import Names

#: More boxes than this cannot be read on one page.
_MAX_BOXES = 300
#: In ems.
_PITCH = 2.3


class Vertex(NamedTuple):
    """A variable of a tree, and those that depend on it directly.

    ``n_variables`` counts it and all below it. Trees with equal ``key`` differ by the parameters
    of their first variables only.
    """

    variable: int
    children: tuple[Vertex, ...]
    n_variables: int
    key: tuple[int, ...]


#: The roots of trees of variables, independent of each other.
Forest = tuple[Vertex, ...]


class Branch(NamedTuple):
    """What follows under one state of a cut."""

    state: int
    log_probability: float
    part: Cut | Forest


class Cut(NamedTuple):
    """A decision on a variable; it is counted itself in ``n_cuts`` and ``n_variables``."""

    variable: int
    branches: tuple[Branch, ...]
    n_cuts: int
    n_variables: int


def read_network(circuit: Circuit) -> list[Cut | Forest] | None:
    """The cutset network that a circuit is: a cut, and a forest next to it if there is one.

    A sum that decides on a variable is a vertex of a tree if the same follows under all of its
    states, parameters apart; else it is a cut. (So a cut with one and the same single variable
    in every branch counts as the tree of two variables that it equals.) None if the circuit is
    no cutset network.
    """
    # A leaf of several variables is no part of a network of trees.
    if np.diff(circuit.scope_ptr).max() > 1:
        return None
    # For each node the independent factors of its distribution.
    factors: list[list[Vertex | Cut]] = []
    used: set[int] = set()
    # Children stand before parents, so that their factors are there.
    for node in range(circuit.n_nodes):
        children = circuit.child[segment(circuit.child_ptr, node)].tolist()
        if circuit.leaf_var[node] >= 0:
            variable = int(circuit.leaf_var[node])
            # The key of a leaf is negative, so that no list of children equals it.
            factors.append([Vertex(variable, (), 1, (-1 - variable,))])
        elif circuit.kind[node] == PRODUCT:
            factors.append([factor for child in children for factor in factors[child]])
        else:
            decision = _decision(circuit, node, [factors[child] for child in children], used)
            if decision is None:
                return None
            factors.append([decision])
    # A network has one cut at most, and trees beside it.
    cuts = [factor for factor in factors[-1] if isinstance(factor, Cut)]
    trees = tuple(factor for factor in factors[-1] if isinstance(factor, Vertex))
    if len(cuts) > 1:
        return None
    return [*cuts, trees] if trees else [*cuts]


def _decision(
    circuit: Circuit, node: int, terms: list[list[Vertex | Cut]], used: set[int]
) -> Vertex | Cut | None:
    """What a sum is; None if it decides on no variable or does not fit into a network."""
    variable = int(circuit.decision_var[node])
    if variable < 0:
        return None
    # The indicator of the decided variable is the decision itself, not what hangs below it.
    rests = [[factor for factor in term if factor.variable != variable] for term in terms]
    forests = [tuple(f for f in nodes if isinstance(f, Vertex)) for nodes in rests]
    cuts = [[f for f in nodes if isinstance(f, Cut)] for nodes in rests]
    # Keys tell whether trees are the same below each state, whatever the order of their roots.
    keys = [sorted(root.key for root in forest) for forest in forests]
    n_variables = circuit.scopes[node].bit_count()
    edges = segment(circuit.child_ptr, node)
    states = circuit.decision_state[edges].tolist()
    log_probabilities = circuit.log_weight[edges].tolist()
    # Where the same trees follow each state, the decision is a vertex with those below it.
    if not any(cuts) and all(key == keys[0] for key in keys):
        # Small subtrees first: their siblings' edges then stay short.
        children = tuple(sorted(forests[0], key=lambda root: root.n_variables))
        key = tuple(circuit.child[edges].tolist()) if children else (-1 - variable,)
        return Vertex(variable, children, n_variables, key)
    branches = []
    for state, log_probability, forest, below in zip(states, log_probabilities, forests, cuts):
        # A branch is one cut or one forest; a cut with two parents would be drawn twice.
        if below and (forest or len(below) > 1 or id(below[0]) in used):
            return None
        used.update(map(id, below))
        branches.append(Branch(state, log_probability, below[0] if below else forest))
    n_cuts = 1 + sum(cut.n_cuts for below in cuts for cut in below)
    return Cut(variable, tuple(branches), n_cuts, n_variables)


def draw_network(parts: list[Cut | Forest], names: Names, max_depth: int | None, ax: Any) -> Any:
    """Draw the network, first cut on top, and return the axes.

    What lies more than ``max_depth`` edges below the root is counted, not drawn.
    """
    # In ems.
    gaps = (1.5, 1.1)
    writer = _Writer(names, max_depth)
    # Without a limit the levels are as many as there may be boxes.
    levels = _MAX_BOXES if max_depth is None else max_depth
    # Independent parts hang below a block without a text.
    if len(parts) > 1:
        writer.blocks.append(Block(0))
        writer.blocks[0].below = [writer.add(part, 0, levels) for part in parts]
    else:
        writer.add(parts[0], 0, levels)
    key = "square boxes: variables of a Chow-Liu tree"
    if isinstance(parts[0], Cut):
        key = f"round boxes: cuts; {key}"
    return draw_blocks(writer.blocks, gaps, key, ax)


class _Writer:
    """Makes blocks of the parts of a network, and refuses more boxes than fit on a page."""

    def __init__(self, names: Names, max_depth: int | None) -> None:
        self.blocks: list[Block] = []
        self._names = names
        self._max_depth = max_depth
        self._n_boxes = 0

    def add(self, part: Cut | Forest, layer: int, levels: int, label: str = "") -> int:
        """Add a part and all below it; return the number of its block."""
        label_height = 3.6
        block = Block(layer)
        number = len(self.blocks)
        self.blocks.append(block)
        y = HALF_BOX
        if label:
            block.write(0.0, label_height / 2, label, "label")
            y += label_height
        if not isinstance(part, Cut):
            # The name of the first root stands in the middle under the branch.
            x = -text_width(self._names.variables[part[0].variable]) / 2
            for root in part:
                y = self._list(block, root, x, y, levels)
            return number
        name = self._write_box(block, 0.0, y, part.variable, "cut")
        if levels == 0:
            hidden = f"{_count(part.n_cuts - 1, 'cut')}, " if part.n_cuts > 1 else ""
            # What is hidden does not count the cut that is shown.
            hidden = f"+{hidden}{_count(part.n_variables - 1, 'variable')}"
            block.write(-text_width(name) / 2, y + _PITCH, hidden, "note")
            return number
        for branch in part.branches:
            state = self._names.state(part.variable, branch.state)
            # The label of a branch stands on top of the block that it leads to.
            label = f"{state}\n{100 * math.exp(branch.log_probability):.3g} %"
            block.below.append(self.add(branch.part, layer + 1, levels - 1, label))
        return number

    def _list(self, block: Block, vertex: Vertex, x: float, y: float, levels: int) -> float:
        """Add a vertex and the tree below it, one line each; return where the next line is."""
        indent = 1.8
        self._write_box(block, x, y, vertex.variable, "variable")
        line = y + _PITCH
        if levels == 0 and vertex.children:
            block.write(x + indent, line, f"+{vertex.n_variables - 1} more", "note")
            return line + _PITCH
        for child in vertex.children:
            trunk = x + 0.4
            end = x + indent - 0.5
            # An arrow leaves the box of the vertex downwards, then turns to the child.
            block.arrows.append([(trunk, y + 0.8), (trunk, line), (end, line)])
            line = self._list(block, child, x + indent, line, levels - 1)
        return line

    def _write_box(self, block: Block, x: float, y: float, variable: int, style: str) -> str:
        self._n_boxes += 1
        # Boxes are counted while they are written, as max_depth may leave most of them out.
        if self._n_boxes > _MAX_BOXES:
            advice = "set max_depth=2, say," if self._max_depth is None else "lower max_depth"
            raise ValueError(
                f"a drawing has room for {_MAX_BOXES} cuts and variables, which this cutset "
                f"network over {len(self._names.variables)} variables exceeds at "
                f"max_depth={self._max_depth}; {advice} to draw only its top"
            )
        name = self._names.variables[variable]
        block.write(x, y, name, style)
        return name


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number > 1 else ''}"
