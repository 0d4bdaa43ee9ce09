"""What an instance keeps in memory, whether it fits, and the smallest instance that does."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Final

from prfaas_plan.deployment import Deployment
from prfaas_plan.errors import Fault, InputError
from prfaas_plan.kv_cache import memory_curve
from prfaas_plan.units import show_bytes

__all__ = ["Footprint", "cache_tokens", "footprint", "sequences_that_fit", "smallest_instance"]

RUNTIME_BYTES: Final = 3.5e9
"""[B] an engine and its CUDA context keep for themselves (ai-dynamo/aiconfigurator reserves as much)."""
COLLECTIVES_BYTES: Final = 0.4e9
"""[B] buffers of the communication library, where there is more than one GPU (same source: 342-392 MB)."""
_ACTIVATION_COPIES: Final = 12.0
"""Rows of the residual width that live at once in a block, in bf16: input, residual, projections, expert rows."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """Memory of the fullest GPU of an instance [B]."""

    weights_bytes: float
    cache_bytes: float
    """KV cache and recurrent state of the sequences asked for."""
    activation_bytes: float
    reserved_bytes: float
    memory_bytes: float
    """What the accelerator has."""
    reason: str
    """Empty where it fits; else what is too large, and the smallest instance that fits."""

    @property
    def used_bytes(self) -> float:
        """Sum of all parts [B]."""
        return self.weights_bytes + self.cache_bytes + self.activation_bytes + self.reserved_bytes

    @property
    def fits(self) -> bool:
        """Say whether everything fits."""
        return not self.reason

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain data."""
        return {
            "weights_bytes": self.weights_bytes,
            "cache_bytes": self.cache_bytes,
            "activation_bytes": self.activation_bytes,
            "reserved_bytes": self.reserved_bytes,
            "used_bytes": self.used_bytes,
            "memory_bytes": self.memory_bytes,
            "fits": self.fits,
            "reason": self.reason or None,
        }


def footprint(
    deployment: Deployment, batch: float, context_tokens: float, chunk_tokens: float | None = 8192
) -> Footprint:
    """Add up what one GPU keeps: weights, `batch` sequences of `context_tokens` [token], activations, the runtime.

    Raises `InputError` for sizes that are not finite and non-negative, `ProfileError` without a known memory size.

    >>> from prfaas_plan.catalog import load_hardware, load_model
    >>> footprint(Deployment(load_model("llama-3.1-8b"), load_hardware("h200"), gpus=1), 8, 4096).fits
    True
    """
    if not (0.0 <= batch < math.inf and 0.0 <= context_tokens < math.inf):
        problem = "expected finite numbers of at least 0"
        raise InputError(Fault("memory", "batch, context_tokens", problem, (batch, context_tokens)))
    found = _parts(deployment, batch, context_tokens, chunk_tokens)
    if found.used_bytes <= found.memory_bytes:
        return found
    return replace(found, reason=_why(deployment, found, context_tokens))


def _parts(deployment: Deployment, batch: float, context: float, chunk: float | None) -> Footprint:
    layout, hardware = deployment.layout, deployment.hardware
    sequences = max(1.0, batch / deployment.dp) if batch else 0.0
    cache = memory_curve(deployment.model, deployment.ranks, deployment.options)(context) if context else 0.0
    rows = (chunk or context) / deployment.cp
    vocabulary = float(deployment.model.vocab_size or 0)
    activations = rows * layout.hidden * 2.0 * _ACTIVATION_COPIES + max(1.0, sequences) * vocabulary * 4.0
    return Footprint(
        weights_bytes=layout.weight_bytes(deployment.stage_gpus) / deployment.pp,
        cache_bytes=sequences * cache / (deployment.ranks * deployment.pp * deployment.cp),
        activation_bytes=activations,
        reserved_bytes=RUNTIME_BYTES + (COLLECTIVES_BYTES if deployment.gpus > 1 else 0.0),
        memory_bytes=hardware.need("memory_bytes"),
        reason="",
    )


def _why(deployment: Deployment, found: Footprint, context: float) -> str:
    parts = (
        f"{show_bytes(found.weights_bytes)} of weights, {show_bytes(found.cache_bytes)} of KV cache and state, "
        f"{show_bytes(found.activation_bytes + found.reserved_bytes)} of activations and runtime"
    )
    text = f"does not fit: each GPU needs {parts}, and has {show_bytes(found.memory_bytes)}"
    smallest = smallest_instance(deployment, context)
    if smallest is None:
        return f"{text}; no instance of up to 512 GPUs of this kind holds one sequence"
    return f"{text}; the smallest that holds one sequence is TP {smallest.tp} x PP {smallest.pp} = {smallest.gpus} GPUs"


def smallest_instance(deployment: Deployment, context_tokens: float) -> Deployment | None:
    """Find the smallest tensor-parallel by pipeline-parallel instance that holds one sequence of a context.

    1, 2, 4, … GPUs of one server, then whole servers as pipeline stages; ``None`` beyond 512 GPUs.
    """
    server = deployment.hardware.gpus_per_node or 8
    sizes = [n for n in (1, 2, 4, 8, 16) if n < server] + [server * n for n in range(1, 512 // server + 1)]
    for gpus in sizes:
        tp = min(gpus, server)
        tried = replace(deployment, gpus=gpus, tp=tp, pp=gpus // tp, ep=1, dp=1, cp=1)
        found = _parts(tried, 1.0, context_tokens, None if context_tokens < 8192 else 8192)
        if found.used_bytes <= found.memory_bytes:
            return tried
    return None


def sequences_that_fit(deployment: Deployment, context_tokens: float, arriving: float = 0.0) -> float:
    """Count the sequences of a context [token] that fit an instance beside the weights, as a real number.

    `arriving` sequences, whose cache is still being received, take their memory too. 0 where the weights alone do
    not fit; infinite for a model that keeps nothing.
    """
    empty = _parts(deployment, 0.0, context_tokens, 8192)
    one = _parts(deployment, float(deployment.dp), context_tokens, 8192)
    each = one.cache_bytes + (deployment.model.vocab_size or 0) * 4.0
    free = empty.memory_bytes - empty.used_bytes
    if free <= 0.0:
        return 0.0
    return max(0.0, free / each * deployment.dp - arriving) if each > 0.0 else math.inf


def cache_tokens(deployment: Deployment, context_tokens: float) -> float:
    """Count the tokens of cache an instance holds when every sequence has this context [token].

    The free memory divided by the bytes per token at that context, so window layers and fixed states count as they
    do there.
    """
    return sequences_that_fit(deployment, context_tokens) * context_tokens
