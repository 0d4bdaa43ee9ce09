"""Roofline tables and estimated cases as documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from prfaas_plan.reports.document import Column, Document, Table, columns, flatten, rows
from prfaas_plan.roofline import PhaseTime
from prfaas_plan.roofline_table import RooflineTable
from prfaas_plan.splits import Split
from prfaas_plan.units import show, show_bytes

__all__ = ["report_estimates", "report_roofline"]

_SHARES = ("compute", "memory", "communication", "overhead")
_SHOWN = 100
_SHORT = {"communication": "network"}


def report_roofline(table: RooflineTable) -> Document:
    """Lay out what one instance is estimated to reach."""
    d = table.deployment
    return Document(
        title=f"{d.model.name} on {d.gpus} × {d.hardware.name}",
        headline=tuple(_headline(table)),
        tables=(_prefill(table), _prefill_shares(table), _decode(table), _decode_shares(table), *_splits(table)),
        notes=table.notes,
        rows=_flat(table),
    )


def _flat(table: RooflineTable) -> tuple[Mapping[str, object], ...]:
    found = [{"phase": "prefill", "length_tokens": r.length_tokens, **_times(r.time)} for r in table.prefill]
    keys = ["phase", "length_tokens", "batch", "context_tokens", *_times(table.prefill[0].time)]
    for r in table.decode:
        times = _times(r.time) if r.time else {}
        found.append({"phase": "decode", "batch": r.batch, "context_tokens": r.context_tokens, **times})
    return tuple({key: row.get(key) for key in keys} for row in found)


def _times(time: PhaseTime) -> dict[str, object]:
    data = time.to_dict()
    return {k: v for k, v in flatten(data).items() if k != "phase"}


def _headline(table: RooflineTable) -> list[str]:
    d = table.deployment
    ways = ", ".join(f"{n} {v}" for n, v in (("TP", d.ranks), ("EP", d.ep), ("DP", d.dp), ("PP", d.pp), ("CP", d.cp)))
    lines = [f"Estimated by the roofline at {ways}; each GPU {_room(table)}."]
    for context, limit in table.largest:
        if limit.step is None:
            lines.append(
                f"At {context:,} tokens of context no batch decodes within {table.tpot_s * 1e3:g} ms: {limit.reason}."
            )
            continue
        lines.append(
            f"Largest batch within {table.tpot_s * 1e3:g} ms a token at {context:,} tokens of context: {limit.batch:,} "
            f"(limited by {limit.limit}), {show(limit.tokens_per_second, 'tokens/s')}, "
            f"{show(limit.tokens_per_second_per_gpu, 'tokens/s')} a GPU."
        )
    return lines


def _room(table: RooflineTable) -> str:
    used = table.memory
    return f"holds {show_bytes(used.weights_bytes)} of weights and has {show_bytes(used.memory_bytes)}"


def _prefill(table: RooflineTable) -> Table:
    heads: list[str | Column] = [
        Column("length", "token"),
        Column("time", "s"),
        Column("80 % from", "s"),
        Column("to", "s"),
        "bound",
        Column("rate", "token/s"),
        Column("MFU", percent=True),
        Column("MBU", percent=True),
    ]
    body: list[list[str | float | int | None]] = []
    for r in table.prefill:
        t = r.time
        rate = r.length_tokens / t.seconds
        body.append([r.length_tokens, t.seconds, t.low_s, t.high_s, t.bound, rate, t.mfu, t.mbu])
    return Table("Prefill of one prompt", columns(*heads), rows(body))


def _prefill_shares(table: RooflineTable) -> Table:
    heads = [Column("length", "token"), *_share_columns()]
    body = [[r.length_tokens, *_share_cells(r.time)] for r in table.prefill]
    return Table("What prefill time is spent on", columns(*heads), rows(body))


def _share_columns() -> list[Column]:
    shares = [Column(_SHORT.get(name, name), percent=True) for name in _SHARES]
    return [*shares, Column("intensity", "FLOP/B"), Column("ridge", "FLOP/B")]


def _share_cells(time: PhaseTime | None) -> list[float | None]:
    if time is None:
        return [None] * (len(_SHARES) + 2)
    return [*(time.shares.get(name, 0.0) for name in _SHARES), time.intensity, time.ridge]


def _decode(table: RooflineTable) -> Table:
    heads: list[str | Column] = [
        Column("context", "token"),
        Column("batch"),
        Column("step", "ms"),
        Column("80 % from", "ms"),
        Column("to", "ms"),
        "bound",
        Column("rate", "token/s"),
        Column("MFU", percent=True),
        Column("MBU", percent=True),
    ]
    body: list[list[str | float | int | None]] = []
    for r in table.decode:
        t = r.time
        if t is None:
            body.append([r.context_tokens, r.batch, None, None, None, "does not fit", None, None, None])
            continue
        rate = r.batch / t.seconds_per_token
        times = [t.seconds * 1e3, t.low_s * 1e3, t.high_s * 1e3]
        body.append([r.context_tokens, r.batch, *times, t.bound, rate, t.mfu, t.mbu])
    return Table("Decode step of a batch", columns(*heads), rows(body))


def _decode_shares(table: RooflineTable) -> Table:
    heads = [Column("context", "token"), Column("batch"), *_share_columns()]
    body = [[r.context_tokens, r.batch, *_share_cells(r.time)] for r in table.decode]
    return Table("What decode time is spent on", columns(*heads), rows(body))


def _splits(table: RooflineTable) -> list[Table]:
    if not table.splits:
        return []
    ranked = sorted(table.splits, key=lambda s: -s.decode.tokens_per_second_per_gpu)
    best = table.splits[:3]
    shown = [*best, *(s for s in ranked[:4] if not any(s is other for other in best))]
    body = [_split_row(table, s) for s in shown]
    heads: list[str | Column] = [
        "division",
        Column("prefill", "s"),
        Column("prefill a GPU", "token/s"),
        Column("batch"),
        Column("decode a GPU", "token/s"),
        Column("cost", "USD/Mtoken"),
        "best at",
    ]
    return [Table("Ways to divide the instance", columns(*heads), rows(body))]


def _split_row(table: RooflineTable, split: Split) -> list[str | float | int | None]:
    d = split.deployment
    best = [name for name, other in (("prefill", table.fastest), ("decode", table.cheapest)) if other is split]
    return [
        " ".join(f"{n}{v}" for n, v in (("TP", d.ranks), ("DP", d.dp), ("EP", d.ep), ("PP", d.pp)) if v > 1)
        or "one GPU",
        split.prefill.seconds,
        split.prefill_tokens_per_second / d.gpus,
        split.decode.batch,
        split.decode.tokens_per_second_per_gpu,
        split.usd_per_million_output_tokens,
        ", ".join(best),
    ]


def report_estimates(answers: Sequence[Mapping[str, Any]]) -> Document:
    """Lay out estimated cases, one a row."""
    wrong = sum(1 for row in answers if row.get("error"))
    heads: list[str | Column] = [
        "case",
        "model",
        "accelerator",
        "phase",
        Column("seconds"),
        Column("80 % from"),
        Column("to"),
        "bound or error",
    ]
    body = [
        [
            row.get("id") or str(number),
            row.get("model", ""),
            row.get("accelerator", ""),
            row.get("phase", ""),
            *(row[key] for key in ("seconds", "low_s", "high_s")),
            row["error"] or row["bound"],
        ]
        for number, row in enumerate(answers[:_SHOWN], 1)
    ]
    return Document(
        title="Estimated times",
        headline=(f"{len(answers):,} cases, {wrong:,} that could not be estimated.",),
        notes=(f"The first {_SHOWN} cases are shown; CSV and JSON have all.",) if len(answers) > _SHOWN else (),
        tables=(Table("Cases [s]", columns(*heads), rows(body)),),
        rows=tuple(answers),
    )
