"""What a result says to a reader: headings, tables with units, and notes. Writers only lay it out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from prfaas_plan.tabular import flatten

__all__ = ["Column", "Document", "Table", "columns", "flatten", "rows", "text_column", "without_blanks"]

Cell = str | float | int | bool | None


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its heading, the unit of its numbers and how many digits they keep."""

    heading: str
    unit: str = ""
    digits: int = 3
    percent: bool = False
    right: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """A table of raw values; numbers are formatted by the column they stand in."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    marked: frozenset[int] = frozenset()
    """Rows to point at, such as the pool that limits the plan."""


@dataclass(frozen=True, slots=True)
class Document:
    """A result as a reader sees it, and the same as plain rows for a spreadsheet."""

    title: str
    headline: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    rows: tuple[Mapping[str, Any], ...] = field(default=())
    """Flat records with units in their keys, for CSV."""


def text_column(heading: str) -> Column:
    """Make a column of words.

    >>> text_column("pool").right
    False
    """
    return Column(heading, right=False)


def columns(*headings: str | Column) -> tuple[Column, ...]:
    """Make columns; a plain string is a column of words."""
    return tuple(h if isinstance(h, Column) else text_column(h) for h in headings)


def rows(values: Iterable[Sequence[Cell]]) -> tuple[tuple[Cell, ...], ...]:
    """Freeze rows."""
    return tuple(tuple(row) for row in values)


def without_blanks(table: Table) -> Table:
    """Leave out the columns in which no row says anything.

    >>> [c.heading for c in without_blanks(Table("", columns("period", "pool"), rows([["", "local"]]))).columns]
    ['pool']
    """
    kept = [i for i in range(len(table.columns)) if not table.rows or any(row[i] != "" for row in table.rows)]
    return replace(
        table,
        columns=tuple(table.columns[i] for i in kept),
        rows=tuple(tuple(row[i] for i in kept) for row in table.rows),
    )
