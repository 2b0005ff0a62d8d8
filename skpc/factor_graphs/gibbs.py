"""Gibbs sampling of factor graphs, optionally with some variables summed out."""

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from skpc._arrays import Floats, Ints, offsets, owners
from skpc._jit import ZERO, internal_kernel, kernel
from skpc._random import Streams, draw_index, start_streams, uniform
from skpc._repr import ShowsParameters
from skpc._threads import in_threads
from skpc._validation import check_n_samples, check_option
from skpc.factor_graphs.elimination import sum_out
from skpc.factor_graphs.graph import FactorGraph


@dataclass(repr=False, eq=False)
class GibbsSampler(ShowsParameters):
    """Draw dependent samples by updating one variable at a time given all others.

    An update draws a variable from its conditional distribution given the current states of the
    others. Its cost is linear in the number of factors of the variable. Chains start from uniform
    random states.

    Parameters
    ----------
    graph : FactorGraph
        The distribution to sample.
    collapsed : sequence of int, default=()
        Variables that are summed out before sampling (:func:`sum_out`); their cells are NaN. Use
        it for a variable that is a function of others: single updates could never change it, nor
        the others.
    scan : {"systematic", "random"}, default="systematic"
        "systematic" updates the variables in turn, "random" updates a random one each time.
    burn_in : int, default=2000
        Updates of single variables before the first sample of a chain.
    thinning : int, default=1000
        Updates of single variables from each sample of a chain to the next, 1 or more.
    n_chains : int, default=1
        Number of chains. Each has its own start and random numbers. Row ``r`` of the samples comes
        from chain ``r % n_chains``. ``joblib.parallel_config(n_jobs=...)`` runs them in threads.
    random_state : int, RandomState instance or None, default=None
        The same seed gives the same samples on any number of threads.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Examples
    --------
    >>> from skpc.factor_graphs import FactorGraph, GibbsSampler
    >>> graph = FactorGraph.ising_grid(3, 3, coupling=0.3, field=0.2)
    >>> sampler = GibbsSampler(graph, burn_in=100, thinning=9, random_state=0)
    >>> samples = sampler.sample(5000)
    >>> samples.shape
    (5000, 9)
    >>> float(samples.mean().round(1))
    0.7
    """

    graph: FactorGraph
    _: KW_ONLY
    collapsed: Sequence[int] = ()
    scan: str = "systematic"
    burn_in: int = 2000
    thinning: int = 1000
    n_chains: int = 1
    random_state: Any = None

    def __post_init__(self) -> None:
        check_option("scan", self.scan, ("systematic", "random"))
        # A chain may start without burn-in; all else is one or more.
        for name, least in (("burn_in", 0), ("thinning", 1), ("n_chains", 1)):
            number = getattr(self, name)
            if not isinstance(number, Integral) or number < least:
                raise ValueError(f"{name} must be an integer of {least} or more, got {number!r}")

    def sample(self, n_samples: int) -> Floats:
        """Run the chains from new starts and take samples.

        Parameters
        ----------
        n_samples : int
            Number of rows.

        Returns
        -------
        ndarray of shape (n_samples, n_variables)
            States as float64; NaN in the collapsed columns.

        Raises
        ------
        ValueError
            If ``n_samples`` is negative, or no start of positive probability is found.
        """
        n_samples = check_n_samples(n_samples)
        graph = sum_out(self.graph, self.collapsed)
        collapsed = np.unique(list(map(int, self.collapsed))).astype(np.int64)
        n_variables = graph.n_variables
        # Variables that are summed out have one state, which no update changes.
        moving = np.setdiff1d(np.arange(n_variables), collapsed)
        random = check_random_state(self.random_state)
        starts = self._starts(graph, random)
        seed = np.uint64(random.randint(np.iinfo(np.int32).max))
        streams = start_streams(seed, int(self.n_chains), 0)
        factors = _flatten(graph)
        at_random = self.scan == "random"
        out = np.empty((n_samples, n_variables), dtype=np.int64)

        def run(chain: int) -> None:
            # Rows go to the chains in turn, whatever the number of threads.
            rows = range(chain, n_samples, self.n_chains)
            states = np.empty((len(rows), n_variables), np.int64)
            # A chain changes what it starts from.
            stream = streams[chain : chain + 1].copy()
            start = starts[chain].copy()
            _run_chain(
                factors, moving, start, stream, self.burn_in, self.thinning, at_random, states
            )
            out[chain :: self.n_chains] = states

        if len(moving):
            in_threads(run, range(self.n_chains))
        samples = out.astype(np.float64)
        samples[:, collapsed] = np.nan
        return samples

    def _starts(self, graph: FactorGraph, random: np.random.RandomState) -> Ints:
        # Where the graph has impossible states, a chain has to begin at one that is possible.
        n_starts = 1000
        height = random.uniform(size=(n_starts, graph.n_variables))
        tried = np.floor(height * graph.n_states)
        possible = tried[graph.log_score(tried) > -np.inf]
        if not len(possible):
            raise ValueError(
                f"{n_starts} random states all have probability zero, so that no start for a "
                "Gibbs chain was found; give the variables that are functions of others as "
                "collapsed"
            )
        # Where there are more chains than possible states, some begin at the same one.
        states = np.resize(possible, (self.n_chains, graph.n_variables))
        return states.astype(np.int64)


class _FlatFactors(NamedTuple):
    """A factor graph as kernels read it.

    The value of factor ``f`` is table entry ``begin[f] + sum(state[scope[o]] * stride[o])``, where
    ``o`` runs over ``scope_ptr[f] .. scope_ptr[f + 1]``. Variable ``v`` is in the factors
    ``touched[t]``, where ``t`` runs over ``touch_ptr[v] .. touch_ptr[v + 1]``, and a step from one
    of its states to the next is one of ``step[t]`` entries there.
    """

    log_table: Floats
    n_states: Ints
    begin: Ints
    scope_ptr: Ints
    scope: Ints
    stride: Ints
    touch_ptr: Ints
    touched: Ints
    step: Ints


def _flatten(graph: FactorGraph) -> _FlatFactors:
    tables = graph.log_tables
    sizes = [len(scope) for scope in graph.scopes]
    scope = np.array([variable for scope in graph.scopes for variable in scope], dtype=np.int64)
    # Numpy counts strides in bytes, of which a float64 has eight.
    stride = np.array([step // 8 for table in tables for step in table.strides], dtype=np.int64)
    # The factors of a variable stand together.
    by_variable = np.argsort(scope, kind="stable")
    return _FlatFactors(
        # An empty table in front, as a graph may have no factor.
        log_table=np.concatenate([np.zeros(0), *(table.ravel() for table in tables)]),
        n_states=graph.n_states.copy(),
        begin=offsets([table.size for table in tables]),
        scope_ptr=offsets(sizes),
        scope=scope,
        stride=stride,
        touch_ptr=offsets(np.bincount(scope, minlength=graph.n_variables)),
        touched=owners(sizes)[by_variable],
        step=stride[by_variable],
    )


@kernel(new_arrays=True)
def _run_chain(
    factors: _FlatFactors,
    moving: Ints,
    state: Ints,
    streams: Streams,
    burn_in: int,
    thinning: int,
    at_random: bool,
    out: Ints,
) -> None:
    """Update a state one variable at a time, and copy it from time to time.

    ``tests/naive/factor_graph.py`` sums the probabilities that the chain should visit.

    ============  =====================================================================
    factors       the factor graph
    moving        the variables that are updated, shape (n_moving,)
    state         the current state of each variable, shape (n_variables,); it changes
    streams       the random numbers of the chain, shape (1,)
    burn_in       updates before the first copy
    thinning      updates from each copy to the next
    at_random     whether the next variable is a random one, and not the next in turn
    out           the copies, shape (n_copies, n_variables)
    ============  =====================================================================
    """
    # One array for all updates: making one takes longer than an update.
    most_states = 0
    for n_states in factors.n_states:
        most_states = max(most_states, n_states)
    log_prob = np.empty(most_states)
    turn = 0
    for taken in range(len(out)):
        for _ in range(thinning if taken else burn_in):
            if at_random:
                # A draw is below one, so that the product rounds to a variable that exists.
                turn = int(uniform(streams, ZERO) * len(moving))
            _update(factors, moving[turn], state, streams, log_prob)
            # A random scan overwrites it.
            turn += 1
            if turn == len(moving):
                turn = 0
        # A loop: the copy of a slice would need numba's counts of references.
        for variable in range(len(state)):
            out[taken, variable] = state[variable]


@internal_kernel
def _update(factors: _FlatFactors, v: int, state: Ints, streams: Streams, log_prob: Floats) -> None:
    """Draw variable ``v`` given all others."""
    n_states = factors.n_states[v]
    for s in range(n_states):
        log_prob[s] = 0.0
    # Factors without the variable are the same for all of its states.
    touched = factors.touched
    steps = factors.step
    for t in range(factors.touch_ptr[v], factors.touch_ptr[v + 1]):
        # The entry of the states of the other variables, and state 0 of this one.
        f = touched[t]
        step = steps[t]
        entry = factors.begin[f] - state[v] * step
        for o in range(factors.scope_ptr[f], factors.scope_ptr[f + 1]):
            entry += state[factors.scope[o]] * factors.stride[o]
        for s in range(n_states):
            log_prob[s] += factors.log_table[entry + s * step]
    # Less the peak, no exponential overflows and one of them is one.
    peak = log_prob[0]
    for s in range(1, n_states):
        peak = max(peak, log_prob[s])
    total = 0.0
    for s in range(n_states):
        # The line of logs is used again for the probabilities.
        log_prob[s] = math.exp(log_prob[s] - peak)
        total += log_prob[s]
    state[v] = draw_index(log_prob, ZERO, n_states, uniform(streams, ZERO) * total)
