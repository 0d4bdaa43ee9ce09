"""The sheet of inputs: every number that may be changed, with its unit, what it means and which values it may take."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from prfaas_plan.laws import LogNormal
from prfaas_plan.whatif.tables import WhatIf
from prfaas_plan.writers.book import Book, Sheet
from prfaas_plan.writers.cells import printable
from prfaas_plan.writers.formula import Cell

__all__ = ["LONGEST", "UNLIMITED_GBPS", "LiveInputs", "finds_best", "searched_splits", "write_inputs"]

UNLIMITED_GBPS = 1e9
"""Bandwidth that stands for a link without limit."""
LONGEST = 2**21
"""Longest input that the workbook searches, unless the scenario has longer ones."""
MOST_SPLITS = 64
"""Splits with more local prefill instances than this are not searched."""


@dataclass(frozen=True, slots=True)
class LiveInputs:
    """The input cells, by what they mean."""

    remote: Cell
    local: Cell
    split_mode: Cell
    own_prefill: Cell
    threshold_mode: Cell
    own_threshold: Cell
    gbps: Cell
    efficiency: Cell
    loss: Cell
    law: tuple[Cell, ...]
    """μ, σ, shortest and longest length of a log-normal law; nothing for another law."""
    output: Cell
    slo: Cell
    gpus_remote: Cell
    gpus_local: Cell
    price_remote: Cell
    price_local: Cell
    reading: Cell


class _Form:
    """Lines of the sheet, written one after the other."""

    def __init__(self, book: Book, sheet: Sheet) -> None:
        self.book, self.sheet, self.row = book, sheet, 3

    def part(self, title: str) -> None:
        """Start a part of the form."""
        self.row += 1
        self.sheet.headings(self.row, [title, "value", "unit", "what it is"])
        self.row += 1

    def line(self, name: str, label: str, value: float | str | None, unit: str, note: str, **allowed: Any) -> Cell:
        """Write one input, with the values it may take, and name its cell."""
        sheet, row = self.sheet, self.row
        sheet.text(row, 0, label)
        if isinstance(value, str):
            cell = sheet.text(row, 1, value, "input")
        else:
            cell = sheet.number(row, 1, value, allowed.pop("digits", "#,##0.####"), "input")
        allowed.pop("digits", None)
        sheet.text(row, 2, unit, "unit")
        sheet.text(row, 3, note, "wrap")
        if allowed:
            message = {"input_title": printable(label)[:20], "input_message": printable(note)[:200]}
            sheet.sheet.data_validation(row, 1, row, 1, {**message, **allowed, "error_title": "Not a valid value"})
        self.row += 1
        return self.book.name(cell, f"in_{name}")

    def number(self, name: str, label: str, value: float | None, unit: str, note: str, low: float, high: float) -> Cell:
        """Write a number with bounds."""
        return self.line(name, label, value, unit, note, validate="decimal", criteria="between", minimum=low,
                         maximum=high, ignore_blank=True)  # fmt: skip

    def count(self, name: str, label: str, value: float, note: str, high: float = 1e6) -> Cell:
        """Write a whole number."""
        return self.line(name, label, value, "instances", note, validate="integer", criteria="between", minimum=0,
                         maximum=high, digits="#,##0")  # fmt: skip

    def choice(self, name: str, label: str, value: str, note: str, options: Sequence[str]) -> Cell:
        """Write one of a few words."""
        return self.line(name, label, value, "", note, validate="list", source=list(options))


def finds_best(found: WhatIf) -> bool:
    """Say whether “best” in the workbook is the plan: exact lengths, and no promised time to first token."""
    return isinstance(found.case.workload.law, LogNormal) and found.scenario.slo.ttft_p90_s is None


def searched_splits(found: WhatIf) -> list[int]:
    """List the numbers of local prefill instances that are searched: all, or those around the plan's."""
    local = found.case.local.instances
    most = max(16, 2 * local)
    if most <= MOST_SPLITS:
        return list(range(most))
    planned = found.best.system.local.instances if found.best.system.local else 0
    first = max(1, min(planned - MOST_SPLITS // 2, most - MOST_SPLITS))
    return [0, *range(first, first + MOST_SPLITS - 1)]


def write_inputs(sheet: Sheet, found: WhatIf, slo_values: Sequence[float]) -> LiveInputs:
    """Write the sheet of inputs and give its cells; `slo_values` are the promises [token/s] that can be chosen."""
    sheet.text(0, 0, "Inputs", "title")
    sheet.text(1, 0, "Change a yellow cell; everything else follows. Formulas are protected without a password.")
    sheet.text(2, 0, f"Scenario: {found.scenario.name}. Sheet “Notes” says what is fixed.")
    form = _Form(sheet.book, sheet)
    fleet = _fleet(form, found)
    link = _link(form, found)
    traffic = _traffic(form, found, slo_values)
    cells: dict[str, Any] = {**fleet, **link, **traffic}
    return LiveInputs(**cells)


def _fleet(form: _Form, found: WhatIf) -> dict[str, Cell]:
    case, best = found.case, found.best
    remote = case.remote
    searched = searched_splits(found)
    exact = finds_best(found)
    form.part("Instances")
    far = remote.name if remote else "none"
    cells = {
        "remote": form.count("remote_instances", f"remote prefill ({far})", remote.instances if remote else 0,
                             "Instances that prefill long prompts at the other site."),
        "local": form.count("local_instances", f"local ({case.local.name})", case.local.instances,
                            f"Instances that prefill short prompts and decode all, up to {searched[-1] + 1}.",
                            searched[-1] + 1),
        "split_mode": form.choice("split_mode", "split of the local instances", "best" if exact else "own",
                                  "best: the split with the largest rate; own: the number below.", ["best", "own"]),
        "own_prefill": form.count("own_prefill_instances", "own number of local prefill instances",
                                  best.system.local.instances if best.system.local else 0,
                                  "Used where the split is “own”; the others decode.", searched[-1]),
        "gpus_remote": form.line("gpus_per_remote_instance", "GPUs of a remote instance",
                                 remote.gpus_per_instance if remote else 0, "GPUs",
                                 "Counts and costs only; service times are those of the stated instance.",
                                 validate="integer", criteria="between", minimum=0, maximum=1e6),
        "gpus_local": form.line("gpus_per_local_instance", "GPUs of a local instance", case.local.gpus_per_instance,
                                "GPUs", "As above.", validate="integer", criteria="between", minimum=1, maximum=1e6),
    }  # fmt: skip
    form.part("Prices")
    for key, cluster in (("price_remote", remote), ("price_local", case.local)):
        price = cluster.price_usd_per_gpu_hour if cluster else None
        label = "remote GPU" if key == "price_remote" else "local GPU"
        note = "Price of one GPU for an hour; leave empty where it is not known."
        cells[key] = form.number(f"{key}_usd_per_gpu_hour", label, price, "USD/h", note, 0, 1e6)
    return cells


def _link(form: _Form, found: WhatIf) -> dict[str, Cell]:
    link = found.case.link
    form.part("Routing and link")
    best, exact = found.best.threshold, finds_best(found)
    shown = UNLIMITED_GBPS if link is None or math.isinf(link.bandwidth_gbps) else link.bandwidth_gbps
    return {
        "threshold_mode": form.choice("threshold_mode", "length threshold", "best" if exact else "own",
                                      "best: the threshold with the largest rate; own: the number below.",
                                      ["best", "own"]),
        "own_threshold": form.number("own_threshold_tokens", "own threshold", best or 0, "tokens",
                                     "Longer prompts prefill remotely. Used where the threshold is “own”.", 0, 1e8),
        "gbps": form.number("bandwidth_gbps", "bandwidth of the link", shown, "Gbit/s",
                            f"Nominal rate; {UNLIMITED_GBPS:g} stands for a link without limit.", 0, UNLIMITED_GBPS),
        "efficiency": form.number("link_efficiency", "efficiency of the link", link.efficiency if link else 1.0,
                                  "fraction", "Share of the nominal rate that transfers reach.", 0, 1),
        "loss": form.number("link_loss", "loss on the link", link.loss if link else 0.0, "fraction",
                            "Share of the packets that are sent again.", 0, 0.5),
    }  # fmt: skip


def _traffic(form: _Form, found: WhatIf, slo_values: Sequence[float]) -> dict[str, Any]:
    workload, scenario = found.case.workload, found.scenario
    law = workload.law
    form.part("Traffic and promise")
    cells: dict[str, Any] = {"law": ()}
    if isinstance(law, LogNormal):
        longest = law.max if math.isfinite(law.max) else law.finite_support[1]
        cells["law"] = (
            form.number("mu", "μ of the input lengths", law.mu, "1", "Mean of ln(length) before truncation.", 0, 20),
            form.number("sigma", "σ of the input lengths", law.sigma, "1", "Deviation of ln(length).", 0.01, 5),
            form.number("min_tokens", "shortest input", law.min, "tokens", "Truncation.", 0, 1e8),
            form.number("max_tokens", "longest input", longest, "tokens", "Truncation.", 1, max(LONGEST, longest)),
        )
    cells["output"] = form.number("output_tokens", "mean output length", workload.output_tokens, "tokens",
                                  "Tokens a request generates.", 1, 1e8)  # fmt: skip
    step = scenario.slo.step_seconds
    promised = 0.0 if step is None else 1.0 / step
    cells["slo"] = form.line("tokens_per_second", "promised output speed", promised, "token/s",
                             "Of one request; 0 promises nothing. The batch of each is on “Service times”.",
                             validate="list", source=[f"{v:.12g}" for v in slo_values])  # fmt: skip
    reading = "mean" if not found.best.system.at_mean_length else "at-mean-length"
    cells["reading"] = form.choice("service_time", "capacity from", reading,
                                   "mean: mean service time of a class; at-mean-length: that at its mean length.",
                                   ["mean", "at-mean-length"])  # fmt: skip
    return cells
