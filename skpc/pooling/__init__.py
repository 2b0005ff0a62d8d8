"""Several models weighed by rows that they have not seen: folds, members, predictions, weights.

Internal: it may change in any version.
"""
