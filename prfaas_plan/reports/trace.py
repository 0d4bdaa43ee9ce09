"""What a request trace says, as a document."""

from __future__ import annotations

from typing import Any

from prfaas_plan.reports.document import Column, Document, Table, columns, flatten, rows
from prfaas_plan.units import show

__all__ = ["report_trace"]


def report_trace(path: str, data: dict[str, Any]) -> Document:
    """Lay out the statistics of a trace, given under the keys of the interface."""
    tables = [_lengths(data), *_arrivals(data), *_prefix(data), *_fits(data), *_dropped(data)]
    return Document(
        title=f"{path} ({data['format']})",
        headline=tuple(_headline(data)),
        tables=tuple(tables),
        notes=(*(f"Warning: {w}" for w in data["warnings"]), *data["notes"]),
        rows=({"path": path, **flatten(data)},),
    )


def _headline(data: dict[str, Any]) -> list[str]:
    dropped = sum(data["dropped"].values())
    lines = [f"{data['requests']:,} requests, {dropped:,} rows dropped."]
    arrivals, prefix = data["arrivals"], data["prefix"]
    if arrivals and arrivals["rate_rps"]:
        lines.append(f"They arrive at {show(arrivals['rate_rps'], 'req/s')} on average.")
    if prefix:
        lines.append(
            f"A prefix cache without limit would hit {prefix['hit_fraction']:.1%} of the input tokens; "
            f"{prefix['mean_uncached_tokens']:,.0f} tokens a request are left to compute."
        )
    return lines


def _lengths(data: dict[str, Any]) -> Table:
    kinds = [("input", data["input_tokens"]), ("output", data["output_tokens"])]
    if data["prefix"]:
        kinds.append(("uncached input", data["prefix"]["uncached_tokens"]))
    body = [[name, s["mean"], s["p50"], s["p90"], s["p99"], s["max"]] for name, s in kinds if s]
    heads = [Column(name, "token") for name in ("mean", "p50", "p90", "p99", "max")]
    return Table("Lengths", columns("length", *heads), rows(body))


_ARRIVALS = (
    ("span", "span_s", "s"),
    ("rate", "rate_rps", "req/s"),
    ("variation of the gaps (1 is Poisson)", "interarrival_cv", ""),
    ("the same, requests of one clock tick spread over it", "interarrival_cv_spread", ""),
    ("clock step", "clock_step_s", "s"),
    ("peak over mean, by the minute", "peak_to_mean_1min", ""),
    ("peak over mean of input tokens, by the minute", "peak_to_mean_1min_input_tokens", ""),
    ("peak over mean of output tokens, by the minute", "peak_to_mean_1min_output_tokens", ""),
    ("peak over mean, by the hour", "peak_to_mean_1h", ""),
    ("busiest minute", "peak_minute_at", ""),
    ("busiest hour of the day", "peak_hour", ""),
    ("time zone", "time_zone", ""),
)


def _arrivals(data: dict[str, Any]) -> list[Table]:
    arrivals = data["arrivals"]
    if not arrivals:
        return []
    body = [
        [label, arrivals[key] if isinstance(arrivals[key], str) else show(arrivals[key], unit)]
        for label, key, unit in _ARRIVALS
        if arrivals.get(key) is not None
    ]
    return [Table("Arrivals", columns("quantity", Column("value")), rows(body))]


def _prefix(data: dict[str, Any]) -> list[Table]:
    pools = data["prefix"]["by_pool"] if data["prefix"] else []
    if not pools:
        return []
    heads = [Column("pool", "GB", 4), Column("hit", percent=True), Column("uncached", "token")]
    body = [[p["pool_gb"], p["hit_fraction"], p.get("mean_uncached_tokens")] for p in pools]
    return [Table("Prefix cache by pool size (least recently used leaves first)", columns(*heads), rows(body))]


def _fits(data: dict[str, Any]) -> list[Table]:
    named = [("input", data["fit"]), ("output", data["fit_output"])]
    if data["prefix"]:
        named.append(("uncached input", data["prefix"]["fit"]))
    body = [[name, f["mu"], f["sigma"], f["ks"], f["mean_error_fraction"]] for name, f in named if f]
    if not body:
        return []
    heads = [Column("μ", digits=4), Column("σ", digits=4), Column("KS distance"), Column("error of mean", percent=True)]
    return [Table("Log-normal fits (KS 0.05 is good, above 0.15 bad)", columns("length", *heads), rows(body))]


def _dropped(data: dict[str, Any]) -> list[Table]:
    body = [[reason, count, "dropped"] for reason, count in data["dropped"].items()]
    body += [[reason, count, "kept"] for reason, count in data["kept_but_odd"].items()]
    if not body:
        return []
    return [Table("Rows that are not plain requests", columns("reason", Column("rows"), "what"), rows(body))]
