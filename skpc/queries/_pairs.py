"""Expected kernels between conditionals of two compatible circuits (Algorithm 1).

Nodes are paired scope by scope, small scopes first. In a pair of sums only the left one is
expanded: ``M(sum_i w_i p_i, q) = sum_i w_i M(p_i, q)``, and ``M(p_i, q)`` serves every sum that has
the child ``p_i``. So each pair is computed once, and a pair of sums costs as much as one sum has
children, not the product of their numbers.
"""

from __future__ import annotations

import numpy as np

from skpc._arrays import Floats, Ints, offsets
from skpc._jit import kernel
from skpc.circuit import LEAF, SUM, Circuit
from skpc.kernels import ColumnKernel, leaf_expectations
from skpc.kernels.joint import JointSide, joint_pair_expectations
from skpc.queries._conditionals import (
    Conditionals,
    joint_blocks,
    joint_scopes,
    variables_of_leaves,
)
from skpc.queries.compatibility import Ranked, common_rankings, rank
from skpc.variables.leaf_queries import known_cells


class PairEvaluator:
    """Expected kernels between conditionals of two circuits.

    What depends on the circuits alone is prepared once.

    Parameters
    ----------
    p, q : Circuit
        Compatible circuits.
    factors : tuple of ColumnKernel
        The kernel of each variable.

    Raises
    ------
    IncompatibleError
        If the circuits split a scope in different ways.
    """

    def __init__(self, p: Circuit, q: Circuit, factors: tuple[ColumnKernel, ...]):
        self._circuits, self._factors = (p, q), factors
        *self._rankings, self._number = common_rankings(p, q)
        self._alone = variables_of_leaves(p) & variables_of_leaves(q)
        self._n_scopes = 1 + int(max(ranking.scope[-1] for ranking in self._rankings))
        self._leaves = [
            [circuit.leaf_forms(var) for circuit in (p, q)] for var in range(len(factors))
        ]
        self._of_leaves = [
            leaf_expectations(factor, *leaves) for factor, leaves in zip(factors, self._leaves)
        ]

    def __call__(self, left: Conditionals, right: Conditionals, *, upper: bool = False) -> Floats:
        """Expected kernel of each pair of conditionals.

        Parameters
        ----------
        left, right : Conditionals
            Conditionals of the two circuits.
        upper : bool, default=False
            Leave out the pairs below the diagonal.

        Returns
        -------
        ndarray of shape (n_left, n_right)
        """
        p, q = (
            rank(circuit, ranking, self._n_scopes, given)
            for circuit, ranking, given in zip(self._circuits, self._rankings, (left, right))
        )
        parts = [np.empty((0, 0))] * self._n_scopes
        parts[: len(self._factors)] = self._tables(p[1], q[1])
        for scope, part in self._joint_tables(left, right, upper).items():
            parts[scope] = part
        at, width = offsets([part.size for part in parts]), np.array([p.shape[1] for p in parts])
        table = np.concatenate([part.ravel() for part in parts])
        sizes = [np.diff(side[0].scope_ptr).max(axis=0) for side in (p, q)]
        values = np.empty(int(sizes[0] @ sizes[1]))
        out = np.zeros((len(left.cells), len(right.cells)))
        _evaluate(p[0], q[0], at, width, table, upper, values, out)
        return out

    def _tables(self, cells: list[Floats], others: list[Floats]) -> list[Floats]:
        """Expectations between leaves and known cells of each variable: the leaves come first."""
        p, q = (circuit.columns for circuit in self._circuits)
        parts = []
        for var, factor in enumerate(self._factors):
            if not self._alone[var]:
                parts.append(np.empty((0, 0)))
                continue
            known, other = known_cells(p, var, cells[var]), known_cells(q, var, others[var])
            leaves, other_leaves = self._leaves[var]
            above = [self._of_leaves[var], leaf_expectations(factor, leaves, other)]
            below = [
                leaf_expectations(factor, known, other_leaves),
                leaf_expectations(factor, known, other),
            ]
            parts.append(np.block([above, below]))
        return parts

    def _joint_tables(
        self, left: Conditionals, right: Conditionals, upper: bool
    ) -> dict[int, Floats]:
        """Expectations between the leaves of several variables, by the numbers of their scopes."""
        p, q = self._circuits
        scopes, blocks = joint_scopes(q), joint_blocks(q)
        found = {}
        for scope, of_p, normals in zip(joint_scopes(p), joint_blocks(p), left.joint):
            if scope in scopes:
                at = scopes.index(scope)
                sides = (
                    JointSide(of_p, p.columns, normals),
                    JointSide(blocks[at], q.columns, right.joint[at]),
                )
                factors = [self._factors[var] for var in of_p.variables]
                found[self._number[scope]] = joint_pair_expectations(factors, *sides, upper=upper)
        return found


@kernel
def _evaluate(
    p: Ranked,
    q: Ranked,
    at: Ints,
    width: Ints,
    table: Floats,
    upper: bool,
    values: Floats,
    out: Floats,
) -> None:
    """Algorithm 1 for each pair of rows; ``values`` holds those of the pairs of nodes."""
    n_scopes = p.scope_ptr.shape[1] - 1
    begin = np.empty(n_scopes, np.int64)
    for r in range(out.shape[0]):
        for s in range(r if upper else 0, out.shape[1]):
            filled = 0
            for scope in range(n_scopes):
                x0, x1 = p.scope_ptr[r, scope], p.scope_ptr[r, scope + 1]
                y0, y1 = q.scope_ptr[s, scope], q.scope_ptr[s, scope + 1]
                begin[scope] = filled
                n = y1 - y0
                for x in range(x0, x1):
                    for y in range(y0, y1):
                        first, last = p.arg_ptr[x], p.arg_ptr[x + 1]
                        other = q.arg_ptr[y]
                        found = 0.0
                        if p.kind[x] == SUM:
                            if q.entered[y] == 0:
                                # Nobody reads it while the left side is a sum.
                                continue
                            for k in range(first, last):
                                found += (
                                    p.weight[k] * values[begin[scope] + p.place[k] * n + y - y0]
                                )
                        elif q.kind[y] == SUM:
                            for k in range(other, q.arg_ptr[y + 1]):
                                found += (
                                    q.weight[k] * values[begin[scope] + (x - x0) * n + q.place[k]]
                                )
                        elif p.kind[x] == LEAF:
                            # The scopes of single variables come first, in their order.
                            found = table[
                                at[scope] + p.place[first] * width[scope] + q.place[other]
                            ]
                        else:
                            found = 1.0
                            for k in range(first, last):
                                below = p.scope[k]
                                m = q.scope_ptr[s, below + 1] - q.scope_ptr[s, below]
                                found *= values[
                                    begin[below] + p.place[k] * m + q.place[other + k - first]
                                ]
                        values[filled + (x - x0) * n + y - y0] = found
                filled += (x1 - x0) * n
            out[r, s] = values[filled - 1]
