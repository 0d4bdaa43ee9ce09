"""Draws of a simulation as NumPy arrays: gaps between requests, lengths by the inverse of their law, outputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from prfaas_plan.laws import Constant, Empirical, Histogram, LengthLaw, LogNormal, Mixture
from prfaas_plan.numerics import Curve

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["at_changing_rate", "evaluate", "gaps", "lengths_at", "outputs"]


def lengths_at(law: LengthLaw, levels: Floats) -> Floats:
    """Give the lengths [token] at levels between 0 and 1: the inverse of the distribution function, one for each.

    Uniform levels give lengths of the law. For a mixture the level chooses the law and the place in it, so the result
    does not rise with the level.

    >>> import numpy as np
    >>> lengths_at(Histogram(edges=(0, 100, 300), weights=(1, 1)), np.array([0.25, 0.75]))
    array([ 50., 200.])
    """
    import numpy as np

    found: Floats
    match law:
        case Constant():
            found = np.full(len(levels), law.tokens)
        case Empirical():
            cumulated = np.cumsum(law.counts)
            places = np.searchsorted(cumulated, levels * cumulated[-1], side="right")
            found = np.asarray(law.lengths, dtype=float)[np.minimum(places, len(law.lengths) - 1)]
        case Histogram():
            parts = np.concatenate(([0.0], np.cumsum(law.weights)))
            found = np.interp(levels, parts / parts[-1], law.edges)
        case LogNormal():
            found = _log_normal(law, levels)
        case Mixture():
            found = _mixture(law, levels)
        case _:
            found = np.fromiter((law.quantile(u) for u in levels.tolist()), float, len(levels))
    return found


def _log_normal(law: LogNormal, levels: Floats) -> Floats:
    import numpy as np

    normal = NormalDist()
    low = (math.log(law.min) - law.mu) / law.sigma if law.min > 0.0 else -math.inf
    high = (math.log(law.max) - law.mu) / law.sigma if law.max < math.inf else math.inf
    mirrored = low > 0.0
    if mirrored:
        low, high, levels = -high, -low, 1.0 - levels
    first, last = (0.5 * math.erfc(-z / math.sqrt(2.0)) for z in (low, high))
    inside = np.clip(first + levels * (last - first), 1e-300, 1.0 - 1e-16)
    scores = np.fromiter(map(normal.inv_cdf, inside.tolist()), float, len(levels))
    found = np.exp(law.mu + law.sigma * (-scores if mirrored else scores))
    return np.clip(found, law.min, law.max)


def _mixture(law: Mixture, levels: Floats) -> Floats:
    import numpy as np

    ends = np.cumsum(law.weights) / math.fsum(law.weights)
    starts = np.concatenate(([0.0], ends[:-1]))
    which = np.minimum(np.searchsorted(ends, levels, side="right"), len(law.laws) - 1)
    found = np.empty(len(levels))
    for k, part in enumerate(law.laws):
        chosen = which == k
        found[chosen] = lengths_at(part, np.clip((levels[chosen] - starts[k]) / (ends[k] - starts[k]), 0.0, 1.0))
    return found


def evaluate(curve: Curve, lengths: Floats) -> Floats:
    """Give the values of a curve at many lengths.

    >>> import numpy as np
    >>> evaluate(Curve(breaks=(128.0,), pieces=((0.0, 2.0, 0.0), (256.0, 0.0, 0.0))), np.array([100.0, 128.0, 1000.0]))
    array([200., 256., 256.])
    """
    import numpy as np

    pieces = np.asarray(curve.pieces)[np.searchsorted(curve.breaks, lengths, side="left")]
    found: Floats = pieces[:, 0] + lengths * (pieces[:, 1] + lengths * pieces[:, 2])
    return found


def gaps(kind: str, mean: float, cv: float, count: int, random: Any) -> Floats:
    """Draw gaps between requests of a mean [s] and a coefficient of variation.

    ``gamma``, ``hyperexponential`` (two phases of balanced means) or ``poisson``; `random` is a NumPy generator.

    >>> import numpy as np
    >>> drawn = gaps("gamma", 2.0, 3.0, 100_000, np.random.default_rng(1))
    >>> round(float(drawn.mean()), 1), round(float(drawn.std() / drawn.mean()), 1)
    (2.0, 3.0)
    """
    import numpy as np

    drawn: Floats
    if cv == 0.0:
        drawn = np.full(count, mean)
    elif kind == "gamma":
        drawn = random.gamma(1.0 / cv**2, mean * cv**2, count)
    elif kind == "hyperexponential":
        more = 0.5 * (1.0 + math.sqrt((cv**2 - 1.0) / (cv**2 + 1.0)))
        first = random.random(count) < more
        drawn = random.exponential(np.where(first, 0.5 * mean / more, 0.5 * mean / max(1.0 - more, 1e-300)))
    else:
        drawn = random.exponential(mean, count)
    return drawn


def at_changing_rate(times: Floats, starts: Sequence[float], factors: Sequence[float]) -> Floats:
    """Give when requests come if, from each start on [s], their rate is a multiple of what it was in `times` [s].

    Before the first start it is the same. Time is stretched so that as much of the stream passes as at a steady rate.

    >>> import numpy as np
    >>> at_changing_rate(np.array([1.0, 10.0, 12.0, 14.0]), [10.0], [2.0])
    array([ 1., 10., 11., 12.])
    """
    import numpy as np

    knots = np.asarray([0.0, *starts])
    passed = np.concatenate(([0.0], np.cumsum(np.diff(knots) * np.asarray([1.0, *factors[:-1]])))) if starts else knots
    place = np.searchsorted(passed, times, side="right") - 1
    found: Floats = knots[place] + (times - passed[place]) / np.asarray([1.0, *factors])[place]
    return found


def outputs(kind: str, mean: float, count: int, random: Any) -> Floats:
    """Draw output lengths [token] of a mean: all the same, or geometric from 1.

    >>> outputs("constant", 1024.0, 2, None)
    array([1024., 1024.])
    """
    import numpy as np

    if kind == "geometric" and mean > 1.0:
        return np.asarray(random.geometric(1.0 / mean, count), dtype=float)
    return np.full(count, mean)
