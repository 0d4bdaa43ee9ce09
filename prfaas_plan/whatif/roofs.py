"""The roofline of a scenario's accelerators, and where prefill and decode of its model stand under it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from prfaas_plan.case import Case
from prfaas_plan.catalog import load_hardware
from prfaas_plan.decode import decode_step
from prfaas_plan.deployment import Deployment
from prfaas_plan.errors import PlanError
from prfaas_plan.hardware import COMPUTE_DTYPES, HardwareProfile
from prfaas_plan.prefill import prefill_time
from prfaas_plan.roofline import PhaseTime
from prfaas_plan.scenario import Cluster
from prfaas_plan.service_records import PrefillService
from prfaas_plan.services import Services
from prfaas_plan.throughput import OperatingPoint

__all__ = ["Roof", "RoofPoint", "Roofs", "roofs"]

Folders = Sequence[str | Path]


@dataclass(frozen=True, slots=True)
class Roof:
    """What one accelerator can attain in a data type, by its data sheet."""

    accelerator: str
    dtype: str
    flops: float
    """[FLOP/s] dense peak."""
    bandwidth: float
    """[B/s] peak memory bandwidth."""

    @property
    def ridge(self) -> float:
        """Intensity at which compute and memory balance [FLOP/B]."""
        return self.flops / self.bandwidth

    def attainable(self, intensity: float) -> float:
        """Give the smaller of the peak and intensity times bandwidth [FLOP/s].

        >>> Roof("a", "bf16", 100.0, 10.0).attainable(4.0)
        40.0
        """
        return min(self.flops, intensity * self.bandwidth)


@dataclass(frozen=True, slots=True)
class RoofPoint:
    """Where one phase stands: what one accelerator is counted to do, over the time that the plan takes for it."""

    phase: str
    cluster: str
    accelerator: str
    batch: int
    tokens: float
    """Length of the prompt, or mean context of a decode step [token]."""
    basis: str
    """Where its time comes from: ``measured``, ``derived`` or ``roofline``."""
    intensity: float
    """[FLOP/B]"""
    flops: float
    """[FLOP/s] of one accelerator."""
    attainable: float
    """[FLOP/s] that the data sheet allows at this intensity, in the phase's mix of data types."""


@dataclass(frozen=True, slots=True)
class Roofs:
    """The roofs of a scenario's accelerators, the points under them, and why any are missing."""

    roofs: tuple[Roof, ...]
    points: tuple[RoofPoint, ...]
    notes: tuple[str, ...]


def roofs(case: Case, best: OperatingPoint, folders: Folders = ()) -> Roofs:
    """Draw up the roofline of each accelerator, with decode at the planned batch and prefill at the mean lengths.

    FLOPs and bytes are counted from the model's layers, per accelerator; the time is the plan's, measured or estimated.
    A model without known layers gets roofs without points and a note; nothing is guessed.
    """
    clusters = [c for c in (case.remote, case.local) if c is not None]
    services = Services(case.scenario, case.model, folders)
    deployments, notes = _deployments(services, clusters)
    found = {}
    for cluster in clusters:
        hardware = load_hardware(cluster.accelerator, folders)
        for roof in _roofs_of(hardware, deployments.get(cluster.name)):
            found[hardware.id, roof.dtype] = roof
        if hardware.memory_bandwidth is None:
            notes.append(f"No memory bandwidth is known for {hardware.name}, so it has no roof.")
    points = tuple(_points(case, best, services, deployments))
    return Roofs(tuple(found.values()), points, tuple(dict.fromkeys(notes)))


def _deployments(services: Services, clusters: Sequence[Cluster]) -> tuple[dict[str, Deployment], list[str]]:
    if services.model.kv_points:
        name = services.model.name or services.model.id
        note = f"The layers of {name} are not known, so its operations cannot be counted: only the roofs are drawn."
        return {}, [note]
    found, notes = {}, []
    for cluster in clusters:
        try:
            deployment = services.deployment(cluster, "operations")
            deployment.rates, deployment.layout  # noqa: B018 - raise here what is missing
            found[cluster.name] = deployment
        except PlanError as error:
            notes.append(f"No operating points at {cluster.name}: {error}")
    return found, notes


def _roofs_of(hardware: HardwareProfile, deployment: Deployment | None) -> Iterator[Roof]:
    """Give the roofs of the data types that are multiplied in; BF16 and FP8 where that is not known."""
    used = {"bf16", "fp8"} if deployment is None else {"bf16", *(s.dtype for s in deployment.stored.values())}
    if hardware.memory_bandwidth is None:
        return
    for dtype in COMPUTE_DTYPES:
        if dtype in used and hardware.has_peak(dtype):
            yield Roof(hardware.name, dtype, hardware.peak_flops(dtype), hardware.memory_bandwidth)


def _points(
    case: Case, best: OperatingPoint, services: Services, deployments: dict[str, Deployment]
) -> Iterator[RoofPoint]:
    system = best.system
    prefills = (
        (case.remote, case.remote_prefill, best.mean_long, system.has_remote),
        (case.local, case.local_prefill, best.mean_short, system.has_local),
    )
    for cluster, service, length, used in prefills:
        if used and cluster and service and length and cluster.name in deployments:
            yield _prefill_point(cluster, service, length, deployments[cluster.name])
    if case.local.name in deployments:
        deployment, decode, context = deployments[case.local.name], case.decode, services.mean_context()
        time = decode_step(deployment, decode.batch, context)
        yield _point(time, decode.step_seconds, case.local, deployment, (decode.batch, context, decode.basis))


def _prefill_point(cluster: Cluster, service: PrefillService, length: float, deployment: Deployment) -> RoofPoint:
    time = prefill_time(deployment, length)
    return _point(time, service.seconds(length), cluster, deployment, (1, length, service.basis))


def _point(
    time: PhaseTime, seconds: float, cluster: Cluster, deployment: Deployment, what: tuple[int, float, str]
) -> RoofPoint:
    batch, tokens, basis = what
    return RoofPoint(
        phase=time.phase,
        cluster=cluster.name,
        accelerator=deployment.hardware.name,
        batch=batch,
        tokens=tokens,
        basis=basis,
        intensity=time.intensity,
        flops=time.flops / seconds,
        attainable=time.flops / time.plain_s,
    )
