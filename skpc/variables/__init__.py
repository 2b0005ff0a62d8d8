"""Columns as models see them: histogram axes, leaf families, and the distribution of a cell."""

from skpc.variables.axis import Axis, AxisTable
from skpc.variables.forms import Bins, Form, Normals, Points, ScoredNormals
from skpc.variables.leaves import (
    BLOCK,
    CATEGORICAL,
    GAUSSIAN,
    HISTOGRAM,
    POISSON,
    SCORED,
    Columns,
    Leaves,
)
from skpc.variables.margins import Margin
from skpc.variables.number import Number
from skpc.variables.plain_bins import plain_axis
from skpc.variables.predictive import Predictive
from skpc.variables.scored_column import ScoredColumn
from skpc.variables.stretched import OwnNormals, Stretched

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
    "OwnNormals",
    "Points",
    "Predictive",
    "ScoredColumn",
    "ScoredNormals",
    "Stretched",
    "plain_axis",
]
