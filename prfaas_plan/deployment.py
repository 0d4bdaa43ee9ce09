"""One instance of a model: on which accelerators, how it is divided, in which data types."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from prfaas_plan.errors import Fault, InputError
from prfaas_plan.formats import Stored, stored_weights
from prfaas_plan.hardware import HardwareProfile
from prfaas_plan.kv_cache import KvOptions, kv_dtype_of, state_dtype_of
from prfaas_plan.model import ModelProfile
from prfaas_plan.roofline import Rates, rates_of
from prfaas_plan.shards import Layout, lay_out

__all__ = ["Deployment"]


@dataclass(frozen=True, eq=False)
class Deployment:
    """One instance: a model divided over `gpus` accelerators.

    ``gpus = tp · dp · pp · cp``: each of `dp` groups runs the attention of its own sequences on `tp` ranks, `cp`
    ranks share a prompt, `pp` stages share the layers. Experts are divided over all GPUs of a stage, by expert over
    `ep` of them. Raises `InputError` with every fault.
    """

    model: ModelProfile
    hardware: HardwareProfile
    gpus: int = 8
    tp: int | None = None
    ep: int = 1
    dp: int = 1
    pp: int = 1
    cp: int = 1
    weights_dtype: str | None = None
    """Data type of the weights; ``None`` for the published checkpoint."""
    kv_dtype: str | None = None
    """Data type of the KV cache; ``None`` for the model's default."""
    engine: str = "sglang"
    request_overhead_s: float | None = None
    """[s] fixed time of one prefill request; ``None`` for the family's typical one."""

    def __post_init__(self) -> None:
        if self.tp is None:
            self._divide()
        faults = [
            Fault("deployment", key, "expected a whole number of at least 1", getattr(self, key))
            for key in ("gpus", "tp", "ep", "dp", "pp", "cp")
            if not isinstance(getattr(self, key), int) or getattr(self, key) < 1
        ]
        overhead = self.request_overhead_s
        if overhead is not None and not 0.0 <= overhead < math.inf:
            problem = "expected a number of at least 0 [s]"
            faults.append(Fault("deployment", "request_overhead_s", problem, overhead))
        if not faults and self.ranks * self.dp * self.pp * self.cp != self.gpus:
            problem = f"expected tp · dp · pp · cp = {self.ranks * self.dp * self.pp * self.cp}"
            faults.append(Fault("deployment", "gpus", problem, self.gpus))
        if not faults and (self.gpus // self.pp) % self.ep:
            problem = f"expected a divisor of the {self.gpus // self.pp} GPUs of a stage"
            faults.append(Fault("deployment", "ep", problem, self.ep))
        if not faults:
            faults += self._too_many_ranks()
        if faults:
            raise InputError(faults)

    @cached_property
    def _heads(self) -> list[int]:
        """Query heads of the model's attention and recurrent blocks, rising."""
        found = {getattr(b, "q_heads", None) or getattr(b, "heads", None) for b in self.model.blocks.values()}
        return sorted(n for n in found if n)

    def _too_many_ranks(self) -> list[Fault]:
        """Name a tensor parallelism of more ranks than the model has heads."""
        if not self._heads or self.ranks <= self._heads[-1]:
            return []
        return [Fault("deployment", "tp", f"expected at most the model's {self._heads[-1]} heads", self.ranks)]

    def _divide(self) -> None:
        """Choose the tensor parallelism that is left to choose: within a scale-up domain, stages across domains."""
        left = max(1, self.gpus // max(1, self.dp * self.pp * self.cp))
        domain = self.hardware.scaleup_domain or self.hardware.gpus_per_node or left
        inside = next(n for n in range(min(left, max(1, domain)), 0, -1) if left % n == 0)
        if self.pp == 1:
            object.__setattr__(self, "pp", left // inside)
            left = inside
        object.__setattr__(self, "tp", left)

    @property
    def ranks(self) -> int:
        """Tensor-parallel ranks of one attention group."""
        return self.tp or 1

    @property
    def stage_gpus(self) -> int:
        """GPUs of one pipeline stage."""
        return self.gpus // self.pp

    @cached_property
    def options(self) -> KvOptions:
        """Data types of the cache."""
        engine = "vllm" if "vllm" in self.engine.lower() else "sglang"
        return KvOptions(kv_dtype=self.kv_dtype, engine=engine)

    @cached_property
    def stored(self) -> dict[str, Stored]:
        """How each component of the weights is stored and multiplied."""
        return stored_weights(self.model, self.weights_dtype, self.hardware, self.engine)

    @cached_property
    def layout(self) -> Layout:
        """What one GPU holds and multiplies."""
        kv, state = kv_dtype_of(self.model, self.options), state_dtype_of(self.model, self.options)
        return lay_out(self.model, self.stored, kv, state, self.ranks)

    @cached_property
    def rates(self) -> Rates:
        """What one GPU reaches."""
        domain = self.hardware.neighbours
        several = self.stage_gpus > 1
        return rates_of(self.hardware, linked=several and domain > 1, networked=several and self.stage_gpus > domain)

    def beyond_domain(self, ranks: int) -> bool:
        """Say whether that many ranks need the network."""
        return ranks > self.hardware.neighbours

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What the reader of an estimate must know: fallbacks and constants taken from elsewhere."""
        notes = []
        uneven = [n for n in self._heads if n % self.ranks]
        if uneven:
            notes.append(
                f"TP {self.ranks} does not divide the model's {uneven[0]} heads; engines pad them, here they are not"
            )
        for name, kept in self.stored.items():
            if name == "experts" and not self.layout.experts:
                continue
            if kept.dtype == "bf16" and kept.format not in ("bf16", "fp16", "fp32"):
                notes.append(
                    f"{name}: {kept.format} weights are expanded and multiplied in bf16 on {self.hardware.name}"
                )
        constants = self.hardware.efficiency
        if constants is not None and constants.family:
            whose = "generic" if constants.family == "generic" else f"the {constants.family} family's"
            notes.append(f"efficiencies are {whose} ({constants.basis})")
        if weak := [k for k in ("bf16_flops", "memory_bandwidth", "scaleup_bandwidth") if k in self.hardware.weak]:
            notes.append(f"poorly supported figures of {self.hardware.name}: {', '.join(weak)}")
        return tuple(notes)
