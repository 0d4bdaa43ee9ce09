"""Whether a measurement is possible at all: no chip multiplies faster than its highest dense peak."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from prfaas_plan.catalog import load_hardware, load_model
from prfaas_plan.decode import decode_step
from prfaas_plan.deployment import Deployment
from prfaas_plan.errors import Fault, InputError, ProfileError
from prfaas_plan.hardware import COMPUTE_DTYPES, HardwareProfile
from prfaas_plan.measured import MeasuredProfile
from prfaas_plan.model import ModelProfile
from prfaas_plan.prefill import prefill_time

__all__ = ["impossible", "refuse_impossible"]

_ROUNDING = 0.98


def refuse_impossible(profile: MeasuredProfile, where: str, key: str = "", folders: Sequence[str | Path] = ()) -> None:
    """Refuse a measured profile whose times are shorter than its chips allow.

    Raises `ProfileError` with every such time, and for a model or an accelerator that is not known.
    """
    model = load_model(profile.model, folders, where=where, key=_dotted(key, "model"))
    hardware = load_hardware(profile.accelerator, folders, where=where, key=_dotted(key, "accelerator"))
    faults = list(impossible(profile, model, hardware, where, key))
    if faults:
        raise ProfileError(faults)


def impossible(
    profile: MeasuredProfile, model: ModelProfile, hardware: HardwareProfile, where: str, key: str = ""
) -> Iterator[Fault]:
    """Give every time [s] below ``FLOP / (highest dense peak · GPUs)``, whatever the data type was.

    Nothing is said where the layers of the model or the peaks of the chip are not known.
    """
    peaks = [hardware.peak_flops(dtype) for dtype in COMPUTE_DTYPES if hardware.has_peak(dtype)]
    if not model.layers or not peaks:
        return
    try:
        deployment = Deployment(model, hardware, profile.gpus_per_instance)
        needs = [
            *(
                (f"prefill.{i}.seconds", p.seconds, prefill_time(deployment, p.length_tokens).flops)
                for i, p in enumerate(profile.prefill)
            ),
            *(
                (f"decode.{i}.step_seconds", p.step_seconds, decode_step(deployment, p.batch, 1.0).flops)
                for i, p in enumerate(profile.decode)
            ),
        ]
    except InputError:
        return
    for place, seconds, flops in needs:
        least = flops / max(peaks)
        if seconds < _ROUNDING * least:
            problem = (
                f"impossible: {profile.gpus_per_instance}×{hardware.id} need at least {least:.3g} s even at "
                "their highest dense peak; is the unit, the model or the number of GPUs another?"
            )
            yield Fault(where, _dotted(key, place), problem, seconds)


def _dotted(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name
