"""What a benchmark file says of one run, in base units, whichever tool wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["BenchmarkFile", "Run", "Sample"]


@dataclass(frozen=True, slots=True)
class Sample:
    """One request of a run: its prompt [token] and the time to its first token [s]."""

    input_tokens: float
    ttft_s: float


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a benchmark tool, or one line of a table; ``None`` is what the file does not say."""

    where: str
    """File and place in it."""
    file: str
    """Name of the file without its folder."""
    tool: str
    method: Literal["served", "one batch"]
    """Requests sent to a server (latencies may include waiting), or one batch computed alone."""
    unit: str
    """Unit of the times in the file and where it stands there."""
    model: str = ""
    accelerator: str = ""
    engine: str = ""
    parallelism: str = ""
    precision: str = ""
    date: str = ""
    input_tokens: float | None = None
    """Mean prompt [token]."""
    output_tokens: float | None = None
    """Mean answer [token]."""
    cached_tokens: float | None = None
    """Mean part of the prompt served from a prefix cache [token]."""
    batch: int | None = None
    """Sequences of the one batch."""
    concurrency: float | None = None
    """Most requests in flight at once; infinite where nothing limits them."""
    request_rate: float | None = None
    """Rate at which requests were sent [req/s]; infinite for as fast as the limit allows."""
    requests: int | None = None
    failed: int | None = None
    duration_s: float | None = None
    ttft_s: float | None = None
    """Time to first token [s]: the median, or the mean where the file has no median."""
    itl_s: float | None = None
    """Time between tokens [s]: the median, or the mean where the file has no median."""
    mean_itl_s: float | None = None
    """Mean time per output token after the first [s]."""
    output_rate: float | None = None
    """Output tokens of all requests by the duration [token/s]."""
    prefill_s: float | None = None
    """Prefill time of the one batch [s]."""
    step_s: float | None = None
    """Decode step time of the one batch [s]."""
    speculative: bool = False
    disaggregated: bool = False
    """Whether prefill and decode ran on different instances."""
    cancelled: bool = False
    remarks: tuple[str, ...] = ()
    samples: tuple[Sample, ...] = ()


@dataclass(frozen=True, slots=True)
class BenchmarkFile:
    """The runs of one file, and what in it could not be used."""

    where: str
    tool: str
    runs: tuple[Run, ...]
    rows_read: int
    dropped: Mapping[str, int] = field(default_factory=dict)

    @property
    def rows_kept(self) -> int:
        """Rows (objects, lines, requests) that were used."""
        return self.rows_read - sum(self.dropped.values())
