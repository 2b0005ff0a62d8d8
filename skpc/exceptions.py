"""The few error classes of the package; each is a ``ValueError`` too."""

__all__ = ["IncompatibleError", "StructureError"]


class StructureError(ValueError):
    """A circuit lacks a structural property that it needs.

    The message names the node, its scope and what was expected of it.

    Examples
    --------
    >>> from skpc.circuit import CircuitBuilder
    >>> from skpc.exceptions import StructureError
    >>> builder = CircuitBuilder(n_states=[2])
    >>> leaves = [builder.indicator(0, state) for state in (0, 1)]
    >>> _ = builder.product(leaves)
    >>> try:
    ...     builder.build()
    ... except StructureError as error:
    ...     print(error)
    product 2 needs children with disjoint scopes...
    """


class IncompatibleError(ValueError):
    """Two circuits cannot be combined because they split their scopes differently.

    The message names the two products and how each splits its scope.

    Examples
    --------
    >>> from skpc.circuit import CircuitBuilder
    >>> from skpc.exceptions import IncompatibleError
    >>> from skpc.kernels import Delta
    >>> from skpc.queries import expected_kernel
    >>> def grouped(first, second):
    ...     builder = CircuitBuilder(n_states=[2, 2, 2])
    ...     leaves = [builder.indicator(var, 0) for var in range(3)]
    ...     inner = builder.product([leaves[first], leaves[second]])
    ...     _ = builder.product([inner, leaves[3 - first - second]])
    ...     return builder.build()
    >>> try:
    ...     expected_kernel(grouped(0, 1), grouped(1, 2), Delta())
    ... except IncompatibleError as error:
    ...     print(error)
    an expected kernel needs circuits that split every scope in the same way, but product 4 ...
    """
