"""Size LLM serving across datacenters: prefill and decode fleets, offload threshold, bandwidth and cost.

>>> import prfaas_plan as pp
>>> pp.plan(pp.load_scenario("case-study")).threshold_tokens
19418
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from prfaas_plan import errors as errors
    from prfaas_plan.estimates import estimate_rows as estimate
    from prfaas_plan.fleet.planner import fleet_plan as fleet_plan
    from prfaas_plan.fleet.planner import size as size
    from prfaas_plan.json_schema import schema as schema
    from prfaas_plan.kv_table import kv as kv
    from prfaas_plan.planner import compare as compare
    from prfaas_plan.planner import plan as plan
    from prfaas_plan.reporting import report as report
    from prfaas_plan.scenario import Cluster as Cluster
    from prfaas_plan.scenario import KvSettings as KvSettings
    from prfaas_plan.scenario import Link as Link
    from prfaas_plan.scenario import Scenario as Scenario
    from prfaas_plan.scenario import Slo as Slo
    from prfaas_plan.scenario import load_scenario as load_scenario
    from prfaas_plan.simulation.simulate import simulate as simulate
    from prfaas_plan.whatif.sweeps import monte_carlo as monte_carlo
    from prfaas_plan.whatif.sweeps import pareto as pareto
    from prfaas_plan.whatif.sweeps import sweep as sweep
    from prfaas_plan.whatif.sweeps import tornado as tornado
    from prfaas_plan.workload import Constant as Constant
    from prfaas_plan.workload import Empirical as Empirical
    from prfaas_plan.workload import Histogram as Histogram
    from prfaas_plan.workload import LogNormal as LogNormal
    from prfaas_plan.workload import Mixture as Mixture
    from prfaas_plan.workload import Workload as Workload

__version__ = "0.1.0"

_HOMES = {
    "Cluster": "scenario",
    "Constant": "workload",
    "Empirical": "workload",
    "Histogram": "workload",
    "KvSettings": "scenario",
    "Link": "scenario",
    "LogNormal": "workload",
    "Mixture": "workload",
    "Scenario": "scenario",
    "Slo": "scenario",
    "Workload": "workload",
    "compare": "planner",
    "estimate": "estimates",
    "fleet_plan": "fleet.planner",
    "kv": "kv_table",
    "load_scenario": "scenario",
    "monte_carlo": "whatif.sweeps",
    "pareto": "whatif.sweeps",
    "plan": "planner",
    "report": "reporting",
    "schema": "json_schema",
    "simulate": "simulation.simulate",
    "size": "fleet.planner",
    "sweep": "whatif.sweeps",
    "tornado": "whatif.sweeps",
}
"""Where each public name lives; it is imported when it is first used."""

_OTHER_NAMES = {"estimate": "estimate_rows"}

__all__ = [
    "Cluster",
    "Constant",
    "Empirical",
    "Histogram",
    "KvSettings",
    "Link",
    "LogNormal",
    "Mixture",
    "Scenario",
    "Slo",
    "Workload",
    "__version__",
    "compare",
    "errors",
    "estimate",
    "fleet_plan",
    "kv",
    "load_scenario",
    "monte_carlo",
    "pareto",
    "plan",
    "report",
    "schema",
    "simulate",
    "size",
    "sweep",
    "tornado",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "errors":
        return import_module("prfaas_plan.errors")
    if name not in _HOMES:
        raise AttributeError(f"module 'prfaas_plan' has no attribute {name!r}")
    found = getattr(import_module(f"prfaas_plan.{_HOMES[name]}"), _OTHER_NAMES.get(name, name))
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
