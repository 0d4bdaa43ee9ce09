"""How long a cluster's instances take to prefill and to decode a scenario's model, and where that is known from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from prfaas_plan.catalog import find_measured, load_hardware, load_measured, measured_profiles
from prfaas_plan.errors import Fault, InfeasibleError, InputError, ScenarioError
from prfaas_plan.estimated_services import roofline_decode, roofline_prefill
from prfaas_plan.measured import DecodePoint, MeasuredProfile, prefill_law
from prfaas_plan.model import ModelProfile
from prfaas_plan.profiles import find_profile
from prfaas_plan.scenario import Cluster, Scenario
from prfaas_plan.service_records import DecodeService, PrefillService

if TYPE_CHECKING:
    from prfaas_plan.deployment import Deployment

__all__ = ["Services", "largest_batch", "prefill_of"]

Folders = Sequence[str | Path]


@dataclass(frozen=True, slots=True)
class Services:
    """Finds the service times of a scenario's clusters: measured where a profile has them, else by the roofline."""

    scenario: Scenario
    model: ModelProfile
    folders: Folders = ()

    def accelerator_id(self, cluster: Cluster) -> str:
        """Give the profile id of a cluster's accelerator.

        Raises `ProfileNotFoundError` with the nearest name for an unknown one.
        """
        key = f"cluster.{self.scenario.cluster.index(cluster)}.accelerator"
        return find_profile("hardware", cluster.accelerator, self.folders, self.scenario.place(key), key).stem

    def prefill(self, cluster: Cluster) -> PrefillService:
        """Give the prefill time of a cluster's instances.

        Raises `ScenarioError` naming the cluster where nothing gives it.
        """
        for profile in self._profiles(cluster):
            if profile.prefill:
                return _measured_prefill(profile)
        return roofline_prefill(self.deployment(cluster, "prefill times"), cluster.name)

    def decode(self, cluster: Cluster, context_tokens: float | None = None) -> DecodeService:
        """Give the batch and step time of a cluster's instances under the scenario's promise.

        `context_tokens` is the mean context of a decoding sequence, by default that of the scenario's workload.
        Raises `ScenarioError` where nothing gives it, `InfeasibleError` where even one sequence is too slow.
        """
        promise = self.scenario.slo.step_seconds
        for profile in self._profiles(cluster):
            if profile.decode:
                batch, step = largest_batch(profile.decode, promise, cluster.name)
                return DecodeService(batch, step, profile.basis, _cite(profile))
        deployment = self.deployment(cluster, "decode step times")
        return roofline_decode(deployment, context_tokens or self.mean_context(), promise, cluster.name)

    def mean_context(self) -> float:
        """Give the mean context of a decoding sequence [token]: the mean prompt and half the output.

        Raises `ScenarioError` without a workload.
        """
        workload = self.scenario.workload
        if workload is None:
            raise ScenarioError(Fault(self._where, "workload", "missing; the decode step depends on the context"))
        return workload.law.mean + workload.output_tokens / 2.0

    def deployment(self, cluster: Cluster, what: str) -> Deployment:
        """Divide the model over an instance of a cluster, to count its operations.

        Raises `ScenarioError` where the model's layers are not known (saying that `what` is missing), or the division
        is impossible.
        """
        if self.model.kv_points:
            raise ScenarioError(self._missing(cluster, what))
        from prfaas_plan.deployment import Deployment

        try:
            return Deployment(
                model=self.model,
                hardware=load_hardware(cluster.accelerator, self.folders, where=self._where),
                gpus=cluster.gpus_per_instance,
                tp=cluster.tp,
                ep=cluster.ep,
                dp=cluster.dp,
                pp=cluster.pp,
                cp=cluster.cp,
                weights_dtype=cluster.weights_dtype,
                kv_dtype=self.scenario.kv.dtype,
                engine=self.scenario.kv.engine,
                request_overhead_s=cluster.request_overhead_s,
            )
        except InputError as error:
            path = f"cluster.{cluster.name}"
            raise ScenarioError(
                [Fault(self._where, f"{path}.{f.key}", f.problem, f.value, f.suggestion) for f in error.faults]
            ) from None

    def faulty_measurements(self) -> list[Fault]:
        """List what is wrong with the scenario's ``[[measured]]`` tables: not used, or faster than a chip can be."""
        faults = self._unused_measurements()
        if not self.scenario.measured or faults:
            return faults
        from prfaas_plan.plausible import refuse_impossible

        for index, profile in enumerate(self.scenario.measured):
            key = f"measured.{index}"
            named = replace(profile, model=self.model.where or self.model.id)
            try:
                refuse_impossible(named, self.scenario.place(key), key, self.folders)
            except InputError as error:
                faults += error.faults
        return faults

    def _unused_measurements(self) -> list[Fault]:
        """List the scenario's own ``[[measured]]`` tables that no cluster takes: a name or a size is mistaken."""
        used = {id(profile) for cluster in self.scenario.cluster for profile in self._own(cluster)}
        problem = (
            f"no cluster has this model, accelerator and number of GPUs; the scenario's model is {self.model.id!r}"
        )
        return [
            self.scenario.fault(f"measured.{index}", problem, f"{p.model} on {p.gpus_per_instance}×{p.accelerator}")
            for index, p in enumerate(self.scenario.measured)
            if id(p) not in used
        ]

    def _own(self, cluster: Cluster) -> Iterable[MeasuredProfile]:
        """Give the scenario's own measurements of a cluster's instances."""
        accelerator = self.accelerator_id(cluster)
        for profile in self.scenario.measured:
            part = find_profile("hardware", profile.accelerator, self.folders, self._where, "measured").stem
            if profile.model in self._models and part == accelerator and _same_instance(profile, cluster):
                yield profile

    @property
    def _models(self) -> set[str]:
        return {self.scenario.model, self.model.id, *self.model.aliases}

    def _profiles(self, cluster: Cluster) -> Iterable[MeasuredProfile]:
        accelerator = self.accelerator_id(cluster)
        yield from self._own(cluster)
        if cluster.measured:
            yield self._named(cluster, cluster.measured, accelerator)
        found = find_measured(self.model.id, accelerator, cluster.gpus_per_instance, self.folders)
        if found is not None:
            yield found

    def _named(self, cluster: Cluster, name: str, accelerator: str) -> MeasuredProfile:
        """Load the measured profile a cluster names; a path is relative to the scenario's folder."""
        key = f"cluster.{cluster.name}.measured"
        beside = self.scenario.folder / name
        profile = load_measured(str(beside) if beside.is_file() else name, self.folders, where=self._where, key=key)
        part = find_profile("hardware", profile.accelerator, self.folders, profile.where, "accelerator").stem
        expected = (
            ("model", profile.model, profile.model in self._models, self.model.id),
            ("accelerator", profile.accelerator, part == accelerator, accelerator),
            (
                "GPUs an instance",
                profile.gpus_per_instance,
                _same_instance(profile, cluster),
                cluster.gpus_per_instance,
            ),
        )
        faults = [
            Fault(self._where, key, f"measured another {what} than {wanted}", value)
            for what, value, same, wanted in expected
            if not same
        ]
        if faults:
            raise ScenarioError(faults)
        from prfaas_plan.plausible import refuse_impossible

        refuse_impossible(profile, profile.where, "", self.folders)
        return profile

    @property
    def _where(self) -> str:
        return self.scenario.where or "scenario"

    def _missing(self, cluster: Cluster, what: str) -> Fault:
        problem = (
            f"no profile has {what} of {self.scenario.model} on "
            f"{cluster.gpus_per_instance}×{cluster.accelerator}, and its layers are not known, so no roofline; "
            "add a [[measured]] table or a measured profile"
        )
        return Fault(self._where, f"cluster.{cluster.name}", problem)


def prefill_of(model: ModelProfile, on: tuple[str, int] | None, folders: Folders = ()) -> PrefillService | None:
    """Give the prefill time of a model on an accelerator and a number of them, or on whichever it was measured.

    A named accelerator without a measurement gets the roofline's estimate. Returns ``None`` where nothing is known.
    Raises `ProfileNotFoundError` for an unknown accelerator.
    """
    if on is None:
        found = next((p for p in measured_profiles(model.id, folders) if p.prefill), None)
        return _measured_prefill(found) if found else None
    part = find_profile("hardware", on[0], folders, "accelerator").stem
    found = find_measured(model.id, part, on[1], folders)
    if found is not None and found.prefill:
        return _measured_prefill(found)
    if model.kv_points:
        return None
    from prfaas_plan.deployment import Deployment

    return roofline_prefill(Deployment(model, load_hardware(part, folders), on[1]))


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
    return ScenarioError(Fault("scenario", "slo", problem))
