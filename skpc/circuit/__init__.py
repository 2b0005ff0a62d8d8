"""Circuits: the value, its builder, its structural properties, save and load."""

from skpc.circuit._circuit import Circuit, mixture
from skpc.circuit._io import load_circuit, save_circuit
from skpc.circuit._structure import LEAF, PRODUCT, SUM, Structure, scope_text
from skpc.circuit.builder import CircuitBuilder
from skpc.circuit.decisions import Decisions, decision_circuit

__all__ = [
    "LEAF",
    "PRODUCT",
    "SUM",
    "Circuit",
    "CircuitBuilder",
    "Decisions",
    "Structure",
    "decision_circuit",
    "load_circuit",
    "mixture",
    "save_circuit",
    "scope_text",
]
