"""How much of a datasheet's peak serving software reaches, and the fixed times around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from prfaas_plan.errors import Fault, ProfileError, nearest
from prfaas_plan.profiles import Source, read_sources
from prfaas_plan.records import Reader, quantity, read_record, text

__all__ = ["Efficiency", "efficiency_from_mapping"]


def _share(doc: str, **extra: Any) -> Any:
    return quantity("fraction", doc, above=0, at_most=1, **extra)


def _seconds(doc: str, **extra: Any) -> Any:
    return quantity("s", doc, at_least=0, at_most=10, **extra)


def _number(doc: str, unit: str = "1", **extra: Any) -> Any:
    return quantity(unit, doc, at_least=0, at_most=1e5, **extra)


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Constants of the roofline for one family of accelerators.

    Shares are of the dense peak of the data type, or of the peak bandwidth.
    """

    basis: str = text("what the constants rest on", choices=("fitted", "kernel timings", "assumed"))
    gemm_bf16: float = _share("matrix products in BF16")
    gemm_fp8: float = _share("matrix products in FP8")
    gemm_fp4: float = _share("matrix products in FP4")
    experts_bf16: float = _share("fused expert kernels in BF16")
    experts_fp8: float = _share("fused expert kernels in FP8 or INT8")
    experts_fp4: float = _share("fused expert kernels in FP4")
    attention: float = _share("attention of a prompt, in BF16")
    weight_bandwidth: float = _share("reading weights of 16 or 8 bits, and 4-bit experts")
    weight_bandwidth_4bit: float = _share("reading 4-bit weights outside the experts")
    expert_bandwidth_8bit: float = _share("reading 8-bit experts")
    cache_bandwidth: float = _share("reading the KV cache, states and activations")
    link_share: float = _share("scale-up and network bandwidth")
    kernel_seconds: float = _seconds("launching and draining one kernel")
    gemm_half_rows: float = _number("rows at which a matrix product reaches half its share", "token")
    expert_half_rows: float = _number("rows per expert at which an expert reaches half its share", "token")
    attention_half_tokens: float = _number("keys per query at which attention reaches half its share", "token")
    expert_imbalance: float = quantity("1", "busiest expert-parallel rank against the mean", at_least=1, at_most=10)
    routed_passes: float = _number("times the routed rows are written or read around the expert kernels")
    low_precision_traffic: float = quantity(
        "1", "routed and elementwise traffic with quantised activations, against bf16", at_least=1, at_most=10
    )
    elementwise_bytes: float = _number("bytes moved per token and hidden element in every block")
    scan_token_seconds: float = quantity(
        "s", "sequential time of a linear layer's scan per token", at_least=0, at_most=1
    )
    all_reduce_seconds: float = _seconds("latency of an all-reduce within a scale-up domain")
    all_to_all_seconds: float = _seconds("latency of a dispatch and combine among expert-parallel ranks")
    overlap: float = quantity("fraction", "part of the expert exchange hidden by compute", at_least=0, at_most=1)
    step_seconds: float = _seconds("engine time of one decode step")
    request_seconds: float = _seconds("fixed time of a prefill where the deployment's own is not given")
    decode_width: float = quantity("1", "80 % of decode steps lie within a factor of", at_least=1, at_most=20)
    prefill_width: float = quantity("1", "80 % of prefills lie within a factor of", at_least=1, at_most=20)
    gemm_int8: float | None = _share("matrix products in INT8; absent where INT8 weights compute in BF16", default=None)
    pass_seconds: float = _seconds("scheduling one more pass over a prompt that is worked off in chunks", default=0.0)
    note: str = text("what was fitted on, what was taken over", default="")
    family: str = ""
    """Whose constants these are: a family, ``generic``, or empty where the accelerator has its own."""
    sources: tuple[Source, ...] = ()


def efficiency_from_mapping(data: Mapping[str, Any], where: str, family: str) -> Efficiency:
    """Check and build the constants of a family from the keys of its TOML file.

    Raises `ProfileError` with every fault in it.
    """
    sources = read_sources(data, where)
    reader = Reader(where)
    body = {key: value for key, value in data.items() if key not in ("sources", "id", "schema")}
    constants = read_record(Efficiency, body, reader)
    for path, source in reader.sources.items():
        if source not in sources:
            reader.fault(f"{path}.source", "no such source in [sources]", source, nearest(source, sources))
    reader.finish()
    if constants is None:
        raise ProfileError(Fault(where, "", "cannot be read as efficiencies"))
    return replace(constants, family=family, sources=tuple(sources.values()))
