"""Reads the JSON of AIPerf and genai-perf: the summary, and AIPerf's file of single requests."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from statistics import fmean, median
from typing import Any

from prfaas_plan.calibration.benchmark_fields import Fields, first_text, parse_date, time_factor
from prfaas_plan.calibration.benchmark_records import Run, Sample

__all__ = ["PER_REQUEST", "Requests", "is_aiperf", "is_aiperf_request", "summary_run"]

PER_REQUEST = "inter-token latency is the mean over each request, so pauses for other prefills are in it"
_LATEST_NS = 4e18


def is_aiperf(data: Mapping[Any, Any]) -> bool:
    """Say whether an object is the JSON summary of AIPerf or genai-perf."""
    metrics = ("time_to_first_token", "inter_token_latency", "request_latency")
    return any(isinstance(data.get(name), Mapping) and "unit" in data[name] for name in metrics)


def is_aiperf_request(data: Mapping[Any, Any]) -> bool:
    """Say whether an object is one request of AIPerf's ``profile_export.jsonl``."""
    return isinstance(data.get("metadata"), Mapping) and ("metrics" in data or "error" in data)


def _timed(metric: Fields, *names: str) -> float | None:
    """Read a statistic of a metric that states its unit beside it, as seconds."""
    if not any(name in metric for name in names):
        return None
    unit = metric.text("unit")
    factor = time_factor(unit)
    if factor is None:
        metric.fault("unit", "expected a unit of time such as ms or sec", unit or None)
        return None
    return metric.seconds(*names, factor=factor)


def summary_run(fields: Fields, where: str, file: str) -> Run:
    """Read the JSON summary of AIPerf or genai-perf: one object a metric, each with its unit."""
    config = fields.table("input_config")
    limit, rate = _load(config)
    latency = fields.table("inter_token_latency")
    return Run(
        where,
        file,
        "AIPerf" if "aiperf_version" in fields or "loadgen" in config else "genai-perf",
        "served",
        "as the key 'unit' of each metric says",
        model=first_text(config.table("endpoint").list("model_names") or config.list("model_names")),
        date=parse_date(fields.text("start_time")),
        input_tokens=fields.table("input_sequence_length").number("avg"),
        output_tokens=fields.table("output_sequence_length").number("avg"),
        concurrency=limit,
        request_rate=rate,
        requests=fields.table("request_count").count("avg"),
        failed=fields.table("error_request_count").count("avg"),
        duration_s=_timed(fields.table("benchmark_duration"), "avg"),
        ttft_s=_timed(fields.table("time_to_first_token"), "p50", "avg"),
        itl_s=_timed(latency, "p50", "avg"),
        mean_itl_s=_timed(latency, "avg"),
        output_rate=fields.table("output_token_throughput").number("avg"),
        cancelled=fields.data.get("was_cancelled") is True,
        remarks=(PER_REQUEST,) if latency.data else (),
    )


def _load(config: Fields) -> tuple[float | None, float | None]:
    """Limit of requests in flight and the rate they were sent at; a limit alone means as fast as it allows."""
    generator = config.table("loadgen")
    limit = generator.number("concurrency")
    if limit is None:
        limit = config.table("perf_analyzer").table("stimulus").number("concurrency")
    rate = generator.number("request_rate", infinite=True)
    return limit, math.inf if rate is None and limit is not None else rate


@dataclass(slots=True)
class Requests:
    """Collects the requests of AIPerf's ``profile_export.jsonl`` into one run."""

    where: str
    file: str
    dropped: dict[str, int] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    outputs: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    spans: list[tuple[float, float]] = field(default_factory=list)
    failed: int = 0

    def add(self, fields: Fields) -> None:
        """Add one line; one that holds no measurement is counted by reason."""
        metadata, metrics = fields.table("metadata"), fields.table("metrics")
        if fields.data.get("error") is not None or metadata.data.get("was_cancelled") is True:
            self.failed += 1
            return self._drop("failed request")
        if metadata.text("benchmark_phase") == "warmup":
            return self._drop("warm-up request")
        length = metrics.table("input_sequence_length").number("value")
        ttft = _timed(metrics.table("time_to_first_token"), "value")
        if not length or ttft is None:
            return self._drop("no prompt length or no time to first token")
        self.samples.append(Sample(length, ttft))
        output = metrics.table("output_sequence_length").number("value")
        latency = _timed(metrics.table("inter_token_latency"), "value")
        self.outputs += [] if output is None else [output]
        self.latencies += [] if latency is None else [latency]
        start = metadata.number("request_start_ns", largest=_LATEST_NS)
        end = metadata.number("request_end_ns", largest=_LATEST_NS)
        if start is not None and end is not None and end > start:
            self.spans.append((start, end))
        return None

    def _drop(self, reason: str) -> None:
        self.dropped[reason] = self.dropped.get(reason, 0) + 1

    def run(self) -> Run:
        """Give all requests as one run."""
        unit = "as the key 'unit' of each metric says; stamps in ns by their suffix"
        run = Run(self.where, self.file, "AIPerf requests", "served", unit, failed=self.failed)
        if not self.samples:
            return run
        outputs = fmean(self.outputs) if self.outputs else None
        return replace(
            run,
            input_tokens=fmean(s.input_tokens for s in self.samples),
            output_tokens=outputs,
            requests=len(self.samples),
            ttft_s=median(s.ttft_s for s in self.samples),
            itl_s=median(self.latencies) if self.latencies else None,
            mean_itl_s=fmean(self.latencies) if self.latencies else None,
            remarks=(PER_REQUEST,) if self.latencies else (),
            samples=tuple(self.samples),
            **self._timing(),
        )

    def _timing(self) -> dict[str, Any]:
        if len(self.spans) != len(self.samples):
            return {}
        first, last = min(s for s, _ in self.spans), max(e for _, e in self.spans)
        duration = (last - first) * 1e-9
        complete = self.outputs and len(self.outputs) == len(self.samples)
        return {
            "date": datetime.fromtimestamp(first * 1e-9, UTC).date().isoformat(),
            "duration_s": duration,
            "concurrency": float(most_at_once(self.spans)),
            "request_rate": math.inf,
            "output_rate": sum(self.outputs) / duration if complete else None,
        }


def most_at_once(spans: Iterable[tuple[float, float]]) -> int:
    """Count the most intervals that overlap at any moment; one that starts as another ends does not overlap it.

    >>> most_at_once([(0, 2), (1, 3), (2, 4)])
    2
    """
    events = sorted((time, change) for start, end in spans for time, change in ((start, 1), (end, -1)))
    running = most = 0
    for _, change in events:
        running += change
        most = max(most, running)
    return most
