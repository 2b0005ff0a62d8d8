"""The scikit-learn estimators, one file each.

Internal: import them from ``skpc``.
"""
