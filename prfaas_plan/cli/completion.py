"""What a shell offers where a scenario, a model, an accelerator or a profile is expected."""

from __future__ import annotations

from pathlib import Path

__all__ = ["accelerators", "models", "profiles", "scenarios"]


def scenarios(incomplete: str) -> list[str]:
    """Offer the shipped scenarios and TOML files.

    >>> scenarios("case")
    ['case-study']
    """
    from prfaas_plan.scenario import shipped_scenarios

    return [*_begin(shipped_scenarios(), incomplete), *_files(incomplete, ".toml")]


def models(incomplete: str) -> list[str]:
    """Offer the model profiles and the files a profile can be made from.

    >>> models("qwen3-3")
    ['qwen3-30b-a3b', 'qwen3-32b']
    """
    return [*_named("model", incomplete), *_files(incomplete, ".json"), *_files(incomplete, ".toml")]


def accelerators(incomplete: str) -> list[str]:
    """Offer the hardware profiles.

    >>> accelerators("h20-")
    ['h20-141gb-sxm', 'h20-96gb-sxm']
    """
    return _named("hardware", incomplete)


def profiles(incomplete: str) -> list[str]:
    """Offer the profiles of models and accelerators.

    >>> profiles("h200-s")
    ['h200-sxm']
    """
    return [*accelerators(incomplete), *models(incomplete)]


def _named(kind: str, incomplete: str) -> list[str]:
    from prfaas_plan.profiles import list_profiles

    return _begin(list_profiles("model" if kind == "model" else "hardware"), incomplete)


def _begin(names: dict[str, Path], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _files(incomplete: str, ending: str) -> list[str]:
    folder, _, start = incomplete.rpartition("/")
    try:
        found = sorted(Path(folder or ".").iterdir())
    except OSError:
        return []
    near = [p for p in found if p.name.startswith(start) and (p.suffix == ending or p.is_dir())]
    return [f"{folder}/{p.name}" if folder else p.name for p in near if incomplete or p.suffix == ending]
