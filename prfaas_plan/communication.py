"""What the ranks of an instance send each other: all-reduces, expert exchange, keys and values of a shared prompt."""

from __future__ import annotations

from prfaas_plan.deployment import Deployment
from prfaas_plan.roofline import Work

__all__ = ["all_reduces", "expert_exchange", "prompt_exchange"]

_ACTIVATION_BYTES = 2.0
_DISPATCH_AND_COMBINE_BYTES = 3.0
"""Bytes per routed element: FP8 on the way out, BF16 on the way back."""


def all_reduces(deployment: Deployment, rows: float, passes: float) -> list[Work]:
    """Reduce the output of every block over the tensor-parallel ranks: 2 · (t − 1)/t of the rows, ring fashion."""
    ranks, layout = deployment.ranks, deployment.layout
    if ranks == 1:
        return []
    blocks = layout.blocks
    moved = 2.0 * (ranks - 1) / ranks * rows * layout.hidden * _ACTIVATION_BYTES * blocks
    far = deployment.beyond_domain(ranks)
    return [Work("all-reduce", "reduce", bytes=moved, amount=blocks * passes, far=far)]


def expert_exchange(deployment: Deployment, rows: float, passes: float, *, hidden_behind: bool) -> list[Work]:
    """Send every row to its experts and back where attention groups hold different rows (dispatch and combine).

    A row goes once to each rank or, beyond one domain, once to each server that holds one of its experts.
    """
    layout = deployment.layout
    groups = deployment.dp * deployment.cp
    if groups == 1 or not layout.experts:
        return []
    ranks = max(deployment.ep, groups)
    far = deployment.beyond_domain(ranks)
    domain = deployment.hardware.neighbours
    places = max(1.0, ranks / domain) if far else float(ranks)
    moved = 0.0
    for shard in layout.experts:
        reached = places * (1.0 - (1.0 - 1.0 / places) ** shard.active)
        away = (places - 1.0) / places
        moved += shard.layers * rows / deployment.ranks * shard.width * _DISPATCH_AND_COMBINE_BYTES * reached * away
    count = layout.expert_layers * passes
    shown = 2.0 if hidden_behind else 1.0
    return [Work("expert exchange", "exchange", bytes=moved, rows=shown, amount=count, far=far)]


def prompt_exchange(deployment: Deployment, context: float, sequences: float) -> list[Work]:
    """Pass keys and values around the ranks that share a prompt, hidden in part behind attention."""
    ranks = deployment.cp
    if ranks == 1:
        return []
    layers = [(count, m) for count, m in deployment.layout.mixers if not m.linear]
    cached = sum(count * m.cache_bytes * min(context, m.window or context) for count, m in layers)
    moved = cached * sequences * (ranks - 1) / ranks
    messages = float(sum(count for count, _ in layers))
    far = deployment.beyond_domain(ranks * deployment.ranks)
    return [Work("prompt exchange", "exchange", bytes=moved, rows=2.0, amount=messages, far=far)]
