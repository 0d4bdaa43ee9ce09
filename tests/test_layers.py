"""Imports between modules point to lower layers, and none runs in a circle."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "prfaas_plan"

LAYERS: list[set[str]] = [
    {"errors", "texts"},
    {"units", "numerics", "lognormal", "solver", "checks", "tabular"},
    {"records", "profiles", "length_law"},
    {"efficiency"},
    {"blocks", "hardware", "measured", "observed_laws"},
    {"model"},
    {"hf.fields"},
    {"hf.families"},
    {"hf.mixers", "hf.feed_forward", "hf.quantization"},
    {"hf.layers"},
    {"hf.config", "profile_writer", "trace.records", "laws"},
    {"trace.collector", "trace.formats", "trace.text", "calibration.benchmark_records", "calibration.benchmark_fields"},
    {
        "trace.conversations",
        "calibration.benchmark_serving",
        "calibration.benchmark_aiperf",
        "calibration.benchmark_generators",
    },
    {"trace.files", "calibration.benchmark_tables"},
    {"trace.prefix", "calibration.benchmark_files"},
    {"catalog", "workload"},
    {"inventory", "as_mapping", "overrides"},
    {"scenario"},
    {"kv_blocks", "tcp", "erlang", "arrivals", "service_times", "reuse"},
    {"pool_wait"},
    {
        "trace.fits",
        "trace.arrivals",
        "calibration.fit",
        "calibration.rules",
        "kv_cache",
        "parameters",
        "roofline",
        "formats",
        "mixing",
        "link",
        "transfer",
        "decode_slots",
        "queueing",
    },
    {"shards"},
    {"deployment"},
    {"communication"},
    {"prefill", "decode", "footprint"},
    {"batching", "plausible"},
    {"splits"},
    {"throughput"},
    {"routing", "fleet.bins", "prefix_pool", "trace.stats"},
    {"service_records"},
    {"estimated_services"},
    {"latency", "services", "calibration.points", "calibration.setup"},
    {"simulation.settings", "simulation.stations", "simulation.sampling", "simulation.statistics"},
    {"simulation.policies"},
    {"simulation.engine"},
    {"simulation.measures", "simulation.requests"},
    {"simulation.result", "simulation.run"},
    {"link_use"},
    {"explanation", "case", "loaded"},
    {"plan_parts"},
    {"plan_record"},
    {"plan_build"},
    {"fleet.case"},
    {"fleet.sheet", "fleet.inputs"},
    {"fleet.variables"},
    {"fleet.model"},
    {"fleet.bound"},
    {"fleet.search"},
    {"fleet.solve"},
    {"fleet.evaluate", "fleet.tidy"},
    {"fleet.routes", "fleet.loaded"},
    {"fleet.record", "fleet.why"},
    {"fleet.build"},
    {"fleet.planner"},
    {"fleet.thresholds", "fleet.worth", "fleet.bandwidth", "fleet.periods"},
    {"planner", "fleet.routing"},
    {"whatif.vary", "whatif.vector_search"},
    {"whatif.inputs"},
    {"whatif.cases"},
    {"whatif.fast", "whatif.record"},
    {"plan_schema"},
    {"json_schema"},
    {
        "kv_table",
        "link_table",
        "trace.pools",
        "roofline_table",
        "whatif.sweeps",
        "simulation.simulate",
        "calibration.calibrate",
        "estimates",
    },
    {"whatif.kv_rates", "whatif.roofs"},
    {"whatif.tables"},
    {"verify", "profile_table"},
    {"reports.document"},
    {
        "reports.fleet",
        "reports.plan",
        "reports.routing",
        "reports.sweeps",
        "reports.kv",
        "reports.roofline",
        "reports.trace",
        "reports.link",
        "reports.simulation",
        "reports.calibrate",
        "reports.profile",
        "reports.verify",
        "files",
    },
    {"reports.what_if", "reports.fleet_what_if"},
    {"writers"},
    {"reporting"},
    {"cli.output", "cli.progress", "cli.completion"},
    {"cli.options"},
    {"cli.fleet"},
    {"cli.plans", "cli.parts", "cli.estimates", "cli.traffic", "cli.whatif"},
    {"cli"},
    {"__main__", "__init__"},
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}


def modules() -> list[Path]:
    return sorted(p for p in PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    """Give the module's name below the package; the writers count as one."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return as_ranked(".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts))


def as_ranked(name: str) -> str:
    return "writers" if name.split(".", maxsplit=1)[0] == "writers" else name


def imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            modules_in = [n for n in inner if as_ranked(n.removeprefix("prfaas_plan.")) in RANK]
            names = modules_in or [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        found |= {as_ranked(n.removeprefix("prfaas_plan.")) for n in names if n.startswith("prfaas_plan.")}
    return found


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_down(path: Path) -> None:
    name = name_of(path)
    if path.name == "__init__.py" and name not in RANK:
        assert not imported(path), f"{path} only says what the package is for"
        return
    assert name in RANK, f"{name} has no layer: add it to LAYERS"
    upward = {other for other in imported(path) if RANK.get(other, -1) >= RANK[name] and other != name}
    assert not upward, f"{name} imports {upward}, which is not below it"


def test_every_layer_names_modules_that_exist() -> None:
    assert set(RANK) == {name_of(path) for path in modules() if name_of(path) in RANK}


def test_nothing_is_imported_relatively() -> None:
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            assert not (isinstance(node, ast.ImportFrom) and node.level), f"{path} imports relatively"
