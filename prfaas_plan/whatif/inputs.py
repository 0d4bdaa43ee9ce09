"""The cases of a what-if: each combination of values as a scenario with everything looked up.

What does not change from case to case is looked up once. Instances, prices, link rates, output lengths and the
parameters of the length law are set on what was looked up; any other path makes its scenario anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from prfaas_plan.as_mapping import workload_mapping
from prfaas_plan.case import Case, look_up
from prfaas_plan.errors import Fault, InputError, PlanError, ScenarioError
from prfaas_plan.inventory import Cluster, Link
from prfaas_plan.overrides import set_path
from prfaas_plan.records import Reader, read_field
from prfaas_plan.scenario import Scenario
from prfaas_plan.service_records import DecodeService
from prfaas_plan.services import Services
from prfaas_plan.whatif.vary import Axis, Design
from prfaas_plan.workload import Workload, WorkloadTable, read_workload

__all__ = ["Inputs", "Knob"]

Folders = Sequence[str | Path]

_CLUSTER_FIELDS = ("instances", "price_usd_per_gpu_hour")
_LINK_FIELDS = ("bandwidth_gbps", "efficiency", "loss")
_LENGTHS = "workload.input_tokens."
_MOST_FAULTS = 10


@dataclass(frozen=True, slots=True)
class Knob:
    """An axis whose values are set on what was looked up: which record, which field, and the checked values."""

    kind: str
    """``cluster``, ``link``, ``output``, ``law`` or ``other``."""
    place: int
    field: str
    values: tuple[Any, ...]


class Inputs:
    """The cases of a design over a scenario.

    Raises `InputError` with every value that the scenario cannot take.
    """

    def __init__(self, scenario: Scenario, design: Design, profiles: Folders = ()) -> None:
        self.scenario, self.design, self.profiles = scenario, design, profiles
        self._faults: list[Fault] = []
        self.knobs = [self._knob(axis) for axis in design.axes]
        if self._faults:
            raise InputError(_few(self._faults))
        self._found: dict[tuple[int, ...], Case | PlanError] = {}
        self._whole: dict[tuple[int, ...], bool] = {}
        self._decodes: dict[tuple[Any, ...], DecodeService | PlanError] = {}
        self._workloads: dict[tuple[int, ...], Workload | PlanError] = {}

    def _knob(self, axis: Axis) -> Knob:
        steps = axis.path.split(".")
        if not _needs_whole_plan(self.scenario):
            if len(steps) == 3 and steps[0] in ("cluster", "link"):
                fields = _CLUSTER_FIELDS if steps[0] == "cluster" else _LINK_FIELDS
                if steps[2] in fields:
                    place = self._place(steps, axis)
                    return Knob(steps[0], place, steps[2], self._numbers(axis, steps))
            if steps == ["workload", "output_tokens"]:
                return Knob("output", 0, steps[1], self._numbers(axis, steps))
            if axis.path.startswith(_LENGTHS) and self.scenario.workload is not None:
                return Knob("law", 0, axis.path, self._checked(axis))
        return Knob("other", 0, axis.path, self._checked(axis))

    def _place(self, steps: list[str], axis: Axis) -> int:
        records: Sequence[Any] = self.scenario.cluster if steps[0] == "cluster" else self.scenario.link
        if steps[1].isdecimal() and int(steps[1]) < len(records):
            return int(steps[1])
        names = [c.name for c in self.scenario.cluster] if steps[0] == "cluster" else []
        if steps[1] in names:
            return names.index(steps[1])
        self._checked(Axis(axis.path, axis.values[:1]))
        return 0

    def _numbers(self, axis: Axis, steps: list[str]) -> tuple[Any, ...]:
        record = {"cluster": Cluster, "link": Link, "workload": WorkloadTable}[steps[0]]
        reader = Reader("--vary")
        whole = steps[-1] == "instances"
        values = [round(v) if whole and isinstance(v, float) else v for v in axis.values]
        found = tuple(read_field(record, steps[-1], value, reader, axis.path) for value in values)
        self._faults += reader.faults
        return found

    def _checked(self, axis: Axis) -> tuple[Any, ...]:
        """Try every value alone, or the ends of very many: what is wrong is said before anything is computed."""
        values = axis.values if len(axis.values) <= 1000 else (axis.values[0], axis.values[-1])
        for value in values:
            try:
                self.scenario.replace(axis.path, value)
            except InputError as error:
                self._faults += [replace(fault, where="--vary") for fault in error.faults]
        return axis.values

    def __len__(self) -> int:
        return len(self.design)

    def positions(self, case: int) -> tuple[int, ...]:
        """Give the place of a case on each axis."""
        return self.design.positions(case)

    def values(self, positions: tuple[int, ...]) -> tuple[Any, ...]:
        """Give the varied values of a case."""
        return tuple(knob.values[p] for knob, p in zip(self.knobs, positions, strict=True))

    def key(self, positions: tuple[int, ...], *kinds: str) -> tuple[int, ...]:
        """Give the places on the axes of some kinds: cases with one key share what these kinds decide."""
        return tuple(p for knob, p in zip(self.knobs, positions, strict=True) if knob.kind in kinds)

    def needs_whole_plan(self, positions: tuple[int, ...]) -> bool:
        """Say whether a case is more than a threshold and a split, so that only a plan of its own answers it."""
        key = self.key(positions, "other")
        if key not in self._whole:
            self._whole[key] = _needs_whole_plan(self.changed(positions, "other"))
        return self._whole[key]

    def looked_up(self, positions: tuple[int, ...]) -> Case:
        """Look up a case with its own values of all but numbers, shared by all cases that have the same.

        Raises as `look_up` does.
        """
        key = self.key(positions, "other")
        if key not in self._found:
            self._found[key] = self._look_up(positions)
        found = self._found[key]
        if isinstance(found, PlanError):
            raise found
        return found

    def _look_up(self, positions: tuple[int, ...]) -> Case | PlanError:
        try:
            return look_up(self.changed(positions, "other"), self.profiles)
        except PlanError as error:
            return error

    def changed(self, positions: tuple[int, ...], *kinds: str) -> Scenario:
        """Make the scenario of a case by setting paths, of some kinds only where kinds are given."""
        scenario = self.scenario
        for knob, axis, p in zip(self.knobs, self.design.axes, positions, strict=True):
            if not kinds or knob.kind in kinds:
                scenario = scenario.replace(axis.path, knob.values[p])
        return scenario

    def workload(self, positions: tuple[int, ...], found: Case) -> Workload:
        """Give the traffic of a case, its output length apart.

        Raises `ScenarioError` where the parameters of a law do not go together.
        """
        key = self.key(positions, "law", "other")
        if key not in self._workloads:
            self._workloads[key] = self._workload(positions, found)
        workload = self._workloads[key]
        if isinstance(workload, PlanError):
            raise workload
        return workload

    def _workload(self, positions: tuple[int, ...], found: Case) -> Workload | PlanError:
        changes = [(k.field, k.values[p]) for k, p in zip(self.knobs, positions, strict=True) if k.kind == "law"]
        if not changes:
            return found.workload
        data = {"workload": workload_mapping(found.workload)}
        reader = Reader("--vary")
        for path, value in changes:
            try:
                set_path(data, path, value)
            except KeyError as error:
                return ScenarioError(Fault("--vary", path, error.args[0], value, error.args[1]))
        workload = read_workload(data["workload"], reader, "workload", found.scenario.folder)
        return ScenarioError(reader.faults) if workload is None else replace(workload, notes=found.workload.notes)

    def decode(self, positions: tuple[int, ...], found: Case, workload: Workload) -> DecodeService:
        """Give the decode service of a case; an estimated one depends on the mean context of its traffic.

        Raises `InfeasibleError` where even one sequence is too slow or does not fit.
        """
        if found.decode.basis != "roofline" or workload == found.workload:
            return found.decode
        key = (*self.key(positions, "law", "other"), workload.output_tokens)
        if key not in self._decodes:
            try:
                scenario = replace(found.scenario, workload=workload)
                self._decodes[key] = Services(scenario, found.model, self.profiles).decode(found.local)
            except PlanError as error:
                self._decodes[key] = error
        service = self._decodes[key]
        if isinstance(service, PlanError):
            raise service
        return service

    def case(self, positions: tuple[int, ...]) -> Case:
        """Give a case with everything looked up and its own numbers set.

        Raises as `look_up` does.
        """
        found = self.looked_up(positions)
        scenario = found.scenario
        workload = self.workload(positions, found)
        clusters, links = list(scenario.cluster), list(scenario.link)
        for knob, p in zip(self.knobs, positions, strict=True):
            if knob.kind == "cluster":
                clusters[knob.place] = replace(clusters[knob.place], **{knob.field: knob.values[p]})
            elif knob.kind == "link":
                links[knob.place] = replace(links[knob.place], **{knob.field: knob.values[p]})
            elif knob.kind == "output":
                workload = replace(workload, output_tokens=knob.values[p])
        changed = replace(scenario, cluster=tuple(clusters), link=tuple(links), workload=workload)
        return replace(
            found,
            decode=self.decode(positions, found, workload),
            scenario=changed,
            workload=workload,
            remote=clusters[scenario.cluster.index(found.remote)] if found.remote else None,
            local=clusters[scenario.cluster.index(found.local)],
            link=links[scenario.link.index(found.link)] if found.link else None,
        )


def _few(faults: Sequence[Fault]) -> list[Fault]:
    """Say each fault once, and of very many the first and how many more there are."""
    different = list({str(fault): fault for fault in faults}.values())
    more = len(different) - _MOST_FAULTS
    if more <= 1:
        return different
    return [*different[:_MOST_FAULTS], Fault("--vary", "", f"{more:,} more values are wrong")]


def _needs_whole_plan(scenario: Scenario) -> bool:
    """Say whether a scenario is a fleet, or promises a time to first token, which moves the threshold."""
    return scenario.is_fleet or scenario.slo.ttft_p90_s is not None
