"""Reads the JSON objects of trace formats that hold more than one independent request a row."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from prfaas_plan.trace.collector import Collector, token_count
from prfaas_plan.trace.formats import Format

__all__ = ["RowReader", "row_reader"]

RowReader = Callable[[Mapping[str, Any]], None]
_DEEPEST = 20
SERVING_SIM_BLOCK = 16
"""Tokens of one block of a trace that has token ids: what common engines use."""
_MOST_BLOCKS = 1 << 22
_TEXT_KEYS = ("text_input", "messages", "payload")


def row_reader(known: Format, collector: Collector) -> RowReader:
    """Give the function that takes one JSON object of a format and adds its requests to the collector."""
    if known.shape == "conversation":
        return _Conversations(collector).read
    if known.shape == "servingsim":
        return _ServingSim(collector).read
    if known.shape == "turns":
        return _Turns(known, collector).read
    return _Rows(known, collector).read


def _value(row: Mapping[str, Any], key: str | None) -> Any:
    """Look a key up; ``usage.prompt_tokens`` also finds a key of a nested object."""
    if key is None:
        return None
    if key in row or "." not in key:
        return row.get(key)
    inner: Any = row
    for name in key.split("."):
        inner = inner.get(name) if isinstance(inner, Mapping) else None
    return inner


def _name(value: Any) -> Any:
    """Make the name of a conversation hashable."""
    return value if value is None or isinstance(value, (str, int)) else repr(value)


class _Rows:
    """One request a row."""

    def __init__(self, known: Format, collector: Collector) -> None:
        self.columns = known.columns
        self.parent = known.parent
        self.collector = collector
        self.roots: dict[Any, Any] = {}

    def read(self, row: Mapping[str, Any]) -> None:
        columns, collector = self.columns, self.collector
        time = _value(row, columns.timestamp)
        if not collector.add(_value(row, columns.input), _value(row, columns.output), time):
            return
        if columns.hash_ids is not None:
            collector.add_blocks(_value(row, columns.hash_ids))
        if columns.session is not None:
            collector.add_session(self._session(row))

    def _session(self, row: Mapping[str, Any]) -> Any:
        own = _name(_value(row, self.columns.session))
        if self.parent is None:
            return own
        before = _name(row.get(self.parent))
        root = self.roots.get(before, own if before in (None, -1, "-1", "") else before)
        self.roots[own] = root
        return root


@dataclass(frozen=True, slots=True)
class _Turn:
    """The latest turn of a conversation: its time, input, input and output, and block ids."""

    time: Any
    length: int
    context: int
    blocks: list[Any]


class _Turns:
    """Mooncake rows with conversations, as AIPerf writes them: later turns hold only what is new.

    The first turn of a conversation has a time stamp; a later one has a ``delay`` after the turn before it, and its
    lengths and block ids are those of the new tokens. The context of a turn is the sum of all inputs and outputs
    before it plus what is new.
    """

    def __init__(self, known: Format, collector: Collector) -> None:
        self.columns = known.columns
        self.collector = collector
        self.turns: dict[Any, _Turn] = {}
        self.fresh = 0

    def read(self, row: Mapping[str, Any]) -> None:
        columns, collector = self.columns, self.collector
        session = _name(row.get("session_id"))
        before = self.turns.get(session) if session is not None else None
        time, length = row.get(columns.timestamp or ""), row.get(columns.input)
        output = row.get(columns.output or "")
        if length is None and any(key in row for key in _TEXT_KEYS):
            collector.drop("text without token counts")
            return
        blocks = row.get(columns.hash_ids or "")
        ids = list(blocks) if isinstance(blocks, list) else []
        if before is not None and time is None and row.get("is_restart") is not True:
            time, length = _later(before.time, row.get("delay")), _sum(before.context, length)
            ids = self._continued(before, length)
            collector.counts["later turns, context added and placed without the service time before them"] += 1
        if not collector.add(length, output, time):
            return
        if columns.hash_ids is not None:
            collector.add_blocks(ids)
        collector.add_session(session)
        if session is not None:
            total = token_count(length)
            self.turns[session] = _Turn(time, total, total + token_count(output), ids)

    def _continued(self, before: _Turn, length: Any) -> list[Any]:
        """Keep the blocks that the turn before had filled, and give every later block an id of its own."""
        size = self.columns.block_tokens or 1
        if not isinstance(length, int) or not before.blocks:
            return []
        kept = before.blocks[: before.length // size]
        count = max(min(-(-length // size), _MOST_BLOCKS) - len(kept), 0)
        self.fresh += count
        return kept + [f"new {self.fresh - i}" for i in range(count)]


def _later(last: Any, delay: Any) -> Any:
    try:
        return float(last) + (float(delay) if delay is not None else 0.0)
    except (TypeError, ValueError, OverflowError):
        return None


def _sum(context: int, new: Any) -> Any:
    try:
        return context + token_count(new)
    except ValueError:
        return new


def _token_id(value: Any) -> int:
    return value if type(value) is int else zlib.crc32(repr(value).encode())


def _token_blocks(tokens: Any) -> list[int]:
    """Name each full block of token ids by all tokens up to its end."""
    if not isinstance(tokens, list):
        return []
    blocks: list[int] = []
    name = 0
    for start in range(0, len(tokens) - SERVING_SIM_BLOCK + 1, SERVING_SIM_BLOCK):
        name = hash((name, *map(_token_id, tokens[start : start + SERVING_SIM_BLOCK])))
        blocks.append(name)
    return blocks


class _ServingSim:
    """LLMServingSim rows: flat ones, and agentic ones with ``sub_requests`` that follow each other."""

    def __init__(self, collector: Collector) -> None:
        self.collector = collector
        collector.block_tokens = SERVING_SIM_BLOCK

    def read(self, row: Mapping[str, Any]) -> None:
        time = row.get("arrival_time_ns")
        session = _name(row.get("session_id"))
        inner = row.get("sub_requests")
        if inner is None:
            self._add(row, time, session)
        elif not isinstance(inner, list):
            self.collector.drop("malformed sub_requests")
        else:
            for number, part in enumerate(inner):
                if not isinstance(part, Mapping):
                    self.collector.drop("malformed sub_requests")
                    continue
                self.collector.counts["later turns, placed without the service time before them"] += number > 0
                self._add(part, time, session)
                wait = part.get("tool_duration_ns")
                if isinstance(wait, (int, float)) and isinstance(time, (int, float)):
                    time += wait

    def _add(self, row: Mapping[str, Any], time: Any, session: Any) -> None:
        if self.collector.add(row.get("input_toks"), row.get("output_toks"), time):
            self.collector.add_blocks(_token_blocks(row.get("input_tok_ids")))
            self.collector.add_session(session)


class _Conversations:
    """kv-cache-tester: a conversation an object, block ids local to it, only full blocks hashed."""

    def __init__(self, collector: Collector) -> None:
        self.collector = collector
        self.number = -1
        self.seen: set[int] = set()

    def read(self, row: Mapping[str, Any]) -> None:
        requests = row.get("requests")
        if not isinstance(requests, list):
            self.collector.drop("conversation without requests")
            return
        size = row.get("block_size")
        if not isinstance(size, int) or size < 1 or self.collector.block_tokens not in (0, size):
            self.collector.drop("conversation without a block size, or with another one")
            return
        self.collector.block_tokens = size
        self.number += 1
        content = hash(repr(requests))
        self.collector.counts["conversations that repeat another, kept"] += content in self.seen
        self.seen.add(content)
        self._requests(requests, 0)

    def _requests(self, requests: list[Any], depth: int) -> None:
        for request in requests:
            if not isinstance(request, Mapping):
                self.collector.drop("request that is no object")
            elif isinstance(request.get("requests"), list) and "in" not in request:
                if depth < _DEEPEST:
                    self._requests(request["requests"], depth + 1)
            elif self.collector.add(request.get("in"), request.get("out"), request.get("t")):
                blocks = request.get("hash_ids")
                ids = blocks if isinstance(blocks, list) else []
                self.collector.add_blocks([f"{self.number}/{i}" for i in ids])
                self.collector.add_session(self.number)
