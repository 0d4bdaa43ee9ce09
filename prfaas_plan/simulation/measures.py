"""What is measured of one run: delays, loads, growth of the backlog, and the time line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from prfaas_plan.errors import Fault, InputError
from prfaas_plan.simulation.engine import Engine
from prfaas_plan.simulation.policies import threshold_at
from prfaas_plan.simulation.settings import Settings
from prfaas_plan.simulation.stations import SharedLink, Station
from prfaas_plan.units import GBPS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["LEVELS", "POOLS", "TimeRow", "measure", "request_times", "time_line"]

LEVELS: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
POOLS: Final = ("remote", "local", "decode")
_ROWS: Final = 100
_MOST_ROWS: Final = 20_000
_WIDTHS: Final = (0.001, 0.01, 0.1, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)


@dataclass(frozen=True, slots=True)
class TimeRow:
    """One interval of the time line; queues are those at its end."""

    start_s: float
    arrivals: int
    served: int
    """Requests whose last token came in the interval."""
    remote_queue: int
    local_queue: int
    link_queue: int
    """Transfers that wait or are on their way."""
    decode_queue: int
    link_gbps: float
    link_load_fraction: float | None
    """Share of the rate the link had in the interval; ``None`` for an unlimited link or one that was down."""
    threshold_tokens: float | None
    ttft_mean_s: float | None
    """Of the requests that arrived in the interval."""
    ttft_p90_s: float | None

    def to_dict(self) -> dict[str, Any]:
        """Give the row by column."""
        return asdict(self)


def _array(values: Any) -> Floats:
    import numpy as np

    return np.frombuffer(values, dtype=float)


def request_times(engine: Engine) -> tuple[Floats, Floats]:
    """Give when each request arrived and when it got its first token [s]: when decode could begin."""
    first = _array(engine.decode.started).copy()
    for request, time in engine.first.items():
        first[request] = time
    return _array(engine.requests.times), first


def _integral(changes: Sequence[tuple[float, float]], start: float, end: float) -> float:
    """Integrate a step function, given by the times of its values, between two times."""
    times = [max(start, min(end, t)) for t, _ in changes] + [end]
    return sum(value * (after - at) for (_, value), at, after in zip(changes, times, times[1:], strict=False))


def _sent(link: SharedLink, times: Any) -> Any:
    import numpy as np

    log = _array(link.log)
    return np.interp(times, log[::2], log[1::2]) if len(log) else np.zeros_like(times)


def _pool_load(station: Station, start: float, end: float) -> float:
    import numpy as np

    began, ended = _array(station.started), _array(station.finished)
    busy = float(np.sum(np.clip(np.minimum(ended, end) - np.maximum(began, start), 0.0, None)))
    instances, steps = 0.0, []
    for time, change in station.changes:
        instances += change
        steps.append((time, instances * station.width))
    there = _integral(steps, start, end)
    return (busy + station.lost_s) / there if there > 0.0 else math.nan


def measure(engine: Engine, settings: Settings) -> dict[str, float]:
    """Give the measures of a run by name, of the requests after the warm-up."""
    import numpy as np

    arrived, first = request_times(engine)
    done = _array(engine.decode.finished)
    ordered = np.sort(arrived)
    start, end = float(ordered[int(settings.warmup_fraction * len(ordered))]), float(ordered[-1])
    counted = arrived >= start
    waits = first - arrived
    span = end - start
    found = {
        "served_rps": float(np.sum((done > start) & (done <= end))) / span if span > 0.0 else math.nan,
        "offloaded_fraction": float(np.mean(np.frombuffer(engine.at_remote, dtype=np.uint8)[counted])),
        "growth_fraction": _growth(arrived, done, 0.5 * (start + end), end),
        "unfinished": float(np.sum(~np.isfinite(done))),
        "response.mean": float(np.mean((done - arrived)[counted])),
    }
    found |= _delays("ttft", waits[counted])
    found |= _delays("affected", waits[counted & _affected(arrived, settings)])
    found |= _parts(engine, counted)
    for name in POOLS:
        found[f"load.{name}"] = _pool_load(getattr(engine, name), start, end)
    sent = float(_sent(engine.link, end) - _sent(engine.link, start))
    carried = _integral(engine.link.rates, start, end)
    found["link.gbps"] = sent / span / GBPS if span > 0.0 else math.nan
    found["link.load"] = sent / carried if 0.0 < carried < math.inf else 0.0
    return found


def _growth(arrived: Floats, done: Floats, middle: float, end: float) -> float:
    """Give the requests that came between two times and were not worked off, as a share of those that came."""
    import numpy as np

    came = int(np.sum((arrived > middle) & (arrived <= end)))
    left = int(np.sum((done > middle) & (done <= end)))
    return (came - left) / came if came else 0.0


def _delays(name: str, waits: Floats) -> dict[str, float]:
    import numpy as np

    if not len(waits):
        return {f"{name}.{key}": math.nan for key in ("mean", *LEVELS)}
    finite = bool(np.isfinite(waits).all())
    levels = np.quantile(waits, list(LEVELS.values()), method="linear" if finite else "higher")
    return {f"{name}.mean": float(np.mean(waits)), **{f"{name}.{k}": float(v) for k, v in zip(LEVELS, levels)}}  # noqa: B905


def _affected(arrived: Floats, settings: Settings) -> Any:
    import numpy as np

    found = np.zeros(len(arrived), dtype=bool)
    spans = [(e.start_s, e.end_s) for e in settings.episodes] + [(f.start_s, f.end_s) for f in settings.failures]
    for start, end in spans:
        found |= (arrived >= start) & (arrived < end)
    return found


def _parts(engine: Engine, counted: Any) -> dict[str, float]:
    """Give the mean parts of the time to first token, over requests whose KV cache was never lost."""
    import numpy as np

    usual = counted.copy()
    usual[list(engine.first)] = False
    remote = usual & (np.frombuffer(engine.at_remote, dtype=np.uint8) > 0)
    near = usual & ~remote
    arrived, delivered = _array(engine.requests.times), _array(engine.delivered)
    began = np.where(remote, _array(engine.remote.started), _array(engine.local.started))
    ended = np.where(remote, _array(engine.remote.finished), _array(engine.local.finished))
    admitted = _array(engine.decode.started)

    def mean(values: Any, chosen: Any) -> float:
        return float(np.mean(values[chosen])) if chosen.any() else 0.0

    with np.errstate(invalid="ignore"):
        return {
            "part.prefill_wait": mean(began - arrived, usual),
            "part.prefill": mean(ended - began, usual),
            "part.transfer": mean(delivered - ended, usual),
            "part.decode_wait": mean(admitted - delivered, usual),
            "wait.remote": mean(began - arrived, remote),
            "wait.local": mean(began - arrived, near),
            "wait.decode": mean(admitted - delivered, usual),
            "transfer.remote": mean(delivered - ended, remote),
        }


def time_line(engine: Engine, settings: Settings) -> list[TimeRow]:
    """Give the time line of a run, from its start to its last arrival."""
    import numpy as np

    arrived, first = request_times(engine)
    end = float(np.max(arrived))
    width = settings.interval_s or _round_width(end)
    if end / width > _MOST_ROWS:
        problem = f"cuts {end:,.0f} s into more than {_MOST_ROWS:,} rows of a time line"
        raise InputError(Fault("simulate", "interval_s", problem, width))
    edges = np.arange(math.ceil(end / width - 1e-9) + 1) * width
    place = np.clip((arrived / width).astype(np.int64), 0, len(edges) - 2)
    order = np.argsort(place, kind="stable")
    waits = np.split((first - arrived)[order], np.searchsorted(place[order], np.arange(1, len(edges) - 1)))
    counts = _counts(engine, arrived, edges)
    sent = np.diff(_sent(engine.link, edges))
    rates = [_integral(engine.link.rates, a, a + width) for a in edges[:-1].tolist()]
    limits = threshold_at(engine.router, edges[1:].tolist()) if engine.router else [None] * len(sent)
    return [
        TimeRow(
            start_s=float(edges[k]),
            arrivals=len(waits[k]),
            served=int(counts[0][k]),
            remote_queue=int(counts[1][k]),
            local_queue=int(counts[2][k]),
            link_queue=int(counts[3][k]),
            decode_queue=int(counts[4][k]),
            link_gbps=float(sent[k]) / width / GBPS,
            link_load_fraction=float(sent[k]) / rates[k] if 0.0 < rates[k] < math.inf else None,
            threshold_tokens=limits[k],
            ttft_mean_s=_finite(np.mean(waits[k])) if len(waits[k]) else None,
            ttft_p90_s=_finite(np.quantile(waits[k], 0.9, method="higher")) if len(waits[k]) else None,
        )
        for k in range(len(sent))
    ]


def _round_width(end: float) -> float:
    """Give the shortest round interval [s] that cuts a run into no more than a hundred rows."""
    if end <= 0.0:
        return 1.0
    return next((w for w in _WIDTHS if end <= w * _ROWS), math.ceil(end / (_WIDTHS[-1] * _ROWS)) * _WIDTHS[-1])


def _finite(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None


def _counts(engine: Engine, arrived: Floats, edges: Any) -> list[Any]:
    """Count per interval what was served, and at its end what waits in each queue."""
    import numpy as np

    far = np.frombuffer(engine.at_remote, dtype=np.uint8) > 0
    delivered = _array(engine.delivered)

    def until(times: Floats) -> Any:
        return np.searchsorted(np.sort(times), edges[1:], side="right")

    served = until(_array(engine.decode.finished))
    return [
        np.diff(served, prepend=0),
        until(arrived[far]) - until(_array(engine.remote.started)[far]),
        until(arrived[~far]) - until(_array(engine.local.started)[~far]),
        np.maximum(0, until(_array(engine.remote.finished)[far]) - until(delivered[far])),
        until(delivered) - until(_array(engine.decode.started)),
    ]
