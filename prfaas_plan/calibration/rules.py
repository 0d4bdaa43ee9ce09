"""Which benchmark runs say how long service takes, and which only how long requests waited.

A prefill time comes from one request at a time, from one batch alone, or from the duration of a run of
one-token answers that keeps the instance busy. A decode step comes from the time between tokens at a known
number of sequences and a known context.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal, TypeVar

from prfaas_plan.calibration.benchmark_records import Run

__all__ = ["ACCEPTABLE", "Evidence", "Flag", "Reading", "Refusal", "judge"]

REQUESTS_PER_SLOT = 5
"""Fewer requests than this times the concurrency are mostly ramp-up and drain."""
SHORTEST_RUN_S = 60.0
RARELY_SHARED = 0.1
"""Mean requests in flight up to which an open run's median time to first token is hardly queueing."""
BUSY_SHARE = 0.8
"""Below this share of the allowed concurrency the sequences that decode at once are counted by Little's law."""
SAMPLE_BIN = 1.05
"""Requests whose lengths differ by no more than this ratio are one measured length."""
DECODE_SPREAD = 1.25
"""Prompts whose lengths differ by more than this ratio are flagged in a decode time."""
ACCEPTABLE = ("errors", "few-requests", "short-run", "speculative")
"""Rules that a caller may turn from a refusal into a flag; queueing is none of them."""

T = TypeVar("T")
CLOSED_LOOP = (
    "several requests are in flight and sent as fast as possible, so the time to first token is mostly queueing; "
    "run it at a concurrency of 1, or with answers of one token"
)
Phase = Literal["prefill", "decode"]


@dataclass(frozen=True, slots=True)
class Reading:
    """One service time that a run gives."""

    phase: Phase
    tokens: float
    """Prompt length for prefill, mean context for decode [token]."""
    batch: int
    seconds: float
    basis: str
    """How the time was read from the run."""
    run: Run
    requests: int = 1


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a run gives no time of a phase."""

    where: str
    phase: Phase
    rule: str
    reason: str


@dataclass(frozen=True, slots=True)
class Flag:
    """A doubt about a run whose times are used all the same."""

    where: str
    doubt: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the runs say: service times, refusals and doubts."""

    readings: tuple[Reading, ...]
    refusals: tuple[Refusal, ...]
    flags: tuple[Flag, ...]


def judge(runs: Sequence[Run], accept: Sequence[str] = ()) -> Evidence:
    """Read prefill and decode times from runs; `accept` names rules of `ACCEPTABLE` that only flag."""
    evidence = _Judge(accept)
    for run in runs:
        if run.method == "one batch" and (run.input_tokens or 0.0) < 1.0:
            evidence.refuse(
                run, "prefill" if run.step_s is None else "decode", "no-length", "its prompts have no tokens"
            )
        elif run.method == "one batch":
            evidence.one_batch(run)
        else:
            evidence.served(run)
    return Evidence(tuple(evidence.readings), tuple(evidence.refusals), tuple(evidence.flags))


class _Judge:
    def __init__(self, accept: Sequence[str]) -> None:
        self.accept = accept
        self.readings: list[Reading] = []
        self.refusals: list[Refusal] = []
        self.flags: list[Flag] = []

    def flag(self, run: Run, doubt: str) -> None:
        self.flags.append(Flag(run.where, doubt))

    def refuse(self, run: Run, phase: Phase, rule: str, reason: str) -> None:
        self.refusals.append(Refusal(run.where, phase, rule, reason))

    def one_batch(self, run: Run) -> None:
        batch = run.batch or 1
        length = run.input_tokens or 0.0
        if run.prefill_s is not None:
            basis = "one batch" if batch == 1 else f"one batch of {batch}, by their number"
            self.readings.append(Reading("prefill", length, batch, run.prefill_s / batch, basis, run))
        if run.step_s is not None:
            context = length + 0.5 * (run.output_tokens or 0.0)
            self.readings.append(Reading("decode", context, batch, run.step_s, "one batch", run))

    def served(self, run: Run) -> None:
        answers_one_token = run.output_tokens is not None and run.output_tokens <= 1.0
        before = len(self.readings)
        if self._sound(run, "prefill"):
            self._prefill(run, one_token=answers_one_token)
        if not answers_one_token and self._sound(run, "decode"):
            self._decode(run)
        if len(self.readings) > before:
            for remark in run.remarks:
                self.flag(run, remark)

    def _sound(self, run: Run, phase: Phase) -> bool:
        """Apply the rules that hold for every served run."""
        sound = True
        for rule, reason in _troubles(run, phase):
            if rule in self.accept:
                self.flag(run, f"accepted although {reason}")
            else:
                self.refuse(run, phase, rule, reason)
                sound = False
        return sound

    def _prefill(self, run: Run, *, one_token: bool) -> None:
        if run.cached_tokens:
            reason = f"{run.cached_tokens:,.0f} tokens of a prompt came from a prefix cache: the rest was computed"
            self.refuse(run, "prefill", "prefix-cache", reason)
        elif run.ttft_s is None and not (one_token and run.concurrency != 1):
            self.refuse(run, "prefill", "no-time", "it has no time to first token (streaming was off)")
        elif run.concurrency == 1:
            self._one_at_a_time(run)
        elif run.request_rate is not None and math.isfinite(run.request_rate):
            self._open_loop(run)
        elif one_token and _counts(run):
            self._saturated(run)
        else:
            self.refuse(run, "prefill", "queueing", CLOSED_LOOP)

    def _one_at_a_time(self, run: Run) -> None:
        basis = "time to first token, one request at a time"
        for length, seconds, requests in _by_length(run):
            self.readings.append(Reading("prefill", length, 1, seconds, basis, run, requests))

    def _open_loop(self, run: Run) -> None:
        in_flight = _in_flight(run)
        if in_flight is None:
            self.refuse(
                run, "prefill", "queueing", "requests may overlap, and the file does not say how many are in flight"
            )
        elif in_flight > RARELY_SHARED:
            reason = f"{in_flight:.2g} requests are in flight on average, so the time to first token has waiting in it"
            self.refuse(run, "prefill", "queueing", reason)
        else:
            self.flag(run, f"open loop: a request meets another one {in_flight:.0%} of the time")
            self._one_at_a_time(run)

    def _saturated(self, run: Run) -> None:
        if run.duration_s and run.requests:
            seconds = run.duration_s / run.requests
            self.flag(
                run, "prefill time is duration / requests of one-token answers: right if the instance was never idle"
            )
            basis = f"duration / requests at {_limit(run)} in flight"
            batch = 2 if run.concurrency is None or math.isinf(run.concurrency) else max(2, round(run.concurrency))
            length = run.input_tokens or 0.0
            self._note_spread(run, SAMPLE_BIN)
            self.readings.append(Reading("prefill", length, batch, seconds, basis, run, run.requests))

    def _decode(self, run: Run) -> None:
        if run.itl_s is None:
            self.refuse(run, "decode", "no-time", "it has no time between tokens (streaming was off)")
        elif run.concurrency is None or math.isinf(run.concurrency):
            reason = "nothing limits the requests in flight, so the batch is not known; set a maximum concurrency"
            self.refuse(run, "decode", "unknown-batch", reason)
        elif run.concurrency > 1 and run.request_rate is not None and math.isfinite(run.request_rate):
            reason = "requests arrive at a rate, so the batch varies; send them as fast as the concurrency allows"
            self.refuse(run, "decode", "unknown-batch", reason)
        else:
            batch = self._batch(run, run.concurrency)
            self._note_spread(run, DECODE_SPREAD)
            if run.mean_itl_s is not None and run.mean_itl_s > 1.2 * run.itl_s:
                self.flag(
                    run,
                    f"the mean time between tokens is {run.mean_itl_s / run.itl_s:.1f} times the median: "
                    "prefills interrupt decode; the median is taken",
                )
            context = (run.input_tokens or 0.0) + 0.5 * (run.output_tokens or 0.0)
            basis = f"time between tokens of {batch} sequence{'s' * (batch > 1)}"
            self.readings.append(Reading("decode", context, batch, run.itl_s, basis, run, run.requests or 1))

    def _note_spread(self, run: Run, ratio: float) -> None:
        """Flag prompts whose lengths differ by more than a ratio where only their mean is used."""
        lengths = [s.input_tokens for s in run.samples]
        if lengths and max(lengths) > ratio * min(lengths):
            self.flag(run, f"prompts of {min(lengths):,.0f} to {max(lengths):,.0f} tokens stand for their mean")

    def _batch(self, run: Run, concurrency: float) -> int:
        """Count the sequences that decode at once: all in flight, or fewer by Little's law."""
        allowed = max(1, round(concurrency))
        if allowed == 1 or run.output_rate is None or run.mean_itl_s is None:
            return allowed
        decoding = run.output_rate * run.mean_itl_s
        if decoding >= BUSY_SHARE * allowed:
            return allowed
        self.flag(run, f"{decoding:.3g} of {allowed} requests decode at once (output rate × time per token)")
        return max(1, round(decoding))


def _troubles(run: Run, phase: Phase) -> Iterator[tuple[str, str]]:
    slots = run.concurrency if run.concurrency is not None and math.isfinite(run.concurrency) else 1.0
    if run.requests == 0:
        yield "no-request", "no request completed"
    elif (run.input_tokens or 0.0) < 1.0:
        yield "no-length", "its prompts have no tokens"
    if run.failed:
        yield "errors", f"{run.failed:,} requests failed"
    if run.requests and run.requests < REQUESTS_PER_SLOT * slots:
        yield "few-requests", f"{run.requests:,} requests are fewer than {REQUESTS_PER_SLOT} times {slots:g} in flight"
    if run.duration_s is not None and run.duration_s < SHORTEST_RUN_S:
        yield "short-run", f"it lasted {run.duration_s:.3g} s, less than {SHORTEST_RUN_S:g} s"
    if run.cancelled:
        yield "cancelled", "it was cancelled"
    if run.disaggregated and phase == "decode":
        yield (
            "disaggregated",
            "prefill and decode ran on different instances: the requests in flight are no batch of one",
        )
    if run.speculative and phase == "decode":
        yield "speculative", "speculative decoding was on: the time between tokens is not that of a decode step"


def _counts(run: Run) -> bool:
    return bool(run.duration_s and run.requests)


def _limit(run: Run) -> str:
    return "all" if run.concurrency is None or math.isinf(run.concurrency) else f"{run.concurrency:g}"


def _in_flight(run: Run) -> float | None:
    """Give the mean number of requests in flight by Little's law."""
    if run.requests is None or not run.duration_s or run.ttft_s is None:
        return None
    after = (run.output_tokens or 1.0) - 1.0
    if after > 0 and run.itl_s is None:
        return None
    return run.requests / run.duration_s * (run.ttft_s + max(0.0, after) * (run.itl_s or 0.0))


def _by_length(run: Run) -> Iterator[tuple[float, float, int]]:
    """Give length [token], median time [s] and number of requests: of the run, or of its requests by length."""
    if not run.samples:
        yield run.input_tokens or 0.0, run.ttft_s or 0.0, run.requests or 1
        return
    for group in bins(sorted(run.samples, key=lambda s: s.input_tokens), lambda s: s.input_tokens, SAMPLE_BIN):
        yield median(s.input_tokens for s in group), median(s.ttft_s for s in group), len(group)


def bins(items: Sequence[T], size: Callable[[T], float], ratio: float) -> Iterator[list[T]]:
    """Cut items that rise in size into groups whose sizes differ by no more than a ratio.

    >>> list(bins([100, 101, 150], lambda x: x, 1.05))
    [[100, 101], [150]]
    """
    group: list[T] = []
    for item in items:
        if group and size(item) > ratio * size(group[0]):
            yield group
            group = []
        group.append(item)
    if group:
        yield group
