"""The parts of a plan: pools, links, stages, the next best plans, and the other reading of capacity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from prfaas_plan.numerics import finite_or_none
from prfaas_plan.units import show

__all__ = ["Alternative", "LinkUse", "OtherReading", "PerGpu", "PoolUse", "Stages"]


@dataclass(frozen=True, slots=True)
class PoolUse:
    """Instances of one cluster in one role, what they can serve and how much of it is used."""

    cluster: str
    role: str
    accelerator: str
    instances: int
    gpus_per_instance: int
    capacity_rps: float | None
    """Rate of the pool's own class of requests; ``None`` where it has none."""
    load_fraction: float

    @property
    def gpus(self) -> int:
        """Accelerators of the pool."""
        return self.instances * self.gpus_per_instance

    def to_dict(self) -> dict[str, Any]:
        """Give the pool under the keys of the interface."""
        return {
            "cluster": self.cluster,
            "role": self.role,
            "accelerator": self.accelerator,
            "instances": self.instances,
            "gpus_per_instance": self.gpus_per_instance,
            "gpus": self.gpus,
            "capacity_rps": finite_or_none(self.capacity_rps),
            "load_fraction": self.load_fraction,
            "idle_fraction": 1.0 - self.load_fraction,
        }


@dataclass(frozen=True, slots=True)
class PerGpu:
    """Tokens a second and GPU: of the pools that do the work, and of all GPUs."""

    prefill_gpus: int
    decode_gpus: int
    all_gpus: int
    input_tokens_per_second: float
    output_tokens_per_second: float

    @classmethod
    def of(cls, pools: Sequence[PoolUse], gpus: int, tokens_in: float, tokens_out: float) -> PerGpu:
        """Count the GPUs of each role."""
        by_role = {role: sum(p.gpus for p in pools if p.role == role) for role in ("prefill", "decode")}
        return cls(by_role["prefill"], by_role["decode"], gpus, tokens_in, tokens_out)

    def to_dict(self) -> dict[str, float | None]:
        """Give the four quotients by name [token/s]; ``None`` where no GPU does the work."""
        return {
            "input_tokens_per_second_of_prefill": _per(self.input_tokens_per_second, self.prefill_gpus),
            "output_tokens_per_second_of_decode": _per(self.output_tokens_per_second, self.decode_gpus),
            "input_tokens_per_second_of_all": _per(self.input_tokens_per_second, self.all_gpus),
            "output_tokens_per_second_of_all": _per(self.output_tokens_per_second, self.all_gpus),
        }

    def __str__(self) -> str:
        found = {name: "–" if x is None else show(x, "tokens/s") for name, x in self.to_dict().items()}
        return (
            f"Per GPU: {found['input_tokens_per_second_of_prefill']} in of the {self.prefill_gpus} that prefill, "
            f"{found['output_tokens_per_second_of_decode']} out of the {self.decode_gpus} that decode; "
            f"{found['input_tokens_per_second_of_all']} in and {found['output_tokens_per_second_of_all']} out of all "
            f"{self.all_gpus}."
        )


def _per(tokens: float, gpus: int) -> float | None:
    return tokens / gpus if gpus else None


@dataclass(frozen=True, slots=True)
class LinkUse:
    """A link, what of it is usable and what the plan uses."""

    origin: str
    destination: str
    capacity_gbps: float
    usable_gbps: float
    used_gbps: float

    @property
    def load_fraction(self) -> float:
        """Share of the usable rate in use."""
        return self.used_gbps / self.usable_gbps if self.usable_gbps > 0 and self.used_gbps else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Give the link under the keys of the interface; an unlimited rate is ``None``."""
        return {
            "from": self.origin,
            "to": self.destination,
            "capacity_gbps": finite_or_none(self.capacity_gbps),
            "usable_gbps": finite_or_none(self.usable_gbps),
            "used_gbps": self.used_gbps,
            "load_fraction": self.load_fraction,
        }


@dataclass(frozen=True, slots=True)
class Stages:
    """Rate of each stage for its own class of requests [req/s]; ``None`` where it does not exist."""

    prfaas_rps: float | None
    pd_prefill_rps: float | None
    pd_decode_rps: float

    def to_dict(self) -> dict[str, Any]:
        """Give the rates by name."""
        return {
            "prfaas_rps": self.prfaas_rps,
            "pd_prefill_rps": self.pd_prefill_rps,
            "pd_decode_rps": finite_or_none(self.pd_decode_rps),
        }


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another split of the instances, and what it would serve."""

    prefill_instances: int
    decode_instances: int
    threshold_tokens: int | None
    lambda_max_rps: float
    loss_fraction: float
    bottleneck: str

    def to_dict(self) -> dict[str, Any]:
        """Give the alternative by name."""
        return {
            "local_prefill_instances": self.prefill_instances,
            "local_decode_instances": self.decode_instances,
            "threshold_tokens": self.threshold_tokens,
            "lambda_max_rps": self.lambda_max_rps,
            "loss_fraction": self.loss_fraction,
            "bottleneck": self.bottleneck,
        }


@dataclass(frozen=True, slots=True)
class OtherReading:
    """The best plan when capacity is computed the other way (mean service time, or at the mean length)."""

    service_time: str
    prefill_instances: int
    decode_instances: int
    threshold_tokens: int | None
    lambda_max_rps: float

    def to_dict(self) -> dict[str, Any]:
        """Give the reading by name."""
        return {
            "service_time": self.service_time,
            "local_prefill_instances": self.prefill_instances,
            "local_decode_instances": self.decode_instances,
            "threshold_tokens": self.threshold_tokens,
            "lambda_max_rps": self.lambda_max_rps,
        }
