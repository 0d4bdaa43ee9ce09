"""Reads what vLLM's and SGLang's own benchmarks write, and summaries that rename their keys (InferenceX)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prfaas_plan.calibration.benchmark_fields import Fields, engine_name, parse_date
from prfaas_plan.calibration.benchmark_records import Run, Sample

__all__ = ["is_one_batch", "is_serving", "one_batch_run", "serving_run"]

_STATISTIC = re.compile(r"(mean|median|std|p[0-9.]+)_(ttft|tpot|itl|e2el|e2e_latency)(_ms)?")
_ENGINES = ("vllm", "sglang", "tensorrt-llm", "trt", "lmdeploy", "tgi")
_SPLIT = ("prefill", "decode")
_SGLANG = ("total_output_tokens_retokenized", "random_range_ratio", "accept_length", "server_info")


def is_serving(data: Mapping[Any, Any]) -> bool:
    """Say whether an object is the summary of a serving benchmark of the vLLM family."""
    return any(_STATISTIC.fullmatch(str(key)) for key in data)


def is_one_batch(data: Mapping[Any, Any]) -> bool:
    """Say whether an object is a line of SGLang's ``one_batch``."""
    return {"prefill_latency", "batch_size", "input_len"} <= set(data)


@dataclass(frozen=True, slots=True)
class _Unit:
    suffix: str
    factor: float
    says: str


_MS = _Unit("_ms", 1e-3, "ms, by the suffix _ms")
_S = _Unit("", 1.0, "s, as keys without suffix are")


def serving_run(fields: Fields, where: str, file: str) -> Run:
    """Read a vLLM ``bench serve`` or SGLang ``bench_serving`` result, or an InferenceX summary.

    Times are in milliseconds where the keys end in ``_ms``, else in seconds; a mix is a fault.
    """
    unit = _unit(fields)
    requests = fields.count("completed")
    inputs, outputs = fields.number("total_input_tokens"), fields.number("total_output_tokens")
    server = _server(fields)
    median_itl = _statistic(fields, "itl", unit, "median", "p50")
    mean_itl = _statistic(fields, "itl", unit, "mean")
    mean_tpot = _statistic(fields, "tpot", unit, "mean")
    tpot = _statistic(fields, "tpot", unit, "median", "p50", "mean")
    remarks = [] if median_itl or mean_itl or not tpot else ["no inter-token latency: time per output token is taken"]
    if (fields.number("random_range_ratio") or 1.0) < 1.0:
        remarks.append("prompt lengths vary around their mean")
    return Run(
        where,
        file,
        _tool(fields, unit),
        "served",
        unit.says,
        model=fields.text("model_id") or fields.text("model") or server.text("model_path"),
        accelerator=fields.text("hw"),
        engine=_engine(fields, server),
        parallelism=_parallelism(fields, server),
        precision=fields.text("precision") or _precision(server),
        date=parse_date(fields.text("date")),
        input_tokens=_mean(inputs, requests, fields.stated("isl")),
        output_tokens=_mean(outputs, requests, fields.stated("osl")),
        cached_tokens=_cached(fields, requests),
        concurrency=_concurrency(fields),
        request_rate=_rate(fields),
        requests=requests,
        failed=_failed(fields, requests),
        duration_s=fields.seconds("duration"),
        ttft_s=_statistic(fields, "ttft", unit, "median", "p50", "mean"),
        itl_s=median_itl or mean_itl or tpot,
        mean_itl_s=mean_tpot or mean_itl,
        output_rate=fields.number("output_throughput"),
        speculative=_speculative(fields, server),
        disaggregated=fields.data.get("disagg") in (True, "true") or server.data.get("disaggregation_mode") in _SPLIT,
        remarks=tuple(remarks),
        samples=_samples(fields),
    )


def _unit(fields: Fields) -> _Unit:
    found = {m[3]: m[0] for key in fields.data if (m := _STATISTIC.fullmatch(str(key)))}
    if len(found) > 1:
        problem = f"is in seconds, but {found['_ms']} in milliseconds: one run must not mix units"
        fields.fault(found[None], problem)
    return _MS if "_ms" in found else _S


def _statistic(fields: Fields, quantity: str, unit: _Unit, *names: str) -> float | None:
    keys = [f"{name}_{quantity}{unit.suffix}" for name in names]
    return fields.seconds(*keys, factor=unit.factor)


def _tool(fields: Fields, unit: _Unit) -> str:
    if unit is _S:
        return "InferenceX summary"
    if any(key in fields.data for key in _SGLANG):
        return "SGLang bench_serving"
    return "vLLM bench serve"


def _server(fields: Fields) -> Fields:
    """Find SGLang's server arguments; the call that fetches them may have failed and left null or text."""
    value = fields.data.get("server_info")
    inner = {k: v for k, v in value.items() if not isinstance(v, bool)} if isinstance(value, Mapping) else {}
    return Fields(inner, fields.where, fields.faults, "server_info.")


def _engine(fields: Fields, server: Fields) -> str:
    """Name the engine; the backend of vLLM's client may only name a protocol such as openai-chat."""
    backend = fields.text("backend", "endpoint_type")
    known = next((engine for engine in _ENGINES if backend.startswith(engine)), "")
    return engine_name(fields.text("framework") or known, server.text("version"))


def _parallelism(fields: Fields, server: Fields) -> str:
    sizes = [
        ("TP", _size(fields, "tp") or server.count("tp_size")),
        ("EP", _size(fields, "ep") or server.count("ep_size")),
    ]
    sizes += [("PP", server.count("pp_size")), ("DP", server.count("dp_size"))]
    return " ".join(f"{name}{size}" for name, size in sizes if size and (size > 1 or name == "TP"))


def _size(fields: Fields, key: str) -> int | None:
    number = fields.stated(key)
    return round(number) if number else None


def _precision(server: Fields) -> str:
    weights = server.text("quantization") or server.text("dtype")
    if weights in ("", "auto"):
        return ""
    cache = server.text("kv_cache_dtype")
    return f"{weights} weights, {cache} KV" if cache not in ("", "auto") else f"{weights} weights"


def _mean(total: float | None, requests: int | None, stated: float | None) -> float | None:
    return total / requests if total is not None and requests else stated


def _cached(fields: Fields, requests: int | None) -> float | None:
    report = fields.data.get("cache_report")
    if not isinstance(report, Mapping):
        return None
    total = Fields(report, fields.where, fields.faults, "cache_report.").number("total_cached_tokens", "cached_tokens")
    return total / requests if total is not None and requests else total


def _rate(fields: Fields) -> float | None:
    return None if fields.data.get("request_rate") == "trace" else fields.number("request_rate", infinite=True)


def _concurrency(fields: Fields) -> float | None:
    limit = fields.number("max_concurrency")
    if limit is None:
        limit = fields.stated("conc")
    return math.inf if limit is None and "max_concurrency" in fields.data else limit


def _failed(fields: Fields, requests: int | None) -> int | None:
    failed, sent = fields.count("failed"), fields.count("num_prompts")
    if failed is not None or sent is None or requests is None:
        return failed
    return max(0, sent - requests)


def _speculative(fields: Fields, server: Fields) -> bool:
    accepted = fields.number("accept_length")
    said = any(str(key).startswith("spec_decode") and value for key, value in fields.data.items())
    said = said or fields.data.get("spec_method", "none") not in ("none", "", None)
    return said or (accepted is not None and accepted > 1) or server.data.get("speculative_algorithm") is not None


def _samples(fields: Fields) -> tuple[Sample, ...]:
    """Read the requests of a detailed result; these lists are in seconds whatever the summary is in."""
    inputs, ttfts = fields.list("input_lens"), fields.list("ttfts")
    if not inputs or not ttfts:
        return ()
    if len(inputs) != len(ttfts):
        fields.fault("ttfts", f"expected as many entries as input_lens has ({len(inputs)})", len(ttfts))
        return ()
    faults = len(fields.faults)
    found = []
    for i, pair in enumerate(zip(inputs, ttfts, strict=True)):
        entry = Fields(dict(zip(("input_lens", "ttfts"), pair, strict=True)), fields.where, fields.faults, f"{i}.")
        length, ttft = entry.number("input_lens"), entry.seconds("ttfts")
        if length and ttft:
            found.append(Sample(length, ttft))
        if len(fields.faults) > faults:
            return ()
    return tuple(found)


def one_batch_run(fields: Fields, where: str, file: str) -> Run:
    """Read a line of SGLang's ``one_batch``: one batch alone on the engine, times in seconds."""
    batch = fields.count("batch_size")
    if not batch:
        fields.fault("batch_size", "expected a whole number of at least 1", fields.data.get("batch_size"))
    return Run(
        where,
        file,
        "SGLang one_batch",
        "one batch",
        "s, as one_batch writes",
        model=fields.text("model_path", "model"),
        engine="sglang",
        date=parse_date(fields.text("date")),
        input_tokens=fields.number("input_len"),
        output_tokens=fields.number("output_len"),
        batch=batch,
        prefill_s=fields.seconds("prefill_latency"),
        step_s=fields.seconds("median_decode_latency"),
    )
