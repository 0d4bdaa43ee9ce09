"""Reads the JSON of inference-perf and guidellm."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from prfaas_plan.calibration.benchmark_fields import Fields, first_text, parse_date
from prfaas_plan.calibration.benchmark_records import Run

__all__ = ["guidellm_runs", "inference_perf_run", "is_guidellm", "is_inference_perf"]

_MS = 1e-3
_DONE = ("successful", "completed")


def is_inference_perf(data: Mapping[Any, Any]) -> bool:
    """Say whether an object is a stage of inference-perf."""
    return {"load_summary", "successes"} <= set(data)


def is_guidellm(data: Mapping[Any, Any]) -> bool:
    """Say whether an object is a guidellm report."""
    return isinstance(data.get("benchmarks"), list)


def inference_perf_run(fields: Fields, where: str, file: str) -> Run:
    """Read one stage of inference-perf; every time is in seconds."""
    load, done = fields.table("load_summary"), fields.table("successes")
    latency = done.table("latency")
    steps = latency.table("inter_token_latency")
    per_token = latency.table("time_per_output_token")
    requests = done.count("count")
    prompts = done.table("prompt_tokens")
    cached = prompts.number("cached")
    limit, rate = load.number("concurrency"), load.number("requested_rate", infinite=True)
    return Run(
        where,
        file,
        "inference-perf",
        "served",
        "s, as inference-perf writes",
        input_tokens=_first(prompts.number("mean"), done.table("prompt_len").number("mean")),
        output_tokens=_first(done.table("output_tokens").number("mean"), done.table("output_len").number("mean")),
        cached_tokens=cached / requests if cached is not None and requests else None,
        concurrency=limit or (math.inf if rate else None),
        request_rate=math.inf if limit else rate,
        requests=requests,
        failed=fields.table("failures").count("count"),
        duration_s=load.seconds("send_duration"),
        ttft_s=latency.table("time_to_first_token").seconds("median", "mean"),
        itl_s=_first(steps.seconds("median", "mean"), per_token.seconds("median", "mean")),
        mean_itl_s=_first(per_token.seconds("mean"), steps.seconds("mean")),
        output_rate=done.table("throughput").number("output_tokens_per_sec"),
    )


def _first(*numbers: float | None) -> float | None:
    return next((n for n in numbers if n is not None), None)


def guidellm_runs(fields: Fields, where: str, file: str) -> Iterator[Run]:
    """Read a guidellm report: one run a benchmark, token times in milliseconds by the suffix of their keys."""
    for number, entry in enumerate(fields.list("benchmarks")):
        if isinstance(entry, Mapping):
            inner = Fields(entry, where, fields.faults, f"benchmarks.{number}.")
            yield _guidellm_run(inner, fields, f"{where}, benchmark {number + 1}", file)
        else:
            fields.fault(f"benchmarks.{number}", "expected an object", entry)


def _guidellm_run(fields: Fields, report: Fields, where: str, file: str) -> Run:
    metrics = fields.table("metrics") if "metrics" in fields else fields
    totals = metrics.table("request_totals") if "request_totals" in metrics else fields.table("request_totals")
    limit, rate = _strategy(fields)
    steps = _done(metrics, "inter_token_latency_ms")
    return Run(
        where,
        file,
        "guidellm",
        "served",
        "ms, by the suffix _ms (durations in s)",
        model=_model(fields) or _model(report),
        date=parse_date(fields.text("start_time_iso", "date")),
        input_tokens=_done(metrics, "prompt_token_count").number("mean"),
        output_tokens=_done(metrics, "output_token_count").number("mean"),
        concurrency=limit,
        request_rate=rate,
        requests=totals.count(*_DONE),
        failed=totals.count("errored"),
        duration_s=fields.seconds("duration"),
        ttft_s=_done(metrics, "time_to_first_token_ms").seconds("median", "mean", factor=_MS),
        itl_s=steps.seconds("median", "mean", factor=_MS),
        mean_itl_s=steps.seconds("mean", factor=_MS),
        output_rate=_done(metrics, "output_tokens_per_second").number("mean"),
    )


def _done(metrics: Fields, name: str) -> Fields:
    """Find the statistics of a metric over the requests that completed."""
    metric = metrics.table(name)
    return metric.table(next((status for status in _DONE if status in metric), _DONE[0]))


def _strategy(fields: Fields) -> tuple[float | None, float | None]:
    config = fields.table("config") if "config" in fields else fields.table("args")
    strategy = config.table("strategy")
    kind = strategy.text("type_", "type")
    rate = strategy.number("rate", infinite=True)
    if kind == "synchronous":
        return 1.0, math.inf
    if kind == "concurrent":
        return strategy.number("streams", "max_concurrency"), math.inf
    if kind == "throughput":
        return strategy.number("max_concurrency") or math.inf, math.inf
    if kind in ("constant", "poisson"):
        return math.inf, rate
    return None, rate


def _model(fields: Fields) -> str:
    for name in ("args", "config", "benchmarker"):
        table = fields.data.get(name)
        if isinstance(table, Mapping):
            backend = table.get("backend")
            inner = backend.get("model") if isinstance(backend, Mapping) else None
            found = first_text([table.get("model"), inner])
            if found:
                return found
    return ""
