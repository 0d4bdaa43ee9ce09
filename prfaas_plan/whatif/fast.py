"""The rows of a what-if of very many cases: every formula over arrays of cases, with NumPy.

The numbers agree with those of single plans to 1e-12. Cases that the arrays cannot settle (no remote pool,
a class with next to no requests, a tie) are left to the exact way.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prfaas_plan.case import Case, planned_system
from prfaas_plan.errors import PlanError, ProfileNotFoundError
from prfaas_plan.throughput import System
from prfaas_plan.units import GBPS
from prfaas_plan.whatif.cases import METRICS, exact_rows
from prfaas_plan.whatif.inputs import Inputs
from prfaas_plan.whatif.vector_search import Batch, Needs, search

__all__ = ["fast_columns"]

Floats = NDArray[np.float64]
Places = list[NDArray[np.int64]]

_TEXTS = ("bottleneck", "error")
_BLOCK = 20_000
_FEWEST = 500
"""Fewer cases of one law than this are not worth a table of its needs."""
_CLEAR_SHARE = 1e-3
"""Below this share of a class, differences of tails lose the twelfth digit."""


def fast_columns(inputs: Inputs, start: int, stop: int) -> dict[str, NDArray[Any]]:
    """Give the metrics of the cases from `start` up to `stop` as one array each; NaN or ``None`` where absent."""
    fast = _Fast(inputs)
    blocks = [fast.block(i, min(stop, i + _BLOCK)) for i in range(start, stop, _BLOCK)]
    return {name: np.concatenate([block[name] for block in blocks]) for name in METRICS}


class _Fast:
    """Needs of every structure and law met so far."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs
        self.tables: dict[Any, tuple[Needs, Needs]] = {}

    def places(self, cases: NDArray[np.int64]) -> Places:
        """Give the place of each case on each axis."""
        design = self.inputs.design
        if design.mode == "zip":
            return [cases for _ in design.axes]
        sizes = [len(axis.values) for axis in design.axes]
        return [np.asarray(p) for p in np.unravel_index(cases, sizes)] if sizes else []

    def block(self, start: int, stop: int) -> dict[str, NDArray[Any]]:
        """Compute a block of cases, group by group of those that share everything but numbers."""
        cases = np.arange(start, stop)
        places = self.places(cases)
        out = {name: np.full(len(cases), None if name in _TEXTS else np.nan, dtype=object if name in _TEXTS else float)
               for name in METRICS}  # fmt: skip
        left = np.ones(len(cases), bool)
        key = self._keys(places, len(cases))
        for group in np.unique(key):
            members = np.flatnonzero(key == group)
            done = self._group([p[members] for p in places], members, out)
            left[members[done]] = False
        waiting = np.flatnonzero(left).tolist()
        for i, row in zip(waiting, exact_rows(self.inputs, [start + i for i in waiting]), strict=True):
            for name, value in zip(METRICS, row, strict=True):
                out[name][i] = np.nan if value is None and name not in _TEXTS else value
        return out

    def _keys(self, places: Places, cases: int) -> NDArray[np.int64]:
        key = np.zeros(cases, dtype=np.int64)
        for knob, place in zip(self.inputs.knobs, places, strict=True):
            if knob.kind in ("other", "law"):
                key = key * len(knob.values) + place
        return key

    def _group(self, places: Places, members: NDArray[np.int64], out: dict[str, NDArray[Any]]) -> NDArray[np.int64]:
        """Fill in the rows of one group, and say which of them are settled."""
        nothing = np.zeros(0, dtype=np.int64)
        first = tuple(int(p[0]) for p in places)
        try:
            case = self.inputs.case(first)
            system, _ = planned_system(case)
        except ProfileNotFoundError:
            raise
        except PlanError:
            return nothing
        if (
            self.inputs.needs_whole_plan(first)
            or system.remote is None
            or system.local is None
            or len(members) < _FEWEST
        ):
            return nothing
        batch = self._batch(case, system, places, len(members))
        if batch is None:
            return nothing
        needs, means = self._needs(first, system)
        found = search(batch, needs)
        values = _values(batch, needs, means, system, (found.prefill_instances, found.threshold, found.crossing))
        sure = found.sure & values.pop("clear").astype(bool) & (batch.remote_instances > 0)
        if case.link is None:
            values["link_used_gbps"] = np.zeros(len(members))
        self._add_cost(values, case, places, batch, found.prefill_instances)
        settled = np.flatnonzero(sure)
        for name, column in values.items():
            out[name][members[settled]] = column[settled]
        return settled

    def _needs(self, first: tuple[int, ...], system: System) -> tuple[Needs, Needs]:
        key = self.inputs.key(first, "other", "law")
        if key not in self.tables:
            if len(self.tables) >= 8:
                self.tables.pop(next(iter(self.tables)))
            if system.remote is None or system.local is None:
                raise AssertionError("both prefill pools exist here")
            curves = (system.remote.seconds, system.kv_bytes, system.local.seconds)
            needs = Needs(*curves, system.at_mean_length, [system.law])
            means = Needs(*curves, False, [system.law]) if system.at_mean_length else needs
            self.tables[key] = needs, means
        return self.tables[key]

    def _column(self, kind: str, place: int, field: str, places: Places, otherwise: Any) -> Any:
        for knob, p in zip(self.inputs.knobs, places, strict=True):
            if (knob.kind, knob.place, knob.field) == (kind, place, field):
                values = np.array([np.nan if v is None else v for v in knob.values], dtype=float)
                return values[p]
        return np.nan if otherwise is None else otherwise

    def _batch(self, case: Case, system: System, places: Places, n: int) -> Batch | None:
        remote, local = self._clusters(case)
        rate: Any = np.inf
        if case.link is not None:
            link = case.scenario.link.index(case.link)
            names = ("bandwidth_gbps", "efficiency", "loss")
            speed, efficiency, loss = (
                self._column("link", link, name, places, getattr(case.link, name)) for name in names
            )
            rate = speed * (efficiency * (1.0 - loss)) * GBPS
        ones = np.ones(n)
        decode = self._decode(case, places)
        if decode is None:
            return None
        size, step = decode
        output = self._column("output", 0, "output_tokens", places, system.output_tokens)
        instances = self._column("cluster", remote, "instances", places, case.scenario.cluster[remote].instances)
        own = self._column("cluster", local, "instances", places, case.scenario.cluster[local].instances)
        return Batch(
            remote_instances=instances * ones,
            link_bytes_per_s=rate * ones,
            local_instances=(own * ones).astype(np.int64),
            decode_work=step * output * ones,
            decode_batch=size * ones,
            decode_step=step * ones,
        )

    def _decode(self, case: Case, places: Places) -> tuple[Any, Any] | None:
        """Give batch and step time, case by case where they are estimated and output lengths vary."""
        knob, p = next(
            ((k, p) for k, p in zip(self.inputs.knobs, places, strict=True) if k.kind == "output"), (None, None)
        )
        if case.decode.basis != "roofline" or knob is None or p is None:
            return case.decode.batch, case.decode.step_seconds
        first = [int(q[0]) for q in places]
        found = []
        for value in knob.values:
            try:
                found.append(self.inputs.decode(tuple(first), case, replace(case.workload, output_tokens=value)))
            except PlanError:
                return None
        batch, step = (np.array([getattr(d, name) for d in found]) for name in ("batch", "step_seconds"))
        return batch[p], step[p]

    def _price(self, case: Case, index: int, places: Places) -> Any:
        """Give the price of an instance-hour, purchase included."""
        cluster = case.scenario.cluster[index]
        for knob, p in zip(self.inputs.knobs, places, strict=True):
            if (knob.kind, knob.place, knob.field) == ("cluster", index, "price_usd_per_gpu_hour"):
                found = [replace(cluster, price_usd_per_gpu_hour=v).usd_per_instance_hour for v in knob.values]
                return np.array([np.nan if v is None else v for v in found])[p]
        price = cluster.usd_per_instance_hour
        return np.nan if price is None else price

    @staticmethod
    def _clusters(case: Case) -> tuple[int, int]:
        remote = case.scenario.cluster.index(case.remote) if case.remote else -1
        return remote, case.scenario.cluster.index(case.local)

    def _add_cost(self, values: dict[str, Any], case: Case, places: Places, batch: Batch, n: Any) -> None:
        """Add the price per hour and per million output tokens, in the order `cost_per_hour` adds them up."""
        remote, local = self._clusters(case)
        price = [self._price(case, c, places) for c in (remote, local)]
        gpus = [case.scenario.cluster[c].gpus_per_instance for c in (remote, local)]
        far, decode = batch.remote_instances, batch.local_instances - n
        cost = far * price[0] + n * price[1] + decode * price[1]
        if case.link is not None:
            link = case.link
            carried = values["link_used_gbps"] * GBPS * 3600.0 / 1e9
            gbps = self._column("link", case.scenario.link.index(link), "bandwidth_gbps", places, link.bandwidth_gbps)
            cost = cost + (link.usd_per_port_hour + carried * (link.usd_per_gb or 0.0))
            cost = cost + link.usd_per_gbps_hour * np.where(np.isfinite(gbps), gbps, 0.0)
        output = self._column("output", 0, "output_tokens", places, case.workload.output_tokens)
        values["cost_usd_per_hour"] = cost
        values["usd_per_million_output_tokens"] = cost / (values["lambda_max_rps"] * output * 3600.0 / 1e6)
        values["gpus"] = far * gpus[0] + (n + decode) * gpus[1]


def _values(batch: Batch, needs: Needs, means: Needs, system: System, found: tuple[Any, Any, Any]) -> dict[str, Any]:
    n, threshold, crossing = found
    with np.errstate(divide="ignore", invalid="ignore"):
        before = np.where(crossing, np.maximum(threshold - 1, needs.grid[0, 0]), threshold)
        limits, earlier = _limits(batch, needs, n, threshold), _limits(batch, needs, n, before)
        take = earlier[:3].min(axis=0) >= limits[:3].min(axis=0)
        limits = np.where(take, earlier, limits)
        threshold = np.where(take, before, threshold)
        rate = limits.min(axis=0)
        share, remote, kv, local = means.at(threshold)
        binding = (limits <= rate * (1.0 + 1e-3)).astype(np.int64)
    code = binding.T @ np.array([1, 2, 4, 8])
    transfer = kv / batch.link_bytes_per_s + system.link_delay_s * np.where(n > 0, share, 1.0)
    ttft = remote + transfer + np.where(n > 0, local, 0.0)
    return {
        "lambda_max_rps": rate,
        "threshold_tokens": np.where(n > 0, threshold, np.nan),
        "offloaded_fraction": np.where(n > 0, share, 1.0),
        "bottleneck": _labels(system)[code],
        "remote_prefill_instances": batch.remote_instances,
        "local_prefill_instances": n,
        "decode_instances": batch.local_instances - n,
        "link_used_gbps": rate * kv / GBPS,
        "ttft_mean_s": ttft,
        "tpot_s": batch.decode_step,
        "clear": (n == 0) | ((share > _CLEAR_SHARE) & (share < 1.0 - _CLEAR_SHARE)),
    }


def _limits(batch: Batch, needs: Needs, n: Any, threshold: Any) -> Any:
    _, a, b, c = needs.at(threshold)
    decode = (batch.local_instances - n) * batch.decode_batch / batch.decode_work
    local = np.where(n > 0, n / c, np.inf)
    return np.stack([batch.remote_instances / a, batch.link_bytes_per_s / b, local, decode])


def _labels(system: System) -> NDArray[Any]:
    """Name every combination of binding stages."""
    far = system.remote.cluster if system.remote else ""
    near = system.local.cluster if system.local else ""
    names = (f"prefill at {far}", "link", f"prefill at {near}", f"decode at {system.decode.cluster}")
    labels = [" and ".join(x for i, x in enumerate(names) if code >> i & 1) for code in range(16)]
    return np.array(labels, dtype=object)
