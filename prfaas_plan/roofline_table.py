"""A model on an accelerator: prefill by length, decode by batch and context, and how best to divide an instance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from prfaas_plan.batching import BatchLimit, largest_batch
from prfaas_plan.decode import decode_step
from prfaas_plan.deployment import Deployment
from prfaas_plan.errors import InfeasibleError
from prfaas_plan.footprint import Footprint, footprint
from prfaas_plan.prefill import prefill_time
from prfaas_plan.roofline import PhaseTime
from prfaas_plan.splits import Split, compare_splits

__all__ = [
    "DEFAULT_BATCHES",
    "DEFAULT_CONTEXTS",
    "DEFAULT_LENGTHS",
    "DecodeRow",
    "PrefillRow",
    "RooflineTable",
    "roofline",
]

DEFAULT_LENGTHS = (1024, 8192, 32768, 131072)
DEFAULT_BATCHES = (1, 8, 32, 128)
DEFAULT_CONTEXTS = (4096, 32768)
DEFAULT_TPOT_S = 0.05


@dataclass(frozen=True, slots=True)
class PrefillRow:
    """The prefill of one prompt."""

    length_tokens: int
    time: PhaseTime

    def to_dict(self) -> dict[str, Any]:
        """Give the row by name."""
        return {"length_tokens": self.length_tokens, **self.time.to_dict()}


@dataclass(frozen=True, slots=True)
class DecodeRow:
    """One decode step of a batch at a mean context; without a time where it does not fit in memory."""

    batch: int
    context_tokens: int
    time: PhaseTime | None
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """Give the row by name."""
        found = self.time.to_dict() if self.time else {"seconds": None}
        return {
            "batch": self.batch,
            "context_tokens": self.context_tokens,
            "tokens_per_second": self.batch / self.time.seconds_per_token if self.time else None,
            "reason": self.reason,
            **found,
        }


@dataclass(frozen=True, slots=True)
class RooflineTable:
    """What one instance of a model is estimated to reach."""

    deployment: Deployment
    tpot_s: float
    memory: Footprint
    prefill: tuple[PrefillRow, ...]
    decode: tuple[DecodeRow, ...]
    largest: tuple[tuple[int, BatchLimit], ...]
    """Context [token], and the largest batch within the time per token there."""
    splits: tuple[Split, ...]
    notes: tuple[str, ...]

    @property
    def fastest(self) -> Split | None:
        """The division with the shortest prefill."""
        return self.splits[0] if self.splits else None

    @property
    def cheapest(self) -> Split | None:
        """The division with the most output tokens a second and GPU."""
        return max(self.splits, key=lambda s: s.decode.tokens_per_second_per_gpu, default=None)

    def to_dict(self) -> dict[str, Any]:
        """Give the table by name, keys with their unit."""
        d = self.deployment
        return {
            "model": d.model.id,
            "accelerator": d.hardware.id,
            "gpus": d.gpus,
            "tp": d.ranks,
            "ep": d.ep,
            "dp": d.dp,
            "pp": d.pp,
            "cp": d.cp,
            "tpot_s": self.tpot_s,
            "memory": self.memory.to_dict(),
            "prefill": [row.to_dict() for row in self.prefill],
            "decode": [row.to_dict() for row in self.decode],
            "largest_batch": [{"context_tokens": c, **limit.to_dict()} for c, limit in self.largest],
            "splits": [split.to_dict() for split in self.splits],
            "notes": list(self.notes),
        }


def roofline(
    deployment: Deployment,
    lengths: Sequence[int] = DEFAULT_LENGTHS,
    batches: Sequence[int] = DEFAULT_BATCHES,
    contexts: Sequence[int] = DEFAULT_CONTEXTS,
    tpot_s: float = DEFAULT_TPOT_S,
) -> RooflineTable:
    """Estimate the prefill of one prompt by length [token] and decode steps by batch and context [token].

    Also the largest batch within `tpot_s` [s], and every division of the instance that fits.
    Raises `InfeasibleError`, with the smallest division that does, where one sequence does not fit in memory.
    """
    memory = footprint(deployment, 1.0, float(min(contexts)))
    if not memory.fits:
        raise InfeasibleError(memory.reason)
    prefill = tuple(PrefillRow(length, prefill_time(deployment, length)) for length in lengths)
    decode = tuple(_decode_row(deployment, batch, context) for context in contexts for batch in batches)
    times = [row.time for row in prefill] + [row.time for row in decode if row.time]
    return RooflineTable(
        deployment=deployment,
        tpot_s=tpot_s,
        memory=memory,
        prefill=prefill,
        decode=decode,
        largest=tuple((context, largest_batch(deployment, context, tpot_s)) for context in contexts),
        splits=compare_splits(deployment, float(lengths[len(lengths) // 2]), float(contexts[0]), tpot_s),
        notes=tuple(dict.fromkeys(note for time in times for note in time.notes)),
    )


def _decode_row(deployment: Deployment, batch: int, context: int) -> DecodeRow:
    room = footprint(deployment, float(batch), float(context))
    if not room.fits:
        return DecodeRow(batch, context, None, room.reason)
    return DecodeRow(batch, context, decode_step(deployment, batch, context), "")
