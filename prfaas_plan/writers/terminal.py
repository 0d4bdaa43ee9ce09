"""Documents for a terminal: tables with units that fit its width, colours only where there is one."""

from __future__ import annotations

import io
import textwrap
from dataclasses import replace

from prfaas_plan.reports.document import Column, Document, Table
from prfaas_plan.writers.cells import cell_text, heading, printable

__all__ = ["write_terminal"]

MARK = "◀"
_GAP = 2
_KEPT = 12
"""Words get at least this many columns, or what they need if that is less."""


def write_terminal(document: Document, *, width: int = 80, colour: bool = False) -> str:
    """Lay a document out in `width` columns, with colours if asked; a table too wide is split by columns."""
    from rich.console import Console
    from rich.text import Text

    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        force_terminal=colour,
        no_color=not colour,
        color_system="standard" if colour else None,
        highlight=False,
        legacy_windows=False,
    )
    console.print(Text(printable(document.title), style="bold"))
    for line in document.headline:
        console.print(Text(printable(line)))
    for table in document.tables:
        console.print()
        for piece in _pieces(table, width):
            console.print(Text(printable(piece.title), style="bold"))
            console.print(_rich_table(piece, _room(table, width)))
    if any(table.marked for table in document.tables):
        console.print(Text(f"{MARK} limits the plan"))
    if document.notes:
        console.print()
        console.print(Text("Notes", style="bold"))
        for note in document.notes:
            console.print(Text("\n".join(_wrapped(printable(note), width))))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _wrapped(note: str, width: int) -> list[str]:
    return textwrap.wrap(note, width, initial_indent="- ", subsequent_indent="  ", break_long_words=True)


def _pieces(table: Table, width: int) -> list[Table]:
    """Split a table that is too wide into several that repeat its first column."""
    needs = [_need(table, i) + _GAP for i in range(len(table.columns))]
    room = _room(table, width)
    groups: list[list[int]] = [[]]
    for index in range(1, len(needs)):
        if groups[-1] and needs[0] + sum(needs[i] for i in groups[-1]) + needs[index] > room:
            groups.append([])
        groups[-1].append(index)
    return [_columns_of(table, [0, *group], number) for number, group in enumerate(groups)]


def _room(table: Table, width: int) -> int:
    return width - 1 - (3 if table.marked else 0)


def _widths(table: Table, room: int) -> list[int]:
    """Share the width: every column gets what it needs, and the words what is left."""
    widths = [_need(table, i) for i in range(len(table.columns))]
    wishes = [_natural(table, i) for i in range(len(table.columns))]
    spare = room - sum(w + _GAP for w in widths)
    while spare > 0 and (wanting := [i for i, w in enumerate(widths) if w < wishes[i]]):
        narrowest = min(wanting, key=lambda i: widths[i])
        widths[narrowest] += 1
        spare -= 1
    return widths


def _natural(table: Table, index: int) -> int:
    column = table.columns[index]
    lines = [cell_text(row[index], column) for row in table.rows] + _heading(column).split("\n")
    return max(len(line) for line in lines)


def _columns_of(table: Table, chosen: list[int], number: int) -> Table:
    return replace(
        table,
        title=table.title if number == 0 else f"{table.title} (continued)",
        columns=tuple(table.columns[i] for i in chosen),
        rows=tuple(tuple(row[i] for i in chosen) for row in table.rows),
    )


def _need(table: Table, index: int) -> int:
    """Columns that a table column cannot do without: its numbers, and the longest word of its heading."""
    column = table.columns[index]
    longest = max((len(cell_text(row[index], column)) for row in table.rows), default=0)
    words = max(len(word) for word in _heading(column).split() or [""])
    return max(words, longest if column.right else min(longest, _KEPT))


def _heading(column: Column) -> str:
    return heading(column).replace(" [", "\n[")


def _rich_table(table: Table, room: int) -> object:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    grid = RichTable(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for column, width in zip(table.columns, _widths(table, room), strict=True):
        grid.add_column(
            Text(_heading(column)),
            justify="right" if column.right else "left",
            overflow="fold",
            vertical="top",
            width=width,
        )
    if table.marked:
        grid.add_column("", width=1)
    for index, row in enumerate(table.rows):
        cells = [Text(cell_text(v, c)) for v, c in zip(row, table.columns, strict=True)]
        if table.marked:
            cells.append(Text(MARK if index in table.marked else "", style="bold red"))
        grid.add_row(*cells)
    return grid
