"""Decode in formulas: the batch and step time of each promised speed, and of several mean contexts where estimated.

A measured batch does not depend on the context. An estimated one does: the workbook holds it at contexts around the
planned one, takes the output rate of an instance as linear between them, and so is exact at the planned context.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from prfaas_plan.errors import PlanError
from prfaas_plan.service_records import DecodeService
from prfaas_plan.services import Services
from prfaas_plan.whatif.tables import WhatIf
from prfaas_plan.writers.book import Sheet
from prfaas_plan.writers.formula import Cell, index, largest, number, place, smallest
from prfaas_plan.writers.live_inputs import LiveInputs
from prfaas_plan.writers.live_lengths import LiveLaw

__all__ = ["Decode", "DecodeTable", "decode_table", "write_decode"]

_SPEEDS = (10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0, 80.0, 100.0)
_AROUND = tuple(2.0 ** (j / 2.0) for j in range(-6, 7))


@dataclass(frozen=True, slots=True)
class DecodeTable:
    """Batch and step time by promised speed [token/s] and mean context [token]; ``None`` where none is feasible."""

    contexts: tuple[float, ...]
    services: dict[float, tuple[DecodeService | None, ...]]


@dataclass(frozen=True, slots=True)
class Decode:
    """The cells of what holds: batch, step time, and the rate of one instance [req/s]."""

    batch: Cell
    step: Cell
    each: Cell
    next_row: int


def decode_table(found: WhatIf) -> DecodeTable:
    """Find the batch and step time of every output speed that can be promised, the scenario's among them."""
    case = found.case
    planned = case.workload.law.mean + case.workload.output_tokens / 2.0
    estimated = case.decode.basis == "roofline"
    contexts = tuple(share * planned for share in _AROUND) if estimated else (planned,)
    promised = found.scenario.slo.step_seconds
    own = 0.0 if promised is None else 1.0 / promised
    services = {}
    for speed in sorted({own, 0.0, *_SPEEDS}):
        slo = found.scenario.slo
        if speed != own:
            slo = replace(slo, tokens_per_second=speed or None, tpot_s=None)
        finder = Services(replace(found.scenario, slo=slo), case.model, found.profiles)
        line = tuple(_service(finder, found, context) for context in contexts)
        if line[len(line) // 2] is not None:
            services[speed] = line
    return DecodeTable(contexts, services)


def _service(finder: Services, found: WhatIf, context: float) -> DecodeService | None:
    try:
        return finder.decode(found.case.local, context)
    except PlanError:
        return None


def write_decode(sheet: Sheet, row: int, inputs: LiveInputs, law: LiveLaw, table: DecodeTable) -> Decode:
    """Write the table and what is chosen from it."""
    many = len(table.contexts) > 1
    heads = [h for c in table.contexts for h in (f"BS_max{f' at {c:,.0f}' if many else ''}", "step time [s]")]
    sheet.headings(row, ["promised speed [token/s]", *heads])
    speeds = list(table.services)
    for i, speed in enumerate(speeds):
        sheet.number(row + 1 + i, 0, speed)
        for j, service in enumerate(table.services[speed]):
            sheet.number(row + 1 + i, 1 + 2 * j, service.batch if service else 0.0)
            sheet.number(row + 1 + i, 2 + 2 * j, service.step_seconds if service else 1.0)
    which = place(inputs.slo, sheet.range(row + 1, 0, speeds), exact=True)
    top = row + 2 + len(speeds)
    sheet.headings(top, ["mean context [tokens]", "BS_max", "step time [s]", "tokens a second"])
    lines = [_line(sheet, top + 1 + j, (row + 1, 1 + 2 * j), which, table) for j in range(len(table.contexts))]
    bottom = top + 1 + len(lines)
    batch, step, rate = lines[0][1:]
    if many:
        batch, step, rate = _between(sheet, top + 1, inputs, law, lines)
    each = rate / inputs.output
    sheet.text(bottom, 0, "chosen")
    return Decode(
        sheet.formula(bottom, 1, batch + 0.0),
        sheet.formula(bottom, 2, step + 0.0),
        sheet.formula(bottom, 3, each, "0.0000"),
        bottom + 2,
    )


Line = tuple[Cell, Cell, Cell, Cell]


def _line(sheet: Sheet, row: int, at: tuple[int, int], which: Cell, table: DecodeTable) -> Line:
    first, column = at
    j = (column - 1) // 2
    chosen = [line[j] for line in table.services.values()]
    batches = sheet.range(first, column, [float(s.batch) if s else 0.0 for s in chosen])
    steps = sheet.range(first, column + 1, [s.step_seconds if s else 1.0 for s in chosen])
    context = sheet.number(row, 0, table.contexts[j], "#,##0")
    batch = sheet.formula(row, 1, index(batches, which))
    step = sheet.formula(row, 2, index(steps, which))
    return context, batch, step, sheet.formula(row, 3, batch / step, "#,##0.0")


def _between(sheet: Sheet, row: int, inputs: LiveInputs, law: LiveLaw, lines: list[Line]) -> tuple[Cell, Cell, Cell]:
    """Take what lies between two contexts of the table."""
    columns = [sheet.range(row, k, [line[k].value for line in lines]) for k in range(4)]
    contexts = columns[0]
    context = smallest(largest(law.total[1] + inputs.output / 2.0, lines[0][0]), lines[-1][0])
    context = sheet.formula(row + len(lines), 4, context, "#,##0")
    i = smallest(place(context, contexts), number(len(lines) - 1.0))
    i = sheet.formula(row + len(lines), 5, i)
    share = (context - index(contexts, i)) / (index(contexts, i + 1) - index(contexts, i))
    share = sheet.formula(row + len(lines), 6, share)
    found = [index(c, i) + share * (index(c, i + 1) - index(c, i)) for c in columns[1:]]
    return found[0], found[1], found[2]
