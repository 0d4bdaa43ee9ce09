"""What a what-if gives: the cases of a sweep, the bars of a tornado, the percentiles of inputs in doubt."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prfaas_plan.errors import Fault, InputError, nearest
from prfaas_plan.tabular import Tabular
from prfaas_plan.whatif.cases import METRICS

__all__ = ["MonteCarlo", "SweepResult", "Tornado", "price_hint", "smaller_is_better"]

_WHOLE = frozenset({"threshold_tokens", "remote_prefill_instances", "local_prefill_instances", "decode_instances",
                    "gpus"})  # fmt: skip
_WORDS = frozenset({"bottleneck", "error"})
_SMALLER_IS_BETTER = ("usd", "gpus", "ttft", "tpot", "instances", "used")


@dataclass(frozen=True, slots=True, repr=False)
class SweepResult(Tabular):
    """What every case of a sweep gives: the varied values, then the metrics."""

    scenario: str
    varied: tuple[str, ...]
    mode: str
    columns: Mapping[str, Sequence[Any]]

    def __len__(self) -> int:
        return len(self.columns[METRICS[0]])

    def __repr__(self) -> str:
        rates = [x for x in self.column(METRICS[0]) if x is not None]
        span = f", {min(rates):.4g} to {max(rates):.4g} req/s" if rates else ""
        return f"<SweepResult {self.scenario}: {len(self):,} cases of {', '.join(self.varied) or 'nothing'}{span}>"

    def column(self, name: str) -> list[Any]:
        """Give one column in the order of the cases.

        Raises `InputError` for an unknown name.
        """
        if name not in self.columns:
            raise InputError(Fault("sweep", name, "no such column", None, nearest(name, self.columns)))
        values = self.columns[name]
        return [_plain(name, v) for v in values] if not isinstance(values, tuple) else list(values)

    def numbers(self, name: str) -> list[Any]:
        """Give one column of numbers, ``None`` where a case has none.

        Raises `InputError` for an unknown name, or one whose values are words.
        """
        values = self.column(name)
        if name in _WORDS or any(isinstance(v, (str, dict, list)) for v in values):
            raise InputError(Fault("sweep", name, "holds words; expected a column of numbers, such as lambda_max_rps"))
        return values

    def rows(self) -> Iterator[dict[str, Any]]:
        """Give one record a case: the varied paths, then the metrics."""
        names = list(self.columns)
        for values in zip(*(self.column(name) for name in names), strict=True):
            yield dict(zip(names, values, strict=True))

    def to_rows(self) -> list[dict[str, Any]]:
        """Give the records of all cases."""
        return list(self.rows())

    def to_dict(self) -> dict[str, Any]:
        """Give the sweep under the keys of the interface."""
        return {
            "scenario": self.scenario,
            "varied": list(self.varied),
            "mode": self.mode,
            "rows": self.to_rows(),
        }

    def best(self, metric: str = METRICS[0]) -> dict[str, Any]:
        """Give the record of the case that is best by a metric (lowest for prices and times, else highest).

        Raises `InputError` for an unknown metric, or where no case has it.
        """
        found = [(v, -i) for i, v in enumerate(self.numbers(metric)) if v is not None]
        if not found:
            raise InputError(Fault("sweep", metric, "no case has this number"))
        sign = -1.0 if smaller_is_better(metric) else 1.0
        index = -max(found, key=lambda pair: (sign * pair[0], pair[1]))[1]
        return {name: self.column(name)[index] for name in self.columns}


def _plain(name: str, value: Any) -> Any:
    """Turn an element of an array into a plain value; NaN stands for what does not exist."""
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float) and math.isnan(value):
        return None
    return int(value) if name in _WHOLE and isinstance(value, float) else value


def smaller_is_better(metric: str) -> bool:
    """Say whether less of a metric is better: prices, times and machines."""
    return any(word in metric for word in _SMALLER_IS_BETTER)


def price_hint(metric: str) -> str:
    """Say what a cost needs, where the metric is one."""
    return "; give the prices of all clusters" if "usd" in metric else ""


@dataclass(frozen=True, slots=True, repr=False)
class Tornado(Tabular):
    """How far one metric moves when one input at a time moves, the widest first."""

    scenario: str
    metric: str
    base: float
    bars: tuple[Mapping[str, Any], ...]
    left_out: tuple[str, ...] = ()
    """Values without a plan, and why."""

    def __repr__(self) -> str:
        widest = f", widest {self.bars[0]['input']}" if self.bars else ""
        return f"<Tornado {self.scenario}: {self.metric} {self.base:.4g}{widest}>"

    def to_dict(self) -> dict[str, Any]:
        """Give the bars as rows."""
        rows = [dict(bar) for bar in self.bars]
        found = {"scenario": self.scenario, "metric": self.metric, "base": self.base, "rows": rows}
        return {**found, "left_out": list(self.left_out)}


@dataclass(frozen=True, slots=True, repr=False)
class MonteCarlo(Tabular):
    """What inputs in doubt do to rate and cost: percentiles over drawn cases, and the cases themselves."""

    result: SweepResult
    seed: int
    percentiles: Mapping[str, Mapping[str, float]]
    failed: int
    """Drawn cases without a plan; percentiles are over the others."""

    def __repr__(self) -> str:
        rate = self.percentiles.get(METRICS[0], {})
        shown = ", ".join(f"{name} {value:.4g}" for name, value in rate.items())
        return f"<MonteCarlo {self.result.scenario}: {len(self.result):,} draws; req/s {shown}>"

    def to_dict(self) -> dict[str, Any]:
        """Give the percentiles, then the drawn cases as rows."""
        body = {name: dict(values) for name, values in self.percentiles.items()}
        return {**self.result.to_dict(), "seed": self.seed, "failed": self.failed, "percentiles": body}
