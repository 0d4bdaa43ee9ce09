"""Documents for a terminal: tables with units that fit its width, colours only where there is one."""

from __future__ import annotations

import io
import textwrap

from prfaas_plan.report import Document, Table
from prfaas_plan.writers.cells import cell_text, heading, printable

__all__ = ["write_terminal"]

MARK = "◀"
_KEPT = 12
"""Words get at least this many columns, or what they need if that is less."""
_UNBROKEN = 32
"""Cells up to this many characters are not broken over lines."""


def write_terminal(document: Document, *, width: int = 80, colour: bool = False) -> str:
    """Lay a document out in `width` columns, with colours if asked."""
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
        console.print(_rich_table(table))
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


def _rich_table(table: Table) -> object:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    grid = RichTable(
        title=Text(table.title, style="bold"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for index, column in enumerate(table.columns):
        longest = max((len(cell_text(row[index], column)) for row in table.rows), default=0)
        grid.add_column(
            Text(heading(column).replace(" [", "\n[")),
            justify="right" if column.right else "left",
            overflow="fold",
            vertical="top",
            min_width=longest if column.right else min(longest, _KEPT),
            no_wrap=column.right or longest <= _UNBROKEN,
        )
    if table.marked:
        grid.add_column("", min_width=1)
    for index, row in enumerate(table.rows):
        cells = [Text(cell_text(v, c)) for v, c in zip(row, table.columns, strict=True)]
        if table.marked:
            cells.append(Text(MARK if index in table.marked else "", style="bold red"))
        grid.add_row(*cells)
    return grid
