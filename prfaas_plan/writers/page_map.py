"""The map of a fleet: each cluster a box of pools with their load, each link an arrow with what it carries."""

from __future__ import annotations

from collections.abc import Sequence

from prfaas_plan.plan_parts import LinkUse, PoolUse
from prfaas_plan.plan_record import Plan
from prfaas_plan.units import show
from prfaas_plan.writers.svg import escaped

__all__ = ["fleet_map"]

_POOL = 96.0
_BOX = 250.0
_WIDTH = 640.0


def fleet_map(plan: Plan) -> str:
    """Draw the clusters of a plan, those that prefill only on the left, and the links between them."""
    home = plan.pools[-1].cluster
    far = [pool for pool in plan.pools if pool.cluster != home]
    near = [pool for pool in plan.pools if pool.cluster == home]
    height = 60.0 + _POOL * max(len(far), len(near), 1) + 10.0
    says = "; ".join(f"{_size(p)} {p.role} at {p.cluster}, {p.load_fraction:.0%} loaded" for p in plan.pools)
    says += "".join(f"; link with {_use(link)}" for link in plan.links)
    parts = [
        f'<svg viewBox="0 0 {_WIDTH:g} {height:g}" role="img" aria-labelledby="map-t map-d">'
        f'<title id="map-t">Fleet map</title><desc id="map-d">{escaped(says)}</desc>'
    ]
    if far:
        parts += _cluster(far[0].cluster, far, 4.0, height)
        parts += _arrow(plan.links, height)
    parts += _cluster(home, near, _WIDTH - _BOX - 4.0 if far else (_WIDTH - _BOX) / 2, height)
    return "".join([*parts, "</svg>"])


def _size(pool: PoolUse) -> str:
    return f"{pool.instances} × {pool.gpus_per_instance} = {pool.gpus} GPUs"


def _use(link: LinkUse) -> str:
    return f"{show(link.used_gbps)} of {show(link.usable_gbps)} Gbit/s in use"


def _cluster(name: str, pools: Sequence[PoolUse], left: float, height: float) -> list[str]:
    parts = [
        f'<rect class="cluster" x="{left:g}" y="4" width="{_BOX:g}" height="{height - 8:g}" rx="8"/>',
        f'<text class="name" x="{left + 14:g}" y="28">{_fitted(name, 28)}</text>',
    ]
    for i, pool in enumerate(pools):
        top = 44.0 + _POOL * i
        width = (_BOX - 28.0) * min(1.0, pool.load_fraction)
        full = "bar chosen" if pool.load_fraction > 0.999 else "bar"
        parts += [
            f'<text x="{left + 14:g}" y="{top + 14:g}">{pool.role}: {_fitted(pool.accelerator, 24)}</text>',
            f'<text x="{left + 14:g}" y="{top + 34:g}">{_size(pool)}</text>',
            f'<text x="{left + 14:g}" y="{top + 54:g}">{pool.load_fraction:.0%} loaded</text>',
            f'<rect class="rail" x="{left + 14:g}" y="{top + 62:g}" width="{_BOX - 28:g}" height="10" rx="3"/>',
            f'<rect class="{full}" x="{left + 14:g}" y="{top + 62:g}" width="{width:.1f}" height="10" rx="3"/>',
        ]
    return parts


def _fitted(text: str, most: int) -> str:
    return escaped(text if len(text) <= most else text[: most - 1] + "…")


def _arrow(links: Sequence[LinkUse], height: float) -> list[str]:
    left, right, y = _BOX + 10.0, _WIDTH - _BOX - 12.0, height / 2
    middle = (left + right) / 2
    parts = [
        f'<line class="line main" x1="{left:g}" x2="{right - 8:g}" y1="{y:g}" y2="{y:g}"/>',
        f'<path class="tip" d="M{right - 12:g},{y - 7:g} L{right:g},{y:g} L{right - 12:g},{y + 7:g} Z"/>',
    ]
    words, places = ["one site"], [y - 12]
    if links:
        use = links[0]
        words = [f"{show(use.used_gbps)} of", f"{show(use.usable_gbps)} Gbit/s", f"{use.load_fraction:.0%} used"]
        places = [y - 34, y - 13, y + 26]
    for text, place in zip(words, places, strict=True):
        parts.append(f'<text x="{middle:g}" y="{place:g}" text-anchor="middle">{escaped(text)}</text>')
    return parts
