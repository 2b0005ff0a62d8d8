"""Rules between the columns of a table, tables and densities that keep them, and reports."""

from skpc.synthesis.gaps import WithGaps
from skpc.synthesis.report import TableReport, table_report
from skpc.synthesis.ruled import RuledDensity, keep_rules
from skpc.synthesis.rules import Rule, Rules, find_rules

__all__ = [
    "Rule",
    "RuledDensity",
    "Rules",
    "TableReport",
    "WithGaps",
    "find_rules",
    "keep_rules",
    "table_report",
]
