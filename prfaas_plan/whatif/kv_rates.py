"""KV throughput by length: of the scenario's instances, and of well-known models beside them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from prfaas_plan.case import Case, planned_system
from prfaas_plan.catalog import load_hardware
from prfaas_plan.errors import PlanError
from prfaas_plan.kv_table import KvTable, kv
from prfaas_plan.throughput import PrefillPool
from prfaas_plan.units import GBPS

__all__ = ["ComparedRates", "KvRate", "compared_rates", "kv_rates"]

COMPARED = ("minimax-m2.5", "mimo-v2-flash", "ring-2.5-1t", "qwen3-235b-a22b")
"""Models with published prefill times on one accelerator: grouped queries, windows, mostly linear; and a spare one."""
_SHOWN = 3
_ON = ("h200-sxm", 8)


@dataclass(frozen=True, slots=True)
class KvRate:
    """KV throughput of one instance by length, Φ_kv [Gbit/s]."""

    length_tokens: int
    remote_gbps: float | None
    local_gbps: float | None


@dataclass(frozen=True, slots=True)
class ComparedRates:
    """KV throughput of another model, on the instance its prefill times are published for."""

    model: str
    accelerator: str
    gpus: int
    source: str
    gbps: tuple[float | None, ...]
    """Φ_kv [Gbit/s] at the same lengths; ``None`` outside the measured ones."""


def kv_rates(case: Case) -> tuple[KvRate, ...]:
    """Tabulate Φ_kv = S_kv/T_prefill [Gbit/s] of either site's instances by length [token]."""
    longest = case.workload.law.finite_support[1]
    lengths = [1024 * 2**i for i in range(12) if 1024 * 2**i <= max(2048.0, longest)]
    system, _ = planned_system(case)

    def rate(pool: PrefillPool | None, length: int) -> float | None:
        return None if pool is None else case.kv_bytes(length) / pool.seconds(length) / GBPS

    return tuple(KvRate(x, rate(system.remote, x), rate(system.local, x)) for x in lengths)


def compared_rates(own: str, lengths: Sequence[int]) -> tuple[ComparedRates, ...]:
    """Tabulate Φ_kv [Gbit/s] of three shipped models other than `own` where their prefill was measured."""
    found = (_compared(name, lengths) for name in COMPARED if name != own)
    return tuple(itertools.islice((rates for rates in found if rates), _SHOWN))


def _compared(model: str, lengths: Sequence[int]) -> ComparedRates | None:
    """Tabulate one model, unless a folder of the user has another profile of that name, without these times."""
    try:
        table, accelerator = kv(model, lengths, on=_ON), load_hardware(_ON[0]).name
    except PlanError:
        return None
    if table.prefill is None or table.prefill.basis == "roofline":
        return None
    return ComparedRates(table.name, accelerator, _ON[1], table.prefill.source, tuple(_measured(table)))


def _measured(table: KvTable) -> Iterator[float | None]:
    for row in table.rows:
        known = table.prefill is not None and table.prefill.shortest <= row.length_tokens <= table.prefill.longest
        yield row.kv_gbps if known else None
