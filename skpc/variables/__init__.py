"""What a column is for a model: histogram axes, leaf families, and the distribution of a cell."""

from skpc.variables.axis import Axis, AxisTable
from skpc.variables.families import CATEGORICAL, GAUSSIAN, HISTOGRAM, POISSON
from skpc.variables.forms import Bins, Form, Normals, Points
from skpc.variables.leaves import Columns, Leaves
from skpc.variables.predictive import Predictive

__all__ = [
    "CATEGORICAL",
    "GAUSSIAN",
    "HISTOGRAM",
    "POISSON",
    "Axis",
    "AxisTable",
    "Bins",
    "Columns",
    "Form",
    "Leaves",
    "Normals",
    "Points",
    "Predictive",
]
