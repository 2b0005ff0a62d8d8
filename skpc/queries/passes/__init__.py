"""Passes over a circuit: how it is evaluated, batch of rows by batch of rows, up and down."""
