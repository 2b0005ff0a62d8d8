"""What a column is for a model: histogram axes, leaf families, and the distribution of a cell."""

from skpc.variables.axis import Axis, AxisTable
from skpc.variables.families import CATEGORICAL, GAUSSIAN, HISTOGRAM, POISSON, SCORED
from skpc.variables.forms import Bins, Form, Normals, OwnNormals, Points, ScoredNormals
from skpc.variables.leaves import Columns, Leaves
from skpc.variables.margins import Margin
from skpc.variables.number import Number
from skpc.variables.plain_bins import plain_axis
from skpc.variables.predictive import Predictive
from skpc.variables.scored_column import ScoredColumn

__all__ = [
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
    "plain_axis",
]
