"""The report of a fleet as a document: the plan, how each number came about, and what more of each thing is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from prfaas_plan.fleet import fleet_plan
from prfaas_plan.fleet_report import report_fleet
from prfaas_plan.fleet_worth import Worth, worth
from prfaas_plan.report import Column, Document, Table, columns, rows
from prfaas_plan.scenario import Scenario

__all__ = ["fleet_document"]


def fleet_document(scenario: Scenario, *, profiles: Sequence[str | Path] = ()) -> Document:
    """Plan a fleet and lay it out with its shadow prices and break-even prices.

    Raises as `fleet_plan` does.
    """
    plan = fleet_plan(scenario, profiles=profiles)
    document = report_fleet(plan, explain=True)
    return replace(document, tables=(*document.tables, *_worth(worth(plan))))


def _worth(found: Worth) -> list[Table]:
    unit = found.objective_unit
    prices = Table(
        "What a little more of each thing is worth",
        columns("more of", Column("shadow price", unit, 4), Column("planned anew", unit, 4), "per"),
        rows([line.what, line.shadow, line.up, line.unit] for line in found.lines),
    )
    pays = Table(
        "Price below which each accelerator pays",
        columns("cluster", "accelerator", Column("instances"), Column("price", "USD/h"), Column("pays below", "USD/h")),
        rows(
            [b.cluster, b.accelerator, b.instances, b.price_usd_per_gpu_hour, b.pays_below_usd_per_gpu_hour]
            for b in found.break_even
        ),
    )
    return [table for table in (prices, pays) if table.rows]
