"""KV tables as documents."""

from __future__ import annotations

from collections.abc import Sequence

from prfaas_plan.kv_table import KvTable
from prfaas_plan.reports.document import Column, Document, Table, columns, flatten, rows
from prfaas_plan.units import show, show_bytes

__all__ = ["report_kv"]


def report_kv(tables: Sequence[KvTable]) -> Document:
    """Lay out the KV cache of one or more models."""
    return Document(
        title="KV cache by request length",
        headline=tuple(line for t in tables for line in _headline(t)),
        tables=tuple(_table(t) for t in tables),
        notes=tuple(dict.fromkeys(f"{t.model}: {note}" for t in tables for note in t.notes)),
        rows=tuple({"model": t.model, **flatten(row.to_dict())} for t in tables for row in t.rows),
    )


def _headline(table: KvTable) -> list[str]:
    parts = [f"{table.growing_bytes_per_token:,.0f} B/token growing"]
    if table.window_cap_bytes:
        parts.append(f"{show_bytes(table.window_cap_bytes)} of full windows")
    if table.fixed_bytes:
        parts.append(f"{show_bytes(table.fixed_bytes)} of fixed state")
    lines = [f"{table.name}: {', '.join(parts)}."]
    if table.total_parameters and table.active_parameters and table.weight_bytes:
        lines.append(
            f"  {show(table.total_parameters / 1e9, 'billion', 4)} parameters, "
            f"{show(table.active_parameters / 1e9, 'billion')} active (without the input embedding), "
            f"{show_bytes(table.weight_bytes)} of weights."
        )
    return lines


def _table(table: KvTable) -> Table:
    heads = [Column("length", "token"), Column("KV cache", "MB", 4)]
    wide = table.tensor_parallel > 1 or any(r.reserved_bytes != r.kv_bytes for r in table.rows)
    if wide:
        heads += [Column("in memory", "MB", 4), Column("reserved", "MB", 4), Column("on the wire", "MB", 4)]
    fits = any(r.fitting_tokens is not None for r in table.rows)
    if fits:
        heads += [Column("per token", "B", 5), Column("fits", "requests"), Column("fits", "token")]
    heads += [Column("prefill", "s"), Column("Φ_kv", "Gbit/s")]
    body = []
    for r in table.rows:
        sizes: list[float | None] = [r.kv_bytes / 1e6]
        if wide:
            sizes += [r.memory_bytes / 1e6, r.reserved_bytes / 1e6, r.wire_bytes / 1e6]
        if fits:
            sizes += [r.bytes_per_token, r.fitting_requests, r.fitting_tokens]
        body.append([r.length_tokens, *sizes, r.prefill_s, r.kv_gbps])
    title = f"{table.model} at tensor parallel {table.tensor_parallel}" if table.tensor_parallel > 1 else table.model
    return Table(title, columns(*heads), rows(body))
