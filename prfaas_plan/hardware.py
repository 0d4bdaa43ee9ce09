"""Accelerators: what a chip is said to reach, what a server of it looks like, and what it costs.

Here stand the figures of data sheets; the share of them that software reaches is an `Efficiency`
with sources of its own.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from prfaas_plan.efficiency import Efficiency
from prfaas_plan.errors import Fault, ProfileError, nearest
from prfaas_plan.profiles import Source, read_sources
from prfaas_plan.records import Reader, part, quantity, read_record, specs, text

__all__ = ["COMPUTE_DTYPES", "HardwareProfile", "Price", "hardware_from_mapping"]

COMPUTE_DTYPES: Final = ("bf16", "fp8", "fp4", "int8")
"""Data types a chip may multiply in; each has its own dense peak."""

_PEAK_KEYS: Final = {"bf16": "bf16_flops", "fp8": "fp8_flops", "fp4": "fp4_flops", "int8": "int8_flops"}


@dataclass(frozen=True, slots=True)
class Price:
    """One published price."""

    kind: str = text("what the price buys", choices=("rental", "owning", "purchase"))
    item: str = text("seller, market or product")
    amount: float = quantity("1", "price in the currency", above=0)
    currency: str = text("currency", choices=("USD", "CNY"))
    per: str = text("what the amount is for", choices=("gpu_hour", "gpu", "gpu_year", "server_month", "system"))
    gpus: int = quantity("1", "accelerators the amount covers", at_least=1, default=1)
    term: str = text("how long one commits, such as '3-yr reserved'", default="")
    date: str = text("when the price was seen", default="")
    weak: str = text("whether the price is poorly supported", choices=("yes", "no"), default="no")


@dataclass(frozen=True, slots=True)
class HardwareProfile:
    """One accelerator; a figure that is not known is absent."""

    name: str = text("name as its makers write it")
    vendor: str = text("maker")
    family: str = text("generation that shares kernels, and so efficiencies")
    status: str = text("whether it can be had", default="")
    aliases: tuple[str, ...] = text("other names it is found by", default=())
    year: int | None = quantity("1", "year of first shipment", at_least=2000, at_most=2100, default=None)
    bf16_flops: float | None = quantity("FLOP/s", "dense BF16 peak", above=0, default=None)
    fp8_flops: float | None = quantity("FLOP/s", "dense FP8 peak", above=0, default=None)
    fp4_flops: float | None = quantity("FLOP/s", "dense FP4 peak", above=0, default=None)
    int8_flops: float | None = quantity("FLOP/s", "dense INT8 peak", above=0, default=None)
    memory_kind: str = text("memory technology", default="")
    memory_bytes: float | None = quantity("B", "memory of one accelerator", above=0, default=None)
    memory_bandwidth: float | None = quantity("B/s", "peak memory bandwidth", above=0, default=None)
    scaleup_link: str = text("link between accelerators of one domain", default="")
    scaleup_bandwidth: float | None = quantity("B/s", "scale-up bandwidth of one GPU, one way", above=0, default=None)
    scaleup_domain: int | None = quantity("1", "accelerators in one scale-up domain", at_least=1, default=None)
    nic_bandwidth: float | None = quantity("B/s", "network bandwidth of one GPU, one way", above=0, default=None)
    tdp_w: float | None = quantity("W", "board power", above=0, default=None)
    power_w: float | None = quantity(
        "W", "power drawn from the site, server and facility share included", above=0, default=None
    )
    gpus_per_node: int | None = quantity("1", "accelerators in one server", at_least=1, default=None)
    weak: tuple[str, ...] = text("keys whose value is poorly supported", default=())
    note: str = text("base of the memory figure, conflicts, doubts", default="")
    price: tuple[Price, ...] = part("published prices", default=())
    efficiency: Efficiency | None = part("share of the peaks that software reaches", default=None)
    id: str = ""
    where: str = ""
    sources: tuple[Source, ...] = ()
    cited: tuple[tuple[str, str], ...] = ()

    @property
    def neighbours(self) -> int:
        """Accelerators that reach each other without the network: the scale-up domain, or the server if larger.

        Cards without a link of their own talk over PCIe within a server, which holds 8 where nothing is stated.
        """
        return max(self.scaleup_domain or 1, self.gpus_per_node or 8)

    def need(self, key: str) -> float:
        """Return a figure by its key, in base units.

        Raises `ProfileError` naming the profile and the key if the figure is not known.
        """
        value = getattr(self, key, None)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
        declared = specs(HardwareProfile)
        if key not in declared:
            raise ProfileError(Fault(self.where or self.id, key, "no such figure", suggestion=nearest(key, declared)))
        spec = declared[key][1]
        problem = f"not known for {self.name}; write it into a profile: {spec.expectation()}, {spec.doc}"
        raise ProfileError(Fault(self.where or self.id, key, problem))

    def peak_flops(self, dtype: str) -> float:
        """Return the dense peak of a data type [FLOP/s].

        Raises `ProfileError` if the chip has no known peak for it.
        """
        if dtype not in _PEAK_KEYS:
            problem = "expected one of " + ", ".join(_PEAK_KEYS)
            raise ProfileError(Fault(self.where or self.id, "dtype", problem, dtype, nearest(dtype, _PEAK_KEYS)))
        return self.need(_PEAK_KEYS[dtype])

    def has_peak(self, dtype: str) -> bool:
        """Say whether a dense peak is known for a data type."""
        return dtype in _PEAK_KEYS and getattr(self, _PEAK_KEYS[dtype]) is not None

    def hourly_usd(self, term: str = "on-demand") -> float:
        """Return the median published price of one accelerator-hour [USD].

        `term` is ``on-demand``, ``spot``, ``reserved`` or ``owned``. Raises `ProfileError` if no such price is known.
        """
        found = [
            p.amount / p.gpus for p in self.price if p.currency == "USD" and p.per == "gpu_hour" and term in p.term
        ]
        if not found:
            problem = f"no {term} price per GPU-hour in USD is known for {self.name}; state one in the scenario"
            raise ProfileError(Fault(self.where or self.id, "price", problem))
        return statistics.median(found)


def hardware_from_mapping(data: Mapping[str, Any], where: str, profile_id: str) -> HardwareProfile:
    """Check and build a hardware profile from the keys of its TOML file.

    Raises `ProfileError` with every fault in it.
    """
    sources = read_sources(data, where)
    reader = Reader(where)
    body = {key: value for key, value in data.items() if key not in ("sources", "id", "schema")}
    profile = read_record(HardwareProfile, body, reader)
    if profile is not None:
        _check(profile, reader)
    for path, source in reader.sources.items():
        if source not in sources:
            reader.fault(f"{path}.source", "no such source in [sources]", source, nearest(source, sources))
    reader.finish()
    if profile is None:
        raise ProfileError(Fault(where, "", "cannot be read as a hardware profile"))
    cited = tuple(sorted(reader.sources.items()))
    return replace(profile, id=profile_id, where=where, sources=tuple(sources.values()), cited=cited)


def _check(profile: HardwareProfile, reader: Reader) -> None:
    known = specs(HardwareProfile)
    for index, key in enumerate(profile.weak):
        if key not in known:
            reader.fault(f"weak.{index}", "is not a key of a hardware profile", key, nearest(key, known))
    limits = {"memory_bytes": (1e6, 1e14), "memory_bandwidth": (1e9, 1e17)}
    limits |= dict.fromkeys(_PEAK_KEYS.values(), (1e11, 1e18))
    limits |= dict.fromkeys(("scaleup_bandwidth", "nic_bandwidth"), (1e7, 1e15))
    for key, (low, high) in limits.items():
        value = getattr(profile, key)
        if value is not None and not low <= value <= high:
            unit = known[key][1].unit
            reader.fault(key, f"expected between {low:g} and {high:g} {unit}; is the unit right?", value)
