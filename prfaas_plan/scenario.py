"""A scenario: which model, which traffic, which clusters and links, and what the service promises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from prfaas_plan.as_mapping import mapping_of
from prfaas_plan.errors import Fault, InputError, ScenarioError, nearest
from prfaas_plan.inventory import (
    LINK_EFFICIENCY,
    Cluster,
    Demand,
    Link,
    Period,
    Slo,
    check_inventory,
    read_demands,
    read_periods,
)
from prfaas_plan.measured import MeasuredProfile, measured_from_mapping
from prfaas_plan.overrides import apply_overrides, set_path
from prfaas_plan.profiles import is_file, list_toml, load_toml, shipped_folder
from prfaas_plan.records import Reader, part, quantity, read_record, text
from prfaas_plan.workload import Workload, read_workload

__all__ = [
    "LINK_EFFICIENCY",
    "Cluster",
    "Demand",
    "KvSettings",
    "Link",
    "Period",
    "Scenario",
    "Slo",
    "as_scenario",
    "load_scenario",
    "scenario_from_mapping",
]

AT_MEAN_LENGTH = "at-mean-length"
MEAN_SERVICE_TIME = "mean"

OBJECTIVES = ("throughput", "cost", "power", "gpus")


@dataclass(frozen=True, slots=True)
class KvSettings:
    """Data types of the KV cache and the recurrent state."""

    dtype: str | None = text("KV data type; absent for the model's default", choices=("bf16", "fp8"), default=None)
    engine: str = text("engine whose defaults apply", choices=("sglang", "vllm"), default="sglang")
    state_dtype: str | None = text("recurrent state data type", choices=("fp32", "bf16"), default=None)


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything a plan is made from."""

    name: str = text("name of the scenario")
    model: str = text("model profile id, alias, or path to a profile or config.json")
    description: str = text("what the scenario stands for", default="")
    service_time: str = text(
        "capacity from the mean service time, or (as arXiv 2604.15039 does) from the service time at the mean length",
        choices=(MEAN_SERVICE_TIME, AT_MEAN_LENGTH),
        default=MEAN_SERVICE_TIME,
    )
    slo: Slo = part("promises", default=Slo())
    kv: KvSettings = part("KV data types", default=KvSettings())
    cluster: tuple[Cluster, ...] = part("clusters", default=())
    link: tuple[Link, ...] = part("links between clusters", default=())
    objective: str = text("what the fleet is planned for", choices=OBJECTIVES, default=OBJECTIVES[0])
    load: float | None = quantity(
        "fraction", "share of the largest rate at which latency is given too", above=0, at_most=0.999, default=None
    )
    budget_usd_per_hour: float | None = quantity("USD/h", "most the fleet may cost", at_least=0, default=None)
    power_cap_w: float | None = quantity("W", "most the fleet may draw", at_least=0, default=None)
    switching_cost: float = quantity("USD", "cost of one instance changing its role", at_least=0, default=0.0)
    workload: Workload | None = None
    demand: tuple[Demand, ...] = ()
    period: tuple[Period, ...] = ()
    measured: tuple[MeasuredProfile, ...] = ()
    where: str = ""
    overridden: tuple[str, ...] = ()
    """Dotted paths of the keys that were overridden."""

    def cluster_named(self, name: str) -> Cluster:
        """Find a cluster by name."""
        return next(c for c in self.cluster if c.name == name)

    @property
    def is_fleet(self) -> bool:
        """Whether more is asked for than the threshold and the split of one remote and one local cluster."""
        decoding = [c for c in self.cluster if c.role != "prefill"]
        prefills = len(self.cluster) - len(decoding)
        return bool(self.fleet_keys) or (len(decoding), prefills) not in ((1, 0), (1, 1))

    @property
    def fleet_keys(self) -> tuple[str, ...]:
        """The keys that only the plan of a fleet follows."""
        asked = {
            "demand": self.demand,
            "period": self.period,
            "objective": self.objective != OBJECTIVES[0],
            "budget_usd_per_hour": self.budget_usd_per_hour is not None,
            "power_cap_w": self.power_cap_w is not None,
            "slo.ttft_s": self.slo.ttft_s is not None,
        }
        sizes = {f"cluster.{c.name}.max": c.max is not None for c in self.cluster}
        roles = {f"cluster.{c.name}.role": c.role == "free" for c in self.cluster}
        rates = {f"link.{i}.bandwidth_gbps_max": x.bandwidth_gbps_max is not None for i, x in enumerate(self.link)}
        return tuple(key for key, wanted in (asked | sizes | roles | rates).items() if wanted)

    def replace(self, path: str, value: object) -> Scenario:
        """Give the same scenario with one key changed, checked as its file would be.

        Raises `ScenarioError` with every fault that the change causes.

        >>> load_scenario().replace("link.0.bandwidth_gbps", 10).link[0].bandwidth_gbps
        10.0
        """
        data = mapping_of(self)
        try:
            place = set_path(data, path, value)
        except KeyError as error:
            problem, suggestion = error.args
            raise ScenarioError(Fault(self.where or self.name, path, problem, None, suggestion)) from None
        try:
            changed = scenario_from_mapping(data, self.where, [place])
        except ScenarioError as error:
            raise ScenarioError([replace(fault, where=self.where or self.name) for fault in error.faults]) from None
        return replace(changed, measured=changed.measured or self.measured, overridden=self.overridden)

    def link_between(self, origin: str, destination: str) -> Link | None:
        """Find the link between two clusters, if there is one."""
        ends = (origin, destination)
        return next((x for x in self.link if (x.origin, x.destination) == ends), None)

    def place(self, key: str) -> str:
        """Where a key was given: ``--set`` where it was overridden, else the scenario's file."""
        given = any(key == path or key.startswith(path + ".") for path in self.overridden)
        return "--set" if given else self.where or "scenario"

    def fault(self, key: str, problem: str, value: object = None) -> Fault:
        """Make a fault of one key."""
        return Fault(self.place(key), key, problem, value)

    @property
    def folder(self) -> Path:
        """Folder that relative paths in the scenario start from."""
        return Path(self.where).parent if self.where else Path()


def load_scenario(name: str | Path = "case-study", overrides: Sequence[str] = ()) -> Scenario:
    """Load a scenario from a TOML file, or a shipped one by name, with ``PATH=VALUE`` overrides applied.

    Raises `ScenarioError` with every fault.
    """
    path = _find_scenario(str(name))
    data = load_toml(path, ScenarioError)
    overridden = apply_overrides(data, overrides)
    return scenario_from_mapping(data, str(path), overridden)


def as_scenario(scenario: Scenario | str | Path) -> Scenario:
    """Take a scenario, or load it by its name or path.

    One that was made in code is checked as its file would be. Raises as `load_scenario` does.

    >>> as_scenario("case-study").name
    'case-study'
    """
    if not isinstance(scenario, Scenario):
        return load_scenario(scenario)
    if not scenario.where:
        scenario_from_mapping(mapping_of(scenario), scenario.name)
    return scenario


def shipped_scenarios() -> dict[str, Path]:
    """List the scenarios shipped with the package by name."""
    return list_toml(shipped_folder("scenarios"))


def _find_scenario(name: str) -> Path:
    shipped = shipped_scenarios()
    if name in shipped:
        return shipped[name]
    path = Path(name)
    if is_file(path):
        return path
    problem = "no such scenario file, and no shipped scenario of this name"
    raise ScenarioError(Fault("SCENARIO", "", problem, name, nearest(name, shipped)))


def scenario_from_mapping(data: Mapping[str, Any], where: str = "", overridden: Sequence[str] = ()) -> Scenario:
    """Check and build a scenario from the keys of its TOML file.

    The path of a trace is relative to the scenario's folder, or to the current one where it was overridden.
    Raises `ScenarioError` with every fault; a fault in an overridden key names ``--set``.
    """
    reader = Reader(where or "scenario")
    own = ("workload", "demand", "period", "measured")
    body = {key: value for key, value in data.items() if key not in own}
    scenario = read_record(Scenario, body, reader)
    folder = Path(where).parent if where else Path()
    workload = None
    if "workload" in data:
        here = Path() if any(key.startswith("workload") for key in overridden) else folder
        workload = read_workload(data["workload"], reader, "workload", here)
    demand = read_demands(data.get("demand", ()), reader, folder)
    period = read_periods(data.get("period", ()), reader)
    if "workload" not in data and (not demand or any(d.workload is None for d in demand)):
        reader.fault("workload", "missing; expected a table with input_tokens and output_tokens")
    measured = tuple(_read_measured(data.get("measured", ()), reader))
    if scenario is not None:
        scenario = replace(scenario, demand=demand, period=period)
        _check_names(scenario, data, reader)
    for index, fault in enumerate(reader.faults):
        if any(fault.key == key or fault.key.startswith(key + ".") for key in overridden):
            reader.faults[index] = replace(fault, where="--set")
    reader.finish(ScenarioError)
    if scenario is None:
        raise ScenarioError(Fault(reader.where, "", "cannot be read as a scenario"))
    return replace(scenario, workload=workload, measured=measured, where=where, overridden=tuple(overridden))


def _read_measured(tables: object, reader: Reader) -> Iterator[MeasuredProfile]:
    if not isinstance(tables, (list, tuple)):
        reader.fault("measured", "expected a list of tables [[measured]]", tables)
        return
    for index, table in enumerate(tables):
        path = f"measured.{index}"
        if not isinstance(table, Mapping):
            reader.fault(path, "expected a table", table)
            continue
        try:
            yield measured_from_mapping(table, reader.where, path, path)
        except InputError as error:
            reader.faults.extend(error.faults)


def _check_names(scenario: Scenario, data: Mapping[str, Any], reader: Reader) -> None:
    names = [c.name for c in scenario.cluster]
    if not names:
        reader.fault("cluster", "missing; expected one or more tables [[cluster]]")
    for name in sorted({n for n in names if names.count(n) > 1}):
        reader.fault("cluster", "two clusters have this name", name)
    if names:
        check_inventory(data, scenario.cluster, scenario.link, reader)
    _check_demands(scenario, reader)
    if scenario.slo.tpot_s is not None and scenario.slo.tokens_per_second is not None:
        reader.fault("slo", "give either tpot_s or tokens_per_second, not both")


def _check_demands(scenario: Scenario, reader: Reader) -> None:
    names = [d.name for d in scenario.demand]
    places = list(dict.fromkeys([*(c.name for c in scenario.cluster), *(c.site for c in scenario.cluster if c.site)]))
    for index, demand in enumerate(scenario.demand):
        if names.count(demand.name) > 1:
            reader.fault(f"demand.{index}.name", "two demands have this name", demand.name)
        if (demand.table.rate_rps is None) != (scenario.demand[0].table.rate_rps is None):
            reader.fault(f"demand.{index}", "give every demand a rate_rps, or every demand a share")
        for key, wanted in (("decode_at", demand.table.decode_at), ("prefill_at", demand.table.prefill_at)):
            for place in wanted:
                if place not in places:
                    problem = "no cluster or site has this name"
                    reader.fault(f"demand.{index}.{key}", problem, place, nearest(place, places))
    for index, period in enumerate(scenario.period):
        for name in period.rates or {}:
            if name not in names:
                reader.fault(f"period.{index}.rates.{name}", "no demand has this name", None, nearest(name, names))
