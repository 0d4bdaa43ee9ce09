"""The published trace formats: how each is recognised by its keys, and what its columns mean.

Units of time belong to a format or stand in a column's name; they are never guessed from how large numbers are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prfaas_plan.errors import Fault, TraceError, nearest
from prfaas_plan.trace.records import Columns

__all__ = ["Format", "custom_format", "recognise_csv", "recognise_json", "unit_in_name"]


@dataclass(frozen=True, slots=True)
class Format:
    """One published layout of a request trace."""

    name: str
    columns: Columns
    marks: frozenset[str]
    """Keys that together tell the format from the others."""
    shape: str = "rows"
    """``rows``: one request a row; other shapes have readers of their own."""
    failed_without_output: bool = False
    """Whether a row without output is a failed request."""
    parent: str | None = None
    """Key that names the previous turn's session key, where turns are chained."""
    note: str = ""


def _format(name: str, columns: Columns, marks: str = "", **more: Any) -> Format:
    keys = [columns.input, columns.output, columns.timestamp]
    return Format(name, columns, frozenset(marks.split() if marks else [k for k in keys if k]), **more)


_CSV = (
    _format("Azure", Columns("ContextTokens", "GeneratedTokens", "TIMESTAMP", "date")),
    _format("vidur", Columns("num_prefill_tokens", "num_decode_tokens", "arrived_at", "s")),
    _format("vidur without times", Columns("num_prefill_tokens", "num_decode_tokens")),
    _format("splitwise", Columns("prompt_size", "token_size", "arrival_timestamp", "s")),
    _format(
        "BurstGPT",
        Columns("Request tokens", "Response tokens", "Timestamp", "s", session="Session ID"),
        failed_without_output=True,
    ),
)
_MOONCAKE = Columns("input_length", "output_length", "timestamp", "ms", hash_ids="hash_ids", block_tokens=512)
_JSON = (
    _format(
        "Qwen-Bailian",
        Columns("input_length", "output_length", "timestamp", "s", "hash_ids", 16, "chat_id"),
        "chat_id parent_chat_id input_length",
        parent="parent_chat_id",
    ),
    _format("kv-cache-tester", Columns("in", "out", "t", "s", "hash_ids"), "requests block_size", shape="conversation"),
    _format(
        "LLMServingSim",
        Columns("input_toks", "output_toks", "arrival_time_ns", "ns"),
        "arrival_time_ns",
        shape="servingsim",
    ),
    _format("Mooncake", _MOONCAKE, "input_length output_length", shape="turns"),
    _format(
        "Mooncake",
        Columns("input_tokens", "output_tokens", "timestamp", "ms", hash_ids="hash_ids", block_tokens=512),
        "input_tokens output_tokens hash_ids",
        shape="turns",
    ),
)
_RAGPULSE = _format(
    "RAGPulse",
    Columns("input_length", "output_length", "timestamp", "s"),
    note="lengths of the hashed chunks are in companion files, so prefix reuse is not computed",
)
_TEXT_KEYS = ("text_input", "messages", "payload", "input", "prompt", "conversations")
_UNIT_IN_NAME = re.compile(
    r"(?:[_ (\[-])(s|sec|secs|seconds|ms|msec|millis|milliseconds|us|µs|micros|ns|nanos)[)\]]?$", re.I
)
_UNIT_WORDS = {"s": "s", "ms": "ms", "us": "us", "µs": "us", "ns": "ns", "mi": "ms", "na": "ns"}


def unit_in_name(name: str) -> str | None:
    """Find the unit of time that a column's name states.

    >>> unit_in_name("arrival_time_ns"), unit_in_name("Start (ms)"), unit_in_name("timestamp")
    ('ns', 'ms', None)
    """
    match = _UNIT_IN_NAME.search(name)
    if match is None:
        return None
    word = match[1].lower()
    if word.startswith("micro"):
        return "us"
    return _UNIT_WORDS.get(word) or _UNIT_WORDS.get(word[:2]) or "s"


def recognise_csv(header: Sequence[str], where: str) -> Format:
    """Tell the format of a CSV file by its header row.

    Raises `TraceError` if there is no header, the file is known to hold something else, or the names are unknown.
    """
    names = set(header)
    if {"prompt_time", "token_time"} <= names or "e2e_time" in names:
        raise _refusal(where, "is a table of measured times (a performance model), not a request trace")
    for known in _CSV:
        if known.marks <= names:
            return _without_absent(known, names)
    if (plain := _plain(header)) is not None:
        return plain
    if header and all(_is_number(cell) or cell in ("", "Gamma", "Weibull") for cell in header):
        if len(header) == 6 and header[3] in ("", "Gamma", "Weibull"):
            raise _refusal(where, _SERVEGEN)
        raise _refusal(where, "has no header row; add one, so that columns can be told apart by name")
    raise _unknown(where, list(header))


_SERVEGEN = (
    "is part of a ServeGen client description (rates and length distributions by window), not a list of requests; "
    "generate requests with ServeGen and write them as CSV with the columns input_tokens, output_tokens and timestamp_s"
)


def _plain(names: Sequence[str]) -> Format | None:
    """Recognise a file that says what it holds in plain names: input_tokens, output_tokens, timestamp_s."""
    if not {"input_tokens", "output_tokens"} <= set(names):
        return None
    timed = [name for name in names if name.startswith(("timestamp", "arrival", "arrived", "time"))]
    return Format("plain", Columns("input_tokens", "output_tokens", timed[0] if timed else None), frozenset())


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def recognise_json(samples: Sequence[Mapping[str, Any]], where: str) -> Format:
    """Tell the format of JSON rows by the keys of the first ones.

    Raises `TraceError` if the file is known to hold something else (text without token counts, ServeGen windows)
    or no row has known keys.
    """
    for row in samples:
        names = set(row)
        if names and all(n.isdigit() for n in names) and _holds_distributions(row):
            raise _refusal(where, _SERVEGEN)
        if "input_length" in names and isinstance(row.get("hash_ids"), Mapping):
            return _RAGPULSE
        for known in _JSON:
            if known.marks <= names:
                return _without_absent(known, {key for sample in samples for key in sample})
    for row in samples:
        if (plain := _plain(list(row))) is not None:
            return plain
    for row in samples:
        if texts := [key for key in _TEXT_KEYS if isinstance(row.get(key), (str, list, Mapping))]:
            problem = (
                f"has text ({', '.join(texts)}) but no token counts: count tokens with the model's tokenizer first"
            )
            raise _refusal(where, f"{problem}, and write them as input_length and output_length")
    raise _unknown(where, list(samples[0]) if samples else [])


def _holds_distributions(row: Mapping[str, Any]) -> bool:
    return all(isinstance(v, Mapping) and any(k.endswith("tokens") for k in v) for v in row.values())


def _without_absent(known: Format, names: set[str]) -> Format:
    """Leave out the optional columns of a format that this file does not have."""
    from dataclasses import replace

    columns = known.columns
    if columns.session is not None and columns.session not in names:
        columns = replace(columns, session=None)
    if columns.hash_ids is not None and columns.hash_ids not in names and known.shape != "conversation":
        columns = replace(columns, hash_ids=None)
    if known.shape == "turns" and columns.timestamp not in names:
        columns = replace(columns, timestamp=None)
    return replace(known, columns=columns)


def custom_format(columns: Columns, names: Sequence[str], where: str, *, nested: bool) -> Format:
    """Make a format of a column map, checked against the names in the file.

    In JSON (`nested`) a name such as ``usage.prompt_tokens`` reaches into an object, and block ids can be read.
    Raises `TraceError` with every column that is missing.
    """
    wanted = {
        field: getattr(columns, field)
        for field in ("input", "output", "timestamp", "hash_ids", "session")
        if getattr(columns, field) is not None
    }
    faults = [
        Fault(where, f"columns.{field}", f"no such column; the file has {_listed(names)}", name, nearest(name, names))
        for field, name in wanted.items()
        if name not in names and not (nested and name.split(".")[0] in names)
    ]
    if columns.hash_ids is not None and not nested:
        faults.append(Fault(where, "columns.hash_ids", "block ids are read from JSON lines only", columns.hash_ids))
    if columns.hash_ids is not None and columns.block_tokens is None:
        faults.append(Fault(where, "columns.block_tokens", "missing; expected the tokens of one prefix block"))
    if faults:
        raise TraceError(faults)
    return Format("column map", columns, frozenset())


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name[:40]) for name in names[:12])
    return shown + (", …" if len(names) > 12 else "") if names else "no columns"


def _refusal(where: str, problem: str) -> TraceError:
    return TraceError(Fault(where, "", problem))


def _unknown(where: str, names: Sequence[str]) -> TraceError:
    problem = f"is in no known trace format; it has {_listed(names)}"
    return _refusal(
        where, f"{problem}. Say which column holds what, for example columns = {{ input = ..., output = ... }}"
    )
