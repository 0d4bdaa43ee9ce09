"""The what-if report as a file: a workbook that calculates, a page that needs no network, or Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from prfaas_plan.errors import Fault, InputError, nearest
from prfaas_plan.files import write_atomically
from prfaas_plan.scenario import Scenario, as_scenario
from prfaas_plan.whatif.tables import what_if

__all__ = ["ENDINGS", "report"]

Folders = Sequence[str | Path]

ENDINGS = (".xlsx", ".html", ".md")


def report(scenario: Scenario | str | Path, path: str | Path, *, profiles: Folders = ()) -> Path:
    """Write the what-if report of a scenario, as the ending of `path` says: ``.xlsx``, ``.html`` or ``.md``.

    The report of a fleet (ranges, demands, periods, budgets, more than two clusters) has the plan and its shadow
    prices as tables; that of one local and at most one remote cluster calculates. The file is written whole or not
    at all, and the same scenario gives the same bytes. Raises `InputError` for another ending or a file that cannot
    be written, and what `plan` raises.
    """
    target = Path(path)
    ending = target.suffix.lower()
    if ending not in ENDINGS:
        problem = "expected a name that ends in " + ", ".join(ENDINGS)
        raise InputError(Fault("--output", "", problem, str(path), nearest(ending, ENDINGS) if ending else ""))
    chosen = as_scenario(scenario)
    write_atomically(target, _fleet(chosen, ending, profiles) if chosen.is_fleet else _plan(chosen, ending, profiles))
    return target


def _plan(scenario: Scenario, ending: str, profiles: Folders) -> str | bytes:
    """Write a plan of one local and at most one remote cluster, live where the format can be."""
    found = what_if(scenario, profiles=profiles)
    if ending == ".xlsx":
        from prfaas_plan.writers.workbook import write_workbook

        return write_workbook(found)
    if ending == ".html":
        from prfaas_plan.writers.page import write_page

        return write_page(found)
    from prfaas_plan.reports.what_if import report_what_if
    from prfaas_plan.writers.plain import write_markdown

    return write_markdown(report_what_if(found))


def _fleet(scenario: Scenario, ending: str, profiles: Folders) -> str | bytes:
    """Write the plan of a fleet as tables of fixed numbers."""
    from prfaas_plan.reports.fleet_what_if import fleet_document

    document = fleet_document(scenario, profiles=profiles)
    if ending == ".xlsx":
        from prfaas_plan.writers.book import write_document

        return write_document(document)
    if ending == ".html":
        from prfaas_plan.writers.page import write_document_page

        return write_document_page(document)
    from prfaas_plan.writers.plain import write_markdown

    return write_markdown(document)
