"""Fit the constants of the roofline on published measurements, and write them to hardware_profiles/efficiencies.

    python benchmarks/fit_efficiencies.py            # fit, leave-one-group-out errors
    python benchmarks/fit_efficiencies.py --write    # and write the constants

Each pool of accelerators shares the constants of its software; the shares of the peaks are each family's own.
Every constant has a prior from kernel timings (data/kernel_efficiency.csv) or from what the number means, and the
rows pull it away from there: with few rows a constant stays near its prior. No constant belongs to a model.
Errors are those of rows whose whole group (a set, or a model within a large set) was left out of the fit.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

sys.path.insert(0, str(Path(__file__).resolve().parent))
from roofline_data import Case, Table, load_cases

FOLDER = Path(__file__).resolve().parent.parent / "hardware_profiles" / "efficiencies"
NOISE, ROBUST = 0.12, 0.15
"""Expected scatter of a row, and the residual from which a row pulls no harder (both logarithmic)."""

OWN = (
    *("gemm_bf16", "gemm_fp8", "gemm_fp4", "gemm_int8", "experts_bf16", "experts_fp8", "experts_fp4"),
    *("attention", "weight_bandwidth", "cache_bandwidth", "kernel_seconds"),
)
"""Constants each family has for itself; all others are shared within a pool."""

PRIOR = {
    "link_share": (0.85, 0.05),
    "gemm_half_rows": (71.0, 0.15),
    "expert_half_rows": (30.0, 0.5),
    "attention_half_tokens": (500.0, 0.15),
    "expert_imbalance": (1.2, 0.08),
    "routed_passes": (5.0, 0.1),
    "low_precision_traffic": (1.4, 0.08),
    "elementwise_bytes": (20.0, 0.1),
    "scan_token_seconds": (6.5e-8, 0.15),
    "pass_seconds": (0.02, 0.7),
    "all_reduce_seconds": (5.3e-6, 0.3),
    "all_to_all_seconds": (74e-6, 0.4),
    "overlap": (0.5, 0.2),
    "step_seconds": (6e-4, 0.5),
    "bandwidth_4bit": (0.8, 0.15),
    "bandwidth_8bit_experts": (0.8, 0.15),
}
"""Shared constants: prior and its logarithmic standard deviation; the last two multiply the weight bandwidth."""

SPREAD = dict(zip(OWN, (0.05, 0.05, 0.2, 0.2, 0.06, 0.06, 0.2, 0.05, 0.1, 0.12, 0.25), strict=True))


@dataclass
class Pool:
    """Accelerators whose software shares its constants, and the priors of each family's own."""

    name: str
    families: dict[str, tuple[float, ...]]
    """Priors in the order of `OWN`."""
    prior: dict[str, tuple[float, float]] = field(default_factory=dict)
    spread: dict[str, float] = field(default_factory=dict)


POOLS = [
    Pool(
        "servers",
        {
            "hopper": (0.71, 0.60, 0.50, 0.60, 0.70, 0.42, 0.40, 0.58, 0.90, 0.79, 6.6e-6),
            "h20": (0.90, 0.90, 0.50, 0.90, 0.91, 0.91, 0.50, 0.82, 0.97, 0.79, 6.6e-6),
            "blackwell": (0.64, 0.55, 0.45, 0.55, 0.62, 0.38, 0.31, 0.55, 0.81, 0.79, 4.0e-6),
            "ampere": (0.76, 0.70, 0.50, 0.70, 0.45, 0.40, 0.30, 0.60, 0.67, 0.79, 5.5e-6),
            "cdna3": (0.27, 0.25, 0.25, 0.25, 0.30, 0.25, 0.20, 0.31, 0.36, 0.79, 6.4e-6),
            "cdna2": (0.27, 0.25, 0.25, 0.25, 0.30, 0.25, 0.20, 0.31, 0.36, 0.79, 6.4e-6),
        },
    ),
    Pool(
        "desktops",
        {
            "gb10": (0.60, 0.50, 0.40, 0.50, 0.30, 0.30, 0.30, 0.40, 0.80, 0.79, 6.0e-6),
            "blackwell-workstation": (0.80, 0.70, 0.65, 0.70, 0.50, 0.50, 0.50, 0.60, 0.80, 0.79, 5.0e-6),
        },
        {
            "gemm_half_rows": (71.0, 0.5),
            "expert_half_rows": (30.0, 0.7),
            "attention_half_tokens": (500.0, 0.7),
            "routed_passes": (5.0, 0.5),
            "elementwise_bytes": (20.0, 0.5),
            "low_precision_traffic": (1.2, 0.1),
            "pass_seconds": (0.001, 0.7),
        },
        dict.fromkeys(OWN, 0.4) | {"weight_bandwidth": 0.15},
    ),
    Pool(
        "neuron",
        {"neuron": (0.50, 0.50, 0.50, 0.50, 0.50, 0.40, 0.30, 0.40, 0.70, 0.60, 15e-6)},
        {
            "gemm_half_rows": (71.0, 0.5),
            "attention_half_tokens": (500.0, 0.5),
            "elementwise_bytes": (20.0, 0.5),
            "all_reduce_seconds": (20e-6, 0.7),
            "link_share": (0.5, 0.4),
        },
        dict.fromkeys(OWN, 0.4),
    ),
]


class Fit:
    """The constants of one pool as a vector of logarithms, and the rows that pull at them."""

    def __init__(self, pool: Pool, cases: list[Case]) -> None:
        self.pool, self.families = pool, list(pool.families)
        self.cases = [c for c in cases if c.family in pool.families]
        self.table = Table(self.cases, self.families)
        self.groups = np.array([c.group for c in self.cases])
        sizes = Counter(self.groups)
        self.weight = np.array([_weight(c, sizes) for c in self.cases])
        keys = sorted({c.floor_key for c in self.cases} - {None})
        self.floors = keys
        self.floor_index = np.array([keys.index(c.floor_key) if c.floor_key else -1 for c in self.cases])
        self.names = [(name, -1) for name in PRIOR] + [(n, i) for i in range(len(self.families)) for n in OWN]
        self.start, self.spread, self.top = self._priors()

    def _priors(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        start, spread, top = [], [], []
        for name, family in self.names:
            if family < 0:
                value, width = self.pool.prior.get(name, PRIOR[name])
                limit = 1.0 if name in ("link_share", "overlap", "bandwidth_4bit", "bandwidth_8bit_experts") else 1e9
            else:
                value = self.pool.families[self.families[family]][OWN.index(name)]
                width = self.pool.spread.get(name, SPREAD[name])
                limit = 1e9 if name == "kernel_seconds" else 0.97 if name.endswith("_bandwidth") else 1.0
            start.append(np.log(value))
            spread.append(width)
            top.append(np.log(limit) - 1e-6)
        return np.minimum(start, np.array(top) - 1e-3), np.array(spread), np.array(top)

    def constants(self, x: np.ndarray) -> dict[str, np.ndarray]:
        """Spread the vector out: each constant by family, under the name a profile gives it."""
        k: dict[str, np.ndarray] = {}
        for (name, family), value in zip(self.names, np.exp(x), strict=True):
            if family < 0:
                k[name] = np.full(len(self.families), value)
            else:
                k.setdefault(name, np.zeros(len(self.families)))[family] = value
        k["expert_imbalance"] = np.maximum(1.0, k["expert_imbalance"])
        k["low_precision_traffic"] = np.maximum(1.0, k["low_precision_traffic"])
        k["weight_bandwidth_4bit"] = k["weight_bandwidth"] * k.pop("bandwidth_4bit")
        k["expert_bandwidth_8bit"] = k["weight_bandwidth"] * k.pop("bandwidth_8bit_experts")
        return k

    def floor(self, x: np.ndarray, among: np.ndarray) -> np.ndarray:
        """Find the fixed time of each deployment: the value with the least absolute logarithmic error."""
        bare, tried = self.table.seconds(self.constants(x)), np.linspace(0.0, 0.6, 301)
        found = np.zeros(len(self.floors))
        for n in range(len(self.floors)):
            at = np.where((self.floor_index == n) & among)[0]
            if len(at):
                error = np.abs(np.log((bare[at][None] + tried[:, None]) / self.table.measured[at][None]))
                found[n] = tried[error.sum(1).argmin()]
        return found

    def added(self, floor: np.ndarray) -> np.ndarray:
        """Give the floor of every row, 0 where throughput was measured."""
        return (
            np.where(self.floor_index >= 0, floor[self.floor_index], 0.0) if len(floor) else np.zeros(self.table.rows)
        )

    def predict(self, x: np.ndarray, floor: np.ndarray) -> np.ndarray:
        """Predict every row [s]."""
        return self.table.seconds(self.constants(x)) + self.added(floor)

    def solve(self, keep: np.ndarray, x: np.ndarray | None = None, rounds: int = 3) -> np.ndarray:
        """Fit to the rows kept: soft-L1 residuals of the logarithm, and the priors."""
        x, root = self.start.copy() if x is None else x.copy(), np.sqrt(self.weight[keep])

        def residuals(x: np.ndarray) -> np.ndarray:
            error = np.log((self.table.seconds(self.constants(x)) + added) / self.table.measured)[keep]
            soft = ROBUST * np.sign(error) * np.sqrt(2.0 * (np.sqrt(1.0 + (error / ROBUST) ** 2) - 1.0))
            return np.concatenate([soft * root / NOISE, (x - self.start) / self.spread])

        for _ in range(rounds):
            added = self.added(self.floor(x, keep))
            x = least_squares(residuals, x, bounds=(np.full_like(x, -60.0), self.top), max_nfev=12).x
        return x

    def left_out(self, x: np.ndarray) -> np.ndarray:
        """Predict every row by a fit without its group.

        The floor is supplied, as a user would state it: found on all rows of the deployment, but for the models of
        the `prfaas` set, which take the floor of the other models.
        """
        predicted = np.zeros(self.table.rows)
        for group in sorted(set(self.groups)):
            out = self.groups == group
            y = self.solve(~out, x, rounds=2)
            theirs = (
                np.char.startswith(self.groups, "prfaas:") & ~out if group.startswith("prfaas:") else np.ones_like(out)
            )
            predicted[out] = self.predict(y, self.floor(y, theirs))[out]
        return predicted


def _weight(case: Case, sizes: Counter[str]) -> float:
    """Rows whose source may have used speculative decoding count less, as does each row of a large group.

    llama-batched-bench decodes the same text in every sequence, so its batches visit far fewer experts than requests
    that differ; such rows hardly count.
    """
    row = case.row
    doubt = 0.25 if row["speculation_unknown"] == "1" or row["weak"] == "1" else 1.0
    if row["set"] == "llamacpp_spark" and row["phase"] == "decode" and float(row["batch"]) > 2.0:
        doubt = 0.1
    return doubt * min(1.0, (20.0 / sizes[case.group]) ** 0.5)


def summary(error: np.ndarray) -> str:
    """Put errors in words: median, mean and 90th percentile of the size, and the signed median, in percent."""
    size = 100.0 * np.abs(error)
    return (
        f"{len(error):4d} rows  median {np.median(size):5.1f}  mean {size.mean():5.1f}  "
        f"P90 {np.percentile(size, 90):5.1f}  signed {100 * np.median(error):+5.1f}"
    )


def width_of(predicted: np.ndarray, measured: np.ndarray, groups: np.ndarray, share: float = 0.82) -> float:
    """Find the factor within which a share of the left-out rows lies: over rows, or with groups weighed alike if wider.

    The share is a little above 80 %, for what a new group adds.
    """
    size, sizes = np.abs(np.log(predicted / measured)), Counter(groups)
    weight = np.array([sizes[g] ** -0.5 for g in groups])
    order = np.argsort(size)
    reached = np.cumsum(weight[order]) / weight.sum()
    pooled = np.quantile(size, share)
    return float(np.exp(max(pooled, 0.5 * (pooled + size[order][np.searchsorted(reached, share)]))))


def report(fit: Fit, predicted: np.ndarray, title: str) -> None:
    """Print errors by group and phase, and of the groups the targets speak of."""
    error, parts = predicted / fit.table.measured - 1.0, defaultdict(list)
    for value, case in zip(error, fit.cases, strict=True):
        parts[(case.row["phase"], case.group)].append(value)
    print(f"--- {fit.pool.name}: {title}")
    for key in sorted(parts):
        print(f"{key[0]:8s} {key[1]:30s} {summary(np.array(parts[key]))}")
    for name, mask in selections(fit).items():
        if mask.any():
            print(f"{name:39s} {summary(error[mask])}")


def selections(fit: Fit) -> dict[str, np.ndarray]:
    """Name the rows the accuracy is stated for."""
    rows = [c.row for c in fit.cases]
    decode = np.array([r["phase"] == "decode" for r in rows])
    nvidia = np.array([c.family in ("hopper", "h20", "blackwell") for c in fit.cases])
    common = np.array([r["weights_dtype"] != "int4" for r in rows])
    desk = np.array([r["set"] == "lmsys_spark" for r in rows])
    paper = np.array([r["set"] == "prfaas" for r in rows])
    return {
        "all decode": decode,
        "all prefill": ~decode,
        "decode, NVIDIA servers": decode & nvidia & common,
        "prefill, GPU servers": ~decode & ~desk if fit.pool.name == "servers" else np.zeros_like(decode),
        "Table 3 of arXiv 2604.15039": paper,
    }


def write(fit: Fit, x: np.ndarray, widths: tuple[float, float]) -> None:
    """Write one file a family; few rows, or rows of one software year only, widen the interval."""
    k = fit.constants(x)
    rows = Counter(c.family for c in fit.cases)
    for i, family in enumerate(fit.families):
        values = {name: v[i] for name, v in k.items()}
        wide = 1.6 if family.startswith("cdna") else 1.0 if rows[family] >= 10 else 1.25
        used = ", ".join(sorted({c.row["set"] for c in fit.cases if c.family == family}))
        lines = ['basis = "fitted"' if rows[family] >= 4 else 'basis = "kernel timings"']
        if fit.pool.name == "neuron":
            values.pop("gemm_int8")
        for name, value in values.items():
            lines.append(f'{name} = {{ value = {float(f"{value:.4g}")!r}, source = "fit" }}')
        lines.append('request_seconds = { value = 0.028, source = "fit" }')
        lines.append(f'decode_width = {{ value = {widths[0] * wide:.2f}, source = "fit" }}')
        lines.append(f'prefill_width = {{ value = {widths[1] * wide:.2f}, source = "fit" }}')
        note = (
            f"{rows[family]} rows of this family ({used}); shared constants from the pool of {', '.join(fit.families)}."
        )
        lines.append(f'note = "{note}"')
        lines += [
            "",
            "[sources.fit]",
            'title = "Fit on published single-phase measurements, priors from kernel timings"',
            'locator = "benchmarks/fit_efficiencies.py on benchmarks/data/single_phase.csv"',
            'date = "2026-08"',
            'kind = "fitted"',
        ]
        (FOLDER / f"{family}.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """Fit every pool, print the errors, and write the constants if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write hardware_profiles/efficiencies")
    parser.add_argument("--pool", choices=[p.name for p in POOLS], help="fit this pool only")
    arguments = parser.parse_args()
    cases = load_cases()
    for pool in POOLS:
        if arguments.pool and pool.name != arguments.pool:
            continue
        fit = Fit(pool, cases)
        x = fit.solve(np.ones(fit.table.rows, dtype=bool))
        floor = fit.floor(x, np.ones(fit.table.rows, dtype=bool))
        report(fit, fit.predict(x, floor), "all rows in the fit")
        predicted = fit.left_out(x)
        report(fit, predicted, "each group left out")
        widths = tuple(
            width_of(predicted[m], fit.table.measured[m], fit.groups[m]) for m in (fit.table.decode, ~fit.table.decode)
        )
        print("80 % within a factor of", {"decode": round(widths[0], 3), "prefill": round(widths[1], 3)})
        print("floors", {" ".join(key): round(float(f), 3) for key, f in zip(fit.floors, floor, strict=True)})
        for name, values in fit.constants(x).items():
            print(f"{name:24s}", dict(zip(fit.families, [float(f"{v:.4g}") for v in values], strict=True)))
        if arguments.write:
            write(fit, x, widths)


if __name__ == "__main__":
    main()
