"""The requests of one replication: when they come, how long they are, what they take, and what is cached of them."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from prfaas_plan.errors import Fault, InputError
from prfaas_plan.numerics import Curve
from prfaas_plan.simulation.engine import Engine, Requests
from prfaas_plan.simulation.policies import Caches, Needs, law_needs, sample_needs
from prfaas_plan.simulation.sampling import at_changing_rate, evaluate, gaps, lengths_at, outputs
from prfaas_plan.simulation.settings import Settings
from prfaas_plan.throughput import System
from prfaas_plan.trace.prefix import infinite_pool
from prfaas_plan.trace.records import Trace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["Draw", "trace_rate"]


def trace_rate(trace: Trace) -> float:
    """Give the mean request rate of a trace [1/s]; `InputError` if its requests all come at once."""
    span = trace.times_s[-1] if trace.times_s else 0.0
    if not span > 0.0:
        raise InputError(Fault(trace.path, "", "its requests all come at one time, so it has no rate"))
    return (trace.requests - 1) / span


class Draw:
    """Draws the requests of replications of a system under settings, at a rate [1/s]."""

    def __init__(self, system: System, settings: Settings, rate: float) -> None:
        self.system, self.settings, self.rate = system, settings, rate
        no_time = Curve.polynomial(0.0)
        self._far = system.remote.seconds if system.remote else no_time
        self._near = system.local.seconds if system.local else no_time

    @property
    def count(self) -> int:
        """Requests of one replication."""
        trace = self.settings.trace if self.settings.arrivals == "trace" else None
        return min(self.settings.requests, trace.requests) if trace is not None else int(self.settings.requests)

    def requests(self, replication: int) -> tuple[Requests, Caches | None]:
        """Draw one replication; the same for every policy."""
        import numpy as np

        seeds = np.random.SeedSequence([int(self.settings.seed), replication]).spawn(4)
        coming, asking, answering, hitting = (np.random.default_rng(s) for s in seeds)
        times, think = self._times(coming)
        lengths, answers = self._lengths(asking), self._outputs(answering)
        caches, near, far = self._caches(lengths, hitting)
        requests = Requests(
            times=array("d", times.tobytes()),
            lengths=lengths.tolist(),
            remote_s=evaluate(self._far, lengths - far).tolist(),
            local_s=evaluate(self._near, lengths - near).tolist(),
            sizes=evaluate(self.system.kv_bytes, lengths - near).tolist(),
            decode_s=(answers * self.system.decode.step_seconds).tolist(),
            users=int(self.settings.users) if self.settings.arrivals == "closed" else 0,
            think_s=think,
        )
        return requests, caches

    def _times(self, random: Any) -> tuple[Floats, list[float]]:
        import numpy as np

        settings, count = self.settings, self.count
        if settings.arrivals == "closed":
            return np.zeros(count), random.exponential(settings.think_s, count).tolist()
        if settings.trace is not None and settings.arrivals == "trace":
            own = np.frombuffer(settings.trace.times_s, dtype=float)[:count]
            return own * (trace_rate(settings.trace) / self.rate), []
        times = np.cumsum(gaps(settings.arrivals, 1.0 / self.rate, settings.arrival_cv, count, random))
        steps = settings.load_steps
        return at_changing_rate(times, [s.start_s for s in steps], [s.factor for s in steps]), []

    def _lengths(self, random: Any) -> Floats:
        import numpy as np

        trace = self.settings.trace
        if trace is not None and self.settings.arrivals == "trace":
            return np.asarray(trace.input_tokens[: self.count], dtype=float)
        return lengths_at(self.system.law, random.random(self.count))

    def _outputs(self, random: Any) -> Floats:
        import numpy as np

        trace = self.settings.trace
        if trace is not None and self.settings.output == "trace":
            return np.asarray(trace.output_tokens[: self.count], dtype=float)
        return outputs(self.settings.output, self.system.output_tokens, self.count, random)

    def _caches(self, lengths: Floats, random: Any) -> tuple[Caches | None, Any, Any]:
        import numpy as np

        hits, trace = self.settings.prefix, self.settings.trace
        if hits is None:
            return None, 0.0, 0.0
        hit = random.random(len(lengths)) < (0.0 if hits.from_blocks else hits.probability)
        near, far = (
            np.maximum(0.0, np.minimum(lengths * fraction * hit, lengths - 1.0))
            for fraction in (hits.local_fraction, hits.remote_fraction)
        )
        caches = Caches(hits, lengths.tolist(), (near.tolist(), far.tolist()))
        if hits.from_blocks and trace is not None:
            ends = trace.block_ends[: len(lengths)]
            caches.blocks = [trace.block_ids[a:b] for a, b in zip([0, *ends], ends, strict=False)]
            caches.block_tokens = trace.block_tokens
        return caches, near, far

    def needs(self, requests: Requests, caches: Caches | None) -> Needs:
        """Give what requests need on average by threshold: from the law, or from the requests where some are cached."""
        import numpy as np

        if caches is None and self.settings.arrivals != "trace":
            return law_needs(self.system)
        lengths = np.asarray(requests.lengths)
        if caches is not None and caches.blocks and self.settings.trace is not None:
            lengths = np.asarray(infinite_pool(self.settings.trace).uncached_tokens[: len(lengths)], dtype=float)
        elif caches is not None:
            lengths = lengths - np.asarray(caches.local)
        curves = (self._far, self._near, self.system.kv_bytes)
        return sample_needs(lengths, *(evaluate(curve, lengths) for curve in curves))

    def connect(self, engine: Engine, caches: Caches | None) -> None:
        """Let an engine set the times and bytes of requests by what is cached when they arrive."""
        if caches is None:
            return
        far, near, kv, requests = self._far, self._near, self.system.kv_bytes, engine.requests

        def recompute(request: int, remote: bool, move: bool) -> float:
            compute, send, before = caches.settle(request, remote, move)
            if remote:
                requests.remote_s[request], requests.sizes[request] = far(compute), kv(send)
                return 0.0
            requests.local_s[request] = near(compute)
            return kv(before) if before > 0.0 else 0.0

        engine.recompute_with(recompute)
