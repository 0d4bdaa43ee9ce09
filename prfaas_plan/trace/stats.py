"""Statistics of a request trace: lengths, arrivals, conversations, prefix reuse, laws, and a workload to plan with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePath
from typing import Any, Literal, cast, get_args

from prfaas_plan.errors import Fault, InputError, TraceError, nearest
from prfaas_plan.laws import LogNormal, Mixture
from prfaas_plan.trace.arrivals import Arrivals, arrivals, peak_to_mean
from prfaas_plan.trace.fits import (
    KS_BAD,
    MEAN_ERROR_BAD,
    LengthStats,
    LogNormalFit,
    MixtureFit,
    Tally,
    fit_lognormal,
    fit_mixture,
)
from prfaas_plan.trace.prefix import PrefixReuse, infinite_pool
from prfaas_plan.trace.records import Trace

__all__ = ["Conversations", "TraceStats", "read_block_law", "trace_stats", "workload_block"]

_BINS = 100
BlockLaw = Literal["histogram", "lognormal", "mixture", "trace"]


@dataclass(frozen=True, slots=True)
class Conversations:
    """The multi-turn structure of a trace."""

    conversations: int
    requests_in_conversations: int
    mean_turns: float
    max_turns: int
    multi_turn_request_fraction: float
    """Share of all requests that belong to a conversation of two or more turns."""

    def to_dict(self) -> dict[str, Any]:
        """Give the numbers by name."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class TraceStats:
    """The statistics of a trace."""

    path: str
    format: str
    requests: int
    dropped: Mapping[str, int]
    counts: Mapping[str, int]
    input_tokens: LengthStats
    output_tokens: LengthStats | None
    arrivals: Arrivals | None
    conversations: Conversations | None
    prefix: PrefixReuse | None
    uncached_tokens: LengthStats | None
    peak_to_mean_1min_uncached_tokens: float | None
    fit: LogNormalFit | None
    """Log-normal law of the input lengths."""
    fit_output: LogNormalFit | None
    fit_uncached: LogNormalFit | None
    mixture: MixtureFit | None
    """Two log-normal laws of the input lengths."""
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    """What would mislead a planner."""

    def to_dict(self) -> dict[str, Any]:
        """Give the keys of the ``trace`` output; ``prefix.by_pool`` is empty until pool sizes are evaluated."""
        prefix = None
        if self.prefix is not None:
            uncached = _dict(self.uncached_tokens)
            prefix = self.prefix.to_dict() | {
                "uncached_tokens": uncached,
                "fit": _dict(self.fit_uncached),
                "by_pool": [],
            }
            prefix["peak_to_mean_1min_uncached_tokens"] = self.peak_to_mean_1min_uncached_tokens
        return {
            "format": self.format,
            "requests": self.requests,
            "dropped": dict(self.dropped),
            "kept_but_odd": dict(self.counts),
            "input_tokens": _dict(self.input_tokens),
            "output_tokens": _dict(self.output_tokens),
            "arrivals": _dict(self.arrivals),
            "conversations": _dict(self.conversations),
            "prefix": prefix,
            "fit": _dict(self.fit),
            "fit_output": _dict(self.fit_output),
            "fit_mixture": _dict(self.mixture),
            "notes": list(self.notes),
            "warnings": list(self.warnings),
        }


def _dict(record: Any) -> dict[str, Any] | None:
    return record.to_dict() if record is not None else None


def trace_stats(trace: Trace) -> TraceStats:
    """Compute the statistics of a trace.

    Lengths are exact over all requests. Prefix reuse supposes a cache without limit, empty at the start.
    Raises `TraceError` if the trace is empty.

    >>> from array import array
    >>> trace_stats(Trace("made.csv", "plain", array("i", [100, 300]), array("i", [7, 9]))).input_tokens.mean
    200.0
    """
    inputs, outputs = Tally(trace.input_tokens), Tally(trace.output_tokens)
    coming = arrivals(trace)
    prefix = infinite_pool(trace) if trace.block_tokens else None
    uncached = Tally(prefix.uncached_tokens) if prefix is not None else None
    fit, fit_output = fit_lognormal(inputs), fit_lognormal(outputs)
    length_stats = inputs.stats()
    if length_stats is None:
        raise TraceError(Fault(trace.path, "", "has no requests"))
    return TraceStats(
        path=trace.path,
        format=trace.format,
        requests=trace.requests,
        dropped=trace.dropped,
        counts=trace.counts,
        input_tokens=length_stats,
        output_tokens=outputs.stats(),
        arrivals=coming,
        conversations=_conversations(trace.sessions),
        prefix=prefix,
        uncached_tokens=uncached.stats() if uncached is not None else None,
        peak_to_mean_1min_uncached_tokens=peak_to_mean(trace, prefix.uncached_tokens) if prefix is not None else None,
        fit=fit,
        fit_output=fit_output,
        fit_uncached=fit_lognormal(uncached) if uncached is not None else None,
        mixture=fit_mixture(inputs),
        notes=trace.notes,
        warnings=tuple(_warnings(trace, coming, {"input": fit, "output": fit_output})),
    )


def _conversations(sessions: Sequence[int]) -> Conversations | None:
    turns = Counter(s for s in sessions if s >= 0)
    if not turns:
        return None
    inside = sum(turns.values())
    multiple = sum(n for n in turns.values() if n > 1)
    return Conversations(len(turns), inside, inside / len(turns), max(turns.values()), multiple / len(sessions))


def _warnings(trace: Trace, coming: Arrivals | None, fits: Mapping[str, LogNormalFit | None]) -> list[str]:
    found = [
        f"a log-normal law would mislead for {name} lengths: its mean is {fit.mean_error_fraction:+.0%} off and its "
        f"distribution by up to {fit.ks:.2f}; plan with the trace or a histogram"
        for name, fit in fits.items()
        if fit is not None and fit.misleads
    ]
    if coming is not None and coming.quantised and coming.clock_step_s:
        found.append(
            f"{coming.tied_fraction:.0%} of the requests share their time stamp with the one before (clock step "
            f"{coming.clock_step_s:.6g} s), so interarrival_cv is an artefact of the clock; spread over the step it is "
            f"{coming.interarrival_cv_spread:.2f}"
        )
    lost = sum(trace.dropped.values())
    if lost > 0.01 * (lost + trace.requests):
        found.append(f"{lost:,} rows were dropped, {lost / (lost + trace.requests):.1%} of the file")
    return found


def read_block_law(name: str) -> BlockLaw:
    """Read the name of a law for `workload_block`.

    Raises `InputError` with the nearest name.
    """
    found = next((law for law in get_args(BlockLaw) if law == name), None)
    if found is None:
        names = get_args(BlockLaw)
        raise InputError(Fault("--workload", "", "expected one of " + ", ".join(names), name, nearest(name, names)))
    return cast("BlockLaw", found)


def workload_block(
    trace: Trace, law: BlockLaw = "histogram", prefix_cache: Literal["none", "infinite"] = "none"
) -> str:
    """Write the ``[workload]`` table of a scenario for a trace, in TOML.

    `law` is ``histogram`` (100 bins of equal ratio, the default), ``lognormal`` or ``mixture`` (fits, truncated to the
    lengths seen), or ``trace`` (refers to the file). With `prefix_cache` ``infinite`` the lengths are those that a
    cache without limit leaves to compute.

    Raises `TraceError` if the trace has no block ids for that, or too few distinct lengths for a fit.

    >>> from array import array
    >>> print(workload_block(Trace("made.csv", "plain", array("i", [100, 300]), array("i", [7, 9])), "trace"))
    [workload]
    description = "input lengths of made.csv (plain, 2 requests)"
    output_tokens = 8
    <BLANKLINE>
    [workload.input_tokens]
    trace = "made.csv"
    prefix_cache = "none"
    <BLANKLINE>
    """
    lengths = infinite_pool(trace).uncached_tokens if prefix_cache == "infinite" else trace.input_tokens
    tally = Tally(lengths)
    name = PurePath(trace.path).name
    what = "uncached input lengths" if prefix_cache == "infinite" else "input lengths"
    lines = ["[workload]", f"description = {_text(f'{what} of {name} ({trace.format}, {trace.requests:,} requests)')}"]
    if trace.output_tokens:
        lines.append(f"output_tokens = {max(1.0, sum(trace.output_tokens) / trace.requests):.6g}")
    else:
        lines.append("# output_tokens is not in the trace: state the mean output length here")
    coming = arrivals(trace)
    if coming is not None and coming.rate_rps is not None:
        lines.append(f"# mean rate of the trace: {coming.rate_rps:.6g} req/s")
    lines += ["", "[workload.input_tokens]"]
    if law == "trace":
        return "\n".join([*lines, f"trace = {_text(name)}", f'prefix_cache = "{prefix_cache}"', ""])
    if law == "histogram":
        return "\n".join([*lines, *_histogram_lines(tally), ""])
    return "\n".join([*lines, *_fit_lines(tally, law, trace.path), ""])


def _histogram_lines(tally: Tally) -> list[str]:
    low, high = tally.values[0] - 1, tally.values[-1]
    ratio = (high + 1) / (low + 1)
    edges = sorted({low, high, *(round((low + 1) * ratio ** (i / _BINS)) - 1 for i in range(1, _BINS))})
    weights = [0] * (len(edges) - 1)
    place = 0
    for value, count in zip(tally.values, tally.counts, strict=True):
        while value > edges[place + 1]:
            place += 1
        weights[place] += count
    return ['law = "histogram"', f"edges = {_wrapped(edges)}", f"weights = {_wrapped(weights)}"]


def _wrapped(numbers: Sequence[int]) -> str:
    rows = [", ".join(map(str, numbers[i : i + 12])) for i in range(0, len(numbers), 12)]
    return "[\n  " + ",\n  ".join(rows) + ",\n]"


def _fit_lines(tally: Tally, law: str, where: str) -> list[str]:
    fit: LogNormalFit | MixtureFit | None = fit_lognormal(tally) if law == "lognormal" else fit_mixture(tally)
    if fit is None:
        raise TraceError(Fault(where, "", f"has too few distinct lengths to fit a {law} law"))
    single = isinstance(fit, LogNormalFit)
    parts = [(1.0, fit.mu, fit.sigma)] if isinstance(fit, LogNormalFit) else _parts(fit)
    low, high = max(0, tally.values[0] - 1), tally.values[-1]
    laws = [LogNormal(mu, sigma, low, high) for _, mu, sigma in parts]
    error = Mixture(tuple(w for w, _, _ in parts), tuple(laws)).mean / tally.mean - 1.0
    lines = [f"# fit: distribution up to {fit.ks:.3f} off; mean of the truncated law {error:+.1%} off"]
    if fit.ks > KS_BAD or abs(error) > MEAN_ERROR_BAD:
        lines.append("# warning: too far off to plan with; prefer the histogram or the trace itself")
    if single:
        (_, mu, sigma), *_ = parts
        return [*lines, 'law = "lognormal"', f"mu = {mu:.6g}", f"sigma = {sigma:.6g}", f"min = {low}", f"max = {high}"]
    tables = [
        f'  {{ weight = {w:.6g}, law = "lognormal", mu = {mu:.6g}, sigma = {sigma:.6g}, min = {low}, max = {high} }},'
        for w, mu, sigma in parts
    ]
    return [*lines, 'law = "mixture"', "parts = [", *tables, "]"]


def _parts(fit: MixtureFit) -> list[tuple[float, float, float]]:
    return [part for part in zip(fit.weights, fit.mu, fit.sigma, strict=True) if part[0] >= 1e-6]


def _text(value: str) -> str:
    """Write a TOML basic string."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    shown = "".join(c if c >= " " and c != "\x7f" else f"\\u{ord(c):04x}" for c in escaped)
    return f'"{shown}"'
