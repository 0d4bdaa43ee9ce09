"""Profiles by name: the model, accelerator or measurement a scenario, a command or a program asks for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from prfaas_plan.measured import MeasuredProfile, measured_from_mapping
from prfaas_plan.model import ModelProfile, model_from_mapping
from prfaas_plan.profiles import find_profile, list_profiles, load_toml, shipped_folder

if TYPE_CHECKING:
    from prfaas_plan.efficiency import Efficiency
    from prfaas_plan.hardware import HardwareProfile

__all__ = ["family_efficiency", "find_measured", "load_hardware", "load_measured", "load_model", "measured_profiles"]


def load_model(name: str, extra: Sequence[str | Path] = (), *, where: str = "model", key: str = "") -> ModelProfile:
    """Load a model profile by id, alias or path; a path to a Hugging Face ``config.json`` is imported.

    Raises `ProfileNotFoundError` or `ProfileError`.
    """
    path = find_profile("model", name, extra, where, key)
    if path.suffix == ".json":
        from prfaas_plan.hf.config import import_config

        return import_config(path)
    return model_from_mapping(load_toml(path), str(path), path.stem)


def load_hardware(
    name: str, extra: Sequence[str | Path] = (), *, where: str = "accelerator", key: str = ""
) -> HardwareProfile:
    """Load an accelerator by id, alias or path; without efficiencies of its own it takes those of its family.

    Where even the family has none, the generic ones are taken; `Efficiency.family` says which it was.
    Raises `ProfileNotFoundError` or `ProfileError`.

    >>> load_hardware("h200").id
    'h200-sxm'
    """
    from prfaas_plan.hardware import hardware_from_mapping

    path = find_profile("hardware", name, extra, where, key)
    profile = hardware_from_mapping(load_toml(path), str(path), path.stem)
    return profile if profile.efficiency else replace(profile, efficiency=family_efficiency(profile.family))


def family_efficiency(family: str) -> Efficiency:
    """Load the shipped constants of a family of accelerators, or the generic ones if it has none."""
    from prfaas_plan.efficiency import efficiency_from_mapping

    folder = shipped_folder("hardware_profiles") / "efficiencies"
    path = folder / f"{family}.toml"
    if not path.is_file():
        path = folder / "generic.toml"
    return efficiency_from_mapping(load_toml(path), str(path), path.stem)


def load_measured(
    name: str, extra: Sequence[str | Path] = (), *, where: str = "measured", key: str = ""
) -> MeasuredProfile:
    """Load a measured profile by id or path.

    Raises `ProfileNotFoundError` or `ProfileError`.
    """
    path = find_profile("measured", name, extra, where, key)
    return measured_from_mapping(load_toml(path), str(path), path.stem)


def measured_profiles(model: str, extra: Sequence[str | Path] = ()) -> Iterator[MeasuredProfile]:
    """Load every measured profile of a model, in the order the folders are searched."""
    named = re.compile(rf'^model\s*=\s*"{re.escape(model)}"', re.MULTILINE)
    for profile_id, path in list_profiles("measured", extra).items():
        if named.search(path.read_text(encoding="utf-8", errors="replace")):
            yield measured_from_mapping(load_toml(path), str(path), profile_id)


def find_measured(
    model: str, accelerator: str, gpus_per_instance: int, extra: Sequence[str | Path] = ()
) -> MeasuredProfile | None:
    """Find the measured profile of a model on one instance of an accelerator, if there is one."""
    wanted = (accelerator, gpus_per_instance)
    return next((p for p in measured_profiles(model, extra) if (p.accelerator, p.gpus_per_instance) == wanted), None)
