"""What every variable, leaf and structure of a circuit is checked for, once."""

from __future__ import annotations

from typing import Any

import numpy as np

from skpc._arrays import Floats
from skpc.circuit import _properties as properties
from skpc.circuit._properties import LEAF, PRODUCT, SUM
from skpc.circuit._structure import Structure
from skpc.exceptions import StructureError
from skpc.variables import Axis, ScoredColumn
from skpc.variables.families import variable_of_two_families

NAMES = {LEAF: "leaf", SUM: "sum", PRODUCT: "product"}
#: How far the probabilities of a distribution may be from summing to one.
TOLERANCE = 1e-6
#: What rounding may leave between a covariance and its transpose.
_UNEVEN = 1e-9


def checked_log_prob(var: int, given: Any, n_states: int) -> Floats:
    """Log probabilities of a leaf of a variable; refuse those that do not fit it."""
    log_prob = np.asarray(given, dtype=np.float64)
    if log_prob.shape != (n_states,):
        raise ValueError(
            f"a leaf of variable {var} needs {n_states} log probabilities, "
            f"got shape {log_prob.shape}"
        )
    total = np.exp(log_prob).sum()
    if not abs(total - 1.0) <= TOLERANCE:
        raise ValueError(
            f"the probabilities of a leaf of variable {var} must sum to 1, got {total:.9g}"
        )
    return log_prob


def check_moments(leaf: str, mean: float, sd: float) -> None:
    """Refuse moments that no normal distribution has."""
    if not (np.isfinite(mean) and np.isfinite(sd) and sd > 0):
        raise ValueError(
            f"a {leaf} leaf needs a finite mean and a positive sd, got {mean} and {sd}"
        )


def check_variable(var: int, count: int, axis: Axis | ScoredColumn | None) -> None:
    """Refuse an axis that is none, or that does not fit the number of states."""
    if count < 0:
        raise ValueError(f"variable {var} needs 0 or more states, got {count}")
    if axis is not None and count != axis.n_states:
        raise ValueError(
            f"variable {var} has an axis of {axis.n_states} states, but n_states says {count}"
        )
    if not isinstance(axis, Axis):
        return
    edges, lower, upper = np.asarray(axis[0], dtype=np.float64), axis[1], axis[2]
    if edges.ndim != 1 or len(edges) < 1 or not np.all(np.isfinite(edges)):
        raise ValueError(f"the axis of variable {var} needs at least one finite edge, got {edges}")
    if np.any(np.diff(edges) <= 0):
        raise ValueError(f"the edges of variable {var} must increase, got {edges}")
    if not (0 < lower < np.inf and 0 < upper < np.inf):
        raise ValueError(
            f"the tails of variable {var} need positive scales, got {lower} and {upper}"
        )


def check_structure(structure: Structure) -> None:
    """Raise a StructureError that names the first node at fault, if there is one."""
    scope, show = structure.scopes, properties.scope_text
    found = properties.overlapping_product(structure)
    if found is not None:
        node, below = found
        children = structure.child[structure.child_ptr[node] : structure.child_ptr[node + 1]]
        listed = "; ".join(f"node {c}: {show(scope[c])}" for c in children[:8].tolist())
        raise StructureError(
            f"product {node} needs children with disjoint scopes, but child {below} shares "
            f"variables with another ({listed})"
        )
    found = properties.unsmooth_sum(structure)
    if found is not None:
        node, below = found
        raise StructureError(
            f"sum {node} needs children with one and the same scope {show(scope[node])}, but "
            f"child {below} has scope {show(scope[below])}"
        )
    everything = (1 << structure.n_features) - 1
    if scope[-1] != everything:
        raise StructureError(
            f"the root (node {structure.n_nodes - 1}) needs every variable in its scope, but it "
            f"lacks {show(everything & ~scope[-1])}"
        )
    var = variable_of_two_families(structure.leaves)
    if var >= 0:
        raise StructureError(
            f"the leaves of variable {var} need one family, but the builder got leaves of several; "
            "mix those of one family"
        )
    used = np.zeros(structure.n_nodes, dtype=bool)
    used[structure.child] = True
    used[-1] = True
    if not used.all():
        node = int(np.flatnonzero(~used)[0])
        kind = NAMES[int(structure.kind[node])]
        raise StructureError(
            f"{kind} {node} with scope {show(scope[node])} is no child of any node; only the "
            "node added last is the root"
        )


def check_gaussian(variables: list[int], mean: Any, covariance: Any) -> tuple[Floats, Floats]:
    """Parameters of the Gaussian of a block, the covariance row by row; refuse what is none."""
    mean, covariance = np.array(mean, dtype=np.float64), np.array(covariance, dtype=np.float64)
    d = len(variables)
    if mean.shape != (d,) or covariance.shape != (d, d):
        raise ValueError(
            f"a block of {d} variables needs a mean of shape ({d},) and a covariance of shape "
            f"({d}, {d}), got {mean.shape} and {covariance.shape}"
        )
    if not (np.isfinite(mean).all() and np.isfinite(covariance).all()):
        raise ValueError(f"the block of variables {variables} needs finite means and covariances")
    uneven = np.abs(covariance - covariance.T).max()
    lowest = np.linalg.eigvalsh(covariance)[0]
    if uneven > _UNEVEN * np.abs(covariance).max() or not lowest > 0.0:
        raise ValueError(
            f"the covariance of the block of variables {variables} must be symmetric and positive "
            f"definite; it differs from its transpose by {uneven:g}, and its smallest eigenvalue "
            f"is {lowest:g}"
        )
    return mean, covariance.ravel()
