"""How much of a datasheet's peak serving software reaches, and the fixed times around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from prfaas_plan.errors import Fault, ProfileError
from prfaas_plan.profiles import Source, read_sources
from prfaas_plan.schema import Reader, quantity, read_record, text

__all__ = ["Efficiency", "efficiency_from_mapping"]


def _share(doc: str, **extra: Any) -> Any:
    return quantity("fraction", doc, above=0, at_most=1, **extra)


def _seconds(doc: str) -> Any:
    return quantity("s", doc, at_least=0, at_most=10)


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Constants of the roofline for one family of accelerators; shares are of the dense peak or peak bandwidth."""

    basis: str = text(
        "what the constants rest on",
        choices=("fitted", "kernel timings", "assumed"),
    )
    gemm_bf16: float = _share("matrix products in BF16")
    gemm_fp8: float = _share("matrix products in FP8 or INT8")
    gemm_fp4: float = _share("matrix products in FP4")
    experts_bf16: float = _share("fused expert kernels in BF16")
    experts_fp8: float = _share("fused expert kernels in FP8 or INT8")
    experts_fp4: float = _share("fused expert kernels in FP4")
    attention: float = _share("attention of a prompt, BF16")
    weight_bandwidth: float = _share("reading weights")
    kv_bandwidth: float = _share("reading the KV cache and states")
    kernel_seconds: float = _seconds("time of launching and draining one kernel")
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
    reader.finish()
    if constants is None:
        raise ProfileError(Fault(where, "", "cannot be read as efficiencies"))
    return replace(constants, family=family, sources=tuple(sources.values()))
