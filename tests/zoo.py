"""Tiny named circuits and random ones, for tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skpc.circuit import PRODUCT, SUM, Circuit, CircuitBuilder
from skpc.factor_graphs import FactorGraph
from skpc.variables import POISSON, Histogram, Law
from skpc.variables.score import Score
from tests.naive.circuit import atoms_of

AXIS = (np.array([-1.0, 0.0, 0.5, 2.0]), 0.7, 1.3)
#: A point mass at 0 with a state on both of its sides, and an atom that fills a cell of a lattice.
ATOMS_AXIS = Histogram(
    np.array([-1.0, -3e-12, 3e-12, 1.0, 1.5, 3.0]),
    0.7,
    1.3,
    state=np.array([0, 0, 1, 0, 2, 3, 3]),
    share=np.array([0.2, 0.5, 1.0, 0.3, 1.0, 0.6, 0.4]),
    point=np.array([np.nan, np.nan, 0.0, np.nan, 1.25, np.nan, np.nan]),
)
#: Columns with a score: a point mass, atoms of a lattice above a bound, bounds alone, nothing.
SCORED_COLUMNS = [
    Law(Score(centre=0.5, spread=1.5, power=0.5, low=-2.0, high=3.0), np.array([0.0])),
    Law(
        Score(lower=-30.0, centre=3.4, spread=0.1, power=1.5, low=-1.5, high=1.5),
        np.array([-1.0, -0.5, 2.0]),
        step=0.5,
        reach=0.2495,
        gap=0.5,
    ),
    Law(
        Score(lower=-30.0, upper=30.0, centre=0.1, spread=0.2, power=2.0, low=-2.0, high=2.0),
        np.empty(0),
        smallest_sd=0.01,
    ),
    Law(Score(), np.array([-0.5, 0.0, 3.0])),
]
#: Stands for the axis of a variable with Poisson leaves.
COUNTS = "counts"


def log_simplex(rng: np.random.Generator, size: int) -> np.ndarray:
    """Log of a random distribution."""
    return np.log(rng.dirichlet(np.ones(size)))


def random_circuit(
    seed: int,
    n_features: int = 4,
    kinds: str = "mixed",
    depth: int = 4,
    width: int = 2,
) -> Circuit:
    """A random smooth and decomposable circuit (not deterministic), with shared nodes.

    ``kinds``: "binary", "discrete" (2 to 4 states), "gaussian", "histogram", "atoms" (a histogram
    axis with some), "scored", "mixed" (all of these), or "counts" (Poisson and Gaussian leaves
    beside binary ones).
    """
    rng = np.random.default_rng(seed)
    n_states, axes = _variables(rng, n_features, kinds)
    builder = CircuitBuilder(n_states, [None if axis is COUNTS else axis for axis in axes])
    shared: dict[tuple[int, ...], list[int]] = {}

    def leaf(var: int) -> int:
        return _leaf(builder, rng, n_states, var, axes[var])

    def grow(scope: tuple[int, ...], level: int) -> int:
        if scope in shared and rng.random() < 0.3:
            return int(rng.choice(shared[scope]))
        if level == 0 or (len(scope) == 1 and rng.random() < 0.5):
            nodes = [leaf(var) for var in scope]
            node = nodes[0] if len(nodes) == 1 else builder.product(nodes)
        else:
            parts = [split(scope, level) for _ in range(rng.integers(1, width + 2))]
            node = builder.sum(parts, log_simplex(rng, len(parts)))
        shared.setdefault(scope, []).append(node)
        return node

    def split(scope: tuple[int, ...], level: int) -> int:
        if len(scope) == 1:
            return leaf(scope[0])
        mixed = rng.permutation(scope)
        cut = int(rng.integers(1, len(scope)))
        halves = (tuple(sorted(mixed[:cut].tolist())), tuple(sorted(mixed[cut:].tolist())))
        return builder.product([grow(half, level - 1) for half in halves])

    scope = tuple(range(n_features))
    builder_root = split(scope, depth)
    builder.sum([builder_root, split(scope, depth)], log_simplex(rng, 2))
    return builder.build()


def random_deterministic_circuit(
    seed: int, n_features: int = 4, kinds: str = "discrete"
) -> Circuit:
    """A random decision circuit: sums decide on variables one after the other."""
    rng = np.random.default_rng(seed)
    n_states, axes = _variables(rng, n_features, kinds)
    builder = CircuitBuilder(n_states, [None if axis is COUNTS else axis for axis in axes])

    def grow(scope: tuple[int, ...]) -> list[int]:
        if not scope:
            return []
        choices = [var for var in scope if n_states[var] > 0 and not isinstance(axes[var], Law)]
        if not choices or (len(scope) == 1 and rng.random() < 0.5):
            return [_leaf(builder, rng, n_states, var, axes[var]) for var in scope]
        var = int(rng.choice(choices))
        rest = tuple(other for other in scope if other != var)
        children = []
        for state in range(n_states[var]):
            cut = int(rng.integers(0, len(rest) + 1))
            parts = [*grow(rest[:cut]), *grow(rest[cut:])]
            children.append(builder.product([builder.indicator(var, state), *parts]))
        weight = log_simplex(rng, len(children))
        return [builder.sum(children, weight, var, range(len(children)))]

    nodes = grow(tuple(range(n_features)))
    if len(nodes) > 1:
        builder.product(nodes)
    return builder.build()


def random_structured_circuit(
    seed: int, n_features: int = 4, kinds: str = "mixed", width: int = 2, vtree: int = 0
) -> Circuit:
    """A random circuit that splits its scopes as all others do that have the same ``vtree``.

    Sums and their children differ with the seed; a product may also be wide or deep, and a sum may
    have a sum below.
    """
    of_vtree, rng = np.random.default_rng(vtree), np.random.default_rng([seed, vtree])
    n_states, axes = _variables(of_vtree, n_features, kinds)
    builder = CircuitBuilder(n_states, [None if axis is COUNTS else axis for axis in axes])

    def parts_of(scope: list[int]) -> list[list[int]]:
        if len(scope) == 3 and of_vtree.random() < 0.5:
            return [[var] for var in scope]
        cut = int(of_vtree.integers(1, len(scope)))
        return [scope[:cut], scope[cut:]]

    def mixtures(nodes: list[int], count: int) -> list[int]:
        """A few nodes of the scope: sums of some of those given, one of them over another sum."""
        found = []
        for _ in range(count):
            some = rng.choice(nodes, size=min(len(nodes), 3), replace=False).tolist()
            found.append(builder.sum(some, log_simplex(rng, len(some))))
        if rng.random() < 0.5:
            found[-1] = builder.sum([found[-1], nodes[0]], log_simplex(rng, 2))
        return found

    def grow(scope: list[int]) -> list[int]:
        if len(scope) == 1:
            var = scope[0]
            nodes = [_leaf(builder, rng, n_states, var, axes[var]) for _ in range(width + 1)]
            return nodes if rng.random() < 0.5 else mixtures(nodes, width)
        below = [grow(part) for part in parts_of(scope)]
        n_products = width + int(rng.integers(0, 2))
        products = [
            builder.product([int(rng.choice(nodes)) for nodes in below]) for _ in range(n_products)
        ]
        return mixtures(products, width)

    nodes = grow(of_vtree.permutation(n_features).tolist())
    builder.sum(nodes, log_simplex(rng, len(nodes)))
    return _without_idle_nodes(builder)


def random_block_circuit(
    seed: int,
    n_numbers: int = 3,
    vtree: int | None = None,
    columns: Sequence[Law] = SCORED_COLUMNS,
) -> Circuit:
    """A random circuit of numbers and one category, variable 1, whose leaves are blocks and others.

    Numbers are split into parts, each described by blocks, or by scored leaves too if it is of one
    number. Nodes are shared. Without ``vtree`` products split their scopes in different ways, else
    all circuits of the same ``vtree`` split theirs as one.
    """
    of_vtree = np.random.default_rng(seed if vtree is None else vtree)
    rng = np.random.default_rng([seed, 1])
    axes: list = [columns[at] for at in of_vtree.choice(len(columns), n_numbers, replace=False)]
    axes.insert(1, None)
    n_states = [3 if axis is None else axis.n_states for axis in axes]
    numbers = [var for var in range(n_numbers + 1) if var != 1]
    builder = CircuitBuilder(n_states, axes)
    pools: dict[tuple[int, ...], list[int]] = {}

    def node_of(part: tuple[int, ...]) -> int:
        """A new leaf or a sum of some, or a node of this scope that there is."""
        pool = pools.setdefault(part, [])
        if len(pool) > 1 and rng.random() < 0.5:
            return int(rng.choice(pool))
        if len(pool) > 1 and rng.random() < 0.5:
            some = rng.choice(pool, 2, replace=False).tolist()
            pool.append(builder.sum(some, log_simplex(rng, 2)))
        elif part == (1,):
            pool.append(builder.discrete(1, log_simplex(rng, n_states[1])))
        elif len(part) == 1 and rng.random() < 0.5:
            log_prob = log_simplex(rng, n_states[part[0]])
            pool.append(builder.scored(part[0], log_prob, rng.normal(), rng.uniform(0.3, 2.0)))
        else:
            pool.append(random_block(builder, rng, part))
        return pool[-1]

    def split(rng: np.random.Generator) -> list[tuple[int, ...]]:
        mixed = rng.permutation(numbers)
        cut = int(rng.integers(1, n_numbers + 1))
        parts = [tuple(sorted(half.tolist())) for half in (mixed[:cut], mixed[cut:]) if len(half)]
        return [*parts, (1,)]

    one_way = split(of_vtree)
    products = []
    for _ in range(4):
        parts = split(rng) if vtree is None else one_way
        products.append(builder.product([node_of(part) for part in parts]))
    builder.sum(products, log_simplex(rng, 4))
    return _without_idle_nodes(builder)


def random_block(
    builder: CircuitBuilder, rng: np.random.Generator, variables: Sequence[int]
) -> int:
    """Add a block of correlated scores."""
    d = len(variables)
    root = rng.normal(size=(d, d)) * 0.6
    log_probs = [log_simplex(rng, builder.n_states[var]) for var in variables]
    covariance = root @ root.T + 0.1 * np.eye(d)
    return builder.block(variables, log_probs, rng.normal(size=d), covariance)


def one_block(seed: int, columns: Sequence[Law]) -> Circuit:
    """A circuit that is a single block of these columns."""
    builder = CircuitBuilder([column.n_states for column in columns], columns)
    random_block(builder, np.random.default_rng(seed), range(len(columns)))
    return builder.build()


def _without_idle_nodes(builder: CircuitBuilder) -> Circuit:
    """Build the circuit again from what its root reaches: the builder refuses idle nodes."""
    kept: dict[int, int] = {}
    pending = [len(builder._nodes) - 1]
    used = set(pending)
    while pending:
        for child in builder._nodes[pending.pop()].children:
            if child not in used:
                used.add(child)
                pending.append(child)
    again = CircuitBuilder(builder.n_states, builder.axes)
    for number in sorted(used):
        node = builder._nodes[number]
        children = [kept[child] for child in node.children]
        if node.kind == SUM:
            kept[number] = again.sum(children, node.log_weight)
        elif node.kind == PRODUCT:
            kept[number] = again.product(children)
        else:
            kept[number] = again._add_leaf(node.scope, node.family, node.params)
    return again.build()


def random_rows(seed: int, circuit: Circuit, n_rows: int, missing: float = 0.3) -> np.ndarray:
    """Encoded rows with missing cells that fit the variables of a circuit."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n_rows, circuit.n_features)) * 2
    for var in range(circuit.n_features):
        has_axis = circuit.axis_ptr[var + 1] > circuit.axis_ptr[var]
        if circuit.n_states[var] and not has_axis:
            rows[:, var] = rng.integers(0, circuit.n_states[var], n_rows)
        if POISSON in circuit.leaf_family[circuit.leaf_var == var]:
            rows[:, var] = rng.poisson(2.0, n_rows)
        atoms = atoms_of(circuit, var)
        if atoms:
            at = rng.random(n_rows) < 0.4
            rows[at, var] = rng.choice(atoms, at.sum())
    rows[rng.random(rows.shape) < missing] = np.nan
    return rows


def _leaf(
    builder: CircuitBuilder,
    rng: np.random.Generator,
    n_states: list[int],
    var: int,
    axis,
) -> int:
    if axis is COUNTS:
        return builder.poisson(var, rng.uniform(0.5, 6.0))
    if isinstance(axis, Law):
        log_prob = log_simplex(rng, n_states[var])
        return builder.scored(var, log_prob, rng.normal(), rng.uniform(0.3, 2.0))
    if n_states[var] == 0:
        return builder.gaussian(var, rng.normal(), rng.uniform(0.3, 2.0))
    return builder.discrete(var, log_simplex(rng, n_states[var]))


def _variables(rng: np.random.Generator, n_features: int, kinds: str) -> tuple[list[int], list]:
    choices = {
        "binary": ["binary"],
        "discrete": ["discrete"],
        "gaussian": ["gaussian"],
        "histogram": ["histogram"],
        "atoms": ["atoms"],
        "scored": ["scored"],
        "mixed": ["binary", "discrete", "gaussian", "histogram", "atoms", "scored"],
        "counts": ["binary", "gaussian", "poisson", "poisson"],
    }[kinds]
    n_states: list[int] = []
    axes: list = []
    for _ in range(n_features):
        kind = str(rng.choice(choices))
        axes.append({"histogram": AXIS, "atoms": ATOMS_AXIS, "poisson": COUNTS}.get(kind))
        sizes = {"binary": 2, "discrete": int(rng.integers(2, 5)), "histogram": 5, "atoms": 4}
        if kind == "scored":
            axes[-1] = SCORED_COLUMNS[rng.integers(len(SCORED_COLUMNS))]
            sizes[kind] = len(axes[-1].atoms) + 1
        n_states.append(sizes.get(kind, 0))
    return n_states, axes


def random_factor_graph(
    seed: int, n_states: tuple[int, ...] = (2, 3, 4), n_factors: int = 4, zeros: float = 0.0
) -> FactorGraph:
    """A random factor graph with factors of one to three variables."""
    rng = np.random.default_rng(seed)
    factors = []
    for _ in range(n_factors):
        size = int(rng.integers(1, min(3, len(n_states)) + 1))
        scope = rng.choice(len(n_states), size, replace=False).tolist()
        table = rng.normal(size=[n_states[v] for v in scope])
        table[rng.random(table.shape) < zeros] = -np.inf
        factors.append((scope, table))
    return FactorGraph(n_states, factors)
