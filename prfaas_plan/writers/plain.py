"""Documents as Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from prfaas_plan.reports.document import Document, Table
from prfaas_plan.writers.cells import cell_text, heading, is_printable, printable, spreadsheet_text

__all__ = ["json_ready", "write_csv", "write_json", "write_markdown"]

_MARKDOWN_SPECIAL = str.maketrans({c: f"\\{c}" for c in r"\`*_{}[]<>#|~"})


def write_json(command: str, data: Mapping[str, Any]) -> str:
    """Write a result as one JSON object that names its schema; numbers without a value are ``null``.

    Characters that could rewrite a terminal are written as escapes, so the text is the same and inert.
    """
    body = {"schema": f"prfaas-plan/{command}/1", **data}
    written = json.dumps(json_ready(body), ensure_ascii=False, indent=2, allow_nan=False)
    return "".join(c if c == "\n" or is_printable(c) else _json_escape(c) for c in written) + "\n"


def _json_escape(character: str) -> str:
    return json.dumps(character, ensure_ascii=True)[1:-1]


def json_ready(value: Any) -> Any:
    """Replace NaN and infinities by ``None``, at any depth.

    >>> json_ready({"a": float("inf"), "b": [1.5]})
    {'a': None, 'b': [1.5]}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(k): json_ready(v) for k, v in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [json_ready(v) for v in value]
    return value


def write_csv(document: Document) -> str:
    """Write the flat records of a document with a header; texts cannot become formulas."""
    out = io.StringIO()
    keys = list(document.rows[0]) if document.rows else []
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([spreadsheet_text(printable(key)) for key in keys])
    for row in document.rows:
        writer.writerow([_csv_cell(row.get(key)) for key in keys])
    return out.getvalue()


def _csv_cell(value: Any) -> Any:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return _csv_cell("; ".join(map(str, value)))
    return spreadsheet_text(printable(value)) if isinstance(value, str) else value


def write_markdown(document: Document) -> str:
    """Write a document as Markdown; names cannot become markup."""
    lines = [f"# {_escaped(document.title)}", ""]
    lines += [line for text in document.headline for line in (_escaped(text), "")]
    for table in document.tables:
        lines += [f"## {_escaped(table.title)}", "", *_markdown_table(table), ""]
    if document.notes:
        lines += ["## Notes", "", *(f"- {_escaped(note)}" for note in document.notes), ""]
    return "\n".join(lines)


def _markdown_table(table: Table) -> list[str]:
    heads = [_escaped(heading(c)) for c in table.columns]
    rules = ["---:" if c.right else "---" for c in table.columns]
    lines = [_row(heads), _row(rules)]
    for index, row in enumerate(table.rows):
        cells = [_escaped(cell_text(v, c)) for v, c in zip(row, table.columns, strict=True)]
        if index in table.marked:
            cells[0] = f"**{cells[0]}** (limits)"
        lines.append(_row(cells))
    return lines


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _escaped(text: str) -> str:
    return printable(text).translate(_MARKDOWN_SPECIAL)
