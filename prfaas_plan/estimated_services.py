"""Service times estimated by the roofline, with their intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prfaas_plan.errors import InfeasibleError
from prfaas_plan.numerics import Curve
from prfaas_plan.service_records import DecodeService, PrefillService

if TYPE_CHECKING:
    from prfaas_plan.deployment import Deployment

__all__ = ["roofline_decode", "roofline_prefill"]


def roofline_prefill(deployment: Deployment, cluster: str = "") -> PrefillService:
    """Estimate the prefill time of one instance from its peaks, with an 80 % interval.

    Raises `InfeasibleError` with the smallest division that fits where the weights do not fit in memory.
    """
    from prfaas_plan.prefill import prefill_curve, prefill_time

    _refuse_no_room(deployment, cluster)
    seconds = prefill_curve(deployment, _SHORTEST, _LONGEST)
    short, long = (prefill_time(deployment, length) for length in (1024, 65536))
    spans = [
        (short.seconds, long.seconds, short.low_s, long.low_s),
        (short.seconds, long.seconds, short.high_s, long.high_s),
    ]
    fast, slow = (_stretched(seconds, *span) for span in spans)
    source = _roofline_source(deployment)
    notes = tuple(long.notes)
    return PrefillService(seconds, _SHORTEST, _LONGEST, "roofline", source, (fast, slow), notes)


def _stretched(seconds: Curve, short: float, long: float, short_end: float, long_end: float) -> Curve:
    """Bring a curve to one end of its interval, which is a factor on the time and a fixed time beside it."""
    factor = (long_end - short_end) / (long - short)
    return seconds.scaled(factor) + Curve.polynomial(short_end - factor * short)


def roofline_decode(
    deployment: Deployment, context_tokens: float, step_seconds: float | None, cluster: str = ""
) -> DecodeService:
    """Estimate the largest batch of one instance within a step time [s] and its memory, at a mean context [token].

    Raises `InfeasibleError` where even one sequence is too slow or does not fit.
    """
    from prfaas_plan.batching import largest_batch as largest_estimated

    _refuse_no_room(deployment, cluster)
    limit = largest_estimated(deployment, context_tokens, step_seconds or _NO_PROMISE_S)
    if limit.step is None:
        raise InfeasibleError(f"decode at {cluster or deployment.hardware.name}: {limit.reason}")
    step = limit.step
    return DecodeService(
        limit.batch,
        step.seconds_per_token,
        "roofline",
        _roofline_source(deployment),
        (step.low_s / step.tokens_each, step.high_s / step.tokens_each),
        (*deployment.notes, f"the decode batch of {limit.batch} is limited by {limit.limit}"),
    )


_NO_PROMISE_S = 1e6


def _refuse_no_room(deployment: Deployment, cluster: str = "") -> None:
    from prfaas_plan.footprint import footprint

    found = footprint(deployment, 1.0, 1.0)
    if found.reason:
        raise InfeasibleError(f"cluster {cluster!r}: {found.reason}" if cluster else found.reason)


def _roofline_source(deployment: Deployment) -> str:
    d = deployment
    ways = ", ".join(
        f"{name}{n}"
        for name, n in (("TP", d.ranks), ("EP", d.ep), ("DP", d.dp), ("PP", d.pp), ("CP", d.cp))
        if n > 1 or name == "TP"
    )
    return f"roofline of {d.model.id} on {d.gpus}×{d.hardware.id} ({ways})"


_SHORTEST, _LONGEST = 16, 1 << 20
"""Lengths [token] a roofline curve is made for."""
