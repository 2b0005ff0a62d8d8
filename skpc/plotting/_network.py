"""Drawings of cutset networks: the cuts, and the trees of variables below them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from skpc._arrays import segment
from skpc.circuit import PRODUCT, Circuit
from skpc.plotting._drawing import HALF_FRAME, Block, draw_blocks, text_width
from skpc.plotting._names import Names

#: A page has room for at most this many boxes of cuts and variables.
_MAX_BOXES = 300
#: Distance between the lines of a list, in ems.
_LINE_HEIGHT = 2.3


class Vertex(NamedTuple):
    """A variable of a tree, and the vertices below it that depend on it directly.

    ``n_variables`` counts the variables of the vertex and of all vertices below it. Trees with the
    same ``key`` have the same nodes below their roots: only parameters of the roots differ.
    """

    variable: int
    children: tuple[Vertex, ...]
    n_variables: int
    key: tuple[int, ...]


#: The roots of trees of variables, independent of each other.
Forest = tuple[Vertex, ...]


class Branch(NamedTuple):
    """A state of a cut, its probability, and the part of the network that it leads to."""

    state: int
    log_probability: float
    part: Cut | Forest


class Cut(NamedTuple):
    """A decision on a variable; ``n_cuts`` and ``n_variables`` count it and all below it."""

    variable: int
    branches: tuple[Branch, ...]
    n_cuts: int
    n_variables: int


def read_network(circuit: Circuit) -> list[Cut | Forest] | None:
    """Read a circuit as a cutset network: its first cut and the forest beside it, if any.

    A sum that decides on a variable is a vertex of a tree if all its states have the same nodes
    below them, whatever their parameters; else it is a cut. (So a cut whose branches all have the
    same single variable is read as a tree of two variables.) None if the circuit is no cutset
    network.
    """
    # A cutset network has no leaves of several variables.
    if np.diff(circuit.scope_ptr).max() > 1:
        return None
    # For each node, the independent factors of its distribution.
    factors: list[list[Vertex | Cut]] = []
    used: set[int] = set()
    # Children come before their parents, so that their factors are known.
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
    """Read a sum as a vertex or a cut; None if it can be neither.

    ``terms`` are the factors of each of its children, ``used`` the ids of the cuts that already
    have a parent.
    """
    variable = int(circuit.decision_var[node])
    if variable < 0:
        return None
    # The indicator of the decided variable is the decision itself, not a factor below it.
    factors = [[factor for factor in term if factor.variable != variable] for term in terms]
    forests = [tuple(f for f in below if isinstance(f, Vertex)) for below in factors]
    cuts = [[f for f in below if isinstance(f, Cut)] for below in factors]
    # Keys tell whether trees are the same below each state, whatever the order of their roots.
    keys = [sorted(root.key for root in forest) for forest in forests]
    n_variables = circuit.scopes[node].bit_count()
    edges = segment(circuit.child_ptr, node)
    states = circuit.decision_state[edges].tolist()
    log_probabilities = circuit.log_weight[edges].tolist()
    # Where all states have the same trees below them, the decision is a vertex above these.
    if not any(cuts) and all(key == keys[0] for key in keys):
        # Small subtrees come first, so that edges past them stay short.
        children = tuple(sorted(forests[0], key=lambda root: root.n_variables))
        key = tuple(circuit.child[edges].tolist()) if children else (-1 - variable,)
        return Vertex(variable, children, n_variables, key)
    branches = []
    for state, log_probability, forest, below in zip(states, log_probabilities, forests, cuts):
        # A branch leads to one cut or one forest, and a cut has one parent.
        if below and (forest or len(below) > 1 or id(below[0]) in used):
            return None
        used.update(map(id, below))
        branches.append(Branch(state, log_probability, below[0] if below else forest))
    n_cuts = 1 + sum(cut.n_cuts for below in cuts for cut in below)
    return Cut(variable, tuple(branches), n_cuts, n_variables)


def draw_network(parts: list[Cut | Forest], names: Names, max_depth: int | None, ax: Any) -> Any:
    """Draw a network with its first cut on top, and return the axes.

    Cuts and variables more than ``max_depth`` edges below the root are counted, not drawn.
    """
    # Between neighbours and between layers, in ems.
    gaps = (1.5, 1.1)
    writer = _Writer(names, max_depth)
    # Without a limit there are no more levels than boxes.
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
    """Turns the parts of a network into blocks, and refuses more boxes than fit on a page."""

    def __init__(self, names: Names, max_depth: int | None) -> None:
        self.blocks: list[Block] = []
        self._names = names
        self._max_depth = max_depth
        self._n_boxes = 0

    def add(self, part: Cut | Forest, layer: int, levels: int, label: str = "") -> int:
        """Add a part and ``levels`` levels below it; return the number of its block."""
        label_height = 3.6
        block = Block(layer)
        number = len(self.blocks)
        self.blocks.append(block)
        y = HALF_FRAME
        if label:
            block.write(0.0, label_height / 2, label, "label")
            y += label_height
        if not isinstance(part, Cut):
            # The name of the first root is centred under the branch.
            x = -text_width(self._names.variables[part[0].variable]) / 2
            for root in part:
                y = self._write_tree(block, root, x, y, levels)
            return number
        name = self._write_box(block, 0.0, y, part.variable, "cut")
        if levels == 0:
            hidden = f"{_count(part.n_cuts - 1, 'cut')}, " if part.n_cuts > 1 else ""
            # The cut that is shown is not counted among the hidden ones.
            hidden = f"+{hidden}{_count(part.n_variables - 1, 'variable')}"
            block.write(-text_width(name) / 2, y + _LINE_HEIGHT, hidden, "note")
            return number
        for branch in part.branches:
            state = self._names.state(part.variable, branch.state)
            # The label of a branch stands on top of the block that it leads to.
            label = f"{state}\n{100 * math.exp(branch.log_probability):.3g} %"
            block.below.append(self.add(branch.part, layer + 1, levels - 1, label))
        return number

    def _write_tree(self, block: Block, vertex: Vertex, x: float, y: float, levels: int) -> float:
        """Write a vertex and the tree below it, a line for each variable; return the next line."""
        indent = 1.8
        self._write_box(block, x, y, vertex.variable, "variable")
        line = y + _LINE_HEIGHT
        if levels == 0 and vertex.children:
            block.write(x + indent, line, f"+{vertex.n_variables - 1} more", "note")
            return line + _LINE_HEIGHT
        for child in vertex.children:
            trunk = x + 0.4
            end = x + indent - 0.5
            # An arrow leaves the box of the vertex downwards, then turns to the child.
            block.arrows.append([(trunk, y + 0.8), (trunk, line), (end, line)])
            line = self._write_tree(block, child, x + indent, line, levels - 1)
        return line

    def _write_box(self, block: Block, x: float, y: float, variable: int, style: str) -> str:
        """Write the name of a variable in a box, and return it."""
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
