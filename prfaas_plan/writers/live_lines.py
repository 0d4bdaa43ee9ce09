"""Lines of the sheet of results: each a label, a formula, its unit, what was planned, and how it is computed."""

from __future__ import annotations

from prfaas_plan.writers.book import Sheet
from prfaas_plan.writers.formula import Cell

__all__ = ["NONE", "ResultLines"]

NONE = "–"
"""Shown where a number does not exist."""


class ResultLines:
    """Lines of results: label, value, unit, what was planned for the scenario as it was, and how it is computed."""

    def __init__(self, sheet: Sheet) -> None:
        self.sheet, self.row = sheet, 3

    def part(self, title: str) -> None:
        """Start a part."""
        self.row += 1
        self.sheet.headings(self.row, [title, "value", "unit", "planned", "how"])
        self.row += 1

    def line(self, name: str, label: str, cell: Cell, unit: str, planned: float | str | None, how: str) -> Cell:
        """Write one result and name it."""
        sheet, row = self.sheet, self.row
        sheet.text(row, 0, label)
        digits = "0.0%" if unit == "%" else "#,##0" if unit in ("tokens", "instances", "GPUs") else "#,##0.0000"
        style = "main" if name == "lambda_max_rps" else "result"
        written = sheet.formula(row, 1, cell, digits, style)
        sheet.text(row, 2, "" if unit == "%" else unit, "unit")
        if isinstance(planned, str):
            sheet.text(row, 3, planned)
        elif planned is None:
            sheet.text(row, 3, NONE)
        else:
            sheet.number(row, 3, float(planned), digits)
        sheet.text(row, 4, how, "wrap")
        self.row += 1
        return sheet.book.name(written, f"out_{name}")
