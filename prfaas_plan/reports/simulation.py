"""Simulations and comparisons of policies as documents."""

from __future__ import annotations

from prfaas_plan.reports.document import Cell, Column, Document, Table, columns, rows
from prfaas_plan.simulation.result import PolicyComparison, SimulationResult
from prfaas_plan.simulation.statistics import Estimate
from prfaas_plan.units import show

__all__ = ["report_policies", "report_simulation"]


def report_simulation(result: SimulationResult) -> Document:
    """Lay out one simulation; the rows for CSV are its time line."""
    return Document(
        title=f"{result.scenario}: simulated, {result.policy} routing",
        headline=tuple(_headline(result)),
        tables=(_latency([result]), _pools(result), _links(result), _parts(result)),
        notes=result.notes,
        rows=tuple(row.to_dict() for row in result.time_line),
    )


def report_policies(comparison: PolicyComparison) -> Document:
    """Lay out policies side by side, and what each saves against the first."""
    first = comparison.results[0]
    return Document(
        title=f"{first.scenario}: routing policies side by side",
        headline=tuple(_headline(first)),
        tables=(_latency(comparison.results), _savings(comparison)),
        notes=tuple(dict.fromkeys(note for r in comparison.results for note in r.notes)),
        rows=tuple({"policy": r.policy, **{k: v.number() for k, v in r.ttft_s.items()}} for r in comparison.results),
    )


def _headline(result: SimulationResult) -> list[str]:
    asked = "a closed loop" if result.rps is None else show(result.rps, "req/s")
    verdicts = {True: "stable", False: "NOT stable: queues grow", None: "too short a run to tell whether it is stable"}
    verdict = verdicts[result.stable]
    return [
        f"At {asked} of the {show(result.lambda_max_rps, 'req/s')} that its pools sustain, the deployment is "
        f"{verdict}.",
        f"{result.requests:,} requests, {result.replications} replications, seed {result.seed}; "
        f"± is the {result.confidence:.0%} interval.",
    ]


def _value(estimate: Estimate) -> tuple[float | None, float | None]:
    number, interval = estimate.number(), estimate.interval()
    half = None if interval is None or number is None else 0.5 * (interval[1] - interval[0])
    return number, half


def _latency(results: tuple[SimulationResult, ...] | list[SimulationResult]) -> Table:
    names = ("mean", "p50", "p90", "p99")
    heads: list[str | Column] = ["policy", Column("served", "req/s")]
    for name in names:
        heads += [Column(f"TTFT {name}" if name == "mean" else name, "s"), Column("±", "s", 2)]
    body: list[list[Cell]] = []
    for r in results:
        cells: list[Cell] = [r.policy, r.served_rps.number()]
        for name in names:
            cells += _value(r.ttft_s[name])
        body.append(cells)
    return Table("Time to first token", columns(*heads), rows(body))


def _pools(result: SimulationResult) -> Table:
    data = [pool.to_dict() for pool in result.pools]
    heads: list[str | Column] = [
        "role",
        "cluster",
        Column("instances"),
        Column("load", percent=True),
        Column("wait", "s"),
    ]
    body = [[p["role"], p["cluster"], p["instances"], p["load_fraction"], p["wait_s"]] for p in data]
    return Table("Pools", columns(*heads), rows(body))


def _links(result: SimulationResult) -> Table:
    data = [link.to_dict() for link in result.links]
    heads: list[str | Column] = [
        "from",
        "to",
        Column("usable", "Gbit/s"),
        Column("used", "Gbit/s"),
        Column("load", percent=True),
    ]
    body = [[x["from"], x["to"], x["usable_gbps"], x["used_gbps"], x["load_fraction"]] for x in data]
    return Table("Links", columns(*heads), rows(body))


def _parts(result: SimulationResult) -> Table:
    body = [[name.replace("_", " "), *_value(estimate)] for name, estimate in result.parts_s.items()]
    return Table(
        "What the mean time to first token is made of",
        columns("part", Column("mean", "s"), Column("±", "s", 2)),
        rows(body),
    )


def _savings(comparison: PolicyComparison) -> Table:
    first = comparison.results[0].policy
    body: list[list[Cell]] = [[s.policy, *_value(s.ttft_mean_s), *_value(s.ttft_p90_s)] for s in comparison.savings]
    heads: list[str | Column] = [
        "policy",
        Column("mean", "s"),
        Column("±", "s", 2),
        Column("p90", "s"),
        Column("±", "s", 2),
    ]
    return Table(f"Time to first token saved against {first}", columns(*heads), rows(body))
