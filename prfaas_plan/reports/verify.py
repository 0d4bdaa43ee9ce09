"""The verification as a document."""

from __future__ import annotations

from prfaas_plan.reports.document import Column, Document, Table, columns, rows
from prfaas_plan.verify import Check, Verification

__all__ = ["report_verification"]


def report_verification(result: Verification) -> Document:
    """Lay out published, computed and difference, source by source."""
    wrong = [check for check in result.checks if not check.ok]
    headline = f"{len(result.checks)} published numbers recomputed, {len(wrong)} outside their tolerance."
    by_source: dict[str, list[Check]] = {}
    for check in result.checks:
        by_source.setdefault(_group(check), []).append(check)
    return Document(
        title="Published numbers, recomputed",
        headline=(headline,),
        tables=tuple(_table(source, checks) for source, checks in by_source.items()),
        notes=tuple(dict.fromkeys(f"{c.quantity}: {c.note}" for c in result.checks if c.note and _worth(c))),
        rows=tuple(check.to_dict() for check in result.checks),
    )


def _plain(value: float) -> float | int:
    return round(value) if value == round(value) else value


def _group(check: Check) -> str:
    return "Model cards" if check.source.startswith("model card") else check.source


def _worth(check: Check) -> bool:
    return not check.note.startswith("prefill times are derived")


def _table(source: str, checks: list[Check]) -> Table:
    return Table(
        source,
        columns(
            "quantity",
            Column("published", digits=4),
            Column("computed", digits=4),
            Column("difference", percent=True),
            Column("allowed", percent=True),
            "ok",
        ),
        rows(
            [
                f"{c.quantity} [{c.unit}]" if c.unit not in ("1", "token", "s") else c.quantity,
                c.published,
                _plain(c.computed),
                c.relative_error,
                c.tolerance,
                "yes" if c.ok else "NO",
            ]
            for c in checks
        ),
    )
