"""Large random circuits for benchmarks, and a layered numpy pass to measure against."""

from __future__ import annotations

import numpy as np

from skpc.circuit import LEAF, SUM, Circuit, CircuitBuilder


def region_circuit(
    n_edges: int, leaf: str, *, n_features: int = 100, n_sums: int = 4, n_products: int = 3, seed=0
) -> Circuit:
    """A mixture of random region trees with about ``n_edges`` edges.

    Every region (a set of variables) has ``n_sums`` sums, each over ``n_products`` products of
    a sum of either half of the region.
    """
    rng = np.random.default_rng(seed)
    builder = CircuitBuilder([2 if leaf == "binary" else 0] * n_features)
    edges, trees = 0, []

    def sums(scope: np.ndarray) -> list[int]:
        nonlocal edges
        if len(scope) == 1:
            return [new_leaf(int(scope[0])) for _ in range(n_sums)]
        half = len(scope) // 2
        left, right = sums(scope[:half]), sums(scope[half:])
        found = []
        for _ in range(n_sums):
            pairs = [(rng.choice(left), rng.choice(right)) for _ in range(n_products)]
            products = [builder.product([int(a), int(b)]) for a, b in pairs]
            found.append(builder.sum(products, np.log(rng.dirichlet(np.ones(n_products)))))
            edges += 3 * n_products
        used = {int(i) for i in [*left, *right]}
        missing = [node for node in used if not is_used(node)]
        if missing:
            # Unused nodes of a half are tied in by one more sum, so that all are reachable.
            for node in missing:
                other = right if node in left else left
                pair = [node, other[0]] if node in left else [other[0], node]
                found.append(builder.sum([builder.product(pair)], [0.0]))
                edges += 3
        return found

    def is_used(node: int) -> bool:
        return any(node in later.children for later in builder._nodes[node + 1 :])

    def new_leaf(var: int) -> int:
        if leaf == "binary":
            return builder.discrete(var, np.log(rng.dirichlet(np.ones(2))))
        return builder.gaussian(var, rng.normal(), rng.uniform(0.5, 2.0))

    while edges < n_edges:
        tops = sums(rng.permutation(n_features))
        trees.append(builder.sum(tops, np.log(rng.dirichlet(np.ones(len(tops))))))
        edges += len(tops) + 1
    builder.sum(trees, np.log(rng.dirichlet(np.ones(len(trees)))))
    return builder.build()


def rows_with_holes(circuit: Circuit, n_rows: int, missing: float, seed: int = 1) -> np.ndarray:
    """Rows of states or standard normal numbers with a share of missing cells."""
    rng = np.random.default_rng(seed)
    binary = rng.integers(0, 2, (n_rows, circuit.n_features)).astype(float)
    normal = rng.normal(size=(n_rows, circuit.n_features))
    rows = np.where(circuit.n_states > 0, binary, normal)
    rows[rng.random(rows.shape) < missing] = np.nan
    return rows


class LayeredNumpy:
    """The textbook vectorised pass: one numpy call a layer, log domain, all rows at once."""

    def __init__(self, circuit: Circuit):
        self.circuit = circuit
        depth = np.zeros(circuit.n_nodes, dtype=int)
        for node in range(circuit.n_nodes):
            below = circuit.child[circuit.child_ptr[node] : circuit.child_ptr[node + 1]]
            depth[node] = 1 + depth[below].max() if len(below) else 0
        self.layers = []
        for level in range(1, depth.max() + 1):
            for is_sum in (False, True):
                nodes = np.flatnonzero((depth == level) & ((circuit.kind == SUM) == is_sum))
                if len(nodes):
                    self.layers.append((is_sum, nodes, *self._edges(nodes)))

    def _edges(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        ptr = self.circuit.child_ptr
        edges = np.concatenate([np.arange(ptr[n], ptr[n + 1]) for n in nodes])
        starts = np.concatenate([[0], np.cumsum(np.diff(ptr)[nodes])[:-1]])
        return edges, starts

    def log_likelihood(self, rows: np.ndarray) -> np.ndarray:
        circuit = self.circuit
        values = np.zeros((circuit.n_nodes, len(rows)))
        for node in np.flatnonzero(circuit.kind == LEAF):
            values[node] = self._leaf(node, rows[:, circuit.leaf_var[node]])
        for is_sum, nodes, edges, starts in self.layers:
            terms = values[circuit.child[edges]]
            if is_sum:
                terms += circuit.log_weight[edges][:, None]
                peak = np.maximum.reduceat(terms, starts)
                np.subtract(terms, np.repeat(peak, np.diff([*starts, len(edges)]), axis=0), terms)
                values[nodes] = peak + np.log(np.add.reduceat(np.exp(terms), starts))
            else:
                values[nodes] = np.add.reduceat(terms, starts)
        return values[-1]

    def _leaf(self, node: int, x: np.ndarray) -> np.ndarray:
        circuit = self.circuit
        param = circuit.param[circuit.param_ptr[node] : circuit.param_ptr[node + 1]]
        if circuit.n_states[circuit.leaf_var[node]]:
            table = np.append(param, 0.0)
            return table[np.where(np.isnan(x), len(param), x).astype(int)]
        z = (x - param[0]) / param[1]
        return np.where(np.isnan(x), 0.0, -0.5 * z * z - np.log(param[1]) - 0.9189385332046727)
