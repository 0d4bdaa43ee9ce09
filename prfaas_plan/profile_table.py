"""Hardware, model and measured profiles as lists, as one profile with its sources, and as a check of a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from prfaas_plan.catalog import load_hardware, load_measured, load_model
from prfaas_plan.errors import Fault, InputError, ProfileError, ProfileNotFoundError, nearest
from prfaas_plan.measured import measured_from_mapping
from prfaas_plan.model import model_from_mapping
from prfaas_plan.profiles import Source, list_profiles, load_toml
from prfaas_plan.records import specs

__all__ = ["Entry", "ProfileList", "ProfileView", "check_profile", "list_all", "show_profile"]

Kind = Literal["hardware", "model", "measured"]
KINDS: tuple[Kind, ...] = ("hardware", "model", "measured")
Folders = Sequence[str | Path]


@dataclass(frozen=True, slots=True)
class Entry:
    """One profile of a list."""

    kind: Kind
    id: str
    name: str
    aliases: tuple[str, ...]
    basis: str

    def to_dict(self) -> dict[str, Any]:
        """Give the entry by name."""
        return {
            "kind": self.kind,
            "id": self.id,
            "name": self.name,
            "aliases": list(self.aliases),
            "basis": self.basis,
        }


@dataclass(frozen=True, slots=True)
class ProfileList:
    """Profiles that can be named."""

    entries: tuple[Entry, ...]

    def to_dict(self) -> dict[str, Any]:
        """Give the list by name."""
        return {"profiles": [entry.to_dict() for entry in self.entries]}


@dataclass(frozen=True, slots=True)
class Value:
    """One value of a profile: where it stands, its unit and its source."""

    key: str
    value: str | float | int | bool
    unit: str
    source: str
    doc: str

    def to_dict(self) -> dict[str, Any]:
        """Give the value by name."""
        return {"key": self.key, "value": self.value, "unit": self.unit, "source": self.source, "doc": self.doc}


@dataclass(frozen=True, slots=True)
class ProfileView:
    """One profile, value by value, and its sources."""

    kind: Kind
    id: str
    name: str
    where: str
    values: tuple[Value, ...]
    sources: tuple[Source, ...]
    note: str

    def to_dict(self) -> dict[str, Any]:
        """Give the profile by name."""
        return {
            "kind": self.kind,
            "id": self.id,
            "name": self.name,
            "note": self.note,
            "values": [value.to_dict() for value in self.values],
            "sources": [
                {"id": s.id, "title": s.title, "locator": s.locator, "date": s.date, "kind": s.kind}
                for s in self.sources
            ],
        }


def list_all(kind: Kind | None = None, profiles: Folders = ()) -> ProfileList:
    """List every profile that can be named, of one kind or of all.

    Raises `ProfileError` for a profile that is malformed.
    """
    kinds = KINDS if kind is None else (kind,)
    return ProfileList(tuple(entry for k in kinds for entry in _entries(k, profiles)))


def _entries(kind: Kind, profiles: Folders) -> Iterator[Entry]:
    for profile_id, path in list_profiles(kind, profiles).items():
        data = load_toml(path)
        name = data.get("name") or f"{data.get('model', '?')} on {data.get('gpus_per_instance', '?')}×"
        if kind == "measured":
            name = f"{data.get('model')} on {data.get('gpus_per_instance')}×{data.get('accelerator')}"
        basis = str(data.get("basis") or data.get("status") or "")
        aliases = data.get("aliases", [])
        yield Entry(kind, profile_id, str(name), tuple(map(str, aliases)) if isinstance(aliases, list) else (), basis)


def read_kind(name: str | None) -> Kind | None:
    """Read a kind of profile, singular or plural; ``None`` for all.

    Raises `InputError` for anything else.
    """
    found = next((k for k in KINDS if name in (k, f"{k}s")), None)
    if name is not None and found is None:
        raise InputError(Fault("KIND", "", f"expected one of {', '.join(KINDS)}", name, nearest(name, KINDS)))
    return found


def show_profile(name: str, profiles: Folders = ()) -> ProfileView:
    """Show one profile of any kind, by id, alias or path, with the source of each number.

    Raises `ProfileNotFoundError` with the nearest name, or `ProfileError` for a malformed file.
    """
    if name.endswith((".toml", ".json")):
        return _view(*_loaded_file(Path(name), profiles))
    for kind, load in (("hardware", load_hardware), ("model", load_model), ("measured", load_measured)):
        try:
            record = load(name, profiles)
        except ProfileNotFoundError:
            continue
        return _view(kind, record)  # type: ignore[arg-type]
    known = [known for entry in list_all(None, profiles).entries for known in (entry.id, *entry.aliases)]
    raise ProfileNotFoundError(Fault("NAME", "", "no profile has this name", name, nearest(name, known)))


def check_profile(path: Path, profiles: Folders = ()) -> ProfileView:
    """Check a profile file of any kind: TOML of this package, or a Hugging Face ``config.json``.

    Raises `InputError` with every fault in it.
    """
    if not path.is_file():
        raise InputError(Fault(str(path), "", "no such file"))
    return _view(*_loaded_file(path, profiles))


def _loaded_file(path: Path, profiles: Folders) -> tuple[Kind, Any]:
    if path.suffix == ".json":
        return "model", load_model(str(path), profiles)
    data = load_toml(path)
    kind = kind_of(data)
    if kind is None:
        problem = (
            "is neither a model (layers or kv_points), an accelerator (vendor), nor a measurement (prefill, decode)"
        )
        raise ProfileError(Fault(str(path), "", problem))
    if kind == "hardware":
        return kind, load_hardware(str(path), profiles)
    if kind == "model":
        return kind, model_from_mapping(data, str(path), path.stem)
    from prfaas_plan.plausible import refuse_impossible

    measured = measured_from_mapping(data, str(path), path.stem)
    refuse_impossible(measured, str(path), "", profiles)
    return kind, measured


def kind_of(data: Mapping[str, Any]) -> Kind | None:
    """Tell what kind of profile a file holds from its keys.

    >>> kind_of({"vendor": "NVIDIA"}), kind_of({"layers": []}), kind_of({})
    ('hardware', 'model', None)
    """
    if {"layers", "blocks", "kv_points", "hidden_size"} & set(data):
        return "model"
    if {"prefill", "decode"} & set(data):
        return "measured"
    return "hardware" if {"vendor", "memory_bytes", "bf16_flops", "family"} & set(data) else None


def _view(kind: Kind, record: Any) -> ProfileView:
    cited = dict(record.cited)
    return ProfileView(
        kind=kind,
        id=record.id,
        name=getattr(record, "name", record.id),
        where=record.where,
        values=tuple(_values(record, "", cited, cited.get("", ""))),
        sources=record.sources,
        note=record.note,
    )


def _values(record: Any, path: str, cited: Mapping[str, str], inherited: str) -> Iterator[Value]:
    for key, (declared, spec, _) in specs(type(record)).items():
        value = getattr(record, declared.name)
        place = f"{path}.{key}" if path else key
        if value is None or value in ("", (), {}) or key == "note":
            continue
        source = cited.get(place, inherited)
        if spec.kind == "part":
            yield from _parts(value, place, cited, source)
        elif isinstance(value, tuple):
            yield Value(place, ", ".join(map(str, value)), spec.unit, source, spec.doc)
        else:
            yield Value(place, value, spec.unit, source if spec.kind == "number" else "", spec.doc)


def _parts(value: Any, place: str, cited: Mapping[str, str], inherited: str) -> Iterator[Value]:
    if isinstance(value, dict):
        items = [(f"{place}.{name}", item) for name, item in value.items()]
    elif isinstance(value, tuple):
        items = [(f"{place}.{index}", item) for index, item in enumerate(value)]
    else:
        items = [(place, value)]
    for key, item in items:
        yield from _values(item, key, cited, cited.get(key, inherited))
