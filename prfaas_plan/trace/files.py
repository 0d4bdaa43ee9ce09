"""Reads request traces: published formats and column maps, CSV or JSON, plain or gzip, told apart by content.

Rows stream from the file into compact arrays. A row that cannot be used is counted by reason, never repaired.
"""

from __future__ import annotations

import csv
import json
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any

from prfaas_plan.errors import Fault, TraceError
from prfaas_plan.records import Reader, read_record
from prfaas_plan.trace.collector import HUGE_TOKENS, Clock, Collector
from prfaas_plan.trace.conversations import row_reader
from prfaas_plan.trace.formats import Format, custom_format, recognise_csv, recognise_json, unit_in_name
from prfaas_plan.trace.records import Columns, Trace
from prfaas_plan.trace.text import open_lines

__all__ = ["read_trace"]

_SAMPLES = 20
_LONGEST_FIELD = 1 << 24


def read_trace(path: str | Path, columns: Columns | Mapping[str, Any] | None = None) -> Trace:
    r"""Read a request trace.

    Known formats need nothing else: Mooncake and its AIPerf superset, Azure 2023 and 2024, BurstGPT 1 to 3,
    Qwen-Bailian, vidur, splitwise-sim, RAGPulse, LLMServingSim, kv-cache-tester (a file, or a folder of them).
    Any other CSV or JSON-lines file needs a column map. Lengths are in tokens, times in seconds from the first
    request, in order of arrival.

    Raises `TraceError` if the file cannot be read, is in no known format, or holds no usable request.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "requests.csv"
    ...     _ = path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4000,10\n")
    ...     list(read_trace(path).input_tokens)
    [4000]
    """
    where = str(path)
    chosen = _column_map(columns, where)
    if "\0" in where:
        raise TraceError(Fault(where, "", "is no path: it contains a NUL character"))
    try:
        if Path(path).is_dir():
            return _read_folder(Path(path), chosen)
        return _read_file(Path(path), chosen)
    except OSError as problem:
        raise TraceError(Fault(where, "", problem.strerror or str(problem) or "cannot be read")) from None


def _column_map(columns: Columns | Mapping[str, Any] | None, where: str) -> Columns | None:
    if columns is None or isinstance(columns, Columns):
        return columns
    reader = Reader(where)
    record = read_record(Columns, columns, reader, "columns")
    reader.finish(TraceError)
    return record


def _read_file(path: Path, columns: Columns | None) -> Trace:
    where = str(path)
    dropped: dict[str, int] = {}
    with closing(open_lines(path, dropped)) as lines:
        first = next((line for line in lines if line.strip()), None)
        if first is None:
            why = f" ({', '.join(dropped)})" if dropped else ""
            raise TraceError(Fault(where, "", f"is empty{why}"))
        read = _read_json if first.lstrip()[0] in "{[" else _read_csv
        return read(chain([first], lines), where, columns, dropped)


def _read_folder(folder: Path, columns: Columns | None) -> Trace:
    """Read a folder of conversations, one JSON file each."""
    where = str(folder)
    files = sorted(p for p in folder.iterdir() if p.name.endswith((".json", ".json.gz")) and p.is_file())
    dropped: dict[str, int] = {}
    objects = _folder_objects(files, dropped)
    head = list(islice(objects, 1))
    samples = [row for row in head if isinstance(row, Mapping)]
    if not samples or columns is not None or not {"requests", "block_size"} <= set(samples[0]):
        problem = "is a folder, which is read only where it holds kv-cache-tester conversations; name one file"
        raise TraceError(Fault(where, "", problem))
    return _read_objects(chain(head, objects), recognise_json(samples, where), where, samples, dropped)


def _folder_objects(files: Iterable[Path], dropped: dict[str, int]) -> Iterator[Any]:
    for path in files:
        try:
            with closing(open_lines(path, {})) as lines:
                yield from _document("".join(lines), str(path))
        except TraceError:
            dropped["file that is no JSON"] = dropped.get("file that is no JSON", 0) + 1


def _collector(known: Format, where: str, sample: Any) -> Collector:
    columns = known.columns
    clock = None
    if columns.timestamp is not None:
        unit = columns.timestamp_unit or unit_in_name(columns.timestamp)
        if unit is None and isinstance(sample, str) and _is_date(sample):
            unit = "date"
        if unit is None:
            problem = "missing; expected the unit of the arrival times: s, ms, us, ns or date"
            raise TraceError(Fault(where, "columns.timestamp_unit", problem))
        clock = Clock(unit)
    has_output = columns.output is not None
    collector = Collector(clock, has_output=has_output, failed_without_output=known.failed_without_output)
    collector.block_tokens = columns.block_tokens or 0
    if known.note:
        collector.notes.append(known.note)
    return collector


def _is_date(text: str) -> bool:
    with suppress(ValueError):
        Clock("date").seconds(text)
        return True
    return False


def _finish(collector: Collector, known: Format, where: str, dropped: Mapping[str, int]) -> Trace:
    collector.dropped.update(dropped)
    if known.shape == "conversation" and len(set(collector.sessions)) > 1:
        collector.clock = None
        collector.times = array("d")
        collector.notes.append("times start at 0 in every conversation, so the trace has no arrivals")
    conversations = known.shape == "turns" and any(session >= 0 for session in collector.sessions)
    return collector.finish(where, "AIPerf" if conversations else known.name)


# CSV


def _read_csv(lines: Iterable[str], where: str, columns: Columns | None, dropped: dict[str, int]) -> Trace:
    source = iter(lines)
    header_line = next(source)
    delimiter = max(",;\t", key=header_line.count)
    csv.field_size_limit(_LONGEST_FIELD)
    try:
        header = [cell.strip() for cell in next(csv.reader([header_line], delimiter=delimiter))]
    except csv.Error as problem:
        raise TraceError(Fault(where, "", f"has a header row that cannot be read: {problem}")) from None
    known = recognise_csv(header, where) if columns is None else custom_format(columns, header, where, nested=False)
    rows = _csv_rows(source, delimiter, dropped)
    head = list(islice(rows, 1))
    names = known.columns
    place = {name: header.index(name) for name in (names.input, names.output, names.timestamp, names.session) if name}
    sample = head[0][place[names.timestamp]] if names.timestamp and head and len(head[0]) == len(header) else None
    collector = _collector(known, where, sample)
    if names.session is None and names.output is not None:
        _fill(chain(head, rows), place[names.input], place[names.output], place.get(names.timestamp or ""), collector)
    else:
        _fill_slowly(chain(head, rows), place, known, collector)
    return _finish(collector, known, where, dropped)


def _csv_rows(lines: Iterator[str], delimiter: str, dropped: dict[str, int]) -> Iterator[list[str]]:
    reader = csv.reader(lines, delimiter=delimiter)
    while True:
        try:
            yield from reader
        except csv.Error:
            dropped["malformed line"] = dropped.get("malformed line", 0) + 1
            continue
        return


def _fill(rows: Iterable[list[str]], i: int, o: int, t: int | None, collector: Collector) -> None:
    """Add rows of three columns; the usual case is kept short, for traces have tens of millions of rows."""
    inputs, outputs, times = collector.inputs.append, collector.outputs.append, collector.times.append
    seconds = collector.clock.seconds if collector.clock is not None else None
    for row in rows:
        try:
            length, output = int(row[i]), int(row[o])
            if 0 < length <= HUGE_TOKENS and 0 < output <= HUGE_TOKENS:
                if seconds is not None and t is not None:
                    times(seconds(row[t]))
                inputs(length)
                outputs(output)
                continue
        except (ValueError, IndexError):
            pass
        if row:
            collector.add(_cell(row, i), _cell(row, o), _cell(row, t))


def _fill_slowly(rows: Iterable[list[str]], place: Mapping[str, int], known: Format, collector: Collector) -> None:
    names = known.columns
    i, o, t, s = (place.get(name or "") for name in (names.input, names.output, names.timestamp, names.session))
    for row in rows:
        if row and collector.add(_cell(row, i), _cell(row, o), _cell(row, t)) and s is not None:
            collector.add_session(_cell(row, s))


def _cell(row: list[str], place: int | None) -> str | None:
    return row[place].strip() if place is not None and place < len(row) else None


# JSON


def _read_json(lines: Iterable[str], where: str, columns: Columns | None, dropped: dict[str, int]) -> Trace:
    source = iter(lines)
    head = list(islice((line for line in source if line.strip()), _SAMPLES))
    values = [_loads(line) for line in head]
    rows: Iterable[Any] | None = None
    if len(head) == 1 and isinstance(values[0], list):
        rows = values[0]
    elif values[0] is None and (head[0].lstrip()[0] == "[" or sum(isinstance(v, Mapping) for v in values) < 2):
        head = [*head, *source]
        rows = _whole(head, where, values)
    if rows is None:
        rows = _objects(chain(head, source), dropped)
    else:
        values = list(islice(iter(rows), _SAMPLES))
    parsed = [value for value in values if isinstance(value, Mapping)]
    keys = list(dict.fromkeys(str(key) for row in parsed for key in row))
    known = recognise_json(parsed, where) if columns is None else custom_format(columns, keys, where, nested=True)
    return _read_objects(rows, known, where, parsed, dropped)


def _read_objects(
    rows: Iterable[Any], known: Format, where: str, samples: list[Mapping[str, Any]], dropped: dict[str, int]
) -> Trace:
    timestamp = known.columns.timestamp
    sample = next((row[timestamp] for row in samples if timestamp is not None and timestamp in row), None)
    collector = _collector(known, where, sample)
    read = row_reader(known, collector)
    for row in rows:
        if isinstance(row, Mapping):
            read(row)
        else:
            collector.drop("row that is no object")
    return _finish(collector, known, where, dropped)


def _whole(lines: list[str], where: str, values: list[Any]) -> list[Any] | None:
    """Read the file as one document; ``None`` if it is none, but has lines that are objects."""
    try:
        return _document("".join(lines), where)
    except TraceError:
        if any(isinstance(value, Mapping) for value in values):
            return None
        raise


def _loads(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _objects(lines: Iterable[str], dropped: dict[str, int]) -> Iterator[Any]:
    for line in lines:
        if not line.strip():
            continue
        value = _loads(line)
        if value is None:
            dropped["malformed JSON"] = dropped.get("malformed JSON", 0) + 1
        else:
            yield value


def _document(text: str, where: str) -> list[Any]:
    try:
        value = json.loads(text)
    except RecursionError:
        raise TraceError(Fault(where, "", "is nested too deeply to be read")) from None
    except ValueError as problem:
        raise TraceError(Fault(where, "", f"is not valid JSON: {problem}")) from None
    return value if isinstance(value, list) else [value]
