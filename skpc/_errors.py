"""The few error classes of the package."""

__all__ = ["IncompatibleError", "StructureError"]


class StructureError(ValueError):
    """A circuit lacks a structural property that it needs.

    The message names the node, its scope and what was expected of it.
    """


class IncompatibleError(ValueError):
    """Two circuits cannot be combined because they split their scopes differently.

    The message names the two products and how each splits its scope.
    """
