"""The report of a fleet as a document: the plan, how each number came about, and what more of each thing is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from prfaas_plan.fleet.planner import fleet_plan
from prfaas_plan.fleet.worth import worth
from prfaas_plan.reports.document import Document
from prfaas_plan.reports.fleet import report_fleet, worth_tables
from prfaas_plan.scenario import Scenario

__all__ = ["fleet_document"]


def fleet_document(scenario: Scenario, *, profiles: Sequence[str | Path] = ()) -> Document:
    """Plan a fleet and lay it out with its shadow prices and break-even prices.

    Raises as `fleet_plan` does.
    """
    plan = fleet_plan(scenario, profiles=profiles)
    document = report_fleet(plan, explain=True)
    return replace(document, tables=(*document.tables, *worth_tables(worth(plan))))
