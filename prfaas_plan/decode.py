"""How long an instance takes for one decode step, and how many sequences meet a target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from prfaas_plan.communication import all_reduces, expert_exchange
from prfaas_plan.deployment import Deployment
from prfaas_plan.errors import Fault, InputError
from prfaas_plan.mixing import Mixer
from prfaas_plan.roofline import PhaseTime, Work, combine

__all__ = ["Speculation", "decode_step", "decode_work"]


@dataclass(frozen=True, slots=True)
class Speculation:
    """Speculative decoding: so many tokens drafted in a step, each accepted with a probability."""

    draft_tokens: int
    acceptance: float

    def __post_init__(self) -> None:
        if not 1 <= self.draft_tokens <= 64 or not 0.0 <= self.acceptance <= 1.0:
            problem = "expected 1 to 64 draft tokens and an acceptance between 0 and 1"
            raise InputError(Fault("speculation", "", problem, (self.draft_tokens, self.acceptance)))

    @property
    def tokens_each(self) -> float:
        """Tokens a sequence gains by a step: 1 + a + a² + … + aᵍ.

        >>> Speculation(3, 0.5).tokens_each
        1.875
        """
        return sum(self.acceptance**n for n in range(self.draft_tokens + 1))


def decode_step(
    deployment: Deployment,
    batch: float,
    context_tokens: float | Sequence[float],
    speculation: Speculation | None = None,
) -> PhaseTime:
    """Estimate the time of one decode step of `batch` sequences at a context [token], or at a mix of contexts.

    `batch` is sequences of the whole instance. With several contexts the batch is spread evenly over them. With
    `pp` stages the batch goes round in `pp` parts, so a step passes every stage with batch / pp sequences. With
    `speculation` a step drafts on the multi-token-prediction layers (one layer where the model names none) and
    checks all drafts at once. Raises `InputError` for sizes that are not positive and finite.

    >>> from prfaas_plan.catalog import load_hardware, load_model
    >>> d = Deployment(load_model("llama-3.1-8b"), load_hardware("h200"), gpus=1)
    >>> decode_step(d, 1, 4096).bound
    'memory'
    """
    each = 1.0 if speculation is None else speculation.draft_tokens + 1.0
    works = decode_work(deployment, batch, context_tokens, each)
    if speculation is not None:
        works += _drafting(deployment, decode_work(deployment, batch, context_tokens), speculation.draft_tokens)
    time = combine("decode", works, deployment.rates, deployment.notes)
    return time if speculation is None else replace(time, tokens_each=speculation.tokens_each)


def _drafting(deployment: Deployment, works: list[Work], drafts: int) -> list[Work]:
    """Run the drafting layers and the output head once for every drafted token."""
    model, head = deployment.model, deployment.layout.head.name
    part = max(1, model.mtp_layers) / model.depth
    shares = [(w, float(drafts) if w.name == head else 0.0 if w.kind == "fixed" else drafts * part) for w in works]
    return [
        w._replace(name=f"draft: {w.name}", flops=w.flops * f, bytes=w.bytes * f, amount=w.amount * f)
        for w, f in shares
        if f
    ]


def decode_work(
    deployment: Deployment, batch: float, context_tokens: float | Sequence[float], tokens_each: float = 1.0
) -> list[Work]:
    """List what one GPU does in a decode step; `tokens_each` tokens of every sequence pass the model at once."""
    contexts = [context_tokens] if isinstance(context_tokens, (int, float)) else list(context_tokens)
    _check_sizes(batch, contexts)
    layout = deployment.layout
    together = max(1.0, batch / deployment.pp)
    sequences = max(1.0, together / deployment.dp)
    rows = sequences * tokens_each
    works = [
        Work(p.name, "gemm", 2.0 * rows * p.parameters, p.bytes, p.dtype, rows, bits=p.bits) for p in layout.products
    ]
    works.append(
        Work(
            layout.head.name,
            "gemm",
            2.0 * rows * layout.head.parameters,
            layout.head.bytes,
            layout.head.dtype,
            rows,
            bits=layout.head.bits,
        )
    )
    works += _experts(deployment, together * tokens_each)
    for layers, mixer in layout.mixers:
        works += _mix(layers, mixer, sequences / deployment.cp, contexts, tokens_each)
    works.append(
        Work("elementwise", "elementwise", bytes=rows * layout.hidden * layout.blocks, dtype=layout.expand_dtype)
    )
    works.append(Work("kernel launches", "kernels", amount=layout.kernels))
    works += all_reduces(deployment, rows, 1.0)
    works += expert_exchange(deployment, rows, 1.0, hidden_behind=False)
    works.append(Work("step", "fixed", amount=deployment.rates.constants.step_seconds))
    return works


def _check_sizes(batch: float, contexts: Sequence[float]) -> None:
    faults = []
    if not 0.0 < batch < math.inf:
        faults.append(Fault("decode", "batch", "expected a finite number above 0", batch))
    if not contexts or not all(0.0 < c < math.inf for c in contexts):
        faults.append(Fault("decode", "context_tokens", "expected finite numbers above 0 [token]", contexts))
    if faults:
        raise InputError(faults)


def _experts(deployment: Deployment, tokens: float) -> list[Work]:
    gpus, works = deployment.stage_gpus, []
    for shard in deployment.layout.experts:
        touched, visits = shard.touched(tokens), tokens * shard.active
        flops = 2.0 * visits * shard.parameters / gpus * shard.layers
        moved = touched * shard.bytes / gpus * shard.layers
        works.append(
            Work(
                "experts",
                "experts",
                flops,
                moved,
                shard.dtype,
                visits / touched,
                bits=shard.bits,
                far=deployment.ep > 1,
            )
        )
        spread = max(deployment.ep, deployment.dp * deployment.cp)
        works.append(
            Work("routed rows", "routed", bytes=visits * shard.width * 2.0 / spread * shard.layers, dtype=shard.dtype)
        )
    return works


def _mix(layers: int, mixer: Mixer, sequences: float, contexts: Sequence[float], tokens_each: float) -> list[Work]:
    share = layers * sequences
    if mixer.linear:
        flops = mixer.token_flops * share * tokens_each
        return [Work(mixer.name, "state", flops, 2.0 * mixer.state_bytes * share, rows=math.inf)]
    keys = sum(mixer.keys(c) for c in contexts) / len(contexts)
    mean = sum(contexts) / len(contexts)
    flops = mixer.absorbed_flops * keys * share * tokens_each
    works = [Work(mixer.name, "attention", flops, mixer.cache_bytes * keys * share, rows=math.inf)]
    if mixer.index_bytes:
        flops = mixer.index_flops * mean * share * tokens_each
        works.append(Work("indexer", "attention", flops, mixer.index_bytes * mean * share, rows=math.inf))
    return works
