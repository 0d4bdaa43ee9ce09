"""Recompute published tables with the same functions a plan uses, and say how far apart they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prfaas_plan.catalog import find_measured, load_model
from prfaas_plan.errors import Fault, InputError
from prfaas_plan.kv_cache import KvOptions, growing_bytes_per_token, index_bytes_per_token, request_curve
from prfaas_plan.measured import prefill_law
from prfaas_plan.numerics import Curve
from prfaas_plan.parameters import total_parameters
from prfaas_plan.planner import compare
from prfaas_plan.profiles import list_profiles, load_toml
from prfaas_plan.scenario import load_scenario
from prfaas_plan.tabular import Tabular
from prfaas_plan.units import UNITS

__all__ = ["Check", "Verification", "verify"]

Folders = Sequence[str | Path]
Section = Mapping[str, Any]
_MIB = 2.0**20
_PRICES = ("cluster.prfaas.price_usd_per_gpu_hour=2", "cluster.local.price_usd_per_gpu_hour=1")


@dataclass(frozen=True, slots=True)
class Check:
    """One published number and our own."""

    source: str
    quantity: str
    unit: str
    published: float
    computed: float
    tolerance: float
    note: str = ""

    @property
    def relative_error(self) -> float:
        """Computed over published, less one."""
        return self.computed / self.published - 1.0

    @property
    def ok(self) -> bool:
        """Whether the difference is within the tolerance."""
        return abs(self.relative_error) <= self.tolerance + 1e-12

    def to_dict(self) -> dict[str, Any]:
        """Give the row under the keys of the interface."""
        return {
            "source": self.source,
            "quantity": self.quantity,
            "unit": self.unit,
            "published": self.published,
            "computed": self.computed,
            "relative_error": self.relative_error,
            "tolerance": self.tolerance,
            "ok": self.ok,
            "note": self.note,
        }


@dataclass(frozen=True, slots=True, repr=False)
class Verification(Tabular):
    """Every check, and whether all hold."""

    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether every check holds."""
        return all(check.ok for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """Give the checks under the keys of the interface."""
        return {"ok": self.ok, "rows": [check.to_dict() for check in self.checks]}


def verify(profiles: Folders = ()) -> Verification:
    """Recompute every published number in ``published.toml``.

    Raises `InputError` if a profile a check needs is missing or malformed.
    """
    published = load_toml(Path(__file__).with_name("published.toml"))
    return Verification(
        (
            *_case_study(published, profiles),
            *_table5(published["table5"], profiles),
            *_table3(published["table3"], profiles),
            *_datacentre(published["datacentre"], published["table3"]["accelerator"], profiles),
            _ring_saving(published["ring_saving"], profiles),
            *_kv_bytes(published["kv_bytes"], profiles),
            *_step3(published["step3"], profiles),
            *_parameters(published["parameters"], profiles),
        )
    )


def _case_study(published: Section, profiles: Folders) -> Iterator[Check]:
    data = compare(load_scenario("case-study", _PRICES), profiles=profiles).to_dict()
    deployments = {d["name"]: _with_instances(d) for d in data["deployments"]}
    table, text = published["case_study"], published["case_study_text"]
    for row in table["rows"]:
        computed = _lookup(deployments[row["deployment"]], row["key"])
        tolerance = row.get("tolerance", table["tolerance"])
        source = f"{table['source']}, {row['deployment']}"
        yield Check(source, row["key"], row["unit"], row["published"], computed, tolerance)
    for row in text["rows"]:
        own = row["key"].startswith("equal_cost")
        computed = _lookup(data if own else deployments["prfaas-pd"], row["key"])
        note = row.get("note", "")
        yield Check(text["source"], row["key"], row["unit"], row["published"], computed, row["tolerance"], note)


def _with_instances(deployment: Mapping[str, Any]) -> dict[str, Any]:
    instances: dict[str, dict[str, int]] = {}
    for pool in deployment["pools"]:
        instances.setdefault(pool["cluster"], {})[pool["role"]] = pool["instances"]
    links = deployment["links"]
    return {**deployment, "instances": instances, "links": links[0] if links else {}}


def _lookup(data: Mapping[str, Any], path: str) -> float:
    here: Any = data
    for step in path.split("."):
        here = here[step]
    return float(here)


def _laws(model: str, accelerator: str, profiles: Folders) -> tuple[Curve, Curve]:
    profile = load_model(model, profiles)
    measured = find_measured(profile.id, accelerator, 8, profiles)
    if measured is None:
        raise InputError(Fault("verify", model, f"no measured profile on 8×{accelerator}"))
    return request_curve(profile), prefill_law(measured)


def _rate_gbps(model: str, accelerator: str, length: float, profiles: Folders) -> float:
    kv_bytes, seconds = _laws(model, accelerator, profiles)
    return kv_bytes(length) * 8.0 / seconds(length) / 1e9


def _rate_at_point(model: str, accelerator: str, length: int, profiles: Folders) -> float:
    profile = load_model(model, profiles)
    measured = find_measured(profile.id, accelerator, 8, profiles)
    seconds = {p.length_tokens: p.seconds for p in measured.prefill} if measured else {}
    if length not in seconds:
        raise InputError(Fault("verify", model, f"no measured prefill time at {length} tokens on 8×{accelerator}"))
    return request_curve(profile)(length) / seconds[length]


def _table5(table: Section, profiles: Folders) -> Iterator[Check]:
    kv_bytes, seconds = _laws(table["model"], table["accelerator"], profiles)
    for row in table["rows"]:
        length = float(row["length"])
        where = f"1T hybrid at {length / 1000:g}K"
        size, time = kv_bytes(length) / _MIB, seconds(length)
        rate = size * _MIB * 8.0 / time / 1e9
        yield Check(table["source"], f"{where}: S_kv", "MiB", row["kv_mib"], size, table["kv_tolerance"])
        yield Check(table["source"], f"{where}: T_prefill", "s", row["prefill_s"], time, table["prefill_tolerance"])
        yield Check(table["source"], f"{where}: Φ_kv", "Gbit/s", row["kv_gbps"], rate, table["rate_tolerance"])


def _table3(table: Section, profiles: Folders) -> Iterator[Check]:
    for row in table["rows"]:
        for length, published in zip(table["lengths"], row["kv_gbps"], strict=True):
            rate = _rate_gbps(row["model"], table["accelerator"], length, profiles)
            name = f"{row['model']} at {length // 1024}K: Φ_kv"
            note = "prefill times are derived from this table, so this checks the law between its points"
            yield Check(table["source"], name, "Gbit/s", published, rate, table["tolerance"], note)


def _datacentre(table: Section, accelerator: str, profiles: Folders) -> Iterator[Check]:
    for row in table["rows"]:
        total = row["instances"] * _rate_at_point(row["model"], accelerator, row["length"], profiles)
        computed = total / UNITS[row["unit"]].factor
        name = f"{row['model']}: {row['what']}"
        yield Check(table["source"], name, row["unit"], row["published"], computed, row["tolerance"])


def _ring_saving(table: Section, profiles: Folders) -> Check:
    hybrid = load_model(table["model"], profiles)
    before = load_model(table["predecessor"], profiles)
    growing = [growing_bytes_per_token(m, KvOptions(kv_dtype="bf16")) for m in (hybrid, before)]
    full = sum(count for name, count in hybrid.counts.items() if hybrid.blocks[name].kind == "mla")
    latent = growing[0] / 2.0 / full
    reading = hybrid.depth / full * (latent / table["head_dim"])
    note = (
        f"one MLA layer in {hybrid.depth // full}, times a latent of {latent:g} in units of the head width "
        f"{table['head_dim']}; per token the configurations give {growing[1] / growing[0]:.1f}×, because the "
        "predecessor keeps 8 K/V heads, 2,048 elements a layer, not 2,592"
    )
    name = "Ring-2.5-1T: KV saving as the paper multiplies it"
    return Check(table["source"], name, "1", table["published"], reading, table["tolerance"], note)


def _kv_bytes(table: Section, profiles: Folders) -> Iterator[Check]:
    for row in table["rows"]:
        model = load_model(row["model"], profiles)
        computed = growing_bytes_per_token(model, KvOptions(kv_dtype=row.get("dtype")))
        if row.get("without_index"):
            computed -= index_bytes_per_token(model)
        tolerance = row.get("tolerance", table["tolerance"])
        source = row.get("source", table["gallery"])
        yield Check(source, f"{row['model']}: KV bytes", "B/token", row["published"], computed, tolerance)


def _step3(table: Section, profiles: Folders) -> Iterator[Check]:
    for row in table["rows"]:
        curve = request_curve(load_model(row["model"], profiles), KvOptions(kv_dtype="fp8"))
        for length, published in zip(table["lengths"], row["published"], strict=True):
            name = f"{row['model']}: KV bytes at {length // 1024}K, FP8"
            yield Check(table["source"], name, "B", published, curve(length), table["tolerance"])


def _parameters(table: Section, profiles: Folders) -> Iterator[Check]:
    exceptions = {row["model"]: row for row in table["exceptions"]}
    for profile_id in list_profiles("model", profiles):
        model = load_model(profile_id, profiles)
        if model.published_total_b is None or model.kv_points:
            continue
        exception = exceptions.get(profile_id, {})
        tolerance = exception.get("tolerance", table["tolerance"])
        computed = total_parameters(model) / 1e9
        name = f"{profile_id}: total parameters"
        note = exception.get("note", "")
        yield Check(
            f"{table['source']} of {model.name}", name, "billion", model.published_total_b, computed, tolerance, note
        )
