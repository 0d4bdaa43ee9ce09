"""Reads CSV results: genai-perf and AIPerf exports, and plain tables of lengths and times."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from prfaas_plan.calibration.benchmark_aiperf import PER_REQUEST
from prfaas_plan.calibration.benchmark_fields import Fields, parse_date, time_factor, unit_of_name
from prfaas_plan.calibration.benchmark_records import BenchmarkFile, Run
from prfaas_plan.errors import Fault, nearest

__all__ = ["read_table"]

_NUMBER = re.compile(r"[-+]?(\d{1,3}(,\d{3})+|\d+)?(\.\d*)?([eE][-+]?\d+)?")
_MISSING = ("", "N/A", "n/a", "NA", "-", "None", "null")
_LENGTHS = ("input_tokens", "length_tokens", "input_len", "input_length", "context_tokens", "isl")
_COLUMNS = ("phase", "batch", *_LENGTHS)
_PHASES = ("prefill", "decode")


def read_table(text: str, where: str, file: str, faults: list[Fault]) -> BenchmarkFile | None:
    """Read a CSV by its header; ``None`` if it is none of the known ones."""
    delimiter = max(",;\t", key=text.split("\n", 1)[0].count)
    try:
        rows = [[cell.strip() for cell in row] for row in csv.reader(text.splitlines(), delimiter=delimiter)]
    except csv.Error as problem:
        faults.append(Fault(where, "", f"is not valid CSV: {problem}"))
        return None
    filled = [row for row in rows if any(row)]
    if filled and filled[0][0] == "Metric":
        return _metrics_file(rows, where, file, faults)
    if filled and "phase" in (name.lower() for name in filled[0]):
        return _plain_file(filled, where, file, faults)
    return None


# genai-perf and AIPerf


def _metrics_file(rows: Sequence[Sequence[str]], where: str, file: str, faults: list[Fault]) -> BenchmarkFile:
    """Read tables of metrics, each under a header that starts with Metric; blank rows stand between tables."""
    metrics: dict[str, Fields] = {}
    columns: set[str] = set()
    header: Sequence[str] | None = None
    others = 0
    for row in rows:
        if not any(row):
            header = None
        elif row[0] == "Metric":
            header = row
            columns |= set(row)
        elif header is not None:
            cells = {name: number(cell) for name, cell in zip(header, row, strict=False) if name != "Metric"}
            metrics[row[0].lower()] = Fields(cells, where, faults, f"{row[0]}, ")
        else:
            others += 1
    tool = "AIPerf" if {"sum", "std"} & columns else "genai-perf"
    run = Run(where, file, tool, "served", "as the name of each metric says in brackets")
    dropped = {"telemetry or other table": others} if others else {}
    return BenchmarkFile(where, tool, (_metrics_run(metrics, run, faults),), len(metrics) + others, dropped)


def number(cell: str) -> float | str | None:
    """Read a cell: a number with or without thousands commas, ``None`` where it is empty or N/A, else the text.

    >>> number("9,909.68"), number("N/A"), number("fast"), number("1,2")
    (9909.68, None, 'fast', '1,2')
    """
    if cell in _MISSING:
        return None
    if not cell or not _NUMBER.fullmatch(cell):
        return cell
    try:
        return float(cell.replace(",", ""))
    except ValueError:
        return cell


def _metrics_run(metrics: dict[str, Fields], run: Run, faults: list[Fault]) -> Run:
    def named(stem: str) -> tuple[str, Fields]:
        empty = Fields({}, run.where, faults)
        return next(((n, m) for n, m in metrics.items() if re.sub(r"\s*\(.*", "", n) == stem), ("", empty))

    def seconds(stem: str, *columns: str) -> float | None:
        name, metric = named(stem)
        if not any(column in metric for column in columns):
            return None
        factor = time_factor(unit_of_name(name))
        if factor is None:
            faults.append(Fault(run.where, name, "expected the unit of time in brackets after the name, such as (ms)"))
            return None
        return metric.seconds(*columns, factor=factor)

    requests = named("request count")[1].count("Value", "avg")
    rate = named("request throughput")[1].number("Value", "avg")
    duration = seconds("benchmark duration", "Value", "avg")
    latency = seconds("inter token latency", "avg")
    return replace(
        run,
        input_tokens=named("input sequence length")[1].number("avg"),
        output_tokens=named("output sequence length")[1].number("avg"),
        requests=requests,
        failed=named("error request count")[1].count("Value", "avg"),
        duration_s=duration if duration else (requests / rate if requests and rate else None),
        ttft_s=seconds("time to first token", "p50", "avg"),
        itl_s=seconds("inter token latency", "p50", "avg"),
        mean_itl_s=latency,
        output_rate=named("output token throughput")[1].number("Value", "avg"),
        remarks=(PER_REQUEST,) if latency else (),
    )


# Plain tables


def _plain_file(rows: Sequence[Sequence[str]], where: str, file: str, faults: list[Fault]) -> BenchmarkFile | None:
    header = [name.lower() for name in rows[0]]
    length = next((name for name in _LENGTHS if name in header), "")
    time = _time_column(header, where, faults)
    for name, found in (("input_tokens", length), ("batch", "batch" in header)):
        if not found:
            hint = nearest(name, [h for h in header if h not in _COLUMNS])
            faults.append(
                Fault(
                    where, name, f"missing; expected a column of this name (there is {', '.join(header)})", None, hint
                )
            )
    if faults or not time:
        return None
    dropped: dict[str, int] = {}
    runs = []
    for line, row in enumerate(rows[1:], 2):
        cells = dict(zip(header, row, strict=False))
        if not cells.get(time):
            dropped["no time"] = dropped.get("no time", 0) + 1
            continue
        run = Run(f"{where}, line {line}", file, "table", "one batch", "")
        runs.append(_plain_run(cells, length, time, run, faults))
    return BenchmarkFile(where, "table", tuple(runs), len(rows) - 1, dropped)


def _time_column(header: Iterable[str], where: str, faults: list[Fault]) -> str:
    """Name the column of times, whose name states its unit."""
    timed = [name for name in header if time_factor(unit_of_name(name)) is not None]
    if len({unit_of_name(name) for name in timed}) > 1 or len(timed) > 1:
        faults.append(Fault(where, "", f"has several columns of times ({', '.join(timed)}); expected one, in one unit"))
        return ""
    if not timed:
        problem = (
            "missing; expected a column of times with the unit in its name, such as seconds, time_ms or latency (s)"
        )
        faults.append(Fault(where, "seconds", problem))
        return ""
    return timed[0]


def _plain_run(cells: dict[str, str], length: str, time: str, run: Run, faults: list[Fault]) -> Run:
    fields = Fields({name: number(cell) for name, cell in cells.items()}, run.where, faults)
    unit = unit_of_name(time)
    phase = cells.get("phase", "").lower()
    tokens, batch = fields.number(length), fields.count("batch")
    seconds = fields.seconds(time, factor=time_factor(unit) or 1.0)
    if phase not in _PHASES:
        fields.fault("phase", "expected prefill or decode", cells.get("phase"))
    if not tokens:
        fields.fault(length, "expected a number of tokens above 0", cells.get(length))
    if not batch:
        fields.fault("batch", "expected a whole number of at least 1", cells.get("batch"))
    if seconds is None:
        fields.fault(time, f"expected a time above 0 [{unit}]", cells.get(time))
    measured = replace(run, unit=f"{unit}, by the column name {time}", input_tokens=tokens, batch=batch)
    measured = replace(
        measured,
        model=cells.get("model", ""),
        accelerator=cells.get("accelerator", ""),
        engine=cells.get("engine", ""),
        date=parse_date(cells.get("date", "")),
    )
    if phase == "prefill":
        return replace(measured, prefill_s=seconds)
    return replace(measured, step_s=seconds)
