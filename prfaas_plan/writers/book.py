"""A workbook as it is filled: sheets, formats, named cells, inputs that are open and formulas that are not."""

from __future__ import annotations

import datetime as dt
import io
import math
from collections.abc import Sequence
from typing import Any, Final

import xlsxwriter
from xlsxwriter.utility import xl_rowcol_to_cell

from prfaas_plan.errors import Fault, InputError
from prfaas_plan.reports.document import Cell as ReportCell
from prfaas_plan.reports.document import Document, Table
from prfaas_plan.writers.cells import cell_text, heading, printable
from prfaas_plan.writers.formula import Cell, Range, Value

__all__ = ["Book", "Sheet", "write_document"]

CREATED: Final = dt.datetime(2026, 1, 1, tzinfo=dt.UTC).replace(tzinfo=None)
"""Date in the properties of every workbook, so that the same plan gives the same bytes."""

_MOST_ROWS = 1_048_576
_ONE_LINE = 16
"""Headings up to this many characters stand on one line."""
_STYLES: dict[str, dict[str, Any]] = {
    "title": {"bold": True, "font_size": 16},
    "heading": {"bold": True, "bottom": 1, "text_wrap": True, "valign": "top", "bg_color": "#E8EDF3"},
    "part": {"bold": True, "font_size": 12},
    "text": {"valign": "top"},
    "wrap": {"text_wrap": True, "valign": "top"},
    "unit": {"font_color": "#555555", "valign": "top"},
    "input": {"bg_color": "#FFF6D6", "border": 1, "border_color": "#C9A400", "locked": False, "valign": "top"},
    "result": {"valign": "top"},
    "main": {"bold": True, "font_size": 14, "bg_color": "#E3F1E3", "border": 1, "border_color": "#4C8C4A"},
}


class Book:
    """A workbook in memory."""

    def __init__(self, title: str) -> None:
        self._buffer = io.BytesIO()
        options = {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False, "nan_inf_to_errors": True}
        self.file = xlsxwriter.Workbook(self._buffer, options)
        self.file.set_properties({"title": printable(title), "created": CREATED})
        self._formats: dict[tuple[str, str], Any] = {}

    def sheet(self, name: str, widths: Sequence[float] = (), *, protected: bool = True) -> Sheet:
        """Add a sheet; its formulas are protected (without a password), its inputs are not."""
        added = self.file.add_worksheet(name)
        for column, width in enumerate(widths):
            added.set_column(column, column, width)
        if protected:
            added.protect("", {"format_columns": True, "format_rows": True, "select_locked_cells": True})
        added.hide_gridlines(2)
        added.set_landscape()
        added.fit_to_pages(1, 0)
        return Sheet(self, added, name)

    def format(self, style: str, digits: str = "") -> Any:
        """Give a format by style and number format."""
        if (style, digits) not in self._formats:
            body = dict(_STYLES[style])
            self._formats[style, digits] = self.file.add_format(body | ({"num_format": digits} if digits else {}))
        return self._formats[style, digits]

    def name(self, cell: Cell, name: str) -> Cell:
        """Name a cell in the whole workbook."""
        self.file.define_name(name, f"={cell.text}")
        return Cell(name, cell.value)

    def content(self) -> bytes:
        """Close the workbook and give its bytes."""
        self.file.close()
        return self._buffer.getvalue()


class Sheet:
    """A sheet: texts, inputs and formulas at places counted from 0."""

    def __init__(self, book: Book, sheet: Any, name: str) -> None:
        self.book, self.sheet, self.title = book, sheet, name
        self.next_free = 0
        """The row below everything written so far, and an empty one."""

    def at(self, row: int, column: int, value: Value = 0.0) -> Cell:
        """Refer to a cell from anywhere in the workbook."""
        return Cell(f"'{self.title}'!{xl_rowcol_to_cell(row, column, True, True)}", value)

    def range(self, row: int, column: int, values: Sequence[Value]) -> Range:
        """Refer to cells below one another."""
        first = xl_rowcol_to_cell(row, column, True, True)
        last = xl_rowcol_to_cell(row + len(values) - 1, column, True, True)
        return Range(f"'{self.title}'!{first}:{last}", tuple(values))

    def text(self, row: int, column: int, value: str, style: str = "text") -> Cell:
        """Write a text that is nothing but a text."""
        shown = printable(value)
        self._grow(row)
        self.sheet.write_string(row, column, shown, self.book.format(style))
        return self.at(row, column, shown)

    def number(self, row: int, column: int, value: float | None, digits: str = "", style: str = "result") -> Cell:
        """Write a fixed number; nothing where there is none."""
        self._grow(row)
        if value is None or not math.isfinite(value):
            self.sheet.write_blank(row, column, None, self.book.format(style, digits))
            return self.at(row, column, math.nan)
        self.sheet.write_number(row, column, value, self.book.format(style, digits))
        return self.at(row, column, float(value))

    def formula(self, row: int, column: int, cell: Cell, digits: str = "", style: str = "result") -> Cell:
        """Write a formula with its value."""
        self._grow(row)
        value: Any = cell.value
        if isinstance(value, float) and not math.isfinite(value):
            value = "#N/A"
        self.sheet.write_formula(row, column, f"={cell.text}", self.book.format(style, digits), value)
        return self.at(row, column, cell.value)

    def _grow(self, row: int) -> None:
        self.next_free = max(self.next_free, row + 2)

    def headings(self, row: int, names: Sequence[str], column: int = 0) -> None:
        """Write a row of headings."""
        for i, name in enumerate(names):
            self.text(row, column + i, name, "heading")
        self.sheet.set_row(row, 32.0 if max(map(len, names), default=0) > _ONE_LINE else 16.0)

    def table(self, row: int, table: Table) -> int:
        """Write a table of fixed values and give the row below it."""
        self.text(row, 0, table.title, "part")
        self.headings(row + 1, [heading(c) for c in table.columns])
        for i, values in enumerate(table.rows):
            for j, (value, column) in enumerate(zip(values, table.columns, strict=True)):
                self._value(row + 2 + i, j, value, "0.0%" if column.percent else "#,##0.####")
                if value is None:
                    self.text(row + 2 + i, j, cell_text(None, column))
        return row + 3 + len(table.rows)

    def _value(self, row: int, column: int, value: ReportCell, digits: str) -> None:
        if isinstance(value, str):
            self.text(row, column, value)
        elif isinstance(value, bool):
            self.text(row, column, "yes" if value else "no")
        elif value is not None:
            self.number(row, column, float(value), digits)


def write_document(document: Document) -> bytes:
    """Write a document as a workbook: its records on one sheet, its tables and notes on another; texts stay texts.

    Raises `InputError` for more rows than a sheet holds.
    """
    if len(document.rows) >= _MOST_ROWS:
        problem = f"a sheet holds {_MOST_ROWS - 1:,} rows and there are {len(document.rows):,}; write CSV instead"
        raise InputError(Fault("--output", "", problem))
    book = Book(document.title)
    data = book.sheet("Rows", protected=False)
    keys = list(document.rows[0]) if document.rows else []
    data.headings(0, keys)
    data.sheet.freeze_panes(1, 0)
    for i, row in enumerate(document.rows, start=1):
        for j, key in enumerate(keys):
            value = row.get(key)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                data.number(i, j, float(value))
            elif value is not None:
                data.text(i, j, str(value))
    shown = book.sheet("Tables", [30, 16, 16, 16, 16, 16, 40], protected=False)
    shown.text(0, 0, document.title, "title")
    line = 2
    for text in document.headline:
        shown.text(line, 0, text)
        line += 1
    for table in document.tables:
        line = shown.table(line + 1, table)
    for note in document.notes:
        shown.text(line + 1, 0, note)
        line += 1
    return book.content()
