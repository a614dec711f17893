"""The report: what the tables say about the groups of a log, as one page that needs nothing but a browser."""

from pipeline.report.data import GROUPS_SHOWN, POINTS_SHOWN, ReportData, Row, choose_groups, thin
from pipeline.report.page import render

__all__ = ["GROUPS_SHOWN", "POINTS_SHOWN", "ReportData", "Row", "choose_groups", "render", "thin"]
