"""Sweeps, tornados and draws as documents: tables of cases, and one result drawn against one input as bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prfaas_plan.reports.document import Cell, Column, Document, Table, columns, rows
from prfaas_plan.units import show
from prfaas_plan.whatif.record import MonteCarlo, SweepResult, Tornado, price_hint, smaller_is_better

__all__ = ["report_monte_carlo", "report_sweep", "report_tornado"]

_SHOWN = 40
"""Cases and bars a table shows; CSV and JSON have them all."""
_BAR = 28
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_HEADINGS = {
    "lambda_max_rps": Column("rate", "req/s", 4),
    "threshold_tokens": Column("threshold", "token"),
    "offloaded_fraction": Column("offloaded", percent=True),
    "bottleneck": Column("limited by", right=False),
    "remote_prefill_instances": Column("remote prefill", "inst."),
    "local_prefill_instances": Column("local prefill", "inst."),
    "decode_instances": Column("decode", "inst."),
    "gpus": Column("GPUs"),
    "link_used_gbps": Column("link use", "Gbit/s"),
    "ttft_mean_s": Column("TTFT mean", "s"),
    "tpot_s": Column("TPOT", "s"),
    "cost_usd_per_hour": Column("cost", "USD/h"),
    "usd_per_million_output_tokens": Column("cost of 1M output tokens", "USD"),
}
_MAIN = ("lambda_max_rps", "threshold_tokens", "local_prefill_instances", "decode_instances", "cost_usd_per_hour",
         "bottleneck")  # fmt: skip


def report_sweep(result: SweepResult, *, x: str = "", y: str = "lambda_max_rps", every_case: bool = True) -> Document:
    """Lay out a sweep: the best case, the cases, and `y` drawn against `x` (by default the first varied path).

    Without `every_case` the records that csv is written from are left out, to save the memory of millions.

    Raises `InputError` for an unknown column, or a `y` that holds words.
    """
    rates = [v for v in result.column("lambda_max_rps") if v is not None]
    known = any(v is not None for v in result.numbers(y))
    failed = len(result) - len(rates)
    headline = [f"{len(result):,} case{'' if len(result) == 1 else 's'}."]
    if rates:
        measure = y if known else "lambda_max_rps"
        best = result.best(measure)
        where = ", ".join(f"{path} = {_shown(best[path])}" for path in result.varied)
        reached = _metric(measure, best[measure])
        headline.append(f"Best: {reached} with {where}." if where else f"{reached}.")
    notes = [f"{failed:,} cases have no plan; the column error says why."] if failed else []
    if len(result) > _SHOWN:
        notes.append(f"The table shows {_SHOWN} of {len(result):,} cases; csv and json have them all.")
    if rates and not known:
        notes.append(f"No case has {y}{price_hint(y)}.")
    horizontal = x or (result.varied[0] if result.varied else "")
    plot = (
        [_plot(result, horizontal, y)]
        if known and horizontal and len(set(map(str, result.column(horizontal)))) > 1
        else []
    )
    return Document(
        title=f"{result.scenario}: what if",
        headline=tuple(headline),
        tables=(_cases(result, failed > 0), *plot),
        notes=tuple(notes),
        rows=tuple(result.rows()) if every_case else (),
    )


def _cases(result: SweepResult, failures: bool) -> Table:
    wanted = [m for m in _MAIN if any(v is not None for v in result.column(m))]
    names = [*result.varied, *wanted, *(["error"] if failures else [])]
    chosen = _spread(len(result))
    values = [result.column(name) for name in names]
    heads = [_path_column(path, result.column(path)) for path in result.varied]
    heads += [_HEADINGS[m] for m in wanted]
    heads += [Column("error", right=False)] if failures else []
    return Table("Cases", columns(*heads), rows([_cell(column[i]) for column in values] for i in chosen))


def _spread(count: int) -> list[int]:
    """Choose cases evenly, the first and the last among them."""
    if count <= _SHOWN:
        return list(range(count))
    return sorted({round(i * (count - 1) / (_SHOWN - 1)) for i in range(_SHOWN)})


def _path_column(path: str, values: Sequence[Any]) -> Column:
    numeric = all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values)
    return Column(path, digits=4, right=numeric)


def _cell(value: Any) -> Cell:
    return value if value is None or isinstance(value, (str, int, float)) else _shown(value)


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return show(value, digits=4)
    if isinstance(value, dict):
        return ", ".join(f"{k} {_shown(v)}" for k, v in value.items())
    return str(value)


def _metric(name: str, value: Any) -> str:
    column = _HEADINGS.get(name)
    if column is None or not isinstance(value, (int, float)):
        return f"{name} = {_shown(value)}"
    if column.percent:
        return f"{column.heading} {value:.1%}"
    return f"{column.heading} {show(value, column.unit, column.digits)}"


def _plot(result: SweepResult, x: str, y: str) -> Table:
    """Draw bars of `y`, the best over all else, for each value of `x`."""
    best: dict[Any, Any] = {}
    better = min if smaller_is_better(y) else max
    for place, value in zip(result.column(x), result.column(y), strict=True):
        if isinstance(value, (int, float)):
            key = _cell(place)
            best[key] = value if key not in best else better(best[key], value)
    pairs = list(best.items())
    pairs = [pairs[i] for i in _spread(len(pairs))]
    largest = max((value for _, value in pairs), default=0.0)
    shown = _HEADINGS.get(y, Column(y, digits=4))
    title = f"{shown.heading} against {x}" + (" (the best of all else)" if len(result.varied) > 1 else "")
    return Table(
        title,
        columns(_path_column(x, [key for key, _ in pairs]), shown, Column("", right=False)),
        rows([key, value, bar(value, largest)] for key, value in pairs),
    )


def bar(value: float, largest: float, width: int = _BAR) -> str:
    """Draw a value as a bar, to an eighth of a character.

    >>> bar(1.0, 4.0, 8), bar(0.0, 4.0, 8)
    ('██', '')
    """
    if not largest > 0.0 or value <= 0.0:
        return ""
    eighths = round(8 * width * value / largest)
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()


def report_tornado(result: Tornado) -> Document:
    """Lay out a tornado: one line an input, the widest first."""
    column = _HEADINGS.get(result.metric, Column(result.metric, digits=4))
    widest = max((b["swing"] for b in result.bars), default=0.0)
    lines = rows(
        [b["input"], _shown(b["at_low"]), b["low"], _shown(b["at_high"]), b["high"], bar(b["swing"], widest, 12)]
        for b in result.bars
    )
    heads = columns(
        "input",
        Column("value"),
        Column("lowest", column.unit, 4),
        Column("value"),
        Column("highest", column.unit, 4),
        "swing",
    )
    return Document(
        title=f"{result.scenario}: one input at a time",
        headline=(f"{_metric(result.metric, result.base)} as it is.",),
        tables=(Table(f"What moves the {column.heading}", heads, lines),),
        notes=tuple(f"Left out: {reason}." for reason in result.left_out),
        rows=tuple(dict(b) for b in result.bars),
    )


def report_monte_carlo(result: MonteCarlo) -> Document:
    """Lay out what inputs in doubt do: percentiles of rate and cost."""
    heads = columns("result", Column("p10", digits=4), Column("p50", digits=4), Column("p90", digits=4), "unit")
    lines: list[list[Cell]] = [
        [_HEADINGS[name].heading, values["p10"], values["p50"], values["p90"], _HEADINGS[name].unit]
        for name, values in result.percentiles.items()
    ]
    notes = [f"{len(result.result):,} draws, seed {result.seed}; the same seed gives the same numbers."]
    if result.failed:
        notes.append(f"{result.failed:,} draws have no plan and are left out of the percentiles.")
    return Document(
        title=f"{result.result.scenario}: inputs in doubt",
        headline=(f"Varied: {', '.join(result.result.varied)}.",),
        tables=(Table("Percentiles", heads, rows(lines)),),
        notes=tuple(notes),
        rows=tuple(result.result.rows()),
    )
