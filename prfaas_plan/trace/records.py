"""What a request trace holds once it is read: lengths, times, block hashes, and what was left out."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field

from prfaas_plan.records import quantity, text

__all__ = ["Columns", "Trace"]

TIME_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
"""Units a timestamp column may have, in seconds."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Which column (or JSON key) of a trace holds what, for a format that is not a known one.

    ``timestamp`` holds numbers in ``timestamp_unit``, or dates as text; then no unit is needed.
    """

    input: str = text("column of the input length in tokens")
    output: str | None = text("column of the output length in tokens", default=None)
    timestamp: str | None = text("column of the arrival time", default=None)
    timestamp_unit: str | None = text("unit of numeric arrival times", choices=(*TIME_UNITS, "date"), default=None)
    hash_ids: str | None = text("key of the list of prefix block ids (JSON lines only)", default=None)
    block_tokens: int | None = quantity("token", "tokens of one prefix block", at_least=1, default=None)
    session: str | None = text("column that names the conversation", default=None)


@dataclass(frozen=True)
class Trace:
    """The requests of a trace in order of arrival, in compact arrays of one entry a request.

    Arrays of things that the file does not have are empty.
    """

    path: str
    format: str
    """Name of the format that was recognised."""
    input_tokens: array[int]
    """Full input lengths [token], each at least 1."""
    output_tokens: array[int]
    """Output lengths [token], 0 included; empty where the file has none."""
    times_s: array[float] = field(default_factory=lambda: array("d"))
    """Arrival times from the first request [s], never falling; empty where the file has none."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Rows that were left out, by reason."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Rows that were kept but are odd, by kind."""
    notes: tuple[str, ...] = ()
    start: str = ""
    """Date and time of the first request, as far as the file tells; empty where times are relative."""
    block_tokens: int = 0
    """Tokens of one prefix block; 0 where the file has no block hashes."""
    block_ids: array[int] = field(default_factory=lambda: array("q"))
    """Prefix block ids of all requests, one request after the other."""
    block_ends: array[int] = field(default_factory=lambda: array("q"))
    """Where the blocks of each request end in `block_ids`."""
    sessions: array[int] = field(default_factory=lambda: array("q"))
    """Number of the conversation of each request, -1 where it has none."""

    @property
    def requests(self) -> int:
        """Number of requests."""
        return len(self.input_tokens)
