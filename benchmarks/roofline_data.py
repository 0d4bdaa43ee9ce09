"""The calibration rows as arrays: what each row makes a GPU do, and the roofline's formulas over all rows at once."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from prfaas_plan.catalog import load_hardware, load_model
from prfaas_plan.decode import decode_work
from prfaas_plan.deployment import Deployment
from prfaas_plan.prefill import prefill_work
from prfaas_plan.roofline import Work

DATA = Path(__file__).resolve().parent / "data"
KINDS = (
    "gemm",
    "experts",
    "attention",
    "state",
    "routed",
    "elementwise",
    "reduce",
    "exchange",
    "kernels",
    "scan",
    "passes",
    "fixed",
)
DTYPES = ("bf16", "fp8", "fp4", "int8")
LARGE = ("aic_silicon", "prfaas", "llamacpp_spark", "neuron")
"""Sets left out model by model."""


@dataclass
class Case:
    """One measured row with its deployment and what one GPU does in it."""

    row: dict[str, str]
    deployment: Deployment
    works: list[Work]

    @property
    def group(self) -> str:
        """What is left out together: a set, or a model within the large sets."""
        row = self.row
        return f"{row['set']}:{row['model']}" if row["set"] in LARGE else row["set"]

    @property
    def family(self) -> str:
        """Family of the accelerator."""
        return self.deployment.hardware.family

    @property
    def floor_key(self) -> tuple[str, ...] | None:
        """The deployment whose fixed time per request is one unknown; ``None`` where throughput was measured."""
        row = self.row
        timed = row["phase"] == "prefill" and row["set"] in ("prfaas", "argonne", "aic_silicon", "neuron")
        return (row["set"], row["accelerator"], row["engine"]) if timed else None


def deployment_of(row: dict[str, str], models: dict[str, Any], accelerators: dict[str, Any]) -> Deployment:
    """Build the deployment of a row, each profile loaded once."""
    name, chip = row["model"], row["accelerator"]
    if name not in models:
        models[name] = load_model(name)
    if chip not in accelerators:
        accelerators[chip] = load_hardware(chip)
    sizes = {key: int(row[key]) for key in ("gpus", "tp", "ep", "dp", "pp", "cp")}
    dtypes = {key: row[key] for key in ("weights_dtype", "kv_dtype", "engine")}
    return Deployment(models[name], accelerators[chip], **sizes, **dtypes, request_overhead_s=0.0)


def load_cases() -> list[Case]:
    """Read the calibration table; a chip without a known bandwidth is left out."""
    cases, models, accelerators = [], {}, {}
    with (DATA / "single_phase.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["accelerator"] != "sambanova-sn40l"]
    for row in rows:
        deployment = deployment_of(row, models, accelerators)
        batch, tokens = float(row["batch"]), float(row["input_tokens"])
        cached = float(row["cached_tokens"] or 0)
        if row["phase"] == "prefill":
            works = prefill_work(deployment, tokens, batch, cached, float(row["chunk_tokens"] or 0))
        else:
            works = decode_work(deployment, batch, tokens + cached)
        cases.append(Case(row, deployment, works))
    return cases


class Table:
    """All operations of all rows, one array a quantity."""

    def __init__(self, cases: list[Case], families: list[str]) -> None:
        flat = [(i, c, w) for i, c in enumerate(cases) for w in c.works]
        self.rows = len(cases)
        self.index = np.array([i for i, _, _ in flat])
        self.family = np.array([families.index(c.family) for _, c, _ in flat])
        self.kind = np.array([KINDS.index(w.kind) for _, _, w in flat])
        self.dtype = np.array([DTYPES.index(w.dtype) for _, _, w in flat])
        self.bits = np.array([w.bits for _, _, w in flat])
        self.far = np.array([w.far for _, _, w in flat])
        self.flops, self.bytes, self.per, self.count = (
            np.array([float(getattr(w, name)) for _, _, w in flat]) for name in ("flops", "bytes", "rows", "amount")
        )
        self.count[self.kind == KINDS.index("fixed")] = 0.0
        self.peak = np.array([_peak(c, w) for _, c, w in flat])
        self.bandwidth = np.array([c.deployment.hardware.need("memory_bandwidth") for _, c, _ in flat])
        self.line = np.array([_line(c, w) for _, c, w in flat])
        self.decode = np.array([c.row["phase"] == "decode" for c in cases])
        self.measured = np.array([float(c.row["measured_s"]) for c in cases])

    def seconds(self, k: dict[str, np.ndarray]) -> np.ndarray:
        """Predict every row without its request floor; `k` holds each constant by family."""
        f = {name: values[self.family] for name, values in k.items()}
        gemm, experts = self._is("gemm"), self._is("experts")
        product = np.choose(self.dtype, [f["gemm_bf16"], f["gemm_fp8"], f["gemm_fp4"], f["gemm_int8"]])
        expert = np.choose(self.dtype, [f["experts_bf16"], f["experts_fp8"], f["experts_fp4"], f["experts_fp8"]])
        share = np.where(gemm, product, np.where(experts, expert, f["attention"]))
        half = np.where(gemm, f["gemm_half_rows"], np.where(experts, f["expert_half_rows"], f["attention_half_tokens"]))
        reading = np.where(gemm & (self.bits == 4), f["weight_bandwidth_4bit"], f["weight_bandwidth"])
        reading = np.where(experts & (self.bits == 8), f["expert_bandwidth_8bit"], reading)
        reading = np.where(gemm | experts, reading, f["cache_bandwidth"])
        compute = self.flops / (self.peak * share) * (1.0 + half / self.per)
        memory = self.bytes / (self.bandwidth * reading)
        time = (compute**4 + memory**4) ** 0.25
        time *= np.where(experts & self.far, f["expert_imbalance"], 1.0)
        low = np.where(self.dtype > 0, f["low_precision_traffic"], 1.0)
        for kind, each in (("routed", "routed_passes"), ("elementwise", "elementwise_bytes")):
            time = np.where(self._is(kind), memory * f[each] * low, time)
        moving = self.bytes / (self.line * f["link_share"])
        reduce = self.count * f["all_reduce_seconds"] * np.where(self.far, 8.0, 1.0) + moving
        exchange = self.count * f["all_to_all_seconds"] + moving
        exchange *= np.where(self.per > 1.0, 1.0 - f["overlap"], 1.0)
        for kind, value in (
            ("reduce", reduce),
            ("exchange", exchange),
            ("kernels", self.count * f["kernel_seconds"]),
            ("scan", self.count * f["scan_token_seconds"]),
            ("passes", self.count * f["pass_seconds"]),
            ("fixed", 0.0),
        ):
            time = np.where(self._is(kind), value, time)
        total = np.bincount(self.index, weights=time, minlength=self.rows)
        first = np.searchsorted(self.index, np.arange(self.rows))
        return total + np.where(self.decode, f["step_seconds"][first], 0.0)

    def _is(self, kind: str) -> np.ndarray:
        return self.kind == KINDS.index(kind)


def _peak(case: Case, work: Work) -> float:
    dtype = work.dtype if work.kind in ("gemm", "experts") else "bf16"
    return case.deployment.hardware.peak_flops(dtype)


def _line(case: Case, work: Work) -> float:
    hardware = case.deployment.hardware
    speed = hardware.nic_bandwidth if work.far else hardware.scaleup_bandwidth
    return speed or 1e12
