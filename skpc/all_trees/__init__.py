"""The mixture of all spanning trees: parameters, determinants, inference, training, density.

Internal: it may change in any version.
"""
