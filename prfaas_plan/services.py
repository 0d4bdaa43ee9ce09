"""How long a cluster's instances take to prefill and to decode a scenario's model, and where that is known from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from prfaas_plan.catalog import find_measured, load_measured, measured_profiles
from prfaas_plan.errors import Fault, InfeasibleError, ScenarioError
from prfaas_plan.measured import DecodePoint, MeasuredProfile, prefill_law
from prfaas_plan.model import ModelProfile
from prfaas_plan.numerics import Curve
from prfaas_plan.profiles import find_profile
from prfaas_plan.scenario import Cluster, Scenario

__all__ = ["DecodeService", "PrefillService", "Services", "largest_batch", "prefill_of"]

Folders = Sequence[str | Path]


@dataclass(frozen=True, slots=True)
class PrefillService:
    """Prefill time of one instance by length, with the range it was measured over and its source."""

    seconds: Curve
    shortest: int
    longest: int
    basis: str
    source: str


@dataclass(frozen=True, slots=True)
class DecodeService:
    """The batch one instance decodes within the promised step time, and that step time."""

    batch: int
    step_seconds: float
    basis: str
    source: str


@dataclass(frozen=True, slots=True)
class Services:
    """Finds the service times of a scenario's clusters: measured where a profile has them."""

    scenario: Scenario
    model: ModelProfile
    folders: Folders = ()

    def accelerator_id(self, cluster: Cluster) -> str:
        """Give the profile id of a cluster's accelerator.

        Raises `ProfileNotFoundError` with the nearest name for an unknown one.
        """
        key = f"cluster.{cluster.name}.accelerator"
        return find_profile("hardware", cluster.accelerator, self.folders, self._where, key).stem

    def prefill(self, cluster: Cluster) -> PrefillService:
        """Give the prefill time of a cluster's instances.

        Raises `ScenarioError` naming the cluster where no profile has it.
        """
        for profile in self._profiles(cluster):
            if profile.prefill:
                return _measured_prefill(profile)
        raise ScenarioError(self._missing(cluster, "prefill times"))

    def decode(self, cluster: Cluster) -> DecodeService:
        """Give the batch and step time of a cluster's instances under the scenario's promise.

        Raises `ScenarioError` where no profile has it, `InfeasibleError` where even one sequence is too slow.
        """
        for profile in self._profiles(cluster):
            if profile.decode:
                batch, step = largest_batch(profile.decode, self.scenario.slo.step_seconds, cluster.name)
                return DecodeService(batch, step, profile.basis, _cite(profile))
        raise ScenarioError(self._missing(cluster, "decode step times"))

    def _profiles(self, cluster: Cluster) -> Iterable[MeasuredProfile]:
        accelerator = self.accelerator_id(cluster)
        names = {self.scenario.model, self.model.id, *self.model.aliases}
        for profile in self.scenario.measured:
            same_part = find_profile("hardware", profile.accelerator, self.folders, self._where, "measured").stem
            if profile.model in names and same_part == accelerator and _same_instance(profile, cluster):
                yield profile
        if cluster.measured:
            key = f"cluster.{cluster.name}.measured"
            yield load_measured(cluster.measured, self.folders, where=self._where, key=key)
        found = find_measured(self.model.id, accelerator, cluster.gpus_per_instance, self.folders)
        if found is not None:
            yield found

    @property
    def _where(self) -> str:
        return self.scenario.where or "scenario"

    def _missing(self, cluster: Cluster, what: str) -> Fault:
        problem = (
            f"no profile has {what} of {self.scenario.model} on "
            f"{cluster.gpus_per_instance}×{cluster.accelerator}; add a [[measured]] table or a measured profile"
        )
        return Fault(self._where, f"cluster.{cluster.name}", problem)


def prefill_of(model: ModelProfile, accelerator: str | None, gpus: int, folders: Folders = ()) -> PrefillService | None:
    """Give the prefill time of a model on an instance of `gpus` accelerators, or on whichever it was measured.

    Returns ``None`` where nothing is known. Raises `ProfileNotFoundError` for an unknown accelerator.
    """
    if accelerator is None:
        found = next((p for p in measured_profiles(model.id, folders) if p.prefill), None)
    else:
        part = find_profile("hardware", accelerator, folders, "--accelerator").stem
        found = find_measured(model.id, part, gpus, folders)
    if found is None or not found.prefill:
        return None
    return _measured_prefill(found)


def _measured_prefill(profile: MeasuredProfile) -> PrefillService:
    lengths = [p.length_tokens for p in profile.prefill]
    return PrefillService(prefill_law(profile), lengths[0], lengths[-1], profile.basis, _cite(profile))


def _same_instance(profile: MeasuredProfile, cluster: Cluster) -> bool:
    return profile.gpus_per_instance == cluster.gpus_per_instance


def _cite(profile: MeasuredProfile) -> str:
    titles = "; ".join(source.locator for source in profile.sources) or profile.where
    return f"{profile.basis}: {titles}"


def largest_batch(points: Sequence[DecodePoint], step_seconds: float | None, cluster: str = "") -> tuple[int, float]:
    """Give the largest measured batch whose step keeps within a target [s], and its step time [s].

    Between two measured batches the step time is taken as linear; outside them nothing is assumed. Raises
    `InfeasibleError` if a batch of one is already too slow, and `ScenarioError` if the smallest measured batch
    is larger than one and too slow, since a smaller one might do.

    >>> largest_batch([DecodePoint(10, 0.020), DecodePoint(30, 0.030)], 0.025)
    (20, 0.025)
    """
    if step_seconds is None or points[-1].step_seconds <= step_seconds * (1 + 1e-12):
        return points[-1].batch, points[-1].step_seconds
    first = points[0]
    if first.step_seconds > step_seconds:
        raise _too_slow(first, step_seconds, cluster)
    low = max((p for p in points if p.step_seconds <= step_seconds), key=lambda p: p.batch)
    high = points[points.index(low) + 1]
    slope = (high.step_seconds - low.step_seconds) / (high.batch - low.batch)
    batch = low.batch + int((step_seconds - low.step_seconds) / slope + 1e-9)
    return batch, low.step_seconds + slope * (batch - low.batch)


def _too_slow(point: DecodePoint, step_seconds: float, cluster: str) -> Exception:
    facts = (
        f"a decode step at {cluster} takes {point.step_seconds * 1e3:g} ms at a batch of {point.batch}, "
        f"above the target of {step_seconds * 1e3:g} ms"
    )
    if point.batch == 1:
        return InfeasibleError(facts, f"a target of {point.step_seconds * 1e3:g} ms a token would be met")
    problem = f"{facts}; a smaller batch was not measured, add a [[measured.decode]] point"
    return ScenarioError(Fault("slo", f"cluster.{cluster}", problem))
