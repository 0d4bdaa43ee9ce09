"""Cells as text: numbers by their column, names made harmless for the place they are shown in."""

from __future__ import annotations

import math

from prfaas_plan.reports.document import Cell, Column
from prfaas_plan.texts import is_printable, printable
from prfaas_plan.units import is_token_unit, show

__all__ = ["cell_text", "heading", "is_printable", "printable", "spreadsheet_text"]

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def spreadsheet_text(text: str) -> str:
    """Make a text that a spreadsheet would take for a formula plain text.

    >>> spreadsheet_text("=cmd|' /C calc'!A0")
    "'=cmd|' /C calc'!A0"
    """
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def cell_text(value: Cell, column: Column) -> str:
    """Write one cell as its column wants it; an absent number is a dash.

    >>> cell_text(0.4957, Column("share", percent=True)), cell_text(19400, Column("t", "token"))
    ('49.6%', '19,400')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if math.isinf(value):
        return "unlimited" if value > 0 else "–"
    if column.percent:
        return f"{value:.1%}"
    if isinstance(value, int) or is_token_unit(column.unit):
        return f"{round(value):,}"
    return show(value, "", column.digits)


def heading(column: Column) -> str:
    """Write the heading of a column with its unit.

    >>> heading(Column("rate", "req/s"))
    'rate [req/s]'
    """
    unit = "tokens" if column.unit == "token" else column.unit
    return f"{column.heading} [{unit}]" if unit else column.heading
