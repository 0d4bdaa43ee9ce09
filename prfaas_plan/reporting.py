"""The what-if report as a file: a workbook that calculates, a page that needs no network, or Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from prfaas_plan.errors import Fault, InputError, nearest
from prfaas_plan.files import write_atomically
from prfaas_plan.scenario import Scenario, load_scenario
from prfaas_plan.what_if_tables import what_if

__all__ = ["ENDINGS", "report"]

ENDINGS = (".xlsx", ".html", ".md")


def report(scenario: Scenario | str, path: str | Path, *, profiles: Sequence[str | Path] = ()) -> Path:
    """Write the what-if report of a scenario, as the ending of `path` says: ``.xlsx``, ``.html`` or ``.md``.

    The file is written whole or not at all, and the same scenario gives the same bytes. Raises `InputError` for
    another ending or a file that cannot be written, and what `plan` raises.
    """
    target = Path(path)
    ending = target.suffix.lower()
    if ending not in ENDINGS:
        problem = "expected a name that ends in " + ", ".join(ENDINGS)
        raise InputError(Fault("--output", "", problem, str(path), nearest(ending, ENDINGS) if ending else ""))
    found = what_if(load_scenario(scenario) if isinstance(scenario, str) else scenario, profiles=profiles)
    if ending == ".xlsx":
        from prfaas_plan.writers.workbook import write_workbook

        write_atomically(target, write_workbook(found))
    elif ending == ".html":
        from prfaas_plan.writers.page import write_page

        write_atomically(target, write_page(found))
    else:
        from prfaas_plan.what_if_report import report_what_if
        from prfaas_plan.writers.plain import write_markdown

        write_atomically(target, write_markdown(report_what_if(found)))
    return target
