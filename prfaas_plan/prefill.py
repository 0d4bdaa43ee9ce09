"""How long an instance takes to prefill a batch of prompts, operation by operation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

from prfaas_plan.communication import all_reduces, expert_exchange, prompt_exchange
from prfaas_plan.deployment import Deployment
from prfaas_plan.errors import Fault, InputError
from prfaas_plan.mixing import SCAN_CHUNK, Mixer, window_pairs
from prfaas_plan.numerics import Coefficients, Curve
from prfaas_plan.roofline import PhaseTime, Work, combine

__all__ = ["UNKNOWN_FLOOR_SECONDS", "prefill_curve", "prefill_time", "prefill_work"]

UNKNOWN_FLOOR_SECONDS = 0.4
"""[s] deployments differ by this much in the fixed time of a request; it widens the interval where it is not given."""

_ACTIVATION_BYTES = 2.0
_Prompt = tuple[float, float, float, float]
"""New and cached tokens of one prompt, prompts of one attention group, passes over one prompt."""


def prefill_time(
    deployment: Deployment, tokens: float, batch: float = 1, cached_tokens: float = 0, chunk_tokens: float | None = 8192
) -> PhaseTime:
    """Estimate the time to prefill `batch` prompts of `tokens` new tokens [token] after `cached_tokens` each.

    Prompts are worked off in passes of at most `chunk_tokens` per attention group (``None`` or 0: in one pass). The
    number of passes is taken as a real number, as in a server that fills a pass with tokens of the next prompt. Every
    pass after the first costs a fixed time of its own, in which the server schedules it.
    With `pp` stages and n passes the pipeline takes (n + pp − 1) / n times the work of a stage. The result includes
    the fixed time of a request; where the deployment does not give it, the interval allows for a long one.
    Raises `InputError` for sizes that are not positive and finite.

    >>> from prfaas_plan.catalog import load_hardware, load_model
    >>> d = Deployment(load_model("llama-3.1-70b"), load_hardware("h200"), gpus=8)
    >>> prefill_time(d, 32768).bound, prefill_time(d, 64).bound
    ('compute', 'overhead')
    """
    works = prefill_work(deployment, tokens, batch, cached_tokens, chunk_tokens)
    time = combine("prefill", works, deployment.rates, deployment.notes)
    if deployment.request_overhead_s is not None:
        return time
    width = deployment.rates.constants.prefill_width
    note = "the fixed time of a request is not given: 28 ms assumed, the interval allows for 0.4 s"
    return replace(time, high_s=(time.seconds + UNKNOWN_FLOOR_SECONDS) * width, notes=(*time.notes, note))


def prefill_work(
    deployment: Deployment, tokens: float, batch: float = 1, cached_tokens: float = 0, chunk_tokens: float | None = 8192
) -> list[Work]:
    """List what one GPU does in a prefill; see `prefill_time`."""
    _check_sizes(tokens, batch, cached_tokens, chunk_tokens)
    sequences = max(1.0, batch / deployment.dp)
    local = sequences * tokens
    passes = max(1.0, local / chunk_tokens) if chunk_tokens else 1.0
    rows = local / deployment.cp
    works = _products(deployment, rows, rows / passes, passes)
    works += _experts(deployment, batch * tokens, passes)
    each = max(1.0, tokens / chunk_tokens) if chunk_tokens else 1.0
    works += _mixing(deployment, (tokens, cached_tokens, sequences, each))
    layout = deployment.layout
    works.append(
        Work("elementwise", "elementwise", bytes=rows * layout.hidden * layout.blocks, dtype=layout.expand_dtype)
    )
    works.append(Work("kernel launches", "kernels", amount=layout.kernels * passes))
    if layout.linear_layers:
        works.append(Work("sequential scan", "scan", amount=layout.linear_layers * tokens))
    if passes > 1.0:
        works.append(Work("further passes", "passes", amount=passes - 1.0))
    works += all_reduces(deployment, rows, passes)
    works += expert_exchange(deployment, rows, passes, hidden_behind=True)
    works += prompt_exchange(deployment, cached_tokens + tokens, sequences)
    head = layout.head
    flops = 2.0 * sequences * head.parameters
    works.append(Work(head.name, "gemm", flops, head.bytes, head.dtype, rows=sequences, bits=head.bits))
    if deployment.pp > 1:
        works = _pipelined(works, deployment.pp, passes)
    overhead = deployment.request_overhead_s
    if overhead is None:
        overhead = deployment.rates.constants.request_seconds
    return [*works, Work("request", "fixed", amount=overhead)]


def _check_sizes(tokens: float, batch: float, cached: float, chunk: float | None) -> None:
    faults = [
        Fault("prefill", key, f"expected a finite number above 0 [{unit}]", value)
        for key, value, unit in (("tokens", tokens, "token"), ("batch", batch, "1"))
        if not 0.0 < value < math.inf
    ]
    if not 0.0 <= cached < math.inf:
        faults.append(Fault("prefill", "cached_tokens", "expected a finite number of at least 0 [token]", cached))
    if chunk is not None and not 0.0 <= chunk < math.inf:
        faults.append(Fault("prefill", "chunk_tokens", "expected a finite number of at least 0 [token]", chunk))
    if faults:
        raise InputError(faults)


def _products(deployment: Deployment, rows: float, rows_a_pass: float, passes: float) -> list[Work]:
    return [
        Work(p.name, "gemm", 2.0 * rows * p.parameters, p.bytes * passes, p.dtype, rows_a_pass, bits=p.bits)
        for p in deployment.layout.products
    ]


def _experts(deployment: Deployment, tokens: float, passes: float) -> list[Work]:
    gpus, works = deployment.stage_gpus, []
    for shard in deployment.layout.experts:
        touched = shard.touched(tokens / passes)
        visits = tokens * shard.active
        flops = 2.0 * visits * shard.parameters / gpus * shard.layers
        moved = touched * shard.bytes / gpus * passes * shard.layers
        rows = visits / passes / touched
        works.append(
            Work("experts", "experts", flops, moved, shard.dtype, rows, bits=shard.bits, far=deployment.ep > 1)
        )
        spread = max(deployment.ep, deployment.dp * deployment.cp)
        routed = visits * shard.width * _ACTIVATION_BYTES / spread * shard.layers
        works.append(Work("routed rows", "routed", bytes=routed, dtype=shard.dtype))
    return works


def _mixing(deployment: Deployment, prompt: _Prompt) -> list[Work]:
    works: list[Work] = []
    for layers, mixer in deployment.layout.mixers:
        works += (
            _recurrent(deployment, layers, mixer, prompt)
            if mixer.linear
            else _attend(deployment, layers, mixer, prompt)
        )
    return works


def _attend(deployment: Deployment, layers: int, mixer: Mixer, prompt: _Prompt) -> list[Work]:
    new, cached, sequences, passes = prompt
    share = layers * sequences / deployment.cp
    whole = mixer.pairs(new, cached)
    flops, pairs = _core_flops(mixer, new, cached, whole)
    reads = cached * passes + new * 0.5 * (passes + 1.0)
    reach = min(1.0, mixer.window / (cached + new)) if mixer.window else 1.0
    moved = mixer.cache_bytes * reads * reach
    works = [Work(mixer.name, "attention", flops * share, moved * share, rows=pairs / new)]
    if mixer.index_flops:
        moved = mixer.index_bytes * reads * share
        works.append(Work("indexer", "attention", mixer.index_flops * whole * share, moved, rows=whole / new))
    expanded = mixer.expand_flops * (cached * passes + new * 0.5 * (passes - 1.0)) * share
    if expanded:
        dtype = deployment.layout.expand_dtype
        works.append(Work("latent expansion", "gemm", expanded, 0.0, dtype, rows=cached + new))
    return works


def _core_flops(mixer: Mixer, new: float, cached: float, whole: float) -> tuple[float, float]:
    """FLOP of one sequence in one layer, and its query-key pairs; sparse layers take the cheaper of two kernels."""
    if mixer.recent:
        reach = mixer.ratio * mixer.top_k if mixer.top_k else math.inf
        pairs = window_pairs(new, cached, mixer.recent) + window_pairs(new, cached, reach) / mixer.ratio
        return mixer.pair_flops * pairs, pairs
    dense = mixer.pair_flops * whole
    if mixer.top_k:
        sparse = mixer.absorbed_flops * window_pairs(new, cached, mixer.top_k)
        if sparse < dense:
            return sparse, window_pairs(new, cached, mixer.top_k)
    return dense, whole


def _recurrent(deployment: Deployment, layers: int, mixer: Mixer, prompt: _Prompt) -> list[Work]:
    new, _, sequences, _ = prompt
    share = layers * sequences / deployment.cp
    moved = mixer.state_bytes * max(1.0, new / SCAN_CHUNK) * share
    return [Work(mixer.name, "state", mixer.token_flops * new * share, moved, rows=math.inf)]


def _pipelined(works: list[Work], stages: int, passes: float) -> list[Work]:
    """Divide the layers over the stages, and let the pipeline fill and drain."""
    idle = (passes + stages - 1.0) / passes / stages
    return [w._replace(flops=w.flops * idle, bytes=w.bytes * idle, amount=w.amount * idle) for w in works]


def prefill_curve(
    deployment: Deployment,
    shortest: float,
    longest: float,
    cached_tokens: float = 0,
    chunk_tokens: float | None = 8192,
) -> Curve:
    """Give the prefill seconds of one prompt as a function of its new tokens, from `shortest` to `longest` [token].

    A continuous, rising, piecewise quadratic curve within 0.2 % of `prefill_time`, for sums over a law of lengths.
    Beyond `longest` the last piece goes on. Raises `InputError` for a range that is empty or not finite.

    >>> from prfaas_plan.catalog import load_hardware, load_model
    >>> d = Deployment(load_model("llama-3.1-8b"), load_hardware("h200"), gpus=1)
    >>> curve = prefill_curve(d, 128, 131072)
    >>> abs(curve(5000.0) / prefill_time(d, 5000).seconds - 1) < 0.002
    True
    """
    if not 0.0 < shortest < longest < math.inf:
        problem = "expected 0 < shortest < longest, both finite [token]"
        raise InputError(Fault("prefill curve", "shortest, longest", problem, (shortest, longest)))

    def seconds(tokens: float) -> float:
        return prefill_time(deployment, tokens, 1, cached_tokens, chunk_tokens).seconds

    cuts = [shortest, longest]
    if chunk_tokens and shortest < chunk_tokens < longest:
        cuts.insert(1, float(chunk_tokens))
    ends: list[float] = []
    pieces: list[Coefficients] = []
    for low, high in itertools.pairwise(cuts):
        for end, piece in _pieces(seconds, (low, seconds(low)), (high, seconds(high)), 12):
            ends.append(end)
            pieces.append(piece)
    return Curve(tuple(pieces), tuple(ends[:-1]))


_CURVE_TOLERANCE = 1e-3


def _pieces(
    f: Callable[[float], float], left: tuple[float, float], right: tuple[float, float], depth: int
) -> list[tuple[float, Coefficients]]:
    """Interpolate on one stretch, halving it (in the logarithm) until the curve is close and rising."""
    middle = math.sqrt(left[0] * right[0])
    centre = (middle, f(middle))
    piece = _through(left, centre, right)
    rising = piece[1] + 2.0 * piece[2] * left[0] >= 0.0 and piece[1] + 2.0 * piece[2] * right[0] >= 0.0
    tests = [math.sqrt(left[0] * middle), math.sqrt(middle * right[0])]
    close = all(abs(piece[0] + x * (piece[1] + x * piece[2]) - f(x)) <= _CURVE_TOLERANCE * f(x) for x in tests)
    if depth == 0 or (rising and close):
        return [(right[0], piece)]
    return _pieces(f, left, centre, depth - 1) + _pieces(f, centre, right, depth - 1)


def _through(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> Coefficients:
    """Put a quadratic through three points, by divided differences."""
    first = (b[1] - a[1]) / (b[0] - a[0])
    second = ((c[1] - b[1]) / (c[0] - b[0]) - first) / (c[0] - a[0])
    return a[1] - first * a[0] + second * a[0] * b[0], first - second * (a[0] + b[0]), second
