"""Rules between the columns of a table, and reports on synthetic tables."""

from skpc.synthesis.report import TableReport, table_report
from skpc.synthesis.rules import Rule, Rules, find_rules

__all__ = ["Rule", "Rules", "TableReport", "find_rules", "table_report"]
