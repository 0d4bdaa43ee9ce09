"""A decode pool under load: how sequences get a slot, how full the batch is, and how long a step takes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass

from prfaas_plan.checks import Checks
from prfaas_plan.erlang import erlang_b, erlang_c, require_stable
from prfaas_plan.errors import InfeasibleError
from prfaas_plan.numerics import bisect_root

__all__ = ["Admission", "DecodeSlots", "LoadedDecode", "decode_admission", "decode_at_load"]


@dataclass(frozen=True, slots=True)
class DecodeSlots:
    """A decode pool as slots: instances that each hold a batch within their KV memory."""

    instances: int
    batch_max: int
    """Largest batch of one instance within the latency target [sequence]."""
    kv_memory_bytes: float
    """Memory for KV of one instance [B]."""
    kv_bytes: float
    """Mean KV of one sequence while it decodes [B]."""
    decode_s: float
    """Mean time a sequence decodes [s]."""
    transfer_s: float = 0.0
    """Mean time its memory is reserved before, while its KV arrives [s]."""
    kv_cv: float = 0.0
    """Coefficient of variation of the KV of a sequence [1]."""
    overflow_probability: float = 0.01
    """How often the KV of a full batch may exceed the memory, where sizes vary [1]."""


@dataclass(frozen=True, slots=True)
class Admission:
    """How a decode pool takes in sequences at a rate."""

    batch: int
    """Largest number of decoding sequences per instance."""
    limited_by: str
    """``batch`` or ``memory``."""
    slots: int
    """Sequences that decode at once in the whole pool."""
    arriving_bytes: float
    """Memory that arriving transfers hold in the whole pool [B]."""
    load_fraction: float
    wait_probability: float
    wait_s: float
    """Mean wait for a slot."""
    loss_probability: float
    """Share turned away if nothing may wait."""

    def to_dict(self) -> dict[str, object]:
        """Give the results under their names."""
        return asdict(self)


def _fitting(slots: DecodeSlots) -> int:
    """Find how many sequences fit in an instance's memory: ``n + z·cv·sqrt(n) <= memory / mean``."""
    from statistics import NormalDist

    room = slots.kv_memory_bytes / slots.kv_bytes
    z = NormalDist().inv_cdf(1.0 - slots.overflow_probability) * slots.kv_cv
    root = 0.5 * (-z + math.sqrt(z * z + 4.0 * room))
    return math.floor(root * root * (1.0 + 1e-12))


def decode_admission(slots: DecodeSlots, rate_per_s: float) -> Admission:
    """Say how sequences that arrive at a rate [1/s] get into a decode pool.

    A sequence holds memory while its KV arrives and while it decodes, so of the n that fit a share
    ``decode / (transfer + decode)`` decodes: the batch is ``min(batch_max, floor(n · share))``. The slots of all
    instances are the servers of an M/M/c queue (Erlang C) or of a loss system (Erlang B). Decode time is that of a full
    batch, which is cautious; sizes that vary are added up as a normal law.
    Raises `InputError`, and `InfeasibleError` where no sequence fits or the pool does not keep up.

    >>> pool = DecodeSlots(instances=2, batch_max=64, kv_memory_bytes=20e9, kv_bytes=0.32e9, decode_s=20, transfer_s=2)
    >>> result = decode_admission(pool, 4.5)
    >>> result.batch, result.limited_by, round(result.wait_probability, 2)
    (56, 'memory', 0.02)
    """
    checks = Checks("decode_admission")
    checks.at_least("instances", slots.instances, 1)
    checks.at_least("batch_max", slots.batch_max, 1)
    checks.above("kv_memory_bytes", slots.kv_memory_bytes)
    checks.above("kv_bytes", slots.kv_bytes)
    checks.above("decode_s", slots.decode_s)
    checks.at_least("transfer_s", slots.transfer_s)
    checks.at_least("kv_cv", slots.kv_cv)
    checks.inside("overflow_probability", slots.overflow_probability)
    checks.at_least("rate_per_s", rate_per_s)
    checks.finish()
    in_memory = math.floor(_fitting(slots) * slots.decode_s / (slots.transfer_s + slots.decode_s) * (1.0 + 1e-12))
    batch = min(slots.batch_max, in_memory)
    if batch < 1:
        raise InfeasibleError(
            f"the KV memory of {slots.kv_memory_bytes:.4g} B holds no sequence of {slots.kv_bytes:.4g} B",
            "more memory, more tensor parallelism, shorter sequences or a faster transfer would help",
        )
    count = batch * slots.instances
    load = require_stable(rate_per_s, slots.decode_s, count, "decode slots")
    offered = rate_per_s * slots.decode_s
    waiting = erlang_c(count, offered)
    return Admission(
        batch,
        "memory" if in_memory < slots.batch_max else "batch",
        count,
        rate_per_s * slots.transfer_s * slots.kv_bytes,
        load,
        waiting,
        waiting * slots.decode_s / (count * (1.0 - load)),
        erlang_b(count, offered),
    )


@dataclass(frozen=True, slots=True)
class LoadedDecode:
    """The mean state of a decode instance at a load."""

    batch: float
    """Mean number of sequences that decode together."""
    step_s: float
    """Step time at that batch: the time per output token [s]."""
    load_fraction: float
    """Batch over the largest batch."""

    def to_dict(self) -> dict[str, float]:
        """Give the values under their names."""
        return asdict(self)


def decode_at_load(
    rate_per_s: float, output_tokens: float, step_seconds: Callable[[float], float], batch_max: float
) -> LoadedDecode:
    """Give batch and time per output token [s] of one instance that takes in sequences at a rate [1/s].

    Little's law, ``b = λ·L_out·step(b)``, for a step time [s] that rises with the batch; the smallest such batch. The
    batch is taken as steady, so a step time that is convex in the batch is slightly too short.
    Raises `InputError`, and `InfeasibleError` where even the largest batch does not keep up.

    >>> found = decode_at_load(1.0, 1000.0, lambda batch: 0.01 + 0.0002 * batch, 64)
    >>> round(found.batch, 3), round(found.step_s, 4)
    (12.5, 0.0125)
    """
    checks = Checks("decode_at_load")
    checks.at_least("rate_per_s", rate_per_s)
    checks.above("output_tokens", output_tokens)
    checks.at_least("batch_max", batch_max, 1)
    checks.finish()
    most = batch_max / (output_tokens * step_seconds(batch_max))
    if rate_per_s > most * (1.0 + 1e-12):
        raise InfeasibleError(
            f"an instance of batch {batch_max:g} decodes {most:.4g} sequences/s and {rate_per_s:.4g} arrive",
            f"at least {math.ceil(rate_per_s / most)} instances for each one there is",
        )
    batch = bisect_root(lambda b: b - rate_per_s * output_tokens * step_seconds(b), 0.0, batch_max)
    return LoadedDecode(batch, step_seconds(batch), batch / batch_max)
