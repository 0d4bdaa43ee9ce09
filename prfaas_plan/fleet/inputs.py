"""From a scenario to a fleet: service times, prices, power, who may be served where, and the periods of the day."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from prfaas_plan.case import scenario_model
from prfaas_plan.catalog import load_hardware
from prfaas_plan.errors import Fault, InfeasibleError, InputError, ProfileNotFoundError, ScenarioError
from prfaas_plan.fleet.case import FleetCase, Limits, State, Station, Traffic, Wire, connect
from prfaas_plan.inventory import Cluster, Demand, DemandTable, Link, Period, Slo
from prfaas_plan.kv_cache import KvOptions, describe_options, memory_curve, wire_curve
from prfaas_plan.link_use import rule_of
from prfaas_plan.model import ModelProfile
from prfaas_plan.numerics import Curve
from prfaas_plan.scenario import AT_MEAN_LENGTH, Scenario
from prfaas_plan.services import Services
from prfaas_plan.throughput import decode_rate
from prfaas_plan.units import GBPS
from prfaas_plan.workload import Workload

__all__ = ["fleet_case"]

Folders = Sequence[str | Path]
_GBIT = 8e-9
_MOST_PERCENT = 99.9
_WHOLE_DAY = Period("", 24.0)


@dataclass(slots=True)
class _Reading:
    scenario: Scenario
    model: ModelProfile
    folders: Folders
    objective: str
    faults: list[Fault] = field(default_factory=list)
    too_slow: list[InfeasibleError] = field(default_factory=list)
    sources: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    remarks: dict[str, None] = field(default_factory=dict)

    @property
    def where(self) -> str:
        return self.scenario.where or "scenario"

    def note(self, role: str, cluster: str, source: str, more: Sequence[str]) -> None:
        """Remember once where a service time comes from."""
        names = self.sources.setdefault((role, source.rstrip(".")), [])
        if cluster not in names:
            names.append(cluster)
        self.remarks |= dict.fromkeys(more)

    @property
    def notes(self) -> list[str]:
        """Where the service times come from, clusters with the same source together."""
        sources = [f"{role} at {', '.join(names)}: {source}." for (role, source), names in self.sources.items()]
        return [*sources, *self.remarks]

    def services(self, slo: Slo) -> Services:
        return Services(replace(self.scenario, slo=slo), self.model, self.folders)

    def memory(self) -> Curve:
        kv = self.scenario.kv
        return memory_curve(self.model, options=KvOptions(kv.dtype, kv.engine, kv.state_dtype))


def fleet_case(scenario: Scenario, profiles: Folders = (), objective: str | None = None) -> FleetCase:
    """Look up everything a fleet is planned from.

    Raises `ScenarioError` with every missing price, power or service time, `InfeasibleError` where no cluster can
    decode a demand within its promise.
    """
    model = scenario_model(scenario, profiles)
    reading = _Reading(scenario, model, profiles, objective or scenario.objective)
    stations = tuple(_station(reading, c) for c in scenario.cluster)
    wires = tuple(_wire(x) for x in scenario.link)
    traffic, weights = _traffic(reading, stations)
    if reading.faults:
        raise ScenarioError(reading.faults)
    docks, routes = connect(stations, wires)
    limits = Limits(scenario.budget_usd_per_hour, scenario.power_cap_w, scenario.switching_cost)
    return FleetCase(
        name=scenario.name,
        stations=stations,
        wires=wires,
        traffic=traffic,
        docks=docks,
        routes=routes,
        states=_states(scenario, weights),
        limits=limits,
        objective=reading.objective,
        notes=tuple(_notes(reading)),
    )


def _notes(reading: _Reading) -> list[str]:
    kv = reading.scenario.kv
    lines = describe_options(reading.model, KvOptions(kv.dtype, kv.engine, kv.state_dtype))
    if reading.scenario.service_time == AT_MEAN_LENGTH:
        lines.append("Capacities are from the mean service time; a fleet is not planned at the mean length.")
    return [*lines, *reading.notes]


def _station(reading: _Reading, cluster: Cluster) -> Station:
    prefills = cluster.role != "decode"
    return Station(
        name=cluster.name,
        place=cluster.place,
        accelerator=cluster.accelerator,
        gpus=cluster.gpus_per_instance,
        prefills=prefills,
        decodes=cluster.role != "prefill",
        fewest=cluster.fewest,
        most=cluster.most,
        seconds=_seconds(reading, cluster) if prefills else None,
        usd_per_hour=_price(reading, cluster),
        watts=_power(reading, cluster) * cluster.gpus_per_instance,
    )


def _seconds(reading: _Reading, cluster: Cluster) -> Curve:
    try:
        service = reading.services(reading.scenario.slo).prefill(cluster)
        reading.note("Prefill", cluster.name, service.source, service.notes)
        return service.seconds
    except InputError as error:
        reading.faults.extend(error.faults)
        return Curve.polynomial(math.inf)


def _price(reading: _Reading, cluster: Cluster) -> float:
    price = cluster.usd_per_instance_hour
    if price is None and (reading.objective == "cost" or reading.scenario.budget_usd_per_hour is not None):
        problem = "missing; a budget or the least cost needs every price [USD/h] (the least gpus or power needs none)"
        reading.faults.append(Fault(reading.where, f"cluster.{cluster.name}.price_usd_per_gpu_hour", problem))
    return price or 0.0


def _power(reading: _Reading, cluster: Cluster) -> float:
    if cluster.power_w_per_gpu is not None:
        return cluster.power_w_per_gpu
    needed = reading.objective == "power" or reading.scenario.power_cap_w is not None
    try:
        hardware = load_hardware(
            cluster.accelerator, reading.folders, where=reading.where, key=f"cluster.{cluster.name}.accelerator"
        )
        return hardware.need("power_w") if needed else hardware.power_w or 0.0
    except InputError as error:
        if needed:
            key = f"cluster.{cluster.name}.power_w_per_gpu"
            problem = f"missing, and the profile of {cluster.accelerator} has no power_w either; expected watts [W]"
            faults = error.faults if isinstance(error, ProfileNotFoundError) else [Fault(reading.where, key, problem)]
            reading.faults.extend(faults)
        return 0.0


def _wire(link: Link) -> Wire:
    """Describe a link; a transport that limits it is evaluated at the largest rate the link may have."""
    widest = replace(link, bandwidth_gbps=link.most_gbps)
    finite = 0.0 < link.most_gbps < math.inf
    usable = rule_of(widest).bytes_per_s / (link.most_gbps * GBPS) if finite else link.usable_fraction
    return Wire(
        name=link.name,
        origin=link.origin,
        destination=link.destination,
        least_gbps=link.least_gbps,
        most_gbps=link.most_gbps,
        usable=usable,
        rtt_s=link.rtt_ms / 1e3,
        usd_per_gbps_hour=link.usd_per_gbps_hour,
        usd_per_port_hour=link.usd_per_port_hour,
        usd_per_gb=link.usd_per_gb or 0.0,
    )


def _traffic(reading: _Reading, stations: Sequence[Station]) -> tuple[tuple[Traffic, ...], list[list[str]]]:
    """Give the kinds of traffic, demands that are alike in everything being one, and the demands of each kind."""
    demands = reading.scenario.demand or (Demand(DemandTable(origin=""), None),)
    kinds: dict[object, tuple[Traffic, list[str]]] = {}
    for demand in demands:
        kind = _kind(reading, demand, stations)
        if kind is not None:
            alike = replace(kind, name="", origins=())
            found = kinds.setdefault(alike, (kind, []))
            found[1].append(demand.name)
    named = [replace(kind, name="+".join(names) or "all", origins=tuple(names)) for kind, names in kinds.values()]
    return tuple(named), [names for _, names in kinds.values()]


def _kind(reading: _Reading, demand: Demand, stations: Sequence[Station]) -> Traffic | None:
    scenario, table = reading.scenario, demand.table
    workload = demand.workload or scenario.workload
    if workload is None:
        reading.faults.append(Fault(reading.where, "workload", "missing"))
        return None
    slo = _with_one_promise(reading, table.slo or scenario.slo)
    steps = [_decode(reading, c, slo, workload, _allowed(c, table.decode_at)) for c in scenario.cluster]
    if not any(steps) and not reading.faults:
        raise _nobody_decodes(reading, demand)
    kv = scenario.kv
    return Traffic(
        name=demand.name,
        origins=(demand.name,),
        law=workload.law,
        output_tokens=workload.output_tokens,
        kv_gbit=wire_curve(reading.model, options=KvOptions(kv.dtype, kv.engine, kv.state_dtype)).scaled(_GBIT),
        decode_seconds=tuple(s[0] if s else None for s in steps),
        prefill_longest=tuple(
            _longest(reading, c) if s.prefills and _allowed(c, table.prefill_at) else 0.0
            for c, s in zip(scenario.cluster, stations, strict=True)
        ),
        ttft_s=slo.ttft_s or math.inf,
        late_share=1.0 - slo.ttft_percentile / 100.0 if slo.ttft_s else 0.0,
        step_seconds=tuple(s[1] if s else None for s in steps),
        loaded=slo.ttft_s is not None and slo.ttft_load == "loaded",
        arrival_cv=workload.arrival_cv,
    )


def _with_one_promise(reading: _Reading, slo: Slo) -> Slo:
    """Read ``ttft_p90_s`` as the time to first token of 90 % of the requests, waits included."""
    if slo.ttft_p90_s is not None:
        if slo.ttft_s is not None:
            reading.faults.append(Fault(reading.where, "slo", "give either ttft_s or ttft_p90_s, not both"))
        return replace(slo, ttft_s=slo.ttft_p90_s, ttft_percentile=90.0, ttft_load="loaded", ttft_p90_s=None)
    if slo.ttft_load == "loaded" and slo.ttft_s is not None and slo.ttft_percentile > _MOST_PERCENT:
        problem = f"expected at most {_MOST_PERCENT:g} with ttft_load = 'loaded': some request always waits longer"
        reading.faults.append(Fault(reading.where, "slo.ttft_percentile", problem, slo.ttft_percentile))
    return slo


def _allowed(cluster: Cluster, places: Sequence[str]) -> bool:
    return not places or cluster.name in places or cluster.place in places


def _decode(
    reading: _Reading, cluster: Cluster, slo: Slo, workload: Workload, allowed: bool
) -> tuple[float, float] | None:
    """Give the instance-seconds and the step time of decoding one request, or ``None`` where it cannot be."""
    if cluster.role == "prefill" or not allowed:
        return None
    try:
        context = workload.law.mean + workload.output_tokens / 2.0
        service = reading.services(slo).decode(cluster, context)
    except InfeasibleError as error:
        reading.too_slow.append(error)
        return None
    except InputError as error:
        reading.faults.extend(f for f in error.faults if f not in reading.faults)
        return None
    reading.note("Decode", cluster.name, service.source, service.notes)
    batch = service.batch
    if cluster.kv_memory_gb is not None:
        batch = min(batch, int(cluster.kv_memory_gb * 1e9 / reading.memory()(context)))
    if batch < 1:
        problem = f"the KV cache of one request of mean length does not fit into {cluster.kv_memory_gb:g} GB"
        reading.too_slow.append(InfeasibleError(f"at {cluster.name} {problem}"))
        return None
    return 1.0 / decode_rate(1, batch, service.step_seconds, workload.output_tokens), service.step_seconds


def _longest(reading: _Reading, cluster: Cluster) -> float:
    """Give the longest request [token] whose KV cache fits into an instance that prefills it."""
    if cluster.kv_memory_gb is None:
        return math.inf
    return reading.memory().inverse(cluster.kv_memory_gb * 1e9, 0.0, 1e9)


def _nobody_decodes(reading: _Reading, demand: Demand) -> InfeasibleError:
    if reading.too_slow:
        return reading.too_slow[0]
    places = ", ".join(demand.table.decode_at) or "any place"
    return InfeasibleError(
        f"no cluster decodes requests of {demand.name or 'the workload'} at {places}",
        "a cluster of role 'decode' or 'pd' there would help",
    )


def _states(scenario: Scenario, names: Sequence[Sequence[str]]) -> tuple[State, ...]:
    """Give the periods with the rates of each kind of traffic, the busiest period having a total of 1."""
    base = {d.name: d.weight for d in scenario.demand} or {"": 1.0}
    tables = []
    for period in scenario.period or (_WHOLE_DAY,):
        own = period.rates or {}
        rates = {name: own.get(name, weight * period.rate_multiplier) for name, weight in base.items()}
        tables.append([sum(rates[n] for n in kind) for kind in names])
    busiest = max(sum(rates) for rates in tables)
    if busiest <= 0.0:
        raise ScenarioError(Fault(scenario.where or "scenario", "period", "no period has any requests"))
    periods = scenario.period or (_WHOLE_DAY,)
    return tuple(
        State(p.name, p.hours, tuple(r / busiest for r in rates), i)
        for i, (p, rates) in enumerate(zip(periods, tables, strict=True))
    )
