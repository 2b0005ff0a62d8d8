"""Slow truth: circuits evaluated by recursion, one cell and one row at a time."""

from __future__ import annotations

import itertools
import math
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.integrate import quad

from skpc.circuit import LEAF, PRODUCT, Circuit
from skpc.variables import GAUSSIAN, HISTOGRAM, POISSON, SCORED


def is_number(circuit: Circuit, var: int) -> bool:
    """Whether a variable has numbers, with or without states."""
    has_stretch = circuit.axis_ptr[var + 1] > circuit.axis_ptr[var]
    return bool(circuit.n_states[var] == 0 or has_stretch)


class Cell(NamedTuple):
    """A cell ``low <= x < high`` of an axis: a state, its share there, and its atom or NaN.

    A tail has a scale; it ends at ``end``, and its values have a lattice of some step.
    ``is_mass``: the cell is no wider than rounding, and its atom has a probability.
    """

    low: float
    high: float
    scale: float
    state: int
    share: float
    point: float
    is_mass: bool
    end: float = math.nan
    step: float = 0.0


def cells_of(
    edges, lower_scale, upper_scale, state, share, point, least=-math.inf, most=math.inf, step=0.0
) -> list[Cell]:
    """The cells of an axis, given by its fields; an end of a tail is infinite."""
    low, high = [-math.inf, *edges], [*edges, math.inf]
    scale = [lower_scale, *[math.nan] * (len(edges) - 1), upper_scale]
    typical = float(np.median(np.abs(edges)))
    ends = [least, *[math.nan] * (len(edges) - 1), most]
    fields = zip(low, high, scale, state, share, point)
    return [
        Cell(*map(float, cell), cell[1] - cell[0] <= 1e-10 * max(typical, abs(cell[5])), end, step)
        for cell, end in zip(fields, ends)
    ]


def axis_of(circuit: Circuit, var: int) -> list[Cell]:
    """The cells of the histogram axis of a variable, read from the array of all axes."""
    return _cells(circuit.axis[circuit.axis_ptr[var] : circuit.axis_ptr[var + 1]].tobytes())


@cache
def _cells(axis: bytes) -> list[Cell]:
    """The same of the bytes of an axis: each leaf asks for it for each value."""
    part = np.frombuffer(axis).tolist()
    n_edges = (len(part) - 9) // 5
    edges, rest = part[5 : 5 + n_edges], part[5 + n_edges :]
    n_cells = n_edges + 1
    state, share, _, point = (rest[i * n_cells : (i + 1) * n_cells] for i in range(4))
    return cells_of(edges, part[0], part[1], state, share, point, *part[2:5])


def atoms_of(circuit: Circuit, var: int) -> list[float]:
    """The values of a variable that have a probability each."""
    start, end = circuit.axis_ptr[var], circuit.axis_ptr[var + 1]
    if start == end:
        return []
    if circuit.axis[start] == 0.0:
        return scored_column(circuit, var).atoms
    return [cell.point for cell in axis_of(circuit, var) if not math.isnan(cell.point)]


def within_cell(cell: Cell, x: float) -> float:
    """Density of a value of a cell, given the cell; the mean one in the cell of a lattice."""
    if math.isinf(cell.low) or math.isinf(cell.high):
        if cell.step > 0.0:
            above, below = (tail_below(cell, x + side * cell.step) for side in (0.5, -0.5))
            return (above - below) / cell.step
        edge = cell.high if math.isinf(cell.low) else cell.low
        return math.exp(-abs(x - edge) / cell.scale) / cell.scale / tail_mass(cell)
    return 1.0 if cell.is_mass else 1.0 / (cell.high - cell.low)


def tail_mass(cell: Cell) -> float:
    """What its end leaves of an exponential tail."""
    edge = cell.high if math.isinf(cell.low) else cell.low
    return 1.0 - math.exp(-abs(cell.end - edge) / cell.scale)


def tail_below(cell: Cell, x: float) -> float:
    """Share of a tail that is not above ``x``, which is not beyond its end."""
    if math.isinf(cell.low):
        lost = math.exp((cell.end - cell.high) / cell.scale)
        return (math.exp((x - cell.high) / cell.scale) - lost) / tail_mass(cell)
    return (1.0 - math.exp((cell.low - x) / cell.scale)) / tail_mass(cell)


def state_and_density(circuit: Circuit, var: int, x: float) -> tuple[int, float]:
    """State of a value on its axis, and the density of the value given the state."""
    (cell,) = [cell for cell in axis_of(circuit, var) if cell.low <= x < cell.high]
    return int(cell.state), cell.share * within_cell(cell, x)


class NaiveScore(NamedTuple):
    """The transform of Yeo and Johnson, linear outside a range, behind logarithms at bounds.

    With one bound, values beyond the other end of the range are linear themselves. Soft bounds
    change the values next to them instead, first by the lower one.
    """

    lower: float
    upper: float
    centre: float
    spread: float
    power: float
    low: float
    high: float
    soft: float = 0.0

    def of(self, x: float) -> float:
        u = (self._to_line(x) - self.centre) / self.spread
        if u < self.low or u > self.high:
            end = self.low if u < self.low else self.high
            return yeo_johnson(end, self.power) + yeo_johnson_slope(end, self.power) * (u - end)
        return yeo_johnson(u, self.power)

    def slope(self, x: float) -> float:
        u = (self._to_line(x) - self.centre) / self.spread
        found = yeo_johnson_slope(min(max(u, self.low), self.high), self.power) / self.spread
        if self.soft > 0.0:
            # The map of a value by the lower bound is one less exponential, so are slopes.
            lower = self._after_lower(x)
            if self.lower > -math.inf:
                found /= -math.expm1((self.lower - x) / self.soft)
            if self.upper < math.inf:
                found /= -math.expm1((lower - self._after_lower(self.upper)) / self.soft)
            return found
        if self.lower > -math.inf and self.upper < math.inf:
            return found * (self.upper - self.lower) / ((x - self.lower) * (self.upper - x))
        if self.lower > -math.inf:
            return found / min(x - self.lower, math.exp(self._last()))
        if self.upper < math.inf:
            return found / min(self.upper - x, math.exp(-self._last()))
        return found

    def _last(self) -> float:
        """Where values begin to be linear, on the line."""
        return self.centre + self.spread * (self.high if self.lower > -math.inf else self.low)

    def value(self, z: float) -> float:
        ends = [(end, yeo_johnson(end, self.power)) for end in (self.low, self.high)]
        if z < ends[0][1] or z > ends[1][1]:
            end, at_end = ends[0] if z < ends[0][1] else ends[1]
            u = end + (z - at_end) / yeo_johnson_slope(end, self.power)
        else:
            u = inverse_yeo_johnson(z, self.power)
        v = self.centre + self.spread * u
        if self.soft > 0.0:
            if self.upper < math.inf:
                last = self._after_lower(self.upper)
                v = last - self.soft * math.log1p(math.exp((last - v) / self.soft))
            if self.lower > -math.inf:
                v = self.lower + self.soft * math.log1p(math.exp((v - self.lower) / self.soft))
            return v
        if self.lower > -math.inf and self.upper < math.inf:
            return self.lower + (self.upper - self.lower) / (1.0 + math.exp(-v))
        last = self._last()
        if self.lower > -math.inf:
            return self.lower + math.exp(min(v, last)) * (1.0 + max(v - last, 0.0))
        if self.upper < math.inf:
            return self.upper - math.exp(-max(v, last)) * (1.0 + max(last - v, 0.0))
        return v

    def _after_lower(self, x: float) -> float:
        if self.lower == -math.inf:
            return x
        return x + self.soft * math.log(-math.expm1((self.lower - x) / self.soft))

    def _to_line(self, x: float) -> float:
        if self.soft > 0.0:
            v = self._after_lower(x)
            if self.upper < math.inf:
                v -= self.soft * math.log(
                    -math.expm1((v - self._after_lower(self.upper)) / self.soft)
                )
            return v
        if self.lower > -math.inf and self.upper < math.inf:
            return math.log((x - self.lower) / (self.upper - x))
        last = self._last()
        if self.lower > -math.inf:
            part = (x - self.lower) * math.exp(-last)
            return math.log(x - self.lower) if part <= 1.0 else last + part - 1.0
        if self.upper < math.inf:
            part = (self.upper - x) * math.exp(last)
            return -math.log(self.upper - x) if part <= 1.0 else last - part + 1.0
        return x


def yeo_johnson(u: float, power: float) -> float:
    if u >= 0.0:
        return math.log(u + 1.0) if power == 0.0 else ((u + 1.0) ** power - 1.0) / power
    if power == 2.0:
        return -math.log(1.0 - u)
    return -((1.0 - u) ** (2.0 - power) - 1.0) / (2.0 - power)


def yeo_johnson_slope(u: float, power: float) -> float:
    return (u + 1.0) ** (power - 1.0) if u >= 0.0 else (1.0 - u) ** (1.0 - power)


def inverse_yeo_johnson(y: float, power: float) -> float:
    if y >= 0.0:
        return math.exp(y) - 1.0 if power == 0.0 else (y * power + 1.0) ** (1.0 / power) - 1.0
    if power == 2.0:
        return 1.0 - math.exp(-y)
    return 1.0 - (1.0 - (2.0 - power) * y) ** (1.0 / (2.0 - power))


class NaiveColumn(NamedTuple):
    """What the leaves of a scored variable have in common; atoms are ``gap`` wide."""

    step: float
    reach: float
    score: NaiveScore
    atoms: list[float]
    gap: float

    def place(self, x: float) -> float:
        """A value less what atoms take of the line below it."""
        half = 0.5 * self.gap
        return x - sum(min(max(x - (atom - half), 0.0), self.gap) for atom in self.atoms)

    def value(self, place: float) -> float:
        """The value that is no atom and has a place."""
        x = place
        for atom in self.atoms:
            if x >= atom - 0.5 * self.gap:
                x += self.gap
        return x

    def of(self, x: float) -> float:
        """Score of a value that is no atom."""
        return self.score.of(self.place(x))

    def slope(self, x: float) -> float:
        return self.score.slope(self.place(x))

    def density(self, x: float, mean: float, sd: float) -> float:
        """Density of a value that is no atom; on a lattice it is the mean one of its cell."""
        if self.step == 0.0:
            return self.slope(x) * normal_density(self.of(x), mean, sd)
        place, half = self.place(x), 0.5 * self.step
        low, high = self.end_of_place(place - half), self.end_of_place(place + half)
        return normal_between(low, high, mean, sd) / self.step

    def value_of(self, z: float) -> float:
        """The value that is no atom and has a score."""
        return self.value(self.score.value(z))

    def end(self, x: float) -> float:
        """Score of the end of an interval; beyond the bounds it is infinite."""
        return self.end_of_place(self.place(x))

    def end_of_place(self, place: float) -> float:
        if place <= self.score.lower:
            return -math.inf
        return math.inf if place >= self.score.upper else self.score.of(place)

    def on_scale(self, x: float) -> float:
        """Score of any value: neighbouring atoms share what is between the values around them."""
        if self.state(x) == len(self.atoms):
            return self.of(x)
        atom = self.atoms[self.state(x)]
        run = [atom]
        while any(0.0 < run[0] - other < 1.5 * self.gap for other in self.atoms):
            run.insert(0, max(other for other in self.atoms if other < run[0]))
        while any(0.0 < other - run[-1] < 1.5 * self.gap for other in self.atoms):
            run.append(min(other for other in self.atoms if other > run[-1]))
        part = (run.index(atom) + 0.5) / len(run) - 0.5
        score = self.score
        least, most = (yeo_johnson(u, score.power) for u in (score.low, score.high))
        at = self.place(run[0] - 0.5 * self.gap) + part * self.gap
        if at <= score.lower or at >= score.upper:
            return least if at <= score.lower else most
        z = max(score.of(at), least) if score.lower > -math.inf else score.of(at)
        return min(z, most) if score.upper < math.inf else z

    def state(self, x: float) -> int:
        """Number of the atom of a value; one more than the last for all others."""
        for number, atom in enumerate(self.atoms):
            if abs(x - atom) <= self.reach:
                return number
        return len(self.atoms)


def scored_column(circuit: Circuit, var: int) -> NaiveColumn:
    return _scored(circuit.axis[circuit.axis_ptr[var] : circuit.axis_ptr[var + 1]].tobytes())


@cache
def _scored(axis: bytes) -> NaiveColumn:
    part = np.frombuffer(axis).tolist()
    return NaiveColumn(part[1], part[2], NaiveScore(*part[5:13]), part[13:], part[4])


def normal_density(z: float, mean: float, sd: float) -> float:
    return math.exp(-0.5 * ((z - mean) / sd) ** 2) / (sd * math.sqrt(2 * math.pi))


def normal_below(z: float, mean: float, sd: float) -> float:
    return 0.5 * math.erfc((mean - z) / (sd * math.sqrt(2.0)))


def normal_between(low: float, high: float, mean: float, sd: float) -> float:
    """Mass between two numbers; on the side of the mean that they are on, digits stay."""
    if low > mean:
        low, high = 2.0 * mean - high, 2.0 * mean - low
    return normal_below(high, mean, sd) - normal_below(low, mean, sd)


def leaf_density(circuit: Circuit, node: int, x: float) -> float:
    if math.isnan(x) or not math.isnan(circuit.observed[circuit.leaf_var[node]]):
        return 1.0
    param = circuit.param[circuit.param_ptr[node] : circuit.param_ptr[node + 1]]
    family = circuit.leaf_family[node]
    if family == GAUSSIAN:
        return normal_density(x, *param)
    if family == POISSON:
        return count_probability(param[0], x)
    if family == SCORED:
        column = scored_column(circuit, int(circuit.leaf_var[node]))
        state = column.state(x)
        if state < len(column.atoms):
            return math.exp(param[state]) / (column.step or 1.0)
        rest = math.exp(param[state])
        return rest * column.density(x, *param[-2:])
    if family == HISTOGRAM:
        state, density = state_and_density(circuit, int(circuit.leaf_var[node]), x)
        return math.exp(param[state]) * density
    return math.exp(param[int(x)])


def count_probability(rate: float, x: float) -> float:
    return math.exp(x * math.log(rate) - rate - math.lgamma(x + 1.0))


def evaluate(circuit: Circuit, row: np.ndarray, leaf_value, node: int | None = None, add=sum):
    """Value of a row under a node (the root by default), with ``leaf_value(node, x)`` at leaves."""
    node = circuit.n_nodes - 1 if node is None else node
    if circuit.kind[node] == LEAF:
        return leaf_value(node, row[circuit.leaf_var[node]])
    edges = range(circuit.child_ptr[node], circuit.child_ptr[node + 1])
    values = [evaluate(circuit, row, leaf_value, int(circuit.child[e]), add) for e in edges]
    if circuit.kind[node] == PRODUCT:
        return math.prod(values)
    return add(math.exp(circuit.log_weight[e]) * value for e, value in zip(edges, values))


def density(circuit: Circuit, row: np.ndarray, node: int | None = None) -> float:
    """Density of a row under a node (the root by default)."""
    return evaluate(circuit, row, lambda leaf, x: leaf_density(circuit, leaf, x), node)


def all_rows(circuit: Circuit) -> np.ndarray:
    """Every complete row of a circuit over categories."""
    return np.array(list(itertools.product(*(range(k) for k in circuit.n_states))), dtype=float)


def posterior_expectation(circuit: Circuit, row: np.ndarray, var: int, function) -> float:
    """E[function(x_var) | observed cells of the row], leaf expectations by quadrature."""

    def value(node: int, x: float) -> float:
        if circuit.leaf_var[node] == var:
            return leaf_expectation(circuit, node, function)
        return leaf_density(circuit, node, x)

    return evaluate(circuit, row, value) / density(circuit, row)


def leaf_expectation(circuit: Circuit, node: int, function) -> float:
    """E[function(x)] under a leaf: a sum over what has a probability, integrals over the rest."""
    var = int(circuit.leaf_var[node])
    param = circuit.param[circuit.param_ptr[node] : circuit.param_ptr[node + 1]]
    family = circuit.leaf_family[node]
    if family == GAUSSIAN:
        return normal_expectation(function, *param)
    if family == HISTOGRAM:
        return sum(
            math.exp(param[int(cell.state)]) * cell.share * cell_expectation(cell, function)
            for cell in axis_of(circuit, var)
        )
    if family == SCORED:
        column, atoms = scored_column(circuit, var), atoms_of(circuit, var)
        score = column.score
        breaks = [yeo_johnson(u, score.power) for u in (score.low, 0.0, score.high)]
        breaks += [column.end(atom) for atom in atoms if column.gap > 0.0]
        rest = normal_expectation(lambda z: function(column.value_of(z)), *param[-2:], breaks)
        of_atoms = sum(math.exp(p) * function(atom) for p, atom in zip(param, atoms))
        return of_atoms + math.exp(param[len(atoms)]) * rest
    states = range(circuit.n_states[var] or 200)
    return sum(function(s) * leaf_density(circuit, node, float(s)) for s in states)


def normal_expectation(function, mean: float, sd: float, breaks=()) -> float:
    points = [mean + k * sd for k in (-20, -5, 0, 5, 20)]
    points += [point for point in breaks if points[0] < point < points[-1]]
    return sum(
        quad(lambda z: function(z) * normal_density(z, mean, sd), low, high, epsabs=1e-13)[0]
        for low, high in pairwise(sorted(points))
    )


def cell_expectation(cell: Cell, function) -> float:
    """E[function(x)] within a cell; the cell of an atom holds nothing but the atom."""
    if not math.isnan(cell.point):
        return function(cell.point)
    low = max(cell.high - 60 * cell.scale, cell.end) if math.isinf(cell.low) else cell.low
    high = min(cell.low + 60 * cell.scale, cell.end) if math.isinf(cell.high) else cell.high
    # Draws are on the line: the table has the point of the lattice that is nearest.
    line = cell._replace(step=0.0)
    return quad(lambda x: function(x) * within_cell(line, x), low, high, epsabs=1e-13)[0]


def greatest_induced_tree(circuit: Circuit, row: np.ndarray, filled=None) -> float:
    """Density with maxima in place of sums, missing cells at their modes, or as they are filled.

    What a filled cell counts is told by ``filled_value``.
    """

    def value(leaf: int, x: float) -> float:
        if not math.isnan(x):
            return leaf_density(circuit, leaf, x)
        if filled is None:
            return max(filled_value(circuit, leaf, mode) for mode in candidates(circuit, leaf))
        return filled_value(circuit, leaf, filled[circuit.leaf_var[leaf]])

    return evaluate(circuit, row, value, add=max)


def filled_value(circuit: Circuit, node: int, x: float) -> float:
    """What a value counts as a mode: its density; beside atoms, the probability of its state.

    The density of a number with a score is that of the score.
    """
    var = int(circuit.leaf_var[node])
    param = circuit.param[circuit.param_ptr[node] : circuit.param_ptr[node + 1]]
    if circuit.leaf_family[node] == SCORED:
        column = scored_column(circuit, var)
        of_state = math.exp(param[column.state(x)])
        return of_state if column.atoms else normal_density(column.of(x), *param[-2:])
    if atoms_of(circuit, var):
        return math.exp(param[state_and_density(circuit, var, x)[0]])
    return leaf_density(circuit, node, x)


def candidates(circuit: Circuit, node: int) -> list[float]:
    """Values among which the mode of a leaf is."""
    var = int(circuit.leaf_var[node])
    param = circuit.param[circuit.param_ptr[node] : circuit.param_ptr[node + 1]]
    if circuit.leaf_family[node] == GAUSSIAN:
        return [param[0]]
    if circuit.leaf_family[node] == SCORED:
        return [*atoms_of(circuit, var), scored_column(circuit, var).value_of(param[-2])]
    if circuit.leaf_family[node] == HISTOGRAM:
        return [mode_of(cell) for cell in axis_of(circuit, var)]
    return [float(state) for state in range(circuit.n_states[var] or 200)]


def mode_of(cell: Cell) -> float:
    if not math.isnan(cell.point):
        return cell.point
    if math.isinf(cell.low):
        return math.nextafter(cell.high, -math.inf)
    return cell.low if math.isinf(cell.high) else (cell.low + cell.high) / 2


def node_flows(circuit: Circuit, row: np.ndarray) -> np.ndarray:
    """Posterior share of a row that passes each edge, from the definition, top down."""
    value = [density(circuit, row, node) for node in range(circuit.n_nodes)]
    node_flow, edge_flow = np.zeros(circuit.n_nodes), np.zeros(circuit.n_edges)
    node_flow[-1] = 1.0
    for node in range(circuit.n_nodes - 1, -1, -1):
        for edge in range(circuit.child_ptr[node], circuit.child_ptr[node + 1]):
            child = circuit.child[edge]
            share = 1.0
            if circuit.kind[node] != PRODUCT:
                share = math.exp(circuit.log_weight[edge]) * value[child] / value[node]
            edge_flow[edge] = node_flow[node] * share
            node_flow[child] += edge_flow[edge]
    return edge_flow


def score_cells(circuit: Circuit, row: np.ndarray, var: int) -> float:
    """Log density of a cell given the others: that of the row with it over that without it."""
    without = row.copy()
    without[var] = np.nan
    with np.errstate(divide="ignore"):
        return float(np.log(density(circuit, row)) - np.log(density(circuit, without)))


def share_below(circuit: Circuit, row: np.ndarray, var: int, x: float) -> float:
    """Posterior probability that a missing number lies below ``x``."""

    def value(node: int, cell: float) -> float:
        if circuit.leaf_var[node] != var:
            return leaf_density(circuit, node, cell)
        param = circuit.param[circuit.param_ptr[node] : circuit.param_ptr[node + 1]]
        if circuit.leaf_family[node] == GAUSSIAN:
            return normal_below(x, *param)
        if circuit.leaf_family[node] == POISSON:
            return sum(count_probability(param[0], float(k)) for k in range(math.floor(x) + 1))
        if circuit.leaf_family[node] == SCORED:
            column = scored_column(circuit, var)
            atoms = sum(math.exp(p) for p, atom in zip(param, column.atoms) if atom <= x)
            rest = math.exp(param[len(column.atoms)])
            return atoms + rest * normal_below(column.end(x), *param[-2:])
        return sum(
            math.exp(param[int(cell.state)]) * cell.share * cell_below(cell, x)
            for cell in axis_of(circuit, var)
        )

    return evaluate(circuit, row, value) / density(circuit, row)


def cell_below(cell: Cell, x: float) -> float:
    """Share of a cell that is not above ``x``."""
    if not math.isnan(cell.point):
        return float(cell.point <= x)
    if math.isinf(cell.low):
        return tail_below(cell, min(max(x, cell.end), cell.high))
    if math.isinf(cell.high):
        return tail_below(cell, min(max(x, cell.low), cell.end))
    return min(1.0, max(0.0, (x - cell.low) / (cell.high - cell.low)))
