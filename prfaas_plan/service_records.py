"""What is known of an instance"s speed: its prefill curve, its decode batch and step time."""

from __future__ import annotations

from dataclasses import dataclass

from prfaas_plan.numerics import Curve

__all__ = ["DecodeService", "PrefillService"]


@dataclass(frozen=True, slots=True)
class PrefillService:
    """Prefill time of one instance by length, with the range it holds over and its source."""

    seconds: Curve
    shortest: int
    longest: int
    basis: str
    """``measured``, ``derived`` or ``roofline``."""
    source: str
    interval: tuple[Curve, Curve] | None = None
    """Fast and slow end of the 80 % interval of an estimate; ``None`` where the times were measured."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DecodeService:
    """The batch one instance decodes within the promised step time, and that step time."""

    batch: int
    step_seconds: float
    basis: str
    source: str
    interval: tuple[float, float] | None = None
    """Fast and slow end of the 80 % interval of an estimated step [s]."""
    notes: tuple[str, ...] = ()
