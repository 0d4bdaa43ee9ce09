"""The KV cache of a model by length: bytes, prefill seconds where known, and the KV throughput Φ_kv."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prfaas_plan.catalog import load_model
from prfaas_plan.errors import Fault, InputError
from prfaas_plan.kv_cache import (
    KvOptions,
    describe_options,
    fixed_state_bytes,
    growing_bytes_per_token,
    index_bytes_per_token,
    memory_curve,
    request_curve,
    window_cap_bytes,
    wire_curve,
)
from prfaas_plan.model import ModelProfile
from prfaas_plan.parameters import active_parameters, total_parameters, weight_bytes
from prfaas_plan.records import MOST_TOKENS
from prfaas_plan.service_records import PrefillService
from prfaas_plan.services import prefill_of
from prfaas_plan.tabular import Tabular
from prfaas_plan.units import GBPS

__all__ = ["DEFAULT_LENGTHS", "KvRow", "KvTable", "kv"]

DEFAULT_LENGTHS = (1024, 8192, 32768, 131072)


@dataclass(frozen=True, slots=True)
class KvRow:
    """The cache of one request of a length."""

    length_tokens: int
    kv_bytes: float
    """One logical copy."""
    memory_bytes: float
    """Over all ranks of an instance, replicated heads and latents counted."""
    reserved_bytes: float
    """The same where the engine's window layers hold on to all blocks."""
    wire_bytes: float
    """Across a link when every rank ships what it holds."""
    prefill_s: float | None
    prefill_source: str | None
    fitting_requests: float | None = None
    """Requests of this length that fit the memory given, by what an instance keeps; ``None`` without a memory."""

    @property
    def bytes_per_token(self) -> float:
        """Memory of the request over its length [B/token]: falls with the length where state or windows are fixed."""
        return self.memory_bytes / self.length_tokens

    @property
    def fitting_tokens(self) -> float | None:
        """Tokens that fit the memory given, in requests of this length."""
        return None if self.fitting_requests is None else self.fitting_requests * self.length_tokens

    @property
    def kv_gbps(self) -> float | None:
        """KV throughput of one instance, Φ_kv = S_kv/T_prefill [Gbit/s] (arXiv 2604.15039, equation 1)."""
        return self.kv_bytes / self.prefill_s / GBPS if self.prefill_s else None

    def to_dict(self) -> dict[str, Any]:
        """Give the row under the keys of the interface."""
        return {
            "length_tokens": self.length_tokens,
            "kv_bytes": self.kv_bytes,
            "memory_bytes": self.memory_bytes,
            "reserved_bytes": self.reserved_bytes,
            "wire_bytes": self.wire_bytes,
            "bytes_per_token": self.bytes_per_token,
            "fitting_requests": self.fitting_requests,
            "fitting_tokens": self.fitting_tokens,
            "prefill_s": self.prefill_s,
            "kv_gbps": self.kv_gbps,
            "prefill_source": self.prefill_source,
        }


@dataclass(frozen=True, slots=True, repr=False)
class KvTable(Tabular):
    """The KV cache of one model."""

    model: str
    name: str
    basis: str
    growing_bytes_per_token: float
    index_bytes_per_token: float
    window_cap_bytes: float
    fixed_bytes: float
    total_parameters: float | None
    active_parameters: float | None
    weight_bytes: float | None
    tensor_parallel: int
    rows: tuple[KvRow, ...]
    prefill: PrefillService | None
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Give the table under the keys of the interface."""
        return {
            "model": self.model,
            "name": self.name,
            "basis": self.basis,
            "growing_bytes_per_token": self.growing_bytes_per_token,
            "index_bytes_per_token": self.index_bytes_per_token,
            "window_cap_bytes": self.window_cap_bytes,
            "fixed_bytes": self.fixed_bytes,
            "total_parameters": self.total_parameters,
            "active_parameters": self.active_parameters,
            "weight_bytes": self.weight_bytes,
            "tensor_parallel": self.tensor_parallel,
            "rows": [row.to_dict() for row in self.rows],
            "prefill_from": self.prefill.source if self.prefill else None,
            "notes": list(self.notes),
        }


def kv(
    model: str,
    lengths: Sequence[int] = DEFAULT_LENGTHS,
    *,
    options: KvOptions | None = None,
    tensor_parallel: int = 1,
    on: tuple[str, int] | None = None,
    memory_bytes: float | None = None,
    profiles: Sequence[str | Path] = (),
) -> KvTable:
    """Tabulate the KV cache of a model [B] by request length [token], with Φ_kv where a prefill time is known.

    `on` is an accelerator and the number of them in an instance: prefill times are those measured there, or estimated
    for it; without it, those of any measurement. With `memory_bytes`, the KV memory of one instance, the table also
    says how many requests and tokens of each length fit.

    Raises `InputError` for an unknown model, accelerator or data type, or a length below one token.
    """
    _check_sizes(lengths, tensor_parallel, on[1] if on else 1, memory_bytes)
    profile = load_model(model, profiles)
    prefill = prefill_of(profile, on, profiles)
    opened = None if profile.kv_points else profile
    return KvTable(
        model=profile.id or model,
        name=profile.name,
        basis=profile.basis,
        growing_bytes_per_token=growing_bytes_per_token(profile, options),
        index_bytes_per_token=0.0 if profile.kv_points else index_bytes_per_token(profile),
        window_cap_bytes=0.0 if profile.kv_points else window_cap_bytes(profile, options),
        fixed_bytes=fixed_state_bytes(profile, options),
        total_parameters=total_parameters(opened) if opened else None,
        active_parameters=active_parameters(opened) if opened else None,
        weight_bytes=weight_bytes(opened) if opened else None,
        tensor_parallel=tensor_parallel,
        rows=tuple(_rows(profile, lengths, options, tensor_parallel, prefill, memory_bytes)),
        prefill=prefill,
        notes=tuple(_notes(profile, lengths, options, prefill)),
    )


def _check_sizes(lengths: Sequence[int], tensor_parallel: int, gpus: int, memory_bytes: float | None) -> None:
    problem = f"expected a length of at least 1 token and at most {MOST_TOKENS:,.0f}"
    faults = [Fault("kv", "lengths", problem, x) for x in lengths if not 1 <= x <= MOST_TOKENS]
    sizes = (("tensor_parallel", tensor_parallel), ("gpus", gpus))
    faults += [
        Fault("kv", key, "expected a whole number of 1 to 1,000,000", n) for key, n in sizes if not 1 <= n <= 10**6
    ]
    if memory_bytes is not None and not 0.0 < memory_bytes < math.inf:
        faults.append(Fault("kv", "memory", "expected a size above 0 [B]", memory_bytes))
    if faults:
        raise InputError(faults)


def _rows(
    profile: ModelProfile,
    lengths: Sequence[int],
    options: KvOptions | None,
    tensor_parallel: int,
    prefill: PrefillService | None,
    available: float | None,
) -> list[KvRow]:
    logical = request_curve(profile, options)
    memory = memory_curve(profile, tensor_parallel, options)
    reserved = memory_curve(profile, tensor_parallel, options, window="full")
    wire = wire_curve(profile, tensor_parallel, options, deduplicated=False)
    source = None if prefill is None else "roofline" if prefill.basis == "roofline" else "measured"
    return [
        KvRow(
            x,
            logical(x),
            memory(x),
            reserved(x),
            wire(x),
            prefill.seconds(x) if prefill else None,
            source,
            None if available is None else available / memory(x),
        )
        for x in lengths
    ]


def _notes(
    profile: ModelProfile, lengths: Sequence[int], options: KvOptions | None, prefill: PrefillService | None
) -> list[str]:
    notes = describe_options(profile, options)
    if profile.basis != "config.json":
        notes.append(f"This profile is {profile.basis}.")
    if profile.note:
        notes.append(profile.note)
    if prefill is None:
        notes.append(
            "No prefill time is known here, so no KV throughput: name an accelerator it is known or modelled on."
        )
        return notes
    notes.append(f"Prefill times: {prefill.source}.")
    outside = [x for x in lengths if not prefill.shortest <= x <= prefill.longest]
    if outside and prefill.basis != "roofline":
        listed = ", ".join(f"{x:,}" for x in outside)
        notes.append(
            f"Prefill at {listed} tokens is extrapolated: measured from {prefill.shortest:,} to {prefill.longest:,}."
        )
    return notes
