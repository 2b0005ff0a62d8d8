"""Columns as models see them: histogram axes, leaf families, and the distribution of a cell."""

from skpc.variables.families import (
    BLOCK,
    CATEGORICAL,
    GAUSSIAN,
    HISTOGRAM,
    POISSON,
    SCORED,
)
from skpc.variables.forms import Bins, Form, Normals, Points, ScoredNormals
from skpc.variables.histogram import Histogram, HistogramTable
from skpc.variables.law import Law
from skpc.variables.leaves import Columns, Leaves
from skpc.variables.margins import fit_histogram, plain_axis
from skpc.variables.predictive import Predictive

__all__ = [
    "BLOCK",
    "CATEGORICAL",
    "GAUSSIAN",
    "HISTOGRAM",
    "POISSON",
    "SCORED",
    "Histogram",
    "HistogramTable",
    "Bins",
    "Columns",
    "Form",
    "Law",
    "Leaves",
    "Normals",
    "Points",
    "Predictive",
    "ScoredNormals",
    "fit_histogram",
    "plain_axis",
]
