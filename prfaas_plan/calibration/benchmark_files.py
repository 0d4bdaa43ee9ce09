"""Reads benchmark outputs in the layouts their tools write, plain or gzip, told apart by keys or header.

Units come from the suffix of a key, the header of a column or a key beside the value, never from how large a
number is. What cannot be used is counted by reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prfaas_plan.calibration.benchmark_aiperf import Requests, is_aiperf, is_aiperf_request, summary_run
from prfaas_plan.calibration.benchmark_fields import Fields, parse_date
from prfaas_plan.calibration.benchmark_generators import (
    guidellm_runs,
    inference_perf_run,
    is_guidellm,
    is_inference_perf,
)
from prfaas_plan.calibration.benchmark_records import BenchmarkFile, Run
from prfaas_plan.calibration.benchmark_serving import is_one_batch, is_serving, one_batch_run, serving_run
from prfaas_plan.calibration.benchmark_tables import read_table
from prfaas_plan.errors import Fault, InputError, TraceError
from prfaas_plan.trace.text import open_lines

__all__ = ["read_benchmark"]

_KNOWN = (
    "vLLM bench serve, SGLang bench_serving or one_batch, genai-perf, AIPerf, inference-perf, guidellm, "
    "an InferenceX summary, or a CSV with the columns phase, input_tokens, batch and seconds"
)
_BOXES = "┏┃━│╭"


def read_benchmark(path: str | Path) -> BenchmarkFile:
    """Read the runs of a benchmark output; times in seconds, lengths in tokens, rates in 1/s.

    Known layouts: vLLM ``bench serve --save-result`` (also detailed or appended), InferenceX summaries, SGLang
    ``bench_serving`` and ``one_batch``, genai-perf CSV and JSON, AIPerf CSV, JSON and JSON lines, inference-perf,
    guidellm, and a plain CSV with the columns phase, input_tokens, batch and seconds.

    Raises `InputError` naming file and key for a file that cannot be read, is in no known layout, mixes units or
    holds a value that its key does not promise.
    """
    where = str(path)
    if "\0" in where:
        raise InputError(Fault(where, "", "is no path: it contains a NUL character"))
    dropped: dict[str, int] = {}
    try:
        with closing(open_lines(Path(path), dropped)) as lines:
            text = "".join(lines).removeprefix("\ufeff")
    except TraceError as error:
        raise InputError(error.faults) from None
    except OSError as problem:
        raise InputError(Fault(where, "", problem.strerror or "cannot be read")) from None
    faults: list[Fault] = []
    found = _read_text(text, where, Path(path).name, faults, dropped)
    if faults:
        raise InputError(faults)
    runs = tuple(replace(run, date=run.date or _file_date(Path(path))) for run in found.runs)
    return replace(found, runs=runs)


def _file_date(path: Path) -> str:
    """Give the date in the name of a file, or else when it was written."""
    stamp = datetime.fromtimestamp(path.stat().st_mtime, UTC).date().isoformat()
    return parse_date(path.name) or f"{stamp} (date of the file)"


def _read_text(text: str, where: str, file: str, faults: list[Fault], dropped: dict[str, int]) -> BenchmarkFile:
    start = text.lstrip()[:1]
    if not start:
        raise InputError(Fault(where, "", "is empty"))
    if start in "{[":
        return _read_json(text, where, file, faults, dropped)
    if any(mark in text[:4096] for mark in _BOXES):
        raise InputError(
            Fault(where, "", "is a table copied from a terminal; give the CSV or JSON that the tool wrote")
        )
    table = read_table(text, where, file, faults)
    if table is None and not faults:
        raise InputError(Fault(where, "", f"is in no known layout; expected {_KNOWN}"))
    return table if table is not None else BenchmarkFile(where, "", (), 0)


def _read_json(text: str, where: str, file: str, faults: list[Fault], dropped: dict[str, int]) -> BenchmarkFile:
    values = list(_values(text, dropped))
    objects = [value for value in values if isinstance(value, Mapping)]
    read = len(values) + dropped.get("malformed JSON", 0)
    if not objects:
        problem = "is not valid JSON" if dropped else f"holds no JSON object; expected {_KNOWN}"
        raise InputError(Fault(where, "", problem))
    if len(objects) < len(values):
        dropped["no object"] = len(values) - len(objects)
    if any(is_aiperf_request(value) for value in objects):
        return _read_requests(objects, where, file, faults, dropped)
    runs: list[Run] = []
    for number, value in enumerate(objects, 1):
        place = f"{where}, run {number}" if len(objects) > 1 else where
        found = list(_runs(Fields(value, place, faults), place, file))
        runs += found
        if not found and not faults:
            dropped["unknown layout"] = dropped.get("unknown layout", 0) + 1
    if not runs and not faults:
        keys = ", ".join(str(key) for key in list(objects[0])[:6])
        raise InputError(Fault(where, "", f"is in no known layout (its keys are {keys}, …); expected {_KNOWN}"))
    tools = ", ".join(dict.fromkeys(run.tool for run in runs))
    return BenchmarkFile(where, tools, tuple(runs), read, dropped)


def _runs(fields: Fields, where: str, file: str) -> Iterator[Run]:
    data = fields.data
    if is_one_batch(data):
        yield one_batch_run(fields, where, file)
    elif is_inference_perf(data):
        yield inference_perf_run(fields, where, file)
    elif is_guidellm(data):
        yield from guidellm_runs(fields, where, file)
    elif is_aiperf(data):
        yield summary_run(fields, where, file)
    elif is_serving(data):
        yield serving_run(fields, where, file)


def _read_requests(
    objects: list[Mapping[Any, Any]], where: str, file: str, faults: list[Fault], dropped: dict[str, int]
) -> BenchmarkFile:
    requests = Requests(where, file, dropped)
    for number, value in enumerate(objects, 1):
        requests.add(Fields(value, where, faults, f"line {number}: "))
    read = len(objects) + dropped.get("malformed JSON", 0) + dropped.get("no object", 0)
    return BenchmarkFile(where, "AIPerf requests", (requests.run(),), read, dropped)


def _values(text: str, dropped: dict[str, int]) -> Iterator[Any]:
    """Give the JSON values of a text, however they are separated; a list at the top gives its entries.

    Results appended to one file are several objects after another. What is no JSON is skipped up to the next line.
    """
    decoder = json.JSONDecoder()
    place = 0
    while True:
        while place < len(text) and text[place] in " \t\r\n,":
            place += 1
        if place >= len(text):
            return
        try:
            value, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            dropped["malformed JSON"] = dropped.get("malformed JSON", 0) + 1
            place = _next_line(text, place)
            continue
        if isinstance(value, list):
            yield from value
        else:
            yield value


def _next_line(text: str, place: int) -> int:
    end = text.find("\n", place)
    return len(text) if end < 0 else end + 1
