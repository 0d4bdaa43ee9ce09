"""What a simulation found: rates, delays and loads with their confidence intervals, and the time line."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from prfaas_plan.numerics import finite_or_none
from prfaas_plan.simulation.measures import LEVELS, TimeRow
from prfaas_plan.simulation.statistics import Estimate, estimate
from prfaas_plan.tabular import Tabular

__all__ = ["LinkLoad", "PolicyComparison", "PoolLoad", "Saving", "SimulationResult", "stable"]

GROWTH_LIMIT: Final = 0.005
"""Share of the requests of the second half of a run that may stay unserved in a stable system."""
PARTS: Final = ("prefill_wait", "prefill", "transfer", "decode_wait")
_FEWEST: Final = 100
STABILITY: Final = (
    "unstable if the number of unfinished requests grows, over the second half of the measured time, by more than "
    "0.5 % of the requests that arrive in it (or 2/√ of their number, if that is more), with a growth above 0 at the "
    "stated confidence; if some request is never finished; or if a static threshold is asked for more than it serves. "
    "Undecided where the growth is above that limit but not surely above 0, or fewer than 100 requests count"
)


def count_is_enough(arrivals: float) -> bool:
    """Say whether a run is long enough to judge its stability."""
    return arrivals >= _FEWEST


def stable(growth: Sequence[float], unfinished: Sequence[float], arrivals: float, confidence: float) -> bool | None:
    """Say whether runs were stable, from the growth of their backlogs as a share of arrivals (`STABILITY`).

    ``None`` where they were too short to tell.

    >>> stable([0.09, 0.1, 0.11], [0, 0, 0], 50_000, 0.95), stable([0.001, -0.002], [0, 0], 50_000, 0.95)
    (False, True)
    """
    if any(unfinished):
        return False
    found = estimate(growth, confidence)
    limit = max(GROWTH_LIMIT, 2.0 / math.sqrt(max(1.0, arrivals)))
    if found.value <= limit:
        return True
    return False if found.low is None or found.low > 0.0 else None


@dataclass(frozen=True, slots=True)
class PoolLoad:
    """A pool of the deployment, how busy it was and how long requests waited for it."""

    cluster: str
    role: str
    accelerator: str
    instances: int
    gpus: int
    load_fraction: Estimate
    """Busy slot seconds over those in service."""
    wait_s: Estimate
    """Mean wait of the requests that came to it."""

    def to_dict(self) -> dict[str, Any]:
        """Give the pool under the keys of the interface."""
        return {
            "cluster": self.cluster,
            "role": self.role,
            "accelerator": self.accelerator,
            "instances": self.instances,
            "gpus": self.gpus,
            "load_fraction": self.load_fraction.number(),
            "load_fraction_interval": self.load_fraction.interval(),
            "wait_s": self.wait_s.number(),
            "wait_interval_s": self.wait_s.interval(),
        }


@dataclass(frozen=True, slots=True)
class LinkLoad:
    """The link of the deployment and how busy it was."""

    origin: str
    destination: str
    usable_gbps: float
    """Rate outside episodes."""
    used_gbps: Estimate
    load_fraction: Estimate
    transfer_s: Estimate
    """Mean time from the end of prefill to the last byte, of the requests that cross it."""

    def to_dict(self) -> dict[str, Any]:
        """Give the link under the keys of the interface; an unlimited rate is ``None``."""
        return {
            "from": self.origin,
            "to": self.destination,
            "usable_gbps": finite_or_none(self.usable_gbps),
            "used_gbps": self.used_gbps.number(),
            "used_interval_gbps": self.used_gbps.interval(),
            "load_fraction": self.load_fraction.number(),
            "load_fraction_interval": self.load_fraction.interval(),
            "transfer_s": self.transfer_s.number(),
        }


@dataclass(frozen=True, slots=True, repr=False)
class SimulationResult(Tabular):
    """What was simulated and what came out."""

    scenario: str
    policy: str
    arrivals: str
    transfer: str
    sharing: str
    rps: float | None
    """Rate that was asked for; ``None`` in a closed loop."""
    lambda_max_rps: float
    """Largest rate of the plan under its own threshold, from mean service times."""
    threshold_tokens: float | None
    requests: int
    """Requests of one replication, the warm-up included."""
    replications: int
    seed: int
    confidence: float
    warmup_fraction: float
    stable: bool | None
    """``None`` where the run was too short to tell."""
    served_rps: Estimate
    growth_fraction: Estimate
    unfinished: Estimate
    offloaded_fraction: Estimate
    ttft_s: dict[str, Estimate]
    affected_ttft_s: dict[str, Estimate] | None
    """Of the requests that arrive during an episode or a failure."""
    response_s: Estimate
    """Mean time from arrival to the last token."""
    parts_s: dict[str, Estimate]
    """Mean of each part of the time to first token."""
    pools: tuple[PoolLoad, ...]
    links: tuple[LinkLoad, ...]
    time_line: tuple[TimeRow, ...]
    """Of the first replication."""
    runs: tuple[dict[str, float], ...]
    """All measures of each replication."""
    times: tuple[tuple[Any, Any], ...] = ()
    """Arrival and first-token times [s] of every request, per replication, where they were asked for."""
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Give the result under the keys of the interface; every interval stands beside its value."""
        plain = ("scenario", "policy", "arrivals", "transfer", "sharing", "rps", "lambda_max_rps", "threshold_tokens")
        more = ("requests", "replications", "seed", "confidence", "warmup_fraction")
        affected = self.affected_ttft_s
        return {
            **{key: getattr(self, key) for key in plain + more},
            "served_rps": self.served_rps.number(),
            "served_interval_rps": self.served_rps.interval(),
            "stable": self.stable,
            "stability_criterion": STABILITY,
            "growth_fraction": self.growth_fraction.number(),
            "growth_fraction_interval": self.growth_fraction.interval(),
            "unfinished_requests": self.unfinished.number(),
            "offloaded_fraction": self.offloaded_fraction.number(),
            "ttft_s": _numbers(self.ttft_s),
            "ttft_interval_s": _intervals(self.ttft_s),
            "affected_ttft_s": _numbers(affected) if affected else None,
            "affected_ttft_interval_s": _intervals(affected) if affected else None,
            "response_mean_s": self.response_s.number(),
            "ttft_parts_s": _numbers(self.parts_s),
            "pools": [pool.to_dict() for pool in self.pools],
            "links": [link.to_dict() for link in self.links],
            "time_line": [row.to_dict() for row in self.time_line],
            "notes": list(self.notes),
        }

    def time_line_csv(self) -> str:
        """Give the time line as CSV with a header; what does not exist is an empty cell."""
        import csv

        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([f.name for f in fields(TimeRow)])
        writer.writerows(["" if v is None else v for v in row.to_dict().values()] for row in self.time_line)
        return text.getvalue()


def _numbers(found: dict[str, Estimate]) -> dict[str, float | None]:
    return {key: value.number() for key, value in found.items()}


def _intervals(found: dict[str, Estimate]) -> dict[str, list[float] | None]:
    return {key: value.interval() for key, value in found.items()}


def delays(runs: Sequence[dict[str, float]], name: str, confidence: float) -> dict[str, Estimate]:
    """Give mean and percentiles of a delay over replications."""
    return {key: estimate([r[f"{name}.{key}"] for r in runs], confidence) for key in ("mean", *LEVELS)}


@dataclass(frozen=True, slots=True)
class Saving:
    """How a policy compares with the first one on the same requests; negative where it is worse."""

    policy: str
    ttft_mean_s: Estimate
    """Mean time to first token of the first policy minus that of this one."""
    ttft_p90_s: Estimate
    affected_ttft_mean_s: Estimate | None
    waiting_hours: Estimate
    """Waiting of all requests of one replication together that is saved [h]."""

    def to_dict(self) -> dict[str, Any]:
        """Give the saving by name."""
        affected = self.affected_ttft_mean_s
        return {
            "policy": self.policy,
            "ttft_mean_s": self.ttft_mean_s.number(),
            "ttft_mean_interval_s": self.ttft_mean_s.interval(),
            "ttft_p90_s": self.ttft_p90_s.number(),
            "ttft_p90_interval_s": self.ttft_p90_s.interval(),
            "affected_ttft_mean_s": affected.number() if affected else None,
            "affected_ttft_mean_interval_s": affected.interval() if affected else None,
            "waiting_hours": self.waiting_hours.number(),
        }


@dataclass(frozen=True, slots=True)
class PolicyComparison:
    """Policies side by side on the same requests, and what each saves against the first."""

    results: tuple[SimulationResult, ...]

    @property
    def savings(self) -> tuple[Saving, ...]:
        """What every policy but the first saves, from the differences of each replication."""
        return tuple(_saving(self.results[0], other) for other in self.results[1:])

    def to_dict(self) -> dict[str, Any]:
        """Give the comparison by name."""
        return {
            "policies": [result.to_dict() for result in self.results],
            "savings": [saving.to_dict() for saving in self.savings],
        }


def _saving(first: SimulationResult, other: SimulationResult) -> Saving:
    def paired(name: str, factor: float = 1.0) -> Estimate:
        pairs = zip(first.runs, other.runs, strict=True)
        return estimate([factor * (a[name] - b[name]) for a, b in pairs], first.confidence)

    hours = first.requests * (1.0 - first.warmup_fraction) / 3600.0
    return Saving(
        other.policy,
        paired("ttft.mean"),
        paired("ttft.p90"),
        paired("affected.mean") if first.affected_ttft_s else None,
        paired("ttft.mean", hours),
    )
