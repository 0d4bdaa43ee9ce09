"""The workbook calculates what the library calculates, also after its inputs are changed."""

from __future__ import annotations

import csv
import dataclasses
import math
import re
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from prfaas_plan.case import look_up, planned_system
from prfaas_plan.errors import InputError
from prfaas_plan.latency import unloaded_ttft
from prfaas_plan.plan_record import Plan
from prfaas_plan.planner import compare, plan
from prfaas_plan.reporting import report
from prfaas_plan.reports.sweeps import report_sweep
from prfaas_plan.scenario import Scenario, load_scenario
from prfaas_plan.throughput import operate
from prfaas_plan.units import GBPS
from prfaas_plan.whatif.sweeps import sweep
from prfaas_plan.workload import Constant, Empirical, LogNormal, Mixture
from prfaas_plan.writers.book import write_document

SOFFICE = shutil.which("soffice")
needs_libreoffice = pytest.mark.skipif(SOFFICE is None, reason="LibreOffice (soffice) is not installed")
RECALCULATE = """<?xml version="1.0" encoding="UTF-8"?>
<oor:items xmlns:oor="http://openoffice.org/2001/registry" xmlns:xs="http://www.w3.org/2001/XMLSchema">
<item oor:path="/org.openoffice.Office.Calc/Formula/Load">
<prop oor:name="OOXMLRecalcMode" oor:op="fuse"><value>0</value></prop></item></oor:items>"""
CSV = "csv:Text - txt - csv (StarCalc):44,34,76,1,,0,false,false,false,false,false,-1"
Values = dict[str, Any]


def priced() -> Scenario:
    """The case study with prices of everything, and a round trip."""
    base = load_scenario("case-study")
    far = dataclasses.replace(
        base.cluster[0], price_usd_per_gpu_hour=2.0, capital_usd_per_gpu=20_000.0, amortisation_years=4.0
    )
    near = dataclasses.replace(base.cluster[1], price_usd_per_gpu_hour=1.3)
    link = dataclasses.replace(
        base.link[0], rtt_ms=30.0, usd_per_gb=0.002, price_usd_per_gbps_month=100.0, port_usd_per_month=5000.0
    )
    return dataclasses.replace(base, cluster=(far, near), link=(link,))


def names(book: Path) -> dict[str, tuple[str, str]]:
    with zipfile.ZipFile(book) as file:
        text = file.read("xl/workbook.xml").decode()
    found = re.findall(r"<definedName name=\"(\w+)\">'?([^'!]+)'?!\$(\w+)\$(\d+)</definedName>", text)
    return {name: (sheet, f"{column}{row}") for name, sheet, column, row in found}


def recalculated(books: list[Path], folder: Path) -> list[Values]:
    """Open workbooks in LibreOffice, recalculate every formula, and read the named cells."""
    profile = folder / "profile" / "user"
    profile.mkdir(parents=True)
    (profile / "registrymodifications.xcu").write_text(RECALCULATE, encoding="utf-8")
    command = [
        str(SOFFICE),
        f"-env:UserInstallation={(folder / 'profile').as_uri()}",
        "--headless",
        "--convert-to",
        CSV,
    ]
    subprocess.run([*command, "--outdir", str(folder), *map(str, books)], check=True, capture_output=True, timeout=240)
    return [named_values(book, folder) for book in books]


def named_values(book: Path, folder: Path) -> Values:
    sheets: dict[str, list[list[str]]] = {}
    found = {}
    for name, (sheet, cell) in names(book).items():
        if sheet not in sheets:
            with (folder / f"{book.stem}-{sheet}.csv").open(encoding="utf-8", newline="") as file:
                sheets[sheet] = list(csv.reader(file))
        column, row = ord(cell[0]) - ord("A"), int(cell[1:]) - 1
        found[name] = number(sheets[sheet][row][column])
    return found


def number(shown: str) -> float | str:
    text = shown.removesuffix("%")
    try:
        return float(text) / (100.0 if shown.endswith("%") else 1.0)
    except ValueError:
        return shown


def edited(book: Path, target: Path, changes: Values) -> Path:
    """Write the workbook with other values in input cells; nothing else in it changes."""
    places = names(book)
    with zipfile.ZipFile(book) as old, zipfile.ZipFile(target, "w") as new:
        sheet = "xl/worksheets/sheet2.xml"  # the inputs
        for name in old.namelist():
            content = old.read(name)
            if name == sheet:
                text = content.decode()
                for key, value in changes.items():
                    cell = places[f"in_{key}"][1]
                    if isinstance(value, str):
                        put = rf'<c r="{cell}"\1 t="inlineStr"><is><t>{value}</t></is></c>'
                    else:
                        put = rf'<c r="{cell}"\1><v>{value!r}</v></c>'
                    text, count = re.subn(rf'<c r="{cell}"( s="\d+")(?: t="s")?(?:/>|><v>[^<]*</v></c>)', put, text)
                    assert count == 1, key
                content = text.encode()
            new.writestr(name, content)
    return target


PATHS = {
    "remote_instances": "cluster.prfaas.instances",
    "local_instances": "cluster.local.instances",
    "gpus_per_remote_instance": "cluster.prfaas.gpus_per_instance",
    "price_remote_usd_per_gpu_hour": "cluster.prfaas.price_usd_per_gpu_hour",
    "price_local_usd_per_gpu_hour": "cluster.local.price_usd_per_gpu_hour",
    "bandwidth_gbps": "link.0.bandwidth_gbps",
    "link_efficiency": "link.0.efficiency",
    "link_loss": "link.0.loss",
    "mu": "workload.input_tokens.mu",
    "sigma": "workload.input_tokens.sigma",
    "min_tokens": "workload.input_tokens.min",
    "max_tokens": "workload.input_tokens.max",
    "output_tokens": "workload.output_tokens",
    "tokens_per_second": "slo.tokens_per_second",
    "service_time": "service_time",
}

EDITS: list[Values] = [
    {"bandwidth_gbps": 6.5, "remote_instances": 5},
    {"mu": 9.2, "sigma": 1.3, "service_time": "mean"},
    {"min_tokens": 1000, "max_tokens": 300000, "local_instances": 11, "output_tokens": 700},
    {"output_tokens": 3000, "link_efficiency": 0.6, "link_loss": 0.02, "bandwidth_gbps": 12.0},
    {"tokens_per_second": 25, "remote_instances": 8, "local_instances": 14, "mu": 10.2},
    {"remote_instances": 0, "local_instances": 12},
    {"local_instances": 1, "remote_instances": 2, "output_tokens": 100},
    {"price_remote_usd_per_gpu_hour": 3.9, "price_local_usd_per_gpu_hour": 1.1, "sigma": 0.5},
    {"bandwidth_gbps": 0.4, "service_time": "mean", "mu": 9.0},
    {"gpus_per_remote_instance": 8, "remote_instances": 3, "mu": 8.4, "sigma": 1.7, "link_efficiency": 0.9},
]


def expected(scenario: Scenario, found: Plan | None = None) -> Values:
    """What the library says under the names of the workbook's results."""
    result = compare(scenario)
    best = found or plan(scenario)
    by_name = {p.deployment: p.lambda_max_rps for p in result.deployments}
    loads = {(p.role, p.cluster == "local"): p.load_fraction for p in best.pools}
    values: Values = {
        "lambda_max_rps": best.lambda_max_rps,
        "threshold_tokens": best.threshold_tokens,
        "bottleneck": best.bottleneck,
        "offloaded_fraction": best.offloaded_fraction,
        "mean_long_tokens": best.mean_long_tokens,
        "mean_short_tokens": best.mean_short_tokens,
        "mean_input_tokens": best.mean_input_tokens,
        "prfaas_rps": best.stages.prfaas_rps,
        "pd_prefill_rps": best.stages.pd_prefill_rps,
        "pd_decode_rps": best.stages.pd_decode_rps,
        "link_used_gbps": best.links[0].used_gbps,
        "link_load": best.links[0].load_fraction,
        "decode_load": loads["decode", True],
        "ttft_mean_s": best.ttft_s.mean,
        "ttft_p50_s": best.ttft_s.p50,
        "ttft_p90_s": best.ttft_s.p90,
        "ttft_p99_s": best.ttft_s.p99,
        "tpot_s": best.tpot_s,
        "gpus": best.gpus,
        "cost_usd_per_hour": best.cost_usd_per_hour,
        "usd_per_million_output_tokens": best.usd_per_million_output_tokens,
        "homogeneous_rps": by_name["homogeneous-pd"],
        "ratio_to_homogeneous": best.lambda_max_rps / by_name["homogeneous-pd"],
        "naive_rps": by_name["naive-heterogeneous-pd"],
    }
    if result.equal_cost is not None:
        values["equal_cost_rps"] = result.equal_cost.lambda_max_rps
        values["equal_cost_instances"] = result.equal_cost.instances
        values["gain_fraction"] = best.lambda_max_rps / result.equal_cost.lambda_max_rps - 1.0
    return values


def assert_equal(shown: Values, wanted: Values) -> None:
    for name, value in wanted.items():
        cell = shown[f"out_{name}"]
        if isinstance(value, (int, float)):
            assert cell == pytest.approx(value, rel=1e-6, abs=1e-9), name
        else:
            assert cell == (value or "–"), name


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return report(priced(), tmp_path_factory.mktemp("book") / "plan.xlsx")


@needs_libreoffice
def test_recalculated_results_and_ten_edits_equal_the_library(book: Path, tmp_path: Path) -> None:
    books = [edited(book, tmp_path / f"edit{i}.xlsx", changes) for i, changes in enumerate([{}, *EDITS])]
    for shown, changes in zip(recalculated(books, tmp_path), [{}, *EDITS], strict=True):
        scenario = priced()
        for key, value in changes.items():
            scenario = scenario.replace(PATHS[key], value)
        if changes.get("remote_instances") == 0:
            assert_equal(shown, without_remote(scenario))
        else:
            assert_equal(shown, expected(scenario))


def without_remote(scenario: Scenario) -> Values:
    """With no remote instance the naive fleet serves nothing, which the library refuses to compare."""
    best = plan(scenario)
    return {
        "lambda_max_rps": best.lambda_max_rps,
        "threshold_tokens": None,
        "bottleneck": best.bottleneck,
        "ttft_mean_s": best.ttft_s.mean,
        "ttft_p90_s": best.ttft_s.p90,
        "cost_usd_per_hour": best.cost_usd_per_hour,
        "naive_rps": 0.0,
        "homogeneous_rps": best.lambda_max_rps,
    }


@needs_libreoffice
def test_a_split_and_a_threshold_of_ones_own(book: Path, tmp_path: Path) -> None:
    changes = {"split_mode": "own", "own_prefill_instances": 4, "threshold_mode": "own", "own_threshold_tokens": 15000}
    (shown,) = recalculated([edited(book, tmp_path / "own.xlsx", changes)], tmp_path)
    system, instances = planned_system(look_up(priced()))
    point = operate(system.split(4, instances - 4), 15_000)
    ttft = unloaded_ttft(point)
    wanted = {
        "lambda_max_rps": point.max_rate,
        "threshold_tokens": 15_000,
        "bottleneck": " and ".join(point.bottlenecks),
        "prfaas_rps": point.prfaas_rate,
        "pd_prefill_rps": point.local_prefill_rate,
        "link_used_gbps": point.link_used_bytes_per_s / GBPS,
        "ttft_mean_s": ttft.mean,
        "ttft_p90_s": ttft.p90,
    }
    assert_equal(shown, wanted)


LAWS = {
    "mixture": Mixture((3.0, 1.0), (LogNormal(8.0, 1.0, 16, 40_000), LogNormal(11.0, 0.4, 20_000, 131_072))),
    "trace": Empirical.of([137 * k * k % 90_000 + 1 for k in range(1, 3000)]),
    "constant": Constant(20_000.0),
}


@needs_libreoffice
def test_other_laws_start_at_the_plan(tmp_path: Path) -> None:
    books, wanted = [], []
    for (name, law), reading in zip(LAWS.items(), ("mean", "at-mean-length", "mean"), strict=True):
        base = priced()
        assert base.workload is not None
        scenario = dataclasses.replace(base, workload=dataclasses.replace(base.workload, law=law), service_time=reading)
        books.append(report(scenario, tmp_path / f"{name}.xlsx"))
        wanted.append(expected(scenario))
    for shown, values in zip(recalculated(books, tmp_path), wanted, strict=True):
        assert_equal(shown, values)


@needs_libreoffice
def test_fleets_of_one_cluster_and_without_local_prefill(tmp_path: Path) -> None:
    base = priced()
    alone = dataclasses.replace(base, cluster=base.cluster[1:], link=())
    naive = base.replace("cluster.local.role", "decode")
    books = [report(alone, tmp_path / "alone.xlsx"), report(naive, tmp_path / "naive.xlsx")]
    shown = recalculated(books, tmp_path)
    assert_equal(shown[0], {k: v for k, v in without_remote(alone).items() if k != "naive_rps"})
    assert_equal(shown[1], expected(naive))


@needs_libreoffice
def test_estimated_times_in_many_pieces(tmp_path: Path) -> None:
    """Models without a measurement have service times and KV sizes in several pieces, some no threshold at all."""
    books, wanted, decodes = [], [], []
    changes: Values = {"bandwidth_gbps": 8.0, "local_instances": 10, "service_time": "mean", "tokens_per_second": 30}
    longer: Values = {"mu": 10.4, "output_tokens": 3000}
    for model in ("mimo-v2-flash", "deepseek-v3"):
        scenario = priced().replace("model", model)
        plain = report(scenario, tmp_path / f"{model}.xlsx")
        books += [plain, edited(plain, tmp_path / f"{model}-edit.xlsx", changes)]
        books.append(edited(plain, tmp_path / f"{model}-longer.xlsx", longer))
        other = scenario
        for key, value in changes.items():
            other = other.replace(PATHS[key], value)
        wanted += [expected(scenario), expected(other)]
        decodes.append(
            look_up(scenario.replace("workload.input_tokens.mu", 10.4).replace("workload.output_tokens", 3000))
        )
    shown = recalculated(books, tmp_path)
    for values, own in zip(wanted, (shown[0], shown[1], shown[3], shown[4]), strict=True):
        assert_equal(own, values)
    for case, own in zip(decodes, (shown[2], shown[5]), strict=True):
        each = case.decode.batch / case.decode.step_seconds / 3000.0
        assert own["out_pd_decode_rps"] == pytest.approx(own["out_decode_instances"] * each, rel=0.05)


@needs_libreoffice
def test_a_workbook_that_does_not_calculate_shows_the_same(book: Path, tmp_path: Path) -> None:
    """Values stored with the formulas equal those that LibreOffice computes, in every cell of every sheet."""
    recalculated([book], tmp_path)
    compared = 0
    with zipfile.ZipFile(book) as file:
        sheets = re.findall(r'<sheet name="([^"]+)"', file.read("xl/workbook.xml").decode())
        for index, sheet in enumerate(sheets, start=1):
            with (tmp_path / f"plan-{sheet}.csv").open(encoding="utf-8", newline="") as lines:
                rows = list(csv.reader(lines))
            cells = re.findall(
                r'<c r="([A-Z]+)(\d+)"[^>]*><f>[^<]*</f><v>([^<]*)</v>',
                file.read(f"xl/worksheets/sheet{index}.xml").decode(),
            )
            for column, row, stored in cells:
                shown = number(rows[int(row) - 1][column_index(column)])
                wanted = number(stored)
                if isinstance(wanted, float) and isinstance(shown, float):
                    assert math.isclose(shown, wanted, rel_tol=1e-6, abs_tol=1e-9), (sheet, column, row)
                    compared += 1
    assert compared > 3000


def column_index(letters: str) -> int:
    index = 0
    for letter in letters:
        index = 26 * index + ord(letter) - ord("A") + 1
    return index - 1


def test_the_same_plan_gives_the_same_bytes(book: Path, tmp_path: Path) -> None:
    assert report(priced(), tmp_path / "again.xlsx").read_bytes() == book.read_bytes()


def test_formulas_are_protected_inputs_are_open_and_nothing_runs(book: Path) -> None:
    with zipfile.ZipFile(book) as file:
        parts = file.namelist()
        sheets = [file.read(n).decode() for n in parts if n.startswith("xl/worksheets/sheet")]
        everything = "".join(file.read(n).decode() for n in parts if n.endswith((".xml", ".rels")))
    assert all("<sheetProtection" in sheet for sheet in sheets)
    assert sum("<dataValidation " in sheet for sheet in sheets) == 1
    assert not [n for n in parts if "vba" in n.lower() or "external" in n.lower()]
    assert 'TargetMode="External"' not in everything
    assert sum(n.startswith("xl/charts/chart") for n in parts) == 3


EVIL = ["=cmd|' /C calc'!A0", "<script>alert(1)</script>", "\"'`;-- @SUM(1)", "💥 \u202eright-to-left", "http://x.test"]


def test_names_stay_texts(tmp_path: Path) -> None:
    base = priced()
    for far, near in ((EVIL[0], EVIL[1]), (EVIL[3], EVIL[4])):
        clusters = (dataclasses.replace(base.cluster[0], name=far), dataclasses.replace(base.cluster[1], name=near))
        links = (dataclasses.replace(base.link[0], origin=far, destination=near),)
        scenario = dataclasses.replace(base, name=EVIL[2], cluster=clusters, link=links)
        path = report(scenario, tmp_path / "evil.xlsx")
        with zipfile.ZipFile(path) as file:
            sheets = [file.read(n).decode() for n in file.namelist() if n.startswith("xl/worksheets/sheet")]
            texts = file.read("xl/sharedStrings.xml").decode()
        formulas = [f for sheet in sheets for f in re.findall(r"<f>([^<]*)</f>", sheet)]
        assert formulas
        assert not any(word in f for f in formulas for word in ("cmd", "alert", "SUM(1)", "x.test"))
        assert not any("hyperlink" in sheet for sheet in sheets)
        assert "<script>" not in texts
        assert "\u202e" not in texts


def test_a_document_as_a_workbook_keeps_texts_as_texts(tmp_path: Path) -> None:
    base = load_scenario("case-study")
    result = sweep(dataclasses.replace(base, name=EVIL[0]), ["link.0.bandwidth_gbps=10,100", "kv.engine=sglang,vllm"])
    content = write_document(report_sweep(result))
    assert content == write_document(report_sweep(result))
    path = tmp_path / "sweep.xlsx"
    path.write_bytes(content)
    with zipfile.ZipFile(path) as file:
        sheets = [file.read(n).decode() for n in file.namelist() if n.startswith("xl/worksheets/sheet")]
        assert "lambda_max_rps" in file.read("xl/sharedStrings.xml").decode()
    assert not any("<f>" in sheet for sheet in sheets)
    assert sheets[0].count("<row ") == 5


def test_a_fleet_is_reported_with_its_shadow_prices(tmp_path: Path) -> None:
    scenario = priced().replace("budget_usd_per_hour", 190)
    scenario = dataclasses.replace(scenario, name=EVIL[1])
    for ending in ("xlsx", "html", "md"):
        first = report(scenario, tmp_path / f"fleet.{ending}").read_bytes()
        assert report(scenario, tmp_path / f"again.{ending}").read_bytes() == first
    page = (tmp_path / "fleet.html").read_text(encoding="utf-8")
    assert "What a little more of each thing is worth" in page
    assert "<script>alert" not in page
    with zipfile.ZipFile(tmp_path / "fleet.xlsx") as file:
        assert "shadow price" in file.read("xl/sharedStrings.xml").decode()


@pytest.mark.parametrize("name", ["plan.pdf", "plan", "plan.xls"])
def test_other_endings_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\.xlsx, \.html, \.md"):
        report("case-study", tmp_path / name)
    assert not (tmp_path / name).exists()
