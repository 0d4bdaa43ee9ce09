"""Which division of an instance over its GPUs is fastest, and which serves a token at the least cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from prfaas_plan.batching import BatchLimit, largest_batch
from prfaas_plan.deployment import Deployment
from prfaas_plan.errors import ProfileError
from prfaas_plan.footprint import footprint
from prfaas_plan.prefill import prefill_time
from prfaas_plan.roofline import PhaseTime

__all__ = ["Split", "compare_splits"]


@dataclass(frozen=True, slots=True)
class Split:
    """One way to divide an instance, with what it reaches."""

    deployment: Deployment
    prefill: PhaseTime
    """One prompt."""
    prefill_tokens_per_second: float
    """Prompt tokens per second of the instance, all attention groups busy."""
    decode: BatchLimit
    usd_per_million_output_tokens: float | None
    """Cost of decoding, where a price per GPU-hour is known."""

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain data."""
        d = self.deployment
        return {
            "gpus": d.gpus,
            "tp": d.ranks,
            "ep": d.ep,
            "dp": d.dp,
            "pp": d.pp,
            "prefill_s": self.prefill.seconds,
            "prefill_low_s": self.prefill.low_s,
            "prefill_high_s": self.prefill.high_s,
            "prefill_tokens_per_second": self.prefill_tokens_per_second,
            "prefill_tokens_per_second_per_gpu": self.prefill_tokens_per_second / d.gpus,
            "decode_batch": self.decode.batch,
            "decode_limit": self.decode.limit,
            "decode_tokens_per_second": self.decode.tokens_per_second,
            "decode_tokens_per_second_per_gpu": self.decode.tokens_per_second_per_gpu,
            "usd_per_million_output_tokens": self.usd_per_million_output_tokens,
        }


def compare_splits(
    deployment: Deployment,
    prompt_tokens: float,
    context_tokens: float,
    tpot_s: float,
    sizes: Sequence[int] = (),
) -> tuple[Split, ...]:
    """List the TP, EP, DP-attention and PP divisions that hold one sequence, the fastest prefill first.

    Every division of `sizes` GPUs (else of as many as the deployment has), in powers of two within a scale-up
    domain; prompts of `prompt_tokens`, decoding at `context_tokens` [token] within `tpot_s` [s]. Empty where none
    fits. The cheapest is the one with the most output tokens per second and GPU.
    """
    found = [
        _measure(tried, prompt_tokens, context_tokens, tpot_s)
        for gpus in sizes or (deployment.gpus,)
        for tried in _divisions(deployment, gpus)
        if footprint(tried, float(tried.dp), context_tokens).fits
    ]
    return tuple(sorted(found, key=lambda split: split.prefill.seconds))


def _divisions(deployment: Deployment, gpus: int) -> Iterator[Deployment]:
    domain = deployment.hardware.neighbours
    for pp in (1, 2, 4):
        stage, rest = divmod(gpus, pp)
        if rest or not stage:
            continue
        tp = 1
        while tp <= min(stage, domain):
            if stage % tp == 0:
                yield from _with_experts(replace(deployment, gpus=gpus, tp=tp, dp=stage // tp, pp=pp, cp=1, ep=1))
            tp *= 2


def _with_experts(deployment: Deployment) -> Iterator[Deployment]:
    if deployment.dp == 1 or not deployment.layout.experts:
        yield deployment
    if deployment.layout.experts and deployment.stage_gpus > 1:
        yield replace(deployment, ep=deployment.stage_gpus)


def _measure(deployment: Deployment, prompt: float, context: float, tpot_s: float) -> Split:
    one = prefill_time(deployment, prompt)
    busy = one if deployment.dp == 1 else prefill_time(deployment, prompt, deployment.dp)
    decode = largest_batch(deployment, context, tpot_s)
    try:
        hourly = deployment.hardware.hourly_usd() * deployment.gpus
    except ProfileError:
        hourly = None
    rate = decode.tokens_per_second
    cost = hourly / (rate * 3600.0) * 1e6 if hourly is not None and rate else None
    return Split(deployment, one, deployment.dp * prompt / busy.seconds, decode, cost)
