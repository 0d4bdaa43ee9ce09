"""Lists and single profiles as documents."""

from __future__ import annotations

from prfaas_plan.profile_table import ProfileList, ProfileView, Value
from prfaas_plan.reports.document import Document, Table, columns, rows
from prfaas_plan.units import show_scaled

_SCALED = ("B", "B/s", "FLOP/s", "W")

__all__ = ["report_profile", "report_profiles"]


def report_profiles(found: ProfileList) -> Document:
    """Lay out the profiles that can be named."""
    tables = []
    for kind in dict.fromkeys(e.kind for e in found.entries):
        listed = [e for e in found.entries if e.kind == kind]
        body = [[e.id, e.name, ", ".join(e.aliases), e.basis] for e in listed]
        tables.append(Table(f"{kind} ({len(listed)})", columns("id", "name", "aliases", "basis"), rows(body)))
    return Document(title="Profiles", tables=tuple(tables), rows=tuple(e.to_dict() for e in found.entries))


def report_profile(view: ProfileView) -> Document:
    """Lay out one profile value by value."""
    body = [[v.key, _shown(v), v.source] for v in view.values]
    values = Table("Values", columns("key", "value", "source"), rows(body))
    cited = Table(
        "Sources",
        columns("id", "kind", "date", "title and locator"),
        rows([s.id, s.kind, s.date, f"{s.title}: {s.locator}"] for s in view.sources),
    )
    return Document(
        title=f"{view.id} ({view.kind}): {view.name}",
        tables=(values, cited),
        notes=(view.note,) if view.note else (),
        rows=tuple(v.to_dict() for v in view.values),
    )


def _shown(value: Value) -> str:
    if isinstance(value.value, (str, bool)):
        return str(value.value)
    if isinstance(value.value, int) and value.unit == "1":
        return str(value.value)
    return show_scaled(value.value, value.unit, 4) if value.unit in _SCALED else f"{value.value:,g} {value.unit}"
