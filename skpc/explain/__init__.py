"""What explainers of other libraries need: features that are hidden, drawn given the others."""

from skpc.explain.masker import ConditionalMasker

__all__ = ["ConditionalMasker"]
