"""Where a command's result goes: standard output or a file, in the format asked for."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from prfaas_plan.reports.document import Document

__all__ = ["Format", "Output", "emit", "emit_text"]

_WIDTH = 80
_WIDEST = 120


class Format(StrEnum):
    """How a result is written."""

    table = "table"
    json = "json"
    csv = "csv"
    md = "md"


@dataclass(frozen=True, slots=True)
class Output:
    """The format and the file a command was asked for; without a format, the file's ending decides."""

    asked: Format | None = None
    path: Path | None = None

    def __post_init__(self) -> None:
        ending = self.path.suffix.lower() if self.path else ""
        if self.asked is None and ending in (".xls", ".ods", ".htm", ".pdf"):
            from prfaas_plan.errors import Fault, InputError

            problem = f"{ending} is not written; expected .xlsx, .html, .json, .csv, .md or .txt"
            raise InputError(Fault("--output", "", problem, str(self.path)))

    @property
    def as_file(self) -> str:
        """The ending of a workbook or a page, where one is written; else nothing."""
        ending = self.path.suffix.lower() if self.path is not None and self.asked is None else ""
        return ending if ending in (".xlsx", ".html") else ""

    @property
    def format(self) -> Format:
        """The format to write in."""
        if self.asked is not None:
            return self.asked
        ending = self.path.suffix.lower().lstrip(".") if self.path else ""
        return Format(ending) if ending in ("json", "csv", "md") else Format.table


def emit(command: str, data: Mapping[str, Any], document: Document, output: Output) -> None:
    """Write a result as text, or by the ending of the file as a workbook or a page; whole or not at all."""
    if output.path is not None and output.as_file:
        from prfaas_plan.files import write_atomically

        write_atomically(output.path, _as_file(document, output.as_file))
        return
    emit_text(_rendered(command, data, document, output), output.path)


def _as_file(document: Document, ending: str) -> str | bytes:
    if ending == ".xlsx":
        from prfaas_plan.writers.book import write_document

        return write_document(document)
    from prfaas_plan.writers.page import write_document_page

    return write_document_page(document)


def emit_text(text: str, path: Path | None) -> None:
    """Write text to standard output, or to a file whole or not at all."""
    if path is None:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    from prfaas_plan.files import write_atomically

    write_atomically(path, text)


def _rendered(command: str, data: Mapping[str, Any], document: Document, output: Output) -> str:
    if output.format is Format.table:
        from prfaas_plan.writers.terminal import write_terminal

        on_terminal = output.path is None and sys.stdout.isatty()
        return write_terminal(document, width=_terminal_width(on_terminal), colour=on_terminal and _may_colour())
    from prfaas_plan.writers import plain

    if output.format is Format.json:
        return plain.write_json(command, data)
    return plain.write_csv(document) if output.format is Format.csv else plain.write_markdown(document)


def _terminal_width(on_terminal: bool) -> int:
    if not on_terminal:
        return _WIDTH
    return max(40, min(os.get_terminal_size().columns, _WIDEST))


def _may_colour() -> bool:
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
