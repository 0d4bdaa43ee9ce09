"""Gathers the rows of a trace: checks each value, counts what is left out by reason, keeps the rest compactly."""

from __future__ import annotations

import math
import operator
import re
from array import array
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from prfaas_plan.errors import Fault, TraceError
from prfaas_plan.trace.records import Trace

__all__ = ["HUGE_TOKENS", "Clock", "Collector", "token_count"]

HUGE_TOKENS = 1_000_000_000
"""No request has more tokens than this; a larger number is a fault of the file."""
_LARGEST_ID = 1 << 62
_HUGE_SECONDS = 1e12
_DIVISORS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_CLOCK = re.compile(r"(?::([0-9]{2}(?:[.,][0-9]+)?))?\s*(Z|[+-][0-9]{2}:?[0-9]{2})?")
_EPOCH = datetime(1970, 1, 1)


def token_count(value: Any) -> int:
    """Read a token count of 0 or more from text or a number.

    Raises `ValueError` whose text is the reason: missing, not a number, negative, huge.

    >>> token_count("12"), token_count(12.0)
    (12, 12)
    """
    if value is None or value == "":
        raise ValueError("missing")
    try:
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise ValueError("not a number")
        number = float(value)
    except OverflowError:
        number = math.inf
    except ValueError:
        raise ValueError("not a number") from None
    if math.isnan(number):
        raise ValueError("not a number")
    if number < 0:
        raise ValueError("negative")
    if number > HUGE_TOKENS:
        raise ValueError("huge")
    if number != int(number):
        raise ValueError("not a whole number")
    return int(number)


@dataclass(slots=True)
class Clock:
    """Turns the timestamps of a file into seconds since the first one that was read.

    `unit` is ``s``, ``ms``, ``us`` or ``ns`` for numbers, ``date`` for text such as ``2023-11-16 18:17:03.9799600``
    with any number of decimals and an optional UTC offset.
    """

    unit: str
    first: float | int | None = None
    zoned: bool = False
    naive: bool = False
    _minutes: dict[str, int] = field(default_factory=dict)

    def seconds(self, value: Any) -> float:
        """Read one timestamp [s from the first]; `ValueError` tells the reason it is none."""
        if value is None or value == "":
            raise ValueError("missing")
        if self.unit == "date":
            return self._date(value)
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise ValueError("not a number")
        try:
            number = int(value) if not isinstance(value, float) else value
        except ValueError:
            try:
                number = float(value)
            except ValueError:
                raise ValueError("not a number") from None
        if isinstance(number, float) and math.isnan(number):
            raise ValueError("not a number")
        if abs(number) > _HUGE_SECONDS * _DIVISORS[self.unit]:
            raise ValueError("huge")
        if self.first is None:
            self.first = number
        return (number - self.first) / _DIVISORS[self.unit]

    def _date(self, value: Any) -> float:
        if not isinstance(value, str):
            raise ValueError("not a date")
        minute = self._minutes.get(value[:16])
        if minute is None:
            minute = self._new_minute(value[:16])
        end, offset = len(value), 0
        if end > 22 and value[-6] in "+-":
            offset, end = _offset_seconds(value[-6:]), end - 6
            self.zoned = True
        else:
            self.naive = True
        try:
            second = float(value[17:end])
            if not 0.0 <= second < 61.0 or value[16] != ":":
                raise ValueError
        except (ValueError, IndexError):
            second, offset = self._odd_date(value[16:])
        if self.first is None:
            self.first = minute - offset
        return float(minute - offset - self.first) + second

    def _new_minute(self, text: str) -> int:
        try:
            moment = datetime.fromisoformat(text.strip().replace("/", "-"))
        except ValueError:
            raise ValueError("not a date") from None
        if len(text.strip()) < 16 or moment.tzinfo is not None:
            raise ValueError("not a date")
        minute = round((moment - _EPOCH).total_seconds())
        if len(self._minutes) > 200_000:
            self._minutes.clear()
        self._minutes[text] = minute
        return minute

    def _odd_date(self, rest: str) -> tuple[float, int]:
        match = _CLOCK.fullmatch(rest.strip())
        if match is None or float((match[1] or "0").replace(",", ".")) >= 61.0:
            raise ValueError("not a date")
        if match[2]:
            self.zoned = True
        return float((match[1] or "0").replace(",", ".")), _offset_seconds(match[2] or "Z")

    def start(self, earliest: float) -> str:
        """Write the date of the earliest request, or nothing where times are plain numbers."""
        if self.unit != "date" or self.first is None:
            return ""
        try:
            moment = _EPOCH + timedelta(seconds=self.first) + timedelta(seconds=earliest)
        except OverflowError:
            return ""
        return (moment.replace(tzinfo=UTC) if self.zoned else moment).isoformat(sep=" ")


def _offset_seconds(text: str) -> int:
    if text == "Z":
        return 0
    digits = text[1:].replace(":", "")
    if len(digits) != 4 or not digits.isdigit():
        raise ValueError("not a date")
    seconds = int(digits[:2]) * 3600 + int(digits[2:]) * 60
    return -seconds if text[0] == "-" else seconds


class Collector:
    """Takes the requests of one trace, one after the other, and makes a `Trace` of them."""

    def __init__(self, clock: Clock | None, *, has_output: bool = True, failed_without_output: bool = False) -> None:
        self.clock = clock
        self.has_output = has_output
        self.failed_without_output = failed_without_output
        self.inputs: array[int] = array("i")
        self.outputs: array[int] = array("i")
        self.times: array[float] = array("d")
        self.sessions: array[int] = array("q")
        self.block_ids: array[int] = array("q")
        self.block_ends: array[int] = array("q")
        self.block_tokens = 0
        self.dropped: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.notes: list[str] = []
        self._session_numbers: dict[Hashable, int] = {}
        self._block_numbers: dict[Hashable, int] = {}

    def drop(self, reason: str, rows: int = 1) -> None:
        """Count rows that are left out."""
        self.dropped[reason] += rows

    def add(self, length: Any, output: Any, time: Any = None) -> bool:
        """Check and keep one request; otherwise count why not and return ``False``."""
        name = "input"
        try:
            n_in = token_count(length)
            if n_in == 0:
                raise ValueError("zero")
            name = "output"
            n_out = token_count(output) if self.has_output else 0
            if n_out == 0 and self.failed_without_output:
                raise ValueError("zero (failed request)")
            name = "time"
            seconds = self.clock.seconds(time) if self.clock is not None else 0.0
        except ValueError as reason:
            self.drop(f"{name} {reason}")
            return False
        self.inputs.append(n_in)
        if self.has_output:
            self.outputs.append(n_out)
        if self.clock is not None:
            self.times.append(seconds)
        return True

    def add_blocks(self, blocks: Any) -> None:
        """Keep the block ids of the request just added; ids that are no integers are numbered."""
        ids: Sequence[Any] = blocks if isinstance(blocks, (list, tuple, array)) else ()
        if not ids:
            self.counts["without block ids"] += 1
        try:
            self.block_ids.extend(array("q", ids))
        except (TypeError, OverflowError):
            self.block_ids.extend(map(self._block_number, ids))
        self.block_ends.append(len(self.block_ids))

    def _block_number(self, name: Any) -> int:
        if type(name) is int and abs(name) < _LARGEST_ID:
            return name
        return self._block_numbers.setdefault(repr(name), len(self._block_numbers) - (1 << 63))

    def add_session(self, session: Hashable) -> None:
        """Keep the conversation of the request just added; ``None`` or empty text is none."""
        known = self._session_numbers
        number = -1 if session is None or session == "" else known.setdefault(session, len(known))
        self.sessions.append(number)

    def finish(self, path: str, name: str) -> Trace:
        """Sort by time, count zero outputs, and make the trace; `TraceError` if no request is left."""
        if not self.inputs:
            why = ", ".join(f"{n:,} rows: {reason}" for reason, n in self.dropped.most_common())
            raise TraceError(Fault(path, "", f"has no usable request ({why or 'it is empty'})"))
        if zeros := self.outputs.count(0):
            self.counts["zero output, kept"] = zeros
        self.counts = +self.counts
        if not self.block_ids:
            self.block_ends = array("q")
            del self.counts["without block ids"]
        self._sort()
        block_tokens = self._checked_block_tokens()
        earliest = self.times[0] if self.times else 0.0
        if earliest:
            self.times = array("d", (t - earliest for t in self.times))
        if self.clock is not None and self.clock.zoned and self.clock.naive:
            self.notes.append("some dates have a UTC offset and some have none; those without are taken as UTC")
        return Trace(
            path=path,
            format=name,
            input_tokens=self.inputs,
            output_tokens=self.outputs,
            times_s=self.times,
            dropped=dict(self.dropped.most_common()),
            counts=dict(self.counts.most_common()),
            notes=tuple(self.notes),
            start=self.clock.start(earliest) if self.clock is not None else "",
            block_tokens=block_tokens,
            block_ids=self.block_ids,
            block_ends=self.block_ends,
            sessions=self.sessions if self._session_numbers else array("q"),
        )

    def _checked_block_tokens(self) -> int:
        """Give the block size, or 0 where block ids are lacking or too many or few for the lengths."""
        size, ends = self.block_tokens, self.block_ends
        if not ends or not size or not self.block_ids:
            return 0
        odd = 0
        for i, length in enumerate(self.inputs):
            blocks = ends[i] - (ends[i - 1] if i else 0)
            odd += bool(blocks) and not length // size - 1 <= blocks <= -(-length // size) + 1
        if odd > 0.05 * len(ends):
            self.notes.append(
                f"{odd:,} rows have too many or too few block ids for blocks of {size} tokens: set "
                "block_tokens in a column map; prefix reuse is not computed"
            )
            return 0
        if odd:
            self.counts[f"block ids that do not fit blocks of {size} tokens"] = odd
        return size

    def _sort(self) -> None:
        times = self.times
        backwards = sum(map(operator.lt, islice(times, 1, None), times))
        if not backwards:
            return
        self.counts["out of time order, sorted"] = backwards
        order = sorted(range(len(times)), key=times.__getitem__)
        if self.block_ends:
            ends, ids = self.block_ends, self.block_ids
            self.block_ids, self.block_ends = array("q"), array("q")
            for i in order:
                self.block_ids.extend(ids[ends[i - 1] if i else 0 : ends[i]])
                self.block_ends.append(len(self.block_ids))
        self.inputs = array("i", map(self.inputs.__getitem__, order))
        if self.outputs:
            self.outputs = array("i", map(self.outputs.__getitem__, order))
        if self.sessions:
            self.sessions = array("q", map(self.sessions.__getitem__, order))
        self.times = array("d", map(times.__getitem__, order))
