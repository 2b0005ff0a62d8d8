"""From encoded rows to circuits.

Internal: it may change in any version.
"""
