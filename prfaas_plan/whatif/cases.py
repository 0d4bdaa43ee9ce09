"""The rows of a what-if: each case as a plan of its own would give it, found together where that is quicker."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from prfaas_plan.case import Case, operating_points, planned_system
from prfaas_plan.errors import PlanError, ProfileNotFoundError
from prfaas_plan.fleet.record import FleetPlan
from prfaas_plan.latency import mean_ttft
from prfaas_plan.laws import LogNormal
from prfaas_plan.plan_build import cost_per_hour
from prfaas_plan.plan_record import Plan
from prfaas_plan.planner import plan
from prfaas_plan.routing import prefill_rate, remote_has_room, threshold_grid
from prfaas_plan.throughput import OperatingPoint, System, decode_limit, operate
from prfaas_plan.units import GBPS
from prfaas_plan.whatif.inputs import Inputs

__all__ = ["METRICS", "exact_rows", "row_of_plan", "row_of_point"]

METRICS = (
    "lambda_max_rps",
    "threshold_tokens",
    "offloaded_fraction",
    "bottleneck",
    "remote_prefill_instances",
    "local_prefill_instances",
    "decode_instances",
    "gpus",
    "link_used_gbps",
    "ttft_mean_s",
    "tpot_s",
    "cost_usd_per_hour",
    "usd_per_million_output_tokens",
    "error",
)
"""What a sweep says of each case, beside the varied paths."""

_FEWEST = 8
"""Fewer cases than this are searched one by one."""
_FEWEST_FOR_TABLE = 2000
"""From this many cases of one law on, its needs are tabulated for every threshold."""

Row = tuple[Any, ...]


def row_of_point(case: Case, point: OperatingPoint) -> Row:
    """Give the metrics of an operating point; they equal those of its plan."""
    system = point.system
    remote = system.remote.instances if system.remote else 0
    local = system.local.instances if system.local else 0
    pools = [p for p in (system.remote, system.local, system.decode) if p is not None]
    cost = cost_per_hour(case.scenario, point)
    used = point.link_used_bytes_per_s / GBPS if case.link and system.remote else 0.0
    return (
        point.max_rate,
        point.threshold,
        point.long_share,
        " and ".join(point.bottlenecks),
        remote,
        local,
        system.decode.instances,
        sum(p.instances * p.gpus_per_instance for p in pools),
        used,
        mean_ttft(point),
        system.decode.step_seconds,
        cost,
        _per_million(cost, point.max_rate, system.output_tokens),
        None,
    )


def row_of_plan(found: Plan | FleetPlan) -> Row:
    """Give the same metrics of a plan, or of the busiest period of a fleet's."""
    pools, links = (found.pools, found.links) if isinstance(found, Plan) else (found.busiest.pools, found.busiest.links)
    home = {pool.cluster for pool in pools if pool.role == "decode"}
    prefill = [pool for pool in pools if pool.role == "prefill"]
    return (
        found.lambda_max_rps,
        found.threshold_tokens,
        found.offloaded_fraction,
        found.bottleneck,
        sum(pool.instances for pool in prefill if pool.cluster not in home),
        sum(pool.instances for pool in prefill if pool.cluster in home),
        sum(pool.instances for pool in pools if pool.role == "decode"),
        found.gpus,
        sum(link.used_gbps for link in links),
        None if found.ttft_s is None else found.ttft_s.mean,
        found.tpot_s,
        found.cost_usd_per_hour,
        found.usd_per_million_output_tokens,
        None,
    )


def _per_million(cost: float | None, rate: float, output_tokens: float) -> float | None:
    return None if cost is None else cost / (rate * output_tokens * 3600.0 / 1e6)


def failed_row(error: PlanError) -> Row:
    """Give the row of a case that has no plan: it says why."""
    return (*(None for _ in METRICS[:-1]), str(error))


def exact_rows(inputs: Inputs, cases: Sequence[int]) -> list[Row]:
    """Give the metrics of some cases, each exactly that of a plan of its own.

    A case without a plan says so in its row. Raises `ProfileNotFoundError` for a name that is no profile.
    """
    places = [inputs.positions(i) for i in cases]
    rows: list[Row | None] = [None] * len(places)
    waiting: dict[Any, list[tuple[int, Case, System, int]]] = defaultdict(list)
    for i, positions in enumerate(places):
        try:
            if inputs.needs_whole_plan(positions):
                rows[i] = row_of_plan(_whole_plan(inputs, positions))
                continue
            case = inputs.case(positions)
            system, instances = planned_system(case)
        except ProfileNotFoundError:
            raise
        except PlanError as error:
            rows[i] = failed_row(error)
        else:
            waiting[inputs.key(positions, "other")].append((i, case, system, instances))
    for group in waiting.values():
        for i, row in _searched(group):
            rows[i] = row
    return [row for row in rows if row is not None]


def _whole_plan(inputs: Inputs, positions: tuple[int, ...]) -> Plan | FleetPlan:
    scenario = inputs.changed(positions)
    if not scenario.is_fleet:
        return plan(scenario, profiles=inputs.profiles)
    from prfaas_plan.fleet.planner import fleet_plan

    return fleet_plan(scenario, profiles=inputs.profiles)


def _searched(group: list[tuple[int, Case, System, int]]) -> Iterator[tuple[int, Row]]:
    """Search the cases of one structure together and settle each one exactly; search the rest one by one."""
    together = [entry for entry in group if _may_join(entry[2], entry[3])]
    hints: dict[int, tuple[int, int, bool]] = {}
    if len(together) >= _FEWEST:
        hints = _hints([(i, system, instances) for i, _, system, instances in together])
    for i, case, system, instances in group:
        point = _settled(system, instances, hints[i]) if i in hints else None
        try:
            yield i, row_of_point(case, point or operating_points(case)[0])
        except PlanError as error:
            yield i, failed_row(error)


def _may_join(system: System, instances: int) -> bool:
    return system.has_remote and system.local is not None and instances >= 1 and system.output_tokens > 0.0


def _settled(system: System, instances: int, hint: tuple[int, int, bool]) -> OperatingPoint | None:
    """Settle a hint with the exact formulas; ``None`` where they do not confirm it."""
    n, threshold, crossing = hint
    split = system.split(n, instances - n)
    if n == 0:
        return operate(split, None)
    if crossing:
        first = threshold_grid(system.law, False)[0]
        before = max(first, threshold - 1)
        if remote_has_room(split, before) == remote_has_room(split, threshold):
            return None
        decode = decode_limit(split)
        rates = [(min(rate, decode), rate, -t) for t in (before, threshold) for rate in (prefill_rate(split, t),)]
        threshold = -max(rates)[2]
    return operate(split, threshold)


def _hints(entries: list[tuple[int, System, int]]) -> dict[int, tuple[int, int, bool]]:
    by_law: dict[int, list[tuple[int, System, int]]] = defaultdict(list)
    for entry in entries:
        by_law[id(entry[1].law)].append(entry)
    found: dict[int, tuple[int, int, bool]] = {}
    rest: list[tuple[int, System, int]] = []
    for own in by_law.values():
        law = own[0][1].law
        if len(own) >= _FEWEST_FOR_TABLE or (not isinstance(law, LogNormal) and _short(law, len(own))):
            found |= _search(own, one_law=True)
        elif isinstance(law, LogNormal):
            rest += own
    return found | _search(rest, one_law=False) if rest else found


def _short(law: Any, cases: int) -> bool:
    first, last = law.finite_support
    return bool(last - first < 1000 * cases)


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Cases to search in one go."""

    entries: Sequence[tuple[int, System, int]]

    def column(self, value: Any) -> list[Any]:
        """Give one value of every case."""
        return [value(system, instances) for _, system, instances in self.entries]


def _search(entries: list[tuple[int, System, int]], *, one_law: bool) -> dict[int, tuple[int, int, bool]]:
    import numpy as np

    from prfaas_plan.whatif.vector_search import Batch, Needs, search

    first = entries[0][1]
    if first.remote is None or first.local is None:
        return {}
    curves = (first.remote.seconds, first.kv_bytes, first.local.seconds, first.at_mean_length)
    needs = Needs(*curves, [first.law]) if one_law else None
    found: dict[int, tuple[int, int, bool]] = {}
    for start in range(0, len(entries), 5000):
        chunk = _Chunk(entries[start : start + 5000])
        batch = Batch(
            remote_instances=np.array(chunk.column(lambda s, _: s.remote.instances), dtype=float),
            link_bytes_per_s=np.array(chunk.column(lambda s, _: s.link_bytes_per_s)),
            local_instances=np.array(chunk.column(lambda _, instances: instances)),
            decode_work=np.array(chunk.column(lambda s, _: s.decode.step_seconds * s.output_tokens)),
            decode_step=np.array(chunk.column(lambda s, _: s.decode.step_seconds)),
            decode_batch=np.array(chunk.column(lambda s, _: s.decode.batch), dtype=float),
        )
        own = needs or Needs(*curves, chunk.column(lambda s, _: s.law))
        best = search(batch, own)
        answers = zip(best.prefill_instances.tolist(), best.threshold.tolist(), best.crossing.tolist(), strict=True)
        sure = best.sure.tolist()
        found |= {e[0]: a for e, a, ok in zip(chunk.entries, answers, sure, strict=True) if ok}
    return found
