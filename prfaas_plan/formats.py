"""Which format each component of the weights is stored in, and which data type a chip multiplies it in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from prfaas_plan.blocks import MixtureOfExperts
from prfaas_plan.errors import Fault, InputError, ProfileError, nearest
from prfaas_plan.hardware import HardwareProfile
from prfaas_plan.model import WEIGHT_BYTES, ModelProfile

__all__ = ["WEIGHT_DTYPES", "Stored", "compute_dtype", "stored_weights"]

WEIGHT_DTYPES: Final[Mapping[str, str]] = {
    "bf16": "bf16",
    "fp16": "fp16",
    "fp8": "fp8",
    "int8": "int8",
    "q8_0": "q8_0",
    "int4": "int4_g128",
    "mxfp4": "mxfp4",
    "nvfp4": "nvfp4",
}
"""Weight data types a deployment may ask for, and the checkpoint format of each."""

_FORMAT_BYTES: Final[Mapping[str, float]] = {**WEIGHT_BYTES, "q8_0": 1.0 + 2.0 / 32}
_COMPONENTS: Final = ("attention", "ffn", "experts", "shared_experts", "router", "embedding")
_GGUF_ENGINES: Final = ("llama.cpp", "ollama")
_FOUR_BIT: Final = ("int4", "mxfp4", "nvfp4")


@dataclass(frozen=True, slots=True)
class Stored:
    """How one component of the weights is kept and multiplied."""

    bytes: float
    """[B] per parameter, scales included."""
    dtype: str
    """Data type the chip multiplies in."""
    format: str

    @property
    def bits(self) -> int:
        """Width class of the stored weights: 16, 8 or 4."""
        return 16 if self.bytes >= 2.0 else 8 if self.bytes >= 1.0 else 4


def _family(checkpoint_format: str) -> str:
    return next((d for d in WEIGHT_DTYPES if checkpoint_format.startswith(d)), checkpoint_format)


def _formats(model: ModelProfile, asked: str | None) -> dict[str, str]:
    if not model.layers:
        problem = f"the layers of {model.name} are not published, so no roofline can be drawn; give measured points"
        raise ProfileError(Fault(model.where or model.name, "layers", problem))
    if model.weights is None:
        raise ProfileError(Fault(model.where or model.name, "weights", "missing; the checkpoint formats are needed"))
    native = {name: str(getattr(model.weights, name)) for name in _COMPONENTS}
    if asked is None:
        return native
    if asked not in WEIGHT_DTYPES:
        problem = "expected one of " + ", ".join(WEIGHT_DTYPES)
        raise InputError(Fault("deployment", "weights_dtype", problem, asked, nearest(asked, WEIGHT_DTYPES)))
    sparse = any(isinstance(block, MixtureOfExperts) for block in model.blocks.values())
    if _family(native["experts" if sparse else "ffn"]) == asked:
        return native
    found = dict.fromkeys(_COMPONENTS, WEIGHT_DTYPES[asked])
    if asked in _FOUR_BIT and sparse:
        found["attention"] = "bf16"
    if asked not in ("bf16", "fp16"):
        found["router"] = "bf16"
        found["embedding"] = "q8_0" if asked == "q8_0" else "bf16"
    return found


def stored_weights(
    model: ModelProfile, asked: str | None, hardware: HardwareProfile, engine: str = ""
) -> dict[str, Stored]:
    """Say how each component of the weights is stored and multiplied in a deployment.

    Without `asked` it is the published checkpoint. A data type asked for goes to every matrix product but the
    router and the output head; with four bits, a mixture of experts keeps its attention in bf16, as the published
    four-bit checkpoints do. GGUF files (llama.cpp, Ollama) keep in q8_0 what other quantised checkpoints leave in
    bf16. Raises `InputError` for an unknown data type.
    """
    formats = _formats(model, asked)
    if any(name in engine.lower() for name in _GGUF_ENGINES) and set(formats.values()) - {"bf16", "fp16"}:
        formats = {name: "q8_0" if f == "bf16" and name != "router" else f for name, f in formats.items()}
    return {name: Stored(_FORMAT_BYTES[f], compute_dtype(f, hardware), f) for name, f in formats.items()}


def compute_dtype(checkpoint_format: str, hardware: HardwareProfile) -> str:
    """Name the data type a chip multiplies a checkpoint format in.

    nvfp4 needs FP4 units; mxfp4 runs against FP8 activations where a chip has FP4 units; fp8 and int8 need theirs.
    Anything else, and int4, is expanded to bf16 on the way: bytes as stored, speed of bf16.

    >>> from prfaas_plan.catalog import load_hardware
    >>> compute_dtype("fp8", load_hardware("a100")), compute_dtype("nvfp4", load_hardware("b200"))
    ('bf16', 'fp4')
    """
    kind = _family(checkpoint_format)
    if kind == "nvfp4" and hardware.has_peak("fp4"):
        return "fp4"
    if kind == "mxfp4" and hardware.has_peak("fp4") and hardware.has_peak("fp8"):
        return "fp8"
    if kind == "fp8" and hardware.has_peak("fp8"):
        return "fp8"
    whole = hardware.efficiency is not None and hardware.efficiency.gemm_int8 is not None
    if kind in ("int8", "q8_0") and whole and hardware.has_peak("int8"):
        return "int8"
    return "bf16"
