"""Rows with few missing cells: sums over their joint completions, which are exact.

A complete row is one determinant, and rows share their completions. Where the rows of a call have
more completions than the variables have joint states, every joint state is evaluated once for all.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple, Self

import numpy as np

from skpc._arrays import Floats, Ints, offsets, owners, segment, within
from skpc._random import Streams, row_seeds
from skpc._threads import in_threads, slices
from skpc.all_trees.all_trees import Components

#: Joint states of all variables that are evaluated once for all rows, at most: 32 MiB.
_MOST_STATES = 2**22
#: Cells of completions that are held at a time, unless a single row has more.
_CELLS = 2**20


class Estimates(NamedTuple):
    """What is estimated of rows with missing cells.

    Parameters
    ----------
    log_likelihood : array of shape (n_rows,)
        Log probability of the observed cells in nats.
    marginals : array of shape (n_rows, n_states)
        Probabilities of the states of all variables, one after the other, given the observed cells;
        of shape (n_rows, 0) if they are not needed.
    effective_sample_size : array of shape (n_rows,)
        Number of independent samples of the posterior that would be as good.
    draws : array of shape (n_rows, n_draws, n), int64
        Copies of each row, their missing cells filled by joint draws.
    """

    log_likelihood: Floats
    marginals: Floats
    effective_sample_size: Floats
    draws: Ints

    @classmethod
    def of_observed(cls, codes: Ints, ptr: Ints, marginals: bool, n_draws: int) -> Self:
        """Estimates before any are made: observed cells are certain, the others still empty.

        Parameters
        ----------
        codes : array of shape (n_rows, n)
            States, -1 where missing.
        ptr : array of at least n + 1
            The states of variable v are ``ptr[v] .. ptr[v + 1]``.
        marginals : bool
            Whether the marginals are needed.
        n_draws : int
            How many joint draws of its missing cells each row needs.
        """
        probability = np.zeros((len(codes), ptr[codes.shape[1]] * marginals))
        if marginals:
            row, column = np.nonzero(codes >= 0)
            state = ptr[column] + codes[row, column]
            probability[row, state] = 1.0
        draws = np.repeat(codes[:, np.newaxis], n_draws, axis=1)
        # What is not estimated is exact: as good as any number of samples.
        exact = np.full(len(codes), np.inf)
        return cls(np.zeros(len(codes)), probability, exact, draws)

    def part(self, rows: slice | Ints) -> Self:
        """The estimates of some rows; views of these arrays if ``rows`` is a slice."""
        return type(self)._make(field[rows] for field in self)

    def put(self, rows: Ints, part: Self) -> None:
        """Write the estimates of some rows into these arrays."""
        for field, values in zip(self, part):
            field[rows] = values


def uniform_heights(seeds: Streams, n_draws: int, purpose: int) -> Floats:
    """A number in [0, 1] for each draw of each row; those of other purposes are independent."""
    # A height depends on the seed of its row and on the number of the draw alone.
    shape = (len(seeds), n_draws)
    draw = np.broadcast_to(np.arange(n_draws), shape)
    seed = np.repeat(seeds.view(np.int64), n_draws)
    keys = np.column_stack([seed, draw.ravel()])
    # Seeds are uniform on 64 bits.
    heights = row_seeds(keys, purpose).astype(np.float64)
    return heights.reshape(shape) * 2.0**-64


def enumerate_completions(
    mixture: Components, codes: Ints, height: Floats, estimates: Estimates
) -> None:
    """Answers for rows by summing their completions; the same whatever the other rows.

    Parameters
    ----------
    mixture : Components
        The distribution.
    codes : array of shape (n_rows, n)
        States, -1 where missing.
    height : array of shape (n_rows, n_draws)
        A number in [0, 1] for each draw.
    estimates : Estimates
        What the observed cells say, as :meth:`Estimates.of_observed` gives it; the rest is filled
        in.
    """
    model = mixture.models[0]
    n_states = np.diff(model.ptr)[: codes.shape[1]]
    n_choices = np.where(codes < 0, n_states, 1)
    size = n_choices.prod(axis=1, dtype=np.float64)

    def answer(row: int, log_p: Floats) -> None:
        _answer(log_p, height[row], estimates.part(slice(row, row + 1)), codes[row], n_states)

    # Where joint states are fewer than completions, all rows read one table of them. They are
    # counted in whole numbers of Python: those of 1,100 columns overflow others.
    if math.prod(n_states.tolist()) <= min(float(size.sum()), _MOST_STATES):
        joint = _log_joint(mixture, n_states)
        for row, code in enumerate(codes.tolist()):
            # Missing cells are whole axes of the table.
            place = tuple(slice(None) if state < 0 else state for state in code)
            answer(row, joint[place])
        return

    def work(part: slice) -> None:
        rows = _completions(codes[part], size[part].astype(np.int64), n_states)
        log_p = mixture.log_likelihood(model.states_of(rows))
        # Completions of a row stand together; they get an axis for each missing cell.
        starts = offsets(size[part]).tolist()
        for row, start, stop in zip(range(part.start, part.stop), starts, starts[1:]):
            shape = n_states[codes[row] < 0]
            row_log_p = log_p[start:stop]
            answer(row, row_log_p.reshape(shape))

    in_threads(work, _parts(size * codes.shape[1]))


def _parts(amount: Floats) -> Iterator[slice]:
    """Divide rows into parts of about ``_CELLS`` cells of completions."""
    number = np.cumsum(amount) // _CELLS
    cuts = np.flatnonzero(np.diff(number)) + 1
    edges = [0, *cuts.tolist(), len(amount)]
    return (slice(start, stop) for start, stop in zip(edges, edges[1:]) if stop > start)


def _log_joint(mixture: Components, n_states: Ints) -> Floats:
    """Log probabilities of all joint states, an axis a variable."""
    model = mixture.models[0]
    n_rows = int(n_states.prod())

    def work(part: slice) -> Floats:
        numbers = np.arange(part.start, part.stop)
        rows = np.column_stack(np.unravel_index(numbers, n_states))
        return mixture.log_likelihood(model.states_of(rows))

    parts = slices(n_rows, _CELLS // len(n_states))
    log_p = np.concatenate(in_threads(work, parts))
    return log_p.reshape(n_states)


def _completions(codes: Ints, size: Ints, n_states: Ints) -> Ints:
    """All completions of some rows, one row after the other; the last missing cell is fastest."""
    row = owners(size)
    place = within(size)
    filled = codes[row]
    # The states are the digits of the number of a completion.
    for variable in range(codes.shape[1] - 1, -1, -1):
        missing = np.flatnonzero(filled[:, variable] < 0)
        filled[missing, variable] = place[missing] % n_states[variable]
        place[missing] //= n_states[variable]
    return filled


def _answer(log_p: Floats, height: Floats, out: Estimates, code: Ints, n_states: Ints) -> None:
    """What is needed of a row, from the log probabilities of its completions.

    ``log_p`` has an axis for each missing cell, ``height`` a number in [0, 1] for each draw. The
    arrays of ``out`` are those of the row alone.
    """
    # A copy in the order of the axes: sums do not depend on how the numbers stood in memory.
    weight = log_p.flatten()
    largest = float(weight.max())
    weight = np.exp(weight - largest)
    total = float(weight.sum())
    # Without an observed cell, the completions are all joint states: their sum is one.
    out.log_likelihood[0] = 0.0
    if log_p.ndim < len(code):
        out.log_likelihood[0] = largest + math.log(total)
    starts = offsets(n_states)
    is_missing = code < 0
    # Cells are summed out one after the other: the last sums are over few numbers.
    for variable in np.flatnonzero(is_missing).tolist() if out.marginals.size else ():
        by_state = weight.reshape(n_states[variable], -1)
        states = segment(starts, variable)
        out.marginals[0, states] = by_state.sum(axis=1) / total
        weight = by_state.sum(axis=0)
    if len(height):
        # By the inverse of the distribution function: equal heights draw alike.
        cumulated = np.cumsum(np.exp(log_p - largest))
        chosen = np.searchsorted(cumulated[:-1], height * cumulated[-1])
        states_drawn = np.unravel_index(chosen, log_p.shape)
        out.draws[0][:, is_missing] = np.column_stack(states_drawn)
