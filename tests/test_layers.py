"""Imports between modules point to lower layers, and none runs in a circle."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "prfaas_plan"

LAYERS: list[set[str]] = [
    {"errors", "texts"},
    {"units", "numerics", "lognormal", "solver", "checks", "tabular"},
    {"schema", "profiles", "length_law"},
    {"efficiency"},
    {"model", "hardware", "measured", "observed_laws"},
    {"hf_fields"},
    {"hf_families"},
    {"hf_mixers", "hf_feed_forward", "hf_quantization"},
    {"hf_layers"},
    {"hf_config", "profile_writer", "trace_records", "laws"},
    {"trace_collector", "trace_formats", "trace_text", "benchmark_records", "benchmark_fields"},
    {"trace_conversations", "benchmark_serving", "benchmark_aiperf", "benchmark_generators"},
    {"trace_files", "benchmark_tables"},
    {"trace_prefix", "benchmark_files"},
    {"catalog", "workload"},
    {"inventory", "as_mapping"},
    {"scenario"},
    {"kv_blocks", "tcp", "erlang", "arrivals", "service_times", "reuse"},
    {"pool_wait"},
    {
        "trace_fits",
        "trace_arrivals",
        "calibrate_fit",
        "calibrate_rules",
        "kv_cache",
        "parameters",
        "roofline",
        "formats",
        "mixing",
        "link",
        "transfer",
        "decode_slots",
        "queueing",
        "cost",
    },
    {"shards"},
    {"deployment"},
    {"communication"},
    {"prefill", "decode", "footprint"},
    {"batching", "plausible"},
    {"splits"},
    {"throughput"},
    {"routing", "fleet_bins", "prefix_pool", "sensitivity", "trace_stats"},
    {"latency", "services", "calibrate_points", "calibrate_setup"},
    {"simulation_settings", "simulation_stations", "simulation_sampling", "simulation_statistics"},
    {"simulation_policies"},
    {"simulation_engine"},
    {"simulation_measures", "simulation_requests"},
    {"simulation_result", "simulation_run"},
    {"link_use"},
    {"explanation", "case", "loaded"},
    {"plan_record"},
    {"fleet_case"},
    {"fleet_sheet", "fleet_inputs"},
    {"fleet_variables"},
    {"fleet_model"},
    {"fleet_bound"},
    {"fleet_search"},
    {"fleet_solve"},
    {"fleet_evaluate", "fleet_tidy"},
    {"fleet_routes", "fleet_loaded"},
    {"fleet_record", "fleet_why"},
    {"fleet_build"},
    {"fleet"},
    {"fleet_thresholds", "fleet_worth", "fleet_bandwidth", "fleet_periods"},
    {"planner", "fleet_routing"},
    {"vary", "vector_search"},
    {"sweep_inputs"},
    {"sweep_cases"},
    {"sweep_fast", "sweep_record"},
    {"plan_schema"},
    {"json_schema"},
    {"kv_table", "link_table", "trace_pools", "roofline_table", "whatif", "simulate", "calibrate", "estimate"},
    {"what_if_tables"},
    {"verify", "profile_table"},
    {"report"},
    {
        "fleet_report",
        "plan_report",
        "routing_report",
        "whatif_report",
        "kv_report",
        "roofline_report",
        "trace_report",
        "link_report",
        "simulation_report",
        "calibrate_report",
        "profile_report",
        "verify_report",
        "writers",
        "files",
    },
    {"what_if_report", "fleet_what_if"},
    {"reporting"},
    {"cli_output", "cli_progress", "cli_completion"},
    {"cli_options"},
    {"cli_fleet"},
    {"cli_plans", "cli_parts", "cli_estimates", "cli_traffic", "cli_whatif"},
    {"cli"},
    {"__main__", "__init__"},
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}


def modules() -> list[Path]:
    return sorted(p for p in PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [node.module]
            if node.module == "prfaas_plan":
                names = [f"prfaas_plan.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        found |= {n.split(".")[1] for n in names if n.startswith("prfaas_plan.")}
    return found


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_down(path: Path) -> None:
    name = name_of(path)
    assert name in RANK, f"{name} has no layer: add it to LAYERS"
    upward = {other for other in imported(path) if RANK.get(other, -1) >= RANK[name] and other != name}
    if path.parent == PACKAGE:
        assert not upward, f"{name} imports {upward}, which is not below it"


def test_nothing_is_imported_relatively() -> None:
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            assert not (isinstance(node, ast.ImportFrom) and node.level), f"{path} imports relatively"
