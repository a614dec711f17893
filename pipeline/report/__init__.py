"""The report: what the tables say about the groups of a log, as one page that needs nothing but a browser."""

from pipeline.report.data import (
    GROUPS_LISTED,
    GROUPS_SHOWN,
    PARTITION_POINTS,
    PARTITIONS_DRAWN,
    POINTS_SHOWN,
    ReportData,
    Row,
    choose_groups,
    thin,
)
from pipeline.report.page import render

__all__ = [
    "GROUPS_LISTED",
    "GROUPS_SHOWN",
    "PARTITIONS_DRAWN",
    "PARTITION_POINTS",
    "POINTS_SHOWN",
    "ReportData",
    "Row",
    "choose_groups",
    "render",
    "thin",
]
