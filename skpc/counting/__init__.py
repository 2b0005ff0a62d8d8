"""Counts of cells and pairs of cells, their scores, and the trees made of them.

Internal: it may change in any version.
"""
