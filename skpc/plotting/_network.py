"""The cutset network that a circuit is: cuts, and trees of variables below them."""

from __future__ import annotations

from typing import NamedTuple

from skpc.circuit import PRODUCT, Circuit

__all__ = ["Cut", "Forest", "NetworkReader", "Part", "Vertex"]


class Vertex(NamedTuple):
    """A variable of a tree; ``n_hidden`` counts the variables below that are not listed."""

    variable: int
    children: tuple[Vertex, ...]
    n_hidden: int


class Forest(NamedTuple):
    """Trees of variables, independent of each other."""

    roots: tuple[Vertex, ...]


class Branch(NamedTuple):
    """What follows under one state of a cut."""

    state: int
    log_probability: float
    part: Cut | Forest


class Cut(NamedTuple):
    """A decision on a variable.

    There are no ``branches`` where what lies below is only counted: ``n_cuts`` and
    ``n_variables`` without this one.
    """

    variable: int
    branches: tuple[Branch, ...]
    n_cuts: int
    n_variables: int


Part = Cut | Forest


class NetworkReader:
    """Finds the decision tree, and the trees of variables at its leaves, in a circuit.

    A sum that decides on a variable is a vertex of a tree if the same follows under all of its
    states, parameters apart; else it is a cut. (So a cut with one and the same single variable
    in every branch counts as the tree of two variables that it equals.)

    Parameters
    ----------
    circuit : Circuit
        Any circuit.

    Attributes
    ----------
    is_network : bool
        Whether the circuit is a cutset network, perhaps beside trees independent of it.
    """

    def __init__(self, circuit: Circuit) -> None:
        self._circuit = circuit
        self._is_tree = self._find_trees()
        self.is_network = self._count_cuts()

    def read(self, max_depth: int | None, max_boxes: int) -> list[Part] | None:
        """The network, and the trees beside it if there are any; None if it is too large.

        What lies more than ``max_depth`` edges below the root is counted, not listed.
        """
        self._budget = max_boxes
        levels = max_boxes if max_depth is None else max_depth
        trees, cuts = self._factors(self._circuit.n_nodes - 1)
        try:
            found: list[Part] = [self._cut(node, levels) for node in cuts]
            return [*found, self._forest(trees, levels)] if trees else found
        except _TooManyBoxesError:
            return None

    def _find_trees(self) -> list[bool]:
        """Which nodes are trees of variables; children stand before their parents."""
        circuit = self._circuit
        self._is_tree = is_tree = (circuit.leaf_var >= 0).tolist()
        for node in (circuit.decision_var >= 0).nonzero()[0].tolist():
            first_key = None
            for child in self._children(node):
                trees, others = self._factors(child, int(circuit.decision_var[node]))
                key = sorted(self._key(part) for part in trees)
                first_key = key if first_key is None else first_key
                if others or key != first_key:
                    break
            else:
                is_tree[node] = True
        return is_tree

    def _key(self, tree: int) -> tuple[int, ...]:
        """What the trees under different states must share to be one and the same."""
        scope = self._circuit.scopes[tree]
        return (-scope,) if scope.bit_count() == 1 else tuple(self._children(tree))

    def _count_cuts(self) -> bool:
        """Whether this is a network; count the cuts below each one."""
        trees, order = self._factors(self._circuit.n_nodes - 1)
        above: dict[int, int] = {}
        if len(order) > 1:
            return False
        for node in order:
            variable = int(self._circuit.decision_var[node])
            if variable < 0:
                return False
            for child in self._children(node):
                trees, others = self._factors(child, variable)
                shared = any(other in above for other in others)
                if shared or len(others) > 1 or (others and trees):
                    return False
                above.update((other, node) for other in others)
                order += others
        count = dict.fromkeys(order, 0)
        for node in reversed(order[1:]):
            count[above[node]] += count[node] + 1
        self._cuts_below = count
        return True

    def _cut(self, node: int, levels: int) -> Cut:
        self._spend_box()
        variable = int(self._circuit.decision_var[node])
        n_variables = self._circuit.scopes[node].bit_count() - 1
        branches = []
        first = int(self._circuit.child_ptr[node])
        for edge, child in enumerate(self._children(node), start=first):
            if levels == 0:
                break
            trees, cuts = self._factors(child, variable)
            part = self._cut(cuts[0], levels - 1) if cuts else self._forest(trees, levels - 1)
            state = int(self._circuit.decision_state[edge])
            branches.append(Branch(state, float(self._circuit.log_weight[edge]), part))
        return Cut(variable, tuple(branches), self._cuts_below[node], n_variables)

    def _forest(self, trees: list[int], levels: int) -> Forest:
        return Forest(tuple([self._vertex(tree, levels) for tree in trees]))

    def _vertex(self, node: int, levels: int) -> Vertex:
        self._spend_box()
        if self._circuit.leaf_var[node] >= 0:
            return Vertex(int(self._circuit.leaf_var[node]), (), 0)
        variable = int(self._circuit.decision_var[node])
        scopes = self._circuit.scopes
        if levels == 0:
            return Vertex(variable, (), scopes[node].bit_count() - 1)
        children = []
        trees, _ = self._factors(self._children(node)[0], variable)
        # Small subtrees first: their siblings' edges then stay short.
        for tree in sorted(trees, key=lambda tree: scopes[tree].bit_count()):
            children.append(self._vertex(tree, levels - 1))
        return Vertex(variable, tuple(children), 0)

    def _spend_box(self) -> None:
        self._budget -= 1
        if self._budget < 0:
            raise _TooManyBoxesError

    def _children(self, node: int) -> list[int]:
        ptr = self._circuit.child_ptr
        found: list[int] = self._circuit.child[ptr[node] : ptr[node + 1]].tolist()
        return found

    def _factors(self, node: int, decided: int = -2) -> tuple[list[int], list[int]]:
        """Factors of a node, trees and others, without the leaf of the variable decided on."""
        trees: list[int] = []
        others: list[int] = []
        pending = [node]
        while pending:
            factor = pending.pop()
            if self._circuit.kind[factor] == PRODUCT:
                pending += reversed(self._children(factor))
            elif self._circuit.leaf_var[factor] != decided:
                (trees if self._is_tree[factor] else others).append(factor)
        return trees, others


class _TooManyBoxesError(Exception):
    """More boxes than fit on a page."""
