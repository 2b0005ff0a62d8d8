"""Streams of random numbers inside kernels, draws from them, and the hashing of cells."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints
from skpc._jit import inlined

Streams = NDArray[np.uint64]

#: Odd 64-bit constants with irregular bits, as multiplicative hashing asks for.
CELL_MULTIPLIER = np.uint64(0x9E6C63D0876A9A35)
STATE_MULTIPLIER = np.uint64(0xF1357AEA2E62A9C5)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


def mix_words(word: Any) -> Any:
    """Scramble an array of uint64: the finaliser of the SplitMix64 generator."""
    # A change of one bit of the input changes half of the bits of the result.
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


#: The same of one uint64, in kernels.
mix_bits = inlined(mix_words)


def start_streams(seed: Any, n_streams: int, first: int = 0) -> Streams:
    """The streams number ``first``, ``first + 1``, ... of a seed (uint64)."""
    number = np.arange(first, first + n_streams, dtype=np.uint64)
    # Mixed twice, so that seeds and numbers that differ in one bit give unlike streams.
    return mix_words(seed ^ mix_words(number + _GOLDEN))


def row_seeds(codes: NDArray[np.integer], seed: int) -> Streams:
    """A seed for each row that depends on its cells and on ``seed`` alone, not on other rows."""
    state = np.full(len(codes), seed, dtype=np.uint64)
    for column in codes.T:
        # Missing cells are -1, which must become a word of 64 bits.
        state ^= column.astype(np.int64).view(np.uint64)
        state *= CELL_MULTIPLIER
        # High bits are the well-mixed ones after a product: they are brought down.
        state ^= state >> _SHIFT
        state *= STATE_MULTIPLIER
    return state ^ (state >> _SHIFT)


@inlined
def uniform(streams: Streams, j: int) -> float:
    """Draw from (0, 1) and advance stream ``j`` of an array of uint64 states."""
    # All states are visited once before any comes again.
    streams[j] += _GOLDEN
    # The 53 bits of a float, in the middle of their interval: never zero, never one.
    return (np.float64(mix_bits(streams[j]) >> np.uint64(11)) + 0.5) * 1.1102230246251565e-16


def uniforms(streams: Streams) -> Floats:
    """Draw a number from (0, 1) with each stream, as :func:`uniform` does."""
    streams += _GOLDEN
    fractions = (mix_words(streams) >> np.uint64(11)).astype(np.float64)
    return (fractions + 0.5) * 1.1102230246251565e-16


def draw_states(prob: Floats, random_state: np.random.RandomState) -> Ints:
    """Draw a state for each row of probabilities, of shape (n_rows, n_states)."""
    reached = np.cumsum(prob, axis=1)
    # Rows need not sum to one: the last of the cumulated weights is their total.
    chance = random_state.random_sample((len(prob), 1)) * reached[:, -1:]
    return (chance >= reached[:, :-1]).sum(axis=1)


@inlined
def normal(streams: Streams, j: int) -> float:
    """Draw from the standard normal distribution (Box and Muller)."""
    # The second of each pair of normals is not kept: a stream has no room for it.
    radius = math.sqrt(-2.0 * math.log(uniform(streams, j)))
    return radius * math.cos(6.283185307179586 * uniform(streams, j))


@inlined
def draw_index(score: Floats, first: Any, n: int, u: float) -> int:
    """The place among ``score[first : first + n]`` at which the cumulated scores pass ``u``.

    Rounding may leave a sliver of ``u``: the last place with a positive score then takes it.
    """
    # The scores need not sum to one: u is below their sum.
    last = 0
    for k in range(n):
        if score[first + k] > 0.0:
            last = k
            # Only positive scores count: a state of probability zero is never drawn.
            u -= score[first + k]
            if u < 0.0:
                return k
    return last
