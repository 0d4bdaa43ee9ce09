"""How long one operation takes: the larger of its compute and memory time, with the shares software reaches.

``C = FLOP / (peak · share) · (1 + half_rows / rows)``, ``M = bytes / (bandwidth · share)``, and the operation
takes ``(C⁴ + M⁴)^¼``, a smooth maximum that is never below either. Communication and fixed times add to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from prfaas_plan.efficiency import Efficiency
from prfaas_plan.hardware import COMPUTE_DTYPES, HardwareProfile

__all__ = ["Operation", "PhaseTime", "Rates", "Work", "combine", "rates_of", "smooth_maximum", "time_of"]


class Work(NamedTuple):
    """What one GPU does in one kind of operation during a phase, before any constant of the chip is applied."""

    name: str
    kind: str
    """``gemm``, ``experts``, ``attention``, ``state``, ``routed``, ``elementwise``, ``reduce``, ``exchange``,
    ``kernels``, ``scan``, ``passes`` or ``fixed``."""
    flops: float = 0.0
    bytes: float = 0.0
    dtype: str = "bf16"
    rows: float = 1.0
    """Rows of a product (per expert for ``experts``), or keys per query for ``attention``."""
    amount: float = 0.0
    """Kernels, messages, sequential tokens, passes or seconds, by kind."""
    bits: int = 16
    """Width the weights are stored in: 16, 8 or 4."""
    far: bool = False
    """Whether the ranks lie outside one scale-up domain (``experts``: whether ranks hold different experts)."""


class Operation(NamedTuple):
    """The time of one kind of operation, split by what it is spent on."""

    name: str
    compute_s: float
    memory_s: float
    communication_s: float
    overhead_s: float
    flops: float
    bytes: float

    @property
    def seconds(self) -> float:
        """Time of the operation [s]."""
        return self.compute_s + self.memory_s + self.communication_s + self.overhead_s


@dataclass(frozen=True, slots=True)
class Rates:
    """What one GPU reaches: datasheet peaks times shares, and the fixed times."""

    peaks: Mapping[str, float]
    """[FLOP/s] dense peak by data type."""
    bandwidth: float
    """[B/s] peak memory bandwidth."""
    gemm: Mapping[str, float]
    """[FLOP/s] reached by matrix products."""
    experts: Mapping[str, float]
    """[FLOP/s] reached by fused expert kernels."""
    attention: float
    """[FLOP/s] reached by attention."""
    link: float
    """[B/s] reached between ranks of one scale-up domain, one way."""
    network: float
    """[B/s] reached between domains, one way."""
    constants: Efficiency


def rates_of(hardware: HardwareProfile, *, linked: bool, networked: bool) -> Rates:
    """Multiply the datasheet of an accelerator by what its software reaches.

    `linked` and `networked` say whether the deployment uses the scale-up link and the network.
    Raises `ProfileError` naming a figure that is needed and not known.
    """
    constants = hardware.efficiency
    if constants is None:
        raise ValueError(f"{hardware.name} was loaded without efficiencies")
    peaks = {dtype: hardware.peak_flops(dtype) for dtype in COMPUTE_DTYPES if hardware.has_peak(dtype)}
    base = hardware.need("bf16_flops")
    gemm = {"bf16": constants.gemm_bf16, "fp8": constants.gemm_fp8, "fp4": constants.gemm_fp4}
    gemm["int8"] = constants.gemm_int8 or constants.gemm_bf16
    experts = {"bf16": constants.experts_bf16, "fp8": constants.experts_fp8, "fp4": constants.experts_fp4}
    experts["int8"] = constants.experts_fp8
    return Rates(
        peaks=peaks,
        bandwidth=hardware.need("memory_bandwidth"),
        gemm={dtype: peak * gemm[dtype] for dtype, peak in peaks.items()},
        experts={dtype: peak * experts[dtype] for dtype, peak in peaks.items()},
        attention=base * constants.attention,
        link=hardware.need("scaleup_bandwidth") * constants.link_share if linked else 1.0,
        network=hardware.need("nic_bandwidth") * constants.link_share if networked else 1.0,
        constants=constants,
    )


def smooth_maximum(a: float, b: float) -> float:
    """Return ``(a⁴ + b⁴)^¼``: at least the larger of two times, at most 19 % above it.

    >>> round(smooth_maximum(3.0, 1.0), 3)
    3.009
    """
    larger, smaller = (a, b) if a >= b else (b, a)
    if smaller <= 0.0:
        return larger
    ratio = smaller / larger
    return larger * math.sqrt(math.sqrt(1.0 + ratio * ratio * ratio * ratio))


def time_of(work: Work, rates: Rates) -> Operation:
    """Give the time of one operation on a chip [s], split into compute, memory, communication and overhead."""
    k, kind = rates.constants, work.kind
    if kind == "gemm":
        share = k.weight_bandwidth_4bit if work.bits == 4 else k.weight_bandwidth
        compute = work.flops / rates.gemm[work.dtype] * (1.0 + k.gemm_half_rows / work.rows)
        return _overlapped(work, compute, work.bytes / (rates.bandwidth * share))
    if kind == "experts":
        share = k.expert_bandwidth_8bit if work.bits == 8 else k.weight_bandwidth
        busiest = k.expert_imbalance if work.far else 1.0
        compute = work.flops / rates.experts[work.dtype] * (1.0 + k.expert_half_rows / work.rows)
        return _overlapped(work, compute * busiest, work.bytes / (rates.bandwidth * share) * busiest)
    if kind in ("attention", "state"):
        compute = work.flops / rates.attention * (1.0 + k.attention_half_tokens / work.rows)
        return _overlapped(work, compute, work.bytes / (rates.bandwidth * k.cache_bandwidth))
    if kind in ("routed", "elementwise"):
        each = k.routed_passes if kind == "routed" else k.elementwise_bytes
        moved = work.bytes * each * (1.0 if work.dtype == "bf16" else k.low_precision_traffic)
        return Operation(work.name, 0.0, moved / (rates.bandwidth * k.cache_bandwidth), 0.0, 0.0, 0.0, moved)
    return _waiting(work, rates)


def _overlapped(work: Work, compute: float, memory: float) -> Operation:
    total = smooth_maximum(compute, memory)
    part = compute / total if total > 0.0 else 0.0
    share = part * part * part * part
    return Operation(work.name, total * share, total * (1.0 - share), 0.0, 0.0, work.flops, work.bytes)


_FAR_LATENCY = 8.0
"""An all-reduce across servers takes this many times the latency of one within a domain."""


def _waiting(work: Work, rates: Rates) -> Operation:
    k, kind = rates.constants, work.kind
    if kind == "reduce":
        latency = work.amount * k.all_reduce_seconds * (_FAR_LATENCY if work.far else 1.0)
        return Operation(work.name, 0.0, 0.0, latency + work.bytes / _line(work, rates), 0.0, 0.0, 0.0)
    if kind == "exchange":
        shown = 1.0 - k.overlap if work.rows > 1.0 else 1.0
        spent = work.amount * k.all_to_all_seconds + work.bytes / _line(work, rates)
        return Operation(work.name, 0.0, 0.0, shown * spent, 0.0, 0.0, 0.0)
    times = {"kernels": k.kernel_seconds, "scan": k.scan_token_seconds, "passes": k.pass_seconds, "fixed": 1.0}
    each = times[kind]
    return Operation(work.name, 0.0, 0.0, 0.0, work.amount * each, 0.0, 0.0)


def _line(work: Work, rates: Rates) -> float:
    return rates.network if work.far else rates.link


@dataclass(frozen=True, slots=True)
class PhaseTime:
    """The time of one phase, what it is spent on, and how sure it is."""

    phase: str
    seconds: float
    """Time of the phase [s]."""
    low_s: float
    high_s: float
    """80 % interval [s]."""
    shares: Mapping[str, float]
    """Fractions of the time spent on compute, memory, communication and overhead."""
    bound: str
    """The largest of the shares."""
    flops: float
    """[FLOP] per GPU."""
    bytes: float
    """[B] read or written per GPU."""
    intensity: float
    """[FLOP/B] arithmetic intensity."""
    ridge: float
    """[FLOP/B] intensity at which the datasheet's compute and bandwidth balance."""
    mfu: float
    """Fraction of the dense peaks used."""
    mbu: float
    """Fraction of the peak memory bandwidth used."""
    plain_s: float
    """[s] the larger of FLOP / peak and bytes / bandwidth, with nothing lost."""
    operations: tuple[Operation, ...]
    notes: tuple[str, ...] = ()
    tokens_each: float = 1.0
    """Tokens a sequence gains by a decode step; more than 1 with speculative decoding."""

    @property
    def seconds_per_token(self) -> float:
        """Time per output token of a decode step [s]."""
        return self.seconds / self.tokens_each

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain data, keys with their unit."""
        return {
            "phase": self.phase,
            "seconds": self.seconds,
            "low_s": self.low_s,
            "high_s": self.high_s,
            "shares": {f"{name}_fraction": value for name, value in self.shares.items()},
            "bound": self.bound,
            "tokens_per_sequence": self.tokens_each,
            "intensity_flop_per_byte": self.intensity,
            "ridge_flop_per_byte": self.ridge,
            "mfu_fraction": self.mfu,
            "mbu_fraction": self.mbu,
            "plain_roofline_s": self.plain_s,
            "operations": [
                {"name": o.name, "seconds": o.seconds, "flop": o.flops, "memory_bytes": o.bytes}
                for o in self.operations
            ],
            "notes": list(self.notes),
        }


_SHARES = ("compute", "memory", "communication", "overhead")


def combine(phase: str, works: Iterable[Work], rates: Rates, notes: tuple[str, ...] = ()) -> PhaseTime:
    """Add up the operations of a phase into its time and what it is spent on."""
    works = tuple(works)
    operations = tuple([time_of(work, rates) for work in works])
    parts = [
        sum([o.compute_s for o in operations]),
        sum([o.memory_s for o in operations]),
        sum([o.communication_s for o in operations]),
        sum([o.overhead_s for o in operations]),
    ]
    seconds = sum(parts)
    flops, moved = sum([o.flops for o in operations]), sum([o.bytes for o in operations])
    ideal = sum([w.flops / rates.peaks[w.dtype] for w in works if w.flops])
    plain = max(ideal, moved / rates.bandwidth)
    k = rates.constants
    width = k.prefill_width if phase == "prefill" else k.decode_width
    return PhaseTime(
        phase=phase,
        seconds=seconds,
        low_s=min(seconds, max(seconds / width, plain)),  # no chip is faster than its datasheet
        high_s=seconds * width,
        shares=dict(zip(_SHARES, [p / seconds for p in parts], strict=True)),
        bound=_SHARES[parts.index(max(parts))],
        flops=flops,
        bytes=moved,
        intensity=flops / moved,
        ridge=flops / ideal / rates.bandwidth if ideal else 0.0,
        mfu=ideal / seconds,
        mbu=moved / rates.bandwidth / seconds,
        plain_s=plain,
        operations=operations,
        notes=notes,
    )
