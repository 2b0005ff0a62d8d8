"""Passes over a circuit: how it is evaluated, block of rows by block of rows, up and down."""
