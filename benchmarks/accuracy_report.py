"""Write docs/accuracy.md and its plots from the calibration table: errors of rows whose group was left out.

python benchmarks/accuracy_report.py
"""

from __future__ import annotations

import itertools
import math
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from fit_efficiencies import POOLS, Fit, Pool, selections, width_of
from roofline_data import Case, load_cases

from prfaas_plan.catalog import load_hardware, load_model
from prfaas_plan.decode import decode_step
from prfaas_plan.deployment import Deployment
from prfaas_plan.kv_cache import request_curve
from prfaas_plan.prefill import prefill_time

DOCS = Path(__file__).resolve().parent.parent / "docs"
COLOURS = {"hopper": "#1b7837", "h20": "#7fbf7b", "blackwell": "#2166ac", "gb10": "#b2182b", "neuron": "#e08214"}
PAPER = {
    "kimi-linear-48b-a3b": (1.19, 2.29, 3.87, 4.88),
    "mimo-v2-flash": (0.82, 2.85, 4.66, 4.71),
    "qwen3.5-397b-a17b": (4.13, 6.28, 8.25, 7.47),
    "ring-2.5-1t": (7.27, 4.47, 2.59, 1.46),
    "minimax-m2.5": (4.94, 32.87, 59.93, 47.82),
    "qwen3-235b-a22b": (4.12, 22.42, 33.35, 21.50),
}
"""KV rate in Gbit/s at 1K, 8K, 32K and 128K tokens, arXiv 2604.15039, Table 3."""
LENGTHS = (1024, 8192, 32768, 131072)


def row_of(name: str, predicted: np.ndarray, measured: np.ndarray, width: float | None = None) -> str:
    """Format one line of an error table."""
    error = predicted / measured - 1.0
    size = 100.0 * np.abs(error)
    held = "" if width is None else f"{100 * np.mean(np.abs(np.log(predicted / measured)) <= np.log(width)):.0f} %"
    return (
        f"| {name} | {len(error)} | {np.median(size):.1f} | {size.mean():.1f} | {np.percentile(size, 90):.1f} "
        f"| {100 * np.median(error):+.1f} | {held} |"
    )


HEAD = "\n".join(
    [
        "| rows | n | median | mean | P90 | signed median | within the interval |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
)


def tables(fits: dict[str, tuple[Fit, np.ndarray]]) -> dict[str, str]:
    """Make the error tables: the headline selections, and every group."""
    head, groups = [HEAD], [HEAD]
    for fit, predicted in fits.values():
        measured, decode = fit.table.measured, fit.table.decode
        width = {
            p: width_of(predicted[m], measured[m], fit.groups[m]) for p, m in (("decode", decode), ("prefill", ~decode))
        }
        for name, mask in selections(fit).items():
            if mask.any():
                label = f"{fit.pool.name}: {name}" if name.startswith("all") else name
                phase = "decode" if (decode & mask).any() else "prefill"
                head.append(row_of(label, predicted[mask], measured[mask], width[phase]))
        for phase, of_phase in (("decode", decode), ("prefill", ~decode)):
            for group in sorted(set(fit.groups[of_phase])):
                mask = of_phase & (fit.groups == group)
                groups.append(row_of(f"{phase}, {group}", predicted[mask], measured[mask], width[phase]))
    return {"headline": "\n".join(head), "groups": "\n".join(groups)}


def plot(fits: dict[str, tuple[Fit, np.ndarray]], phase: str) -> str:
    """Draw predicted against measured seconds, both logarithmic, with the 80 % band of the servers."""
    points = defaultdict(list)
    for fit, predicted in fits.values():
        for case, y, x in zip(fit.cases, predicted, fit.table.measured, strict=True):
            if case.row["phase"] == phase:
                points[case.family].append((x, y))
    flat = [v for pairs in points.values() for pair in pairs for v in pair]
    low, high = np.floor(np.log10(min(flat)) * 2) / 2, np.ceil(np.log10(max(flat)) * 2) / 2

    def at(value: float) -> float:
        return float(50 + 400 * (np.log10(value) - low) / (high - low))

    lines = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 600 500" font-family="sans-serif" font-size="12">',
        '<rect width="600" height="500" fill="white"/>',
        f'<path d="M50 450 L450 50" stroke="#444"/><text x="60" y="30">{phase}: predicted seconds, '
        "the row's group left out, against measured seconds</text>",
    ]
    fit, predicted = fits["servers"]
    mask = fit.table.decode if phase == "decode" else ~fit.table.decode
    shift = 400 * np.log10(width_of(predicted[mask], fit.table.measured[mask], fit.groups[mask])) / (high - low)
    lines += [
        f'<path d="M50 {450 + s * shift:.1f} L450 {50 + s * shift:.1f}" stroke="#bbb" stroke-dasharray="4"/>'
        for s in (-1, 1)
    ]
    for exponent in range(int(np.ceil(low)), int(np.floor(high)) + 1):
        x, label = at(10.0**exponent), f"{10.0**exponent:g} s"
        lines.append(f'<text x="{x - 12:.0f}" y="468">{label}</text><text x="4" y="{504 - x:.0f}">{label}</text>')
    for n, (family, pairs) in enumerate(sorted(points.items())):
        colour = COLOURS.get(family, "#777")
        lines.append(
            f'<circle cx="470" cy="{60 + 18 * n}" r="4" fill="{colour}"/>'
            f'<text x="480" y="{64 + 18 * n}">{family}</text>'
        )
        marks = "".join(f'<circle cx="{at(x):.0f}" cy="{500 - at(y):.0f}" r="2.5"/>' for x, y in pairs)
        lines.append(f'<g fill="{colour}" fill-opacity="0.55">{marks}</g>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def order(fit: Fit, predicted: np.ndarray) -> str:
    """Compare KV rates with the paper's, each model predicted without its own rows."""
    lines = ["| model | 1K | 8K | 32K | 128K |", "| --- | --- | --- | --- | --- |"]
    for name, published in PAPER.items():
        curve, cells = request_curve(load_model(name)), []
        for length, rate in zip(LENGTHS, published, strict=True):
            at = [
                i
                for i, c in enumerate(fit.cases)
                if c.group == f"prfaas:{name}" and int(c.row["input_tokens"]) == length
            ]
            cells.append(f"{8 * curve(length) / predicted[at[0]] / 1e9:.2f} / {rate:.2f}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def coverage(fits: dict[str, tuple[Fit, np.ndarray]]) -> str:
    """Say how many left-out rows the intervals hold, for every family with at least ten rows of a phase."""
    lines = ["| phase, family | n | within | slower than the interval | faster |", "| --- | --- | --- | --- | --- |"]
    for phase in ("decode", "prefill"):
        for fit, predicted in fits.values():
            measured, families = fit.table.measured, np.array([c.family for c in fit.cases])
            chosen = fit.table.decode == (phase == "decode")
            width = np.log(width_of(predicted[chosen], measured[chosen], fit.groups[chosen]))
            for family in fit.families:
                off = np.log(measured / predicted)[chosen & (families == family)]
                if len(off) >= 10:
                    parts = [np.mean(np.abs(off) <= width), np.mean(off > width), np.mean(off < -width)]
                    cells = " | ".join(f"{100 * part:.0f} %" for part in parts)
                    lines.append(f"| {phase}, {family} | {len(off)} | {cells} |")
    return "\n".join(lines)


def paper_errors(fit: Fit, x: np.ndarray, leave: int = 1, *, own_floor: bool = False) -> np.ndarray:
    """Sizes of the errors of Table 3 [%] with each model, or every `leave` models, left out of the fit.

    The fixed time of a request is that of the models which stay, or the one that suits the model's own four rows.
    """
    paper, errors = np.char.startswith(fit.groups, "prfaas:"), []
    for names in itertools.combinations(PAPER, leave):
        out = np.isin(fit.groups, [f"prfaas:{name}" for name in names])
        y = fit.solve(~out, x, rounds=2)
        predicted = fit.predict(y, fit.floor(y, out if own_floor else paper & ~out))
        errors.append(100.0 * np.abs(predicted / fit.table.measured - 1.0)[out])
    return np.concatenate(errors)


def without_passes(pool: Pool, cases: list[Case]) -> tuple[Fit, np.ndarray]:
    """Fit a pool as if a further pass over a prompt cost no time of its own."""
    fit = Fit(replace(pool, prior={**pool.prior, "pass_seconds": (1e-6, 0.01)}), cases)
    return fit, fit.solve(np.ones(fit.table.rows, dtype=bool))


def in_words(size: np.ndarray) -> str:
    """Put the sizes of errors in words: median, mean and 90th percentile [%]."""
    return f"{np.median(size):.1f} / {size.mean():.1f} / {np.percentile(size, 90):.1f} %"


def seconds_a_token(deployment: Deployment, spread: float) -> float:
    """Prefill seconds of 32 GPUs per new token [s]: 2,187 after 2,813 cached ones on average, lengths log-normal.

    200 classes of equal probability; new and cached tokens keep their ratio, up to the 65,536 tokens that the
    service took then; a GPU works on 8,748 tokens at once, or on one prompt if that is longer.
    """
    spent = tokens = 0.0
    for n in range(200):
        size = min(math.exp(spread * NormalDist().inv_cdf((n + 0.5) / 200) - spread**2 / 2), 65536 / 5000)
        prompts = 32 * max(1.0, 4.0 / size)
        spent += prefill_time(deployment, 2187 * size, prompts, 2813 * size, None).seconds / prompts
        tokens += 2187 * size
    return spent / tokens


def fleets() -> str:
    """Recompute two published fleets of DeepSeek-V3."""
    model = load_model("deepseek-v3")

    def wide(chip: str, gpus: int) -> Deployment:
        sizes = {"gpus": gpus, "tp": 1, "dp": gpus, "ep": gpus}
        return Deployment(model, load_hardware(chip), **sizes, kv_dtype="bf16", request_overhead_s=0.0)

    lines = ["| quantity | published | ours | 80 % interval |", "| --- | --- | --- | --- |"]

    def add(name: str, published: float, value: float, low: float, high: float, unit: str) -> None:
        lines.append(
            f"| {name} | {published:,.0f} {unit} | {value:,.0f} {unit} | {low:,.0f} to {high:,.0f} {unit} |".replace(
                "  ", " "
            )
        )

    width = load_hardware("h800").efficiency.prefill_width
    decode = decode_step(wide("h800", 144), 144 * 88, 4989)
    fresh, output = (608e9 - 342e9) / 86400, 168e9 / 86400
    for name, spread in (("all prompts alike", 0.0), ("log-normal lengths, σ = 1", 1.0)):
        nodes = 4 * fresh * seconds_a_token(wide("h800", 32), spread)
        published = 608e9 / 86400 / 73_700
        add(f"H800 fleet, prefill nodes, {name}", published, nodes, nodes / width, nodes * width, "")
    nodes = [output / (144 * 88 / s / 18) for s in (decode.seconds, decode.low_s, decode.high_s)]
    add("H800 fleet, decode nodes", 168e9 / 86400 / 14_800, *nodes, "")
    step = [1e3 * s for s in (decode.seconds, decode.low_s, decode.high_s)]
    add("H800 fleet, decode step", 1000 / 21, *step, "ms")
    for length, published in ((1024, 57_674), (2048, 54_543), (4096, 50_302)):
        time = prefill_time(wide("h100", 32), length, 32 * 16384 / length, 0, None)
        rates = [32 * 16384 / s / 4 for s in (time.seconds, time.high_s, time.low_s)]
        add(f"96 x H100, prefill a node, prompts of {length:,}", published, *rates, "token/s")
    time = decode_step(wide("h100", 72), 72 * 256, 2050)
    rates = [72 * 256 / s / 9 for s in (time.seconds, time.high_s, time.low_s)]
    add("96 x H100, decode a node, 256 sequences a GPU", 22_282, *rates, "token/s")
    return "\n".join(lines)


def main() -> None:
    """Fit, leave every group out, and write the page and two plots."""
    cases, fits, floors, fitted, solved = load_cases(), {}, {}, {}, {}
    for pool in POOLS:
        fit = Fit(pool, cases)
        x = fit.solve(np.ones(fit.table.rows, dtype=bool))
        floors |= dict(zip(fit.floors, fit.floor(x, np.ones(fit.table.rows, dtype=bool)), strict=True))
        fits[pool.name], solved[pool.name] = (fit, fit.left_out(x)), x
        fitted[pool.name] = fit.predict(x, fit.floor(x, np.ones(fit.table.rows, dtype=bool)))
    page = (Path(__file__).resolve().parent / "data" / "accuracy_template.md").read_text(encoding="utf-8")
    parts = {**tables(fits), "order": order(*fits["servers"]), "fleets": fleets(), "coverage": coverage(fits)}
    parts["floor"] = f"{floors[('prfaas', 'h200-sxm', 'sglang')]:.3f}"
    fit = fits["servers"][0]
    size = 100.0 * np.abs(fitted["servers"] / fit.table.measured - 1.0)
    chosen = selections(fit)
    parts["fitted_decode"] = f"{np.median(size[chosen['decode, NVIDIA servers']]):.1f}"
    paper = size[chosen["Table 3 of arXiv 2604.15039"]]
    parts["fitted_paper"] = in_words(paper)
    bare = without_passes(POOLS[0], cases)
    parts["own_floors"] = in_words(paper_errors(fit, solved["servers"], own_floor=True))
    parts["no_pass"], parts["no_pass_two"] = in_words(paper_errors(*bare)), in_words(paper_errors(*bare, 2))
    parts["two"] = in_words(paper_errors(fit, solved["servers"], 2))
    parts["pass"] = f"{1e3 * float(fit.constants(solved['servers'])['pass_seconds'][0]):.0f}"
    for name, text in parts.items():
        page = page.replace("{{" + name + "}}", text)
    (DOCS / "accuracy.md").write_text(page, encoding="utf-8")
    for phase in ("decode", "prefill"):
        (DOCS / f"accuracy_{phase}.svg").write_text(plot(fits, phase), encoding="utf-8")


if __name__ == "__main__":
    main()
