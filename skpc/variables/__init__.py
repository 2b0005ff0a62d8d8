"""Columns as models see them: histogram axes, leaf families, and the distribution of a cell."""

from skpc.variables.axis import Axis, AxisTable
from skpc.variables.families import (
    BLOCK,
    CATEGORICAL,
    GAUSSIAN,
    HISTOGRAM,
    POISSON,
    SCORED,
)
from skpc.variables.forms import Bins, Form, Normals, Points, ScoredNormals
from skpc.variables.leaves import Columns, Leaves
from skpc.variables.margins import Margin, plain_axis
from skpc.variables.number import Number
from skpc.variables.predictive import Predictive
from skpc.variables.score import ScoredColumn

__all__ = [
    "BLOCK",
    "CATEGORICAL",
    "GAUSSIAN",
    "HISTOGRAM",
    "POISSON",
    "SCORED",
    "Axis",
    "AxisTable",
    "Bins",
    "Columns",
    "Form",
    "Leaves",
    "Margin",
    "Normals",
    "Number",
    "Points",
    "Predictive",
    "ScoredColumn",
    "ScoredNormals",
    "plain_axis",
]
