"""What a fleet consists of and is asked for: promises, clusters, links, demands and periods of the day."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prfaas_plan.errors import nearest
from prfaas_plan.records import Reader, part, quantity, read_record, text
from prfaas_plan.units import GBPS
from prfaas_plan.workload import Workload, read_workload

__all__ = ["LINK_EFFICIENCY", "Cluster", "Demand", "Link", "Period", "Slo", "check_inventory", "read_demands"]

LINK_EFFICIENCY = 0.87
"""Share of a link's nominal rate that KV transfers reach where a scenario does not say: 87 of 100 Gbit/s were
measured in kvcache-ai/Mooncake#434 (190 of 400 GB/s on another fabric there)."""

HOURS_PER_MONTH = 730.0
HOURS_PER_YEAR = 8760.0


@dataclass(frozen=True, slots=True)
class Slo:
    """What a request is promised."""

    tokens_per_second: float | None = quantity("token/s", "output speed of one request", above=0, default=None)
    tpot_s: float | None = quantity("s", "time per output token", symbol="T_decode", above=0, default=None)
    ttft_s: float | None = quantity("s", "time to first token", symbol="TTFT", above=0, default=None)
    ttft_p90_s: float | None = quantity(
        "s", "time to first token that 90 % of the requests keep under load", above=0, default=None
    )
    ttft_percentile: float = quantity(
        "%", "share of the requests that must meet the time to first token", above=0, at_most=100, default=100.0
    )
    ttft_load: str = text(
        "whether the time to first token is that of idle machines, or includes the wait for a free instance",
        choices=("idle", "loaded"),
        default="idle",
    )

    @property
    def step_seconds(self) -> float | None:
        """Longest decode step [s] that keeps the promise; ``None`` where nothing is promised."""
        if self.tpot_s is not None:
            return self.tpot_s
        return 1.0 / self.tokens_per_second if self.tokens_per_second else None


def _ways(doc: str, default: Any = 1) -> Any:
    return quantity("1", doc + " (roofline)", at_least=1, at_most=1e6, default=default)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Instances of one accelerator at one site, and what they may do."""

    name: str = text("name of the cluster")
    role: str = text(
        "'pd' (or 'free') is split between prefill and decode by the plan",
        choices=("prefill", "decode", "pd", "free"),
    )
    accelerator: str = text("hardware profile id or alias")
    gpus_per_instance: int = quantity("1", "accelerators of one instance", symbol="P", at_least=1, at_most=1e6)
    instances: int = quantity(
        "1", "instances of the cluster, where their number is given", symbol="N", at_least=0, at_most=1e6, default=0
    )
    min: int | None = quantity("1", "fewest instances, where the plan chooses", at_least=0, at_most=1e6, default=None)
    max: int | None = quantity("1", "most instances, where the plan chooses", at_least=0, at_most=1e6, default=None)
    price_usd_per_gpu_hour: float | None = quantity("USD/h", "price of one accelerator", at_least=0, default=None)
    capital_usd_per_gpu: float | None = quantity(
        "USD", "purchase of one accelerator, paid off over amortisation_years, beside the price by the hour",
        at_least=0, default=None,
    )  # fmt: skip
    amortisation_years: float | None = quantity("year", "time a purchase is paid off over", above=0, default=None)
    power_w_per_gpu: float | None = quantity(
        "W", "power of one accelerator with its share of the server; the hardware profile's where absent",
        at_least=0, default=None,
    )  # fmt: skip
    kv_memory_gb: float | None = quantity("GB", "memory of one instance left for KV caches", above=0, default=None)
    site: str = text("datacenter; clusters of one site need no link", default="")
    measured: str | None = text("measured profile to use, by id or path", default=None)
    tp: int | None = _ways("tensor-parallel ranks; absent for all GPUs that dp, pp and cp leave", default=None)
    ep: int = _ways("ranks the experts are divided over by expert")
    dp: int = _ways("groups that run the attention of their own sequences")
    pp: int = _ways("pipeline stages")
    cp: int = _ways("ranks that share one prompt")
    weights_dtype: str | None = text("data type of the weights; absent for the published checkpoint", default=None)
    request_overhead_s: float | None = quantity(
        "s", "fixed time of one prefill request, where a roofline gives the times; absent for the typical one",
        at_least=0, default=None,
    )  # fmt: skip

    @property
    def gpus(self) -> int:
        """Accelerators of the whole cluster."""
        return self.instances * self.gpus_per_instance

    @property
    def place(self) -> str:
        """The site, or the cluster itself where it has none."""
        return self.site or self.name

    @property
    def fewest(self) -> int:
        """Fewest instances a plan may use."""
        return self.instances if self.max is None else self.min or 0

    @property
    def most(self) -> int:
        """Most instances a plan may use."""
        return self.instances if self.max is None else self.max

    @property
    def usd_per_instance_hour(self) -> float | None:
        """Price of one instance-hour [USD], amortised purchase included; ``None`` if no price is given."""
        if self.price_usd_per_gpu_hour is None and self.capital_usd_per_gpu is None:
            return None
        hourly = self.price_usd_per_gpu_hour or 0.0
        if self.capital_usd_per_gpu is not None and self.amortisation_years:
            hourly += self.capital_usd_per_gpu / (self.amortisation_years * HOURS_PER_YEAR)
        return hourly * self.gpus_per_instance


@dataclass(frozen=True, slots=True)
class Link:
    """A network link that carries KV caches from where a prompt is prefilled to where it is decoded."""

    origin: str = text("cluster or site that prefills", key="from")
    destination: str = text("cluster or site that decodes", key="to")
    bandwidth_gbps: float = quantity(
        "Gbit/s", "nominal rate of the link", symbol="B_out", at_least=0, may_be_infinite=True, default=0.0
    )
    bandwidth_gbps_min: float = quantity("Gbit/s", "least rate, where the plan chooses it", at_least=0, default=0.0)
    bandwidth_gbps_max: float | None = quantity("Gbit/s", "most, where the plan chooses it", at_least=0, default=None)
    efficiency: float = quantity(
        "fraction", "share of the nominal rate that transfers reach", above=0, at_most=1, default=LINK_EFFICIENCY
    )
    loss: float = quantity(
        "fraction", "share of the packets sent again; a rate-based transport loses as much", at_least=0, at_most=0.5,
        default=0.0,
    )  # fmt: skip
    rtt_ms: float = quantity("ms", "round trip, part of the time to first token", at_least=0, default=0.0)
    congestion: str | None = text(
        "congestion control of the transfers; absent to trust the efficiency alone",
        choices=("reno", "cubic", "bbr", "bbr1"), default=None,
    )  # fmt: skip
    connections: int = quantity("1", "parallel connections", at_least=1, at_most=1e6, default=64)
    mtu_bytes: int = quantity("B", "largest IP packet", at_least=576, at_most=65535, default=1500)
    price_usd_per_gbps_month: float | None = quantity("USD", "price of 1 Gbit/s for a month", at_least=0, default=None)
    port_usd_per_month: float | None = quantity("USD", "price of the port, whatever its rate", at_least=0, default=None)
    usd_per_gb: float | None = quantity("USD", "price of 1 GB (1e9 B) carried", at_least=0, default=None)

    @property
    def name(self) -> str:
        """The two ends of the link in one word."""
        return f"{self.origin}-{self.destination}"

    @property
    def usable_fraction(self) -> float:
        """Share of the nominal rate that carries KV caches [1]."""
        return self.efficiency * (1.0 - self.loss)

    @property
    def usable_bytes_per_s(self) -> float:
        """Rate at which KV caches cross the link [B/s]."""
        return self.bandwidth_gbps * self.usable_fraction * GBPS

    @property
    def least_gbps(self) -> float:
        """Least nominal rate a plan may use [Gbit/s]."""
        return self.bandwidth_gbps if self.bandwidth_gbps_max is None else self.bandwidth_gbps_min

    @property
    def most_gbps(self) -> float:
        """Largest nominal rate a plan may use [Gbit/s]."""
        return self.bandwidth_gbps if self.bandwidth_gbps_max is None else self.bandwidth_gbps_max

    @property
    def usd_per_gbps_hour(self) -> float:
        """Price of 1 Gbit/s for an hour [USD], a month having 730 hours."""
        return (self.price_usd_per_gbps_month or 0.0) / HOURS_PER_MONTH

    @property
    def usd_per_port_hour(self) -> float:
        """Price of the port for an hour [USD], a month having 730 hours."""
        return (self.port_usd_per_month or 0.0) / HOURS_PER_MONTH


@dataclass(frozen=True, slots=True)
class DemandTable:
    """The keys of ``[[demand]]`` beside its lengths."""

    origin: str = text("site or region the requests come from")
    name: str = text("name of the demand; its origin where absent", default="")
    rate_rps: float | None = quantity("req/s", "request rate", above=0, default=None)
    share: float | None = quantity("1", "share of all requests; shares need not add up to 1", above=0, default=None)
    decode_at: tuple[str, ...] = text("sites or clusters where decode may happen; anywhere if absent", default=())
    prefill_at: tuple[str, ...] = text("sites or clusters where prefill may happen; anywhere if absent", default=())
    slo: Slo | None = part("promises to this demand; the scenario's where absent", default=None)


@dataclass(frozen=True, slots=True)
class Demand:
    """Requests of one origin: how many, how long, what they are promised and where they may be served."""

    table: DemandTable
    workload: Workload | None
    """Lengths of this demand; ``None`` for those of the scenario."""

    @property
    def name(self) -> str:
        """Name of the demand; its origin where it has none."""
        return self.table.name or self.table.origin

    @property
    def weight(self) -> float:
        """Rate [req/s] or share [1], whichever is given."""
        return self.table.rate_rps or self.table.share or 1.0


@dataclass(frozen=True, slots=True)
class Period:
    """Hours of the day (or of any cycle) with their own request rates."""

    name: str = text("name of the period")
    hours: float = quantity("h", "length of the period", above=0)
    rate_multiplier: float = quantity("1", "request rates relative to those stated", at_least=0, default=1.0)
    rates: dict[str, float] | None = None
    """Rate (or share) of a demand in this period by its name, where it is not the stated one times the multiplier."""


def read_demands(data: object, reader: Reader, folder: Path) -> tuple[Demand, ...]:
    """Read the tables ``[[demand]]`` of a scenario; faults go to the reader."""
    if not isinstance(data, (list, tuple)):
        reader.fault("demand", "expected a list of tables [[demand]]", data)
        return ()
    found = []
    for index, table in enumerate(data):
        path = f"demand.{index}"
        if not isinstance(table, Mapping):
            reader.fault(path, "expected a table", table)
            continue
        own = {k: v for k, v in table.items() if k in ("input_tokens", "output_tokens")}
        demand = read_record(DemandTable, {k: v for k, v in table.items() if k not in own}, reader, path)
        workload = read_workload(own, reader, path, folder) if own else None
        if demand is not None:
            found.append(Demand(demand, workload))
    return tuple(found)


def read_periods(data: object, reader: Reader) -> tuple[Period, ...]:
    """Read the tables ``[[period]]`` of a scenario; faults go to the reader."""
    if not isinstance(data, (list, tuple)):
        reader.fault("period", "expected a list of tables [[period]]", data)
        return ()
    found = []
    for index, table in enumerate(data):
        body = dict(table) if isinstance(table, Mapping) else table
        rates = body.pop("rates", None) if isinstance(body, dict) else None
        period = read_record(Period, body, reader, f"period.{index}")
        if period is not None:
            checked = None if rates is None else _read_rates(rates, reader, f"period.{index}.rates")
            found.append(Period(period.name, period.hours, period.rate_multiplier, checked))
    return tuple(found)


def _read_rates(rates: object, reader: Reader, path: str) -> dict[str, float]:
    if not isinstance(rates, Mapping):
        reader.fault(path, "expected a table of rates by demand", rates)
        return {}
    for name, rate in rates.items():
        if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0.0 <= rate < math.inf:
            reader.fault(f"{path}.{name}", "expected a number of at least 0 [req/s]", rate)
    return {str(n): float(r) for n, r in rates.items() if isinstance(r, (int, float)) and math.isfinite(r)}


def check_inventory(
    data: Mapping[str, Any], clusters: Sequence[Cluster], links: Sequence[Link], reader: Reader
) -> None:
    """Check that sizes are given once, ranges rise, purchases are paid off and links join clusters or sites."""
    for index, cluster in enumerate(clusters):
        _check_size(f"cluster.{index}", data["cluster"][index], cluster, reader)
    names = list(dict.fromkeys([*(c.name for c in clusters), *(c.site for c in clusters if c.site)]))
    for index, link in enumerate(links):
        for key, end in (("from", link.origin), ("to", link.destination)):
            if end not in names:
                reader.fault(f"link.{index}.{key}", "no cluster has this name", end, nearest(end, names))
        if link.origin == link.destination:
            reader.fault(f"link.{index}", "joins a cluster with itself", link.origin)
        _check_bandwidth(f"link.{index}", data["link"][index], link, reader)


def _check_size(path: str, table: Mapping[str, Any], cluster: Cluster, reader: Reader) -> None:
    if ("instances" in table) == ("max" in table):
        problem = "missing; expected a whole number of at least 0 [1], or a range with min and max"
        reader.fault(f"{path}.instances", problem if "max" not in table else "give instances, or min and max, not both")
    if cluster.max is None and cluster.min is not None:
        reader.fault(f"{path}.max", "missing beside min")
    if cluster.max is not None and (cluster.min or 0) > cluster.max:
        reader.fault(f"{path}.min", f"above max = {cluster.max}", cluster.min)
    if (cluster.capital_usd_per_gpu is None) != (cluster.amortisation_years is None):
        reader.fault(path, "capital_usd_per_gpu and amortisation_years belong together")


def _check_bandwidth(path: str, table: Mapping[str, Any], link: Link, reader: Reader) -> None:
    if ("bandwidth_gbps" in table) == ("bandwidth_gbps_max" in table):
        problem = "missing; expected a number of at least 0 [Gbit/s], or a range with bandwidth_gbps_max"
        if "bandwidth_gbps" in table:
            problem = "give bandwidth_gbps, or a range with bandwidth_gbps_max, not both"
        reader.fault(f"{path}.bandwidth_gbps", problem)
    if link.bandwidth_gbps_max is not None and link.bandwidth_gbps_min > link.bandwidth_gbps_max:
        problem = f"above bandwidth_gbps_max = {link.bandwidth_gbps_max:g}"
        reader.fault(f"{path}.bandwidth_gbps_min", problem, link.bandwidth_gbps_min)
