"""Passes up and down a circuit, batch of rows by batch of rows."""
