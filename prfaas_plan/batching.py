"""The largest decode batch that meets a latency target and fits in memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from prfaas_plan.decode import Speculation, decode_step
from prfaas_plan.deployment import Deployment
from prfaas_plan.errors import Fault, InputError
from prfaas_plan.footprint import footprint, sequences_that_fit
from prfaas_plan.numerics import first_integer
from prfaas_plan.roofline import PhaseTime

__all__ = ["BatchLimit", "largest_batch"]

_MOST = 1 << 20


@dataclass(frozen=True, slots=True)
class BatchLimit:
    """The largest decode batch of an instance, and what limits it."""

    batch: int
    """Sequences decoded together; 0 where not even one meets the target or fits."""
    limit: str
    """``latency`` or ``memory``."""
    step: PhaseTime | None
    """The decode step at that batch; ``None`` for a batch of 0."""
    gpus: int
    reason: str = ""

    @property
    def tokens_per_second(self) -> float:
        """Output tokens per second of the instance."""
        return self.batch / self.step.seconds_per_token if self.step else 0.0

    @property
    def tokens_per_second_per_gpu(self) -> float:
        """Output tokens per second of one of the instance's GPUs."""
        return self.tokens_per_second / self.gpus

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain data."""
        return {
            "batch": self.batch,
            "limit": self.limit,
            "tokens_per_second": self.tokens_per_second,
            "tokens_per_second_per_gpu": self.tokens_per_second_per_gpu,
            "step": self.step.to_dict() if self.step else None,
            "reason": self.reason or None,
        }


def largest_batch(
    deployment: Deployment,
    context_tokens: float,
    tpot_s: float,
    *,
    arriving: float = 0.0,
    speculation: Speculation | None = None,
) -> BatchLimit:
    """Find the largest batch whose time per output token is at most `tpot_s` [s] and that fits in memory.

    Step time rises with the batch, so bisection finds it. `arriving` sequences whose cache is on its way take memory
    but no time. Raises `InputError` for a target that is not positive.

    >>> from prfaas_plan.catalog import load_hardware, load_model
    >>> d = Deployment(load_model("llama-3.1-70b"), load_hardware("h100"), gpus=4)
    >>> largest_batch(d, 4096, tpot_s=0.001).limit, largest_batch(d, 4096, tpot_s=10.0).limit
    ('latency', 'memory')
    """
    if not 0.0 < tpot_s < math.inf:
        raise InputError(Fault("decode", "tpot_s", "expected a finite number above 0 [s]", tpot_s))
    room = math.floor(min(float(_MOST), sequences_that_fit(deployment, context_tokens, arriving) + 1e-9))
    if room < 1:
        reason = footprint(deployment, 1.0 + arriving, context_tokens).reason
        return BatchLimit(0, "memory", None, deployment.gpus, reason or "no room beside the arriving sequences")

    def too_slow(batch: int) -> bool:
        return decode_step(deployment, batch, context_tokens, speculation).seconds_per_token > tpot_s

    first = first_integer(too_slow, 1, room + 1)
    batch = first - 1
    if batch < 1:
        least = decode_step(deployment, 1, context_tokens, speculation).seconds_per_token
        reason = f"one sequence alone takes {1e3 * least:.1f} ms a token, above the target of {1e3 * tpot_s:.1f} ms"
        return BatchLimit(0, "latency", None, deployment.gpus, reason)
    step = decode_step(deployment, batch, context_tokens, speculation)
    return BatchLimit(batch, "memory" if batch == room else "latency", step, deployment.gpus)
