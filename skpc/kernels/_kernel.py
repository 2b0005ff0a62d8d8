"""Kernels as circuits: sums and products of kernels, with column kernels at the leaves."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import product
from numbers import Real
from typing import Any

import numpy as np

from skpc._arrays import Floats
from skpc._cells import rows_of_numbers


class Kernel:
    """A positive definite kernel between rows: a circuit of column kernels.

    Sums (:class:`SumKernel`), products (:class:`ProductKernel`) and column kernels nest to any
    depth. This form makes expectations under circuits tractable. Call a kernel with two tables of
    encoded rows to get its values between their rows.

    Attributes
    ----------
    scope : tuple of int or None
        The columns that the kernel compares. None stands for all columns of the rows, or for those
        of the place that it has in a product.
    """

    scope: tuple[int, ...] | None = None

    def __call__(self, X: Any, Y: Any = None) -> Floats:
        """Evaluate the kernel between the rows of two tables.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Complete encoded rows.
        Y : array-like of shape (n_others, n_features), default=None
            Complete encoded rows; None takes those of ``X``.

        Returns
        -------
        ndarray of shape (n_rows, n_others)
            The Gram matrix.

        Raises
        ------
        ValueError
            If a table is not two-dimensional, holds NaN or infinity, or the columns do not match.
        """
        x = _complete_rows(X, "X")
        if Y is None:
            y = x
        else:
            y = _complete_rows(Y, "Y")
        n_columns = x.shape[1]
        if n_columns != y.shape[1]:
            raise ValueError(
                f"X and Y must have the same number of columns, got {n_columns} and {y.shape[1]}"
            )
        circuit = KernelCircuit(self, n_columns)
        gram = _values(circuit.root, x, y, {})
        # The values of a node may be shared, so that the caller gets a copy.
        return np.array(gram)


class ColumnKernel(Kernel):
    """A kernel between the cells of one column; between rows, its product over all columns.

    A subclass of your own needs :meth:`of_points`. Its expectations are sums over the values of
    categories, counts and atoms. Numbers with a density need a formula, as :class:`RBF` has.

    Examples
    --------
    >>> from skpc.kernels import ColumnKernel
    >>> class Near(ColumnKernel):
    ...     def of_points(self, x, y):
    ...         return 1.0 / (1.0 + abs(x - y))
    >>> Near()([[0.0]], [[0.0], [1.0]])
    array([[1. , 0.5]])
    """

    def of_points(self, x: Floats, y: Floats) -> Floats:
        """Values between cells, with numpy's broadcasting."""
        raise NotImplementedError


@dataclass(frozen=True)
class _LibraryKernel(ColumnKernel):
    """A column kernel that may have a scope; see :class:`Kernel`."""

    # Only the scope is keyword-only, so that RBF(0.5) can be written.
    _: KW_ONLY
    scope: tuple[int, ...] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.scope is not None:
            # A frozen dataclass can change its fields in this way only.
            object.__setattr__(self, "scope", _columns(self.scope))


@dataclass(frozen=True)
class _ScaledKernel(_LibraryKernel):
    """A column kernel with a parameter that is not negative."""

    gamma: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.gamma, Real) or not 0.0 <= self.gamma < np.inf:
            raise ValueError(f"gamma must be a finite number of 0 or more, got {self.gamma!r}")


class RBF(_ScaledKernel):
    """The Gaussian kernel ``exp(-gamma (x - y)^2)``.

    Between rows it is ``exp(-gamma |x - y|^2)``, scikit-learn's ``rbf_kernel``. The states of a
    categorical column count as the numbers 0, 1, ...; for :class:`ExponentialHamming` all different
    states are equally far apart.

    Parameters
    ----------
    gamma : float
        Inverse squared length scale, in units of the column; not negative.
    scope : sequence of int, default=None
        The columns that it compares. None takes all, or the one that it has in a product.

    Examples
    --------
    >>> from skpc.kernels import RBF
    >>> RBF(0.5)([[0.0, 0.0]], [[0.0, 1.0], [2.0, 2.0]]).round(3)
    array([[0.607, 0.018]])
    """

    def of_points(self, x: Floats, y: Floats) -> Floats:
        """Values between cells, with numpy's broadcasting."""
        # Where the square overflows, the kernel is zero.
        with np.errstate(over="ignore"):
            exponent = -self.gamma * np.square(x - y)
        return np.exp(exponent)


class ExponentialHamming(_ScaledKernel):
    """The kernel ``exp(-gamma [x != y])``.

    Between rows it is ``exp(-gamma H(x, y))`` with the number ``H`` of columns that differ. With
    ``gamma = 2 g`` it equals the Gaussian kernel of parameter ``g`` on one-hot columns. Two draws
    of a continuous distribution differ with probability one.

    Parameters
    ----------
    gamma : float
        Not negative; 0 ignores the column.
    scope : sequence of int, default=None
        The columns that it compares. None takes all, or the one that it has in a product.

    Examples
    --------
    >>> from skpc.kernels import ExponentialHamming
    >>> ExponentialHamming(1.0)([[0, 1, 2]], [[0, 1, 2], [0, 2, 1]]).round(3)
    array([[1.   , 0.135]])
    """

    def of_points(self, x: Floats, y: Floats) -> Floats:
        """Values between cells, with numpy's broadcasting."""
        return np.where(x == y, 1.0, np.exp(-self.gamma))


@dataclass(frozen=True)
class Delta(_LibraryKernel):
    """The kernel ``[x == y]``.

    Its expectation between two distributions is the probability that their draws coincide. This
    is 0 if a column is continuous.

    Parameters
    ----------
    scope : sequence of int, default=None
        The columns that it compares. None takes all, or the one that it has in a product.

    Examples
    --------
    >>> from skpc.kernels import Delta
    >>> Delta()([[0, 1]], [[0, 1], [0, 0]])
    array([[1., 0.]])
    """

    def of_points(self, x: Floats, y: Floats) -> Floats:
        """Values between cells, with numpy's broadcasting."""
        return np.where(x == y, 1.0, 0.0)


@dataclass(frozen=True)
class ProductKernel(Kernel):
    """The product of one kernel a column, or of kernels of disjoint scopes.

    Parameters
    ----------
    columns : sequence of Kernel
        The kernel of each column, or kernels that each have a ``scope`` of their own. No two of
        these share a column. Columns in no scope are not compared.

    Raises
    ------
    TypeError
        If a part is no kernel.
    ValueError
        If some parts have a scope and others have none, or two scopes share a column.

    Examples
    --------
    >>> from skpc.kernels import RBF, Delta, ExponentialHamming
    >>> from skpc.kernels import ProductKernel, SumKernel
    >>> kernel = ProductKernel([RBF(1.0), ExponentialHamming(2.0)])
    >>> kernel([[0.5, 3.0]], [[0.5, 3.0], [0.5, 1.0]]).round(3)
    array([[1.   , 0.135]])

    Kernels nest:

    >>> near_or_equal = SumKernel([RBF(1.0, scope=[0, 1]), Delta(scope=[0, 1])])
    >>> kernel = ProductKernel([near_or_equal, RBF(0.5, scope=[2])])
    >>> origin = [[0.0, 0.0, 0.0]]
    >>> kernel(origin, [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0]]).round(3)
    array([[2.   , 0.368]])
    """

    columns: Sequence[Kernel]

    def __post_init__(self) -> None:
        columns = tuple(self.columns)
        # Any sequence may be given, and is kept as a tuple.
        object.__setattr__(self, "columns", columns)
        if not columns:
            raise ValueError("a ProductKernel needs one or more kernels, got none")
        for column, factor in enumerate(columns):
            if not isinstance(factor, Kernel):
                raise TypeError(
                    "a ProductKernel needs a kernel (RBF, ExponentialHamming, Delta, or a sum or "
                    f"product of these) for each column, got {factor!r} for column {column}"
                )
        scoped = [factor for factor in columns if factor.scope is not None]
        if not scoped:
            return
        # A part without a scope takes the column of its place, which another part may have named.
        if len(scoped) < len(columns):
            without = next(factor for factor in columns if factor.scope is None)
            raise ValueError(
                "a ProductKernel takes one kernel a column or kernels that have a scope, got "
                f"{scoped[0]!r} of scope {scoped[0].scope} and {without!r} without a scope"
            )
        # Disjoint scopes keep the product decomposable: its expectation is a product, too.
        taken: set[int] = set()
        for factor in scoped:
            scope = set(factor.scope or ())
            shared = taken & scope
            if shared:
                raise ValueError(
                    "the parts of a ProductKernel need disjoint scopes, but column "
                    f"{min(shared)} is in that of {factor!r} and in that of an earlier part"
                )
            taken |= scope
        object.__setattr__(self, "scope", tuple(sorted(taken)))


@dataclass(frozen=True)
class SumKernel(Kernel):
    """A positive sum of kernels of one scope.

    Parameters
    ----------
    kernels : sequence of Kernel
        The parts. All have the same ``scope``, or all have none.
    weights : sequence of float, default=None
        Their weights, positive; None gives each the weight one.

    Raises
    ------
    ValueError
        If a weight is not positive, or the parts have different scopes.

    Examples
    --------
    >>> from skpc.kernels import RBF, SumKernel
    >>> SumKernel([RBF(0.1), RBF(1.0)], [0.5, 0.5])([[0.0]], [[0.0], [1.0]]).round(
    ...     3
    ... )
    array([[1.   , 0.636]])
    """

    kernels: Sequence[Kernel]
    weights: Sequence[float] | None = None

    def __post_init__(self) -> None:
        kernels = tuple(self.kernels)
        if self.weights is None:
            weights = (1.0,) * len(kernels)
        else:
            weights = tuple(map(float, self.weights))
        if not kernels or len(weights) != len(kernels):
            raise ValueError(
                "a SumKernel needs one or more kernels and a weight for each, got "
                f"{len(kernels)} kernels and {len(weights)} weights"
            )
        if not all(0.0 < weight < np.inf for weight in weights):
            raise ValueError(f"the weights of a SumKernel must be positive, got {weights}")
        for part in kernels:
            if not isinstance(part, Kernel):
                raise TypeError(f"the parts of a SumKernel must be kernels, got {part!r}")
        scope = kernels[0].scope
        for part in kernels:
            # A sum must be smooth: its parts compare the same columns.
            if part.scope != scope:
                raise ValueError(
                    "the parts of a SumKernel need one scope, but that of "
                    f"{kernels[0]!r} is {scope} and that of {part!r} is {part.scope}"
                )
        object.__setattr__(self, "kernels", kernels)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "scope", scope)


@dataclass(frozen=True, eq=False)
class KernelNode:
    """A node of a kernel circuit.

    Attributes
    ----------
    scope : int
        The columns that it compares: bit ``v`` for column ``v``.
    parts : tuple of KernelNode
        The parts of a sum or a product; none for a column kernel.
    weights : tuple of float
        The weights of the parts of a sum; none for the others.
    column : ColumnKernel or None
        The kernel of a leaf.

    Examples
    --------
    >>> from skpc.kernels import Delta, KernelCircuit
    >>> KernelCircuit(Delta(), 1).root
    KernelNode(scope=1, parts=(), weights=(), column=Delta())
    """

    scope: int
    parts: tuple[KernelNode, ...] = ()
    weights: tuple[float, ...] = ()
    column: ColumnKernel | None = None

    @property
    def variable(self) -> int:
        """The column of a leaf, or of a sum of leaves of one column."""
        return self.scope.bit_length() - 1

    @property
    def is_single(self) -> bool:
        """Whether it compares a single column."""
        return not self.scope & (self.scope - 1)

    def of_points(self, x: Floats, y: Floats) -> Floats:
        """Values between cells of a single column, with numpy's broadcasting."""
        if self.column is not None:
            return self.column.of_points(x, y)
        values: Any = 0.0
        for weight, part in zip(self.weights, self.parts):
            values = values + weight * part.of_points(x, y)
        return values


class KernelCircuit:
    """A kernel between rows of some number of columns, as a circuit (definition 4.1).

    A product of products is one product. A column that no part reads has the kernel that is one
    everywhere.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    n_features : int
        Number of columns.

    Attributes
    ----------
    root : KernelNode
        The node of the kernel itself.

    Raises
    ------
    TypeError
        If a part is neither a column kernel nor a sum or product.
    ValueError
        If the parts do not fit the columns.

    Examples
    --------
    >>> from skpc.kernels import RBF, Delta, KernelCircuit, SumKernel
    >>> circuit = KernelCircuit(SumKernel([RBF(1.0), Delta()]), n_features=2)
    >>> [len(part.parts) for part in circuit.root.parts]
    [2, 2]
    """

    def __init__(self, kernel: Kernel, n_features: int):
        self._kernel = kernel
        self._n_features = n_features
        #: Nodes by what they are made of, so that equal parts are one node.
        self._nodes: dict[Any, KernelNode] = {}
        columns = tuple(range(n_features))
        root = self._node(kernel, columns)
        if root.scope >> n_features:
            raise ValueError(
                f"the kernel reads column {root.variable}, but the rows have {n_features} columns"
            )
        # The scope of the root is all columns: those that no part reads get the constant kernel.
        constant = RBF(0.0)
        unread = [column for column in columns if not root.scope >> column & 1]
        if unread:
            root = self.product([root, *(self._leaf(constant, column) for column in unread)])
        self.root = root

    def __repr__(self) -> str:
        return f"KernelCircuit({self._kernel!r}, {self._n_features})"

    def _node(self, kernel: Kernel, columns: tuple[int, ...]) -> KernelNode:
        """The node of a kernel that stands in the place of these columns."""
        # Where a kernel has a scope, it compares that instead.
        if kernel.scope is not None:
            columns = kernel.scope
        key = id(kernel), columns
        if key not in self._nodes:
            self._nodes[key] = self._new_node(kernel, columns)
        return self._nodes[key]

    def _new_node(self, kernel: Kernel, columns: tuple[int, ...]) -> KernelNode:
        """:meth:`_node`, without a look at the nodes that have been made."""
        # Between rows, a column kernel is its product over all columns.
        if isinstance(kernel, ColumnKernel):
            leaves = [self._leaf(kernel, column) for column in columns]
            return self.product(leaves)
        if isinstance(kernel, SumKernel):
            parts = tuple(self._node(part, columns) for part in kernel.kernels)
            return KernelNode(parts[0].scope, parts, tuple(kernel.weights or ()))
        if not isinstance(kernel, ProductKernel):
            raise TypeError(
                "a kernel must be a ColumnKernel, a SumKernel or a ProductKernel, got "
                f"{type(kernel).__name__}"
            )
        if kernel.scope is not None:
            return self.product([self._node(part, columns) for part in kernel.columns])
        if len(kernel.columns) != len(columns):
            raise ValueError(
                f"the kernel has a factor for each of {len(kernel.columns)} columns, but the rows "
                f"have {len(columns)}; give one factor a column, or kernels that have a scope"
            )
        # Without scopes, the parts belong to the columns in their order.
        places = zip(kernel.columns, columns)
        return self.product([self._node(part, (column,)) for part, column in places])

    def _leaf(self, kernel: ColumnKernel, column: int) -> KernelNode:
        # The same kernel in two columns makes two leaves.
        key = "leaf", id(kernel), column
        leaf = KernelNode(1 << column, column=kernel)
        return self._nodes.setdefault(key, leaf)

    def product(self, nodes: Sequence[KernelNode]) -> KernelNode:
        """The product of nodes of disjoint scopes; the same nodes have the same product."""
        # A product of products is one product, and so its key does not depend on the nesting.
        parts: list[KernelNode] = []
        for node in nodes:
            is_product = node.column is None and not node.weights
            parts += node.parts if is_product else [node]
        if len(parts) == 1:
            return parts[0]
        # The order of the parts does not matter, and so equal products get equal keys.
        parts.sort(key=lambda part: part.scope)
        scope = sum(part.scope for part in parts)
        key = tuple(parts)
        return self._nodes.setdefault(key, KernelNode(scope, key))


def product_terms(
    node: KernelNode, is_factor: Callable[[KernelNode], bool]
) -> list[tuple[float, dict[int, KernelNode]]]:
    """A node as a positive sum of products of factors, multiplied out.

    Parameters
    ----------
    node : KernelNode
        The node. A product of m sums of n parts has ``n ** m`` terms.
    is_factor : callable
        Which nodes of a single column stay as they are; all column kernels do.

    Returns
    -------
    list of (float, dict of int to KernelNode)
        The weight of each product, and the factor of each column.

    Examples
    --------
    >>> from skpc.kernels import RBF, Delta, KernelCircuit, ProductKernel, SumKernel
    >>> from skpc.kernels import product_terms
    >>> both = SumKernel([RBF(1.0), Delta()], [1.0, 2.0])
    >>> root = KernelCircuit(ProductKernel([both, Delta()]), n_features=2).root
    >>> [weight for weight, _ in product_terms(root, lambda node: not node.parts)]
    [1.0, 2.0]
    """
    if is_factor(node):
        return [(1.0, {node.variable: node})]
    terms = []
    parts = [product_terms(part, is_factor) for part in node.parts]
    for weight, part in zip(node.weights, parts):
        terms += [(weight * inner_weight, factors) for inner_weight, factors in part]
    if node.weights:
        return terms
    # A product has a term for each choice of one term of every part.
    for choice in product(*parts):
        weight = math.prod(weight for weight, _ in choice)
        factors: dict[int, KernelNode] = {}
        for _, factors_of_part in choice:
            factors |= factors_of_part
        terms.append((weight, factors))
    return terms


def _values(node: KernelNode, x: Floats, y: Floats, known: dict[KernelNode, Floats]) -> Floats:
    """Values of a node between all pairs of rows."""
    # A node that several products share is computed once.
    if node in known:
        return known[node]
    shape = (len(x), len(y))
    if node.is_single:
        column = node.variable
        values = node.of_points(x[:, [column]], y[:, column])
    elif node.weights:
        values = np.zeros(shape)
        for weight, part in zip(node.weights, node.parts):
            values += weight * _values(part, x, y, known)
    else:
        values = np.ones(shape)
        for part in node.parts:
            values *= _values(part, x, y, known)
    known[node] = values
    return values


def _columns(scope: Sequence[int]) -> tuple[int, ...]:
    """A scope as increasing numbers of columns."""
    # Sorted, so that scopes of the same columns are equal.
    columns = tuple(sorted(map(int, scope)))
    is_repeated = len(set(columns)) < len(columns)
    if not columns or columns[0] < 0 or is_repeated:
        raise ValueError(f"a scope must be different columns, numbered from 0, got {scope!r}")
    return columns


def _complete_rows(table: Any, name: str) -> Floats:
    rows = rows_of_numbers(table, name=name)
    bad = np.argwhere(~np.isfinite(rows))
    if len(bad):
        row, column = bad[0]
        raise ValueError(
            f"{name} must hold finite numbers where a kernel is evaluated, got "
            f"{rows[row, column]} in row {row}, column {column}; expected_kernel integrates "
            "over what is missing"
        )
    return rows
