"""The report page: self-contained, harmless, and its panel says what the library says."""

from __future__ import annotations

import dataclasses
import html.parser
import json
import math
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from prfaas_plan.case import look_up, operating_points, planned_system
from prfaas_plan.catalog import load_hardware, load_model
from prfaas_plan.decode import decode_step
from prfaas_plan.deployment import Deployment
from prfaas_plan.latency import mean_ttft
from prfaas_plan.plan_build import cost_per_hour
from prfaas_plan.prefill import prefill_time
from prfaas_plan.reporting import report
from prfaas_plan.reports.what_if import curve_tables, roof_tables
from prfaas_plan.routing import best_point
from prfaas_plan.scenario import Scenario, load_scenario
from prfaas_plan.throughput import OperatingPoint, operate
from prfaas_plan.units import GBPS, show
from prfaas_plan.whatif.kv_rates import compared_rates
from prfaas_plan.whatif.tables import what_if
from prfaas_plan.workload import Constant, LogNormal, Mixture
from prfaas_plan.writers.page import write_page
from prfaas_plan.writers.page_data import output_ends
from prfaas_plan.writers.page_plots import plots
from prfaas_plan.writers.svg import Axis, Line
from prfaas_plan.writers.svg_labels import arranged

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
EVIL = [
    "=cmd|' /C calc'!A0",
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(2)>",
    "💥 \u202eleft",
    "@BODY@",
]


def priced() -> Scenario:
    scenario = load_scenario("case-study").replace("cluster.prfaas.price_usd_per_gpu_hour", 2.6)
    return scenario.replace("cluster.local.price_usd_per_gpu_hour", 1.3).replace("link.0.rtt_ms", 20)


def with_law(law: Any, reading: str) -> Scenario:
    base = priced()
    assert base.workload is not None
    return dataclasses.replace(base, workload=dataclasses.replace(base.workload, law=law), service_time=reading)


ESTIMATED = priced().replace("model", "mimo-v2-flash")
SCENARIOS = {
    "estimated": ESTIMATED,
    "case-study": priced(),
    "mean": priced().replace("service_time", "mean"),
    "mixture": with_law(Mixture((3, 1), (LogNormal(8, 1, 16, 40_000), LogNormal(11, 0.4, 20_000, 131_072))), "mean"),
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    return {name: report(scenario, folder / f"{name}.html") for name, scenario in SCENARIOS.items()}


class Tags(html.parser.HTMLParser):
    """Collects elements and attributes, and checks that elements close in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in ("meta", "input", "br", "line", "rect", "circle", "polyline", "path"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_page_is_one_file_that_fetches_nothing(pages: dict[str, Path]) -> None:
    text = pages["case-study"].read_text(encoding="utf-8")
    tags = Tags(text)
    assert tags.open == []
    names = {tag for tag, _ in tags.found}
    assert not names & {"link", "img", "iframe", "object", "embed", "base", "form", "audio", "video"}
    for tag, attributes in tags.found:
        assert not {"src", "href", "action", "srcset", "poster"} & set(attributes), tag
        assert not [a for a in attributes if a.startswith("on")], tag
    assert not re.search(r"@import|url\(|https?://|fetch\(|XMLHttpRequest|import\(", text)
    assert "default-src 'none'" in text
    assert len(text) < 300_000


def test_a_page_can_be_read_by_everyone(pages: dict[str, Path]) -> None:
    text = pages["case-study"].read_text(encoding="utf-8")
    tags = Tags(text).found
    assert ("html", {"lang": "en"}) in tags
    drawings = [a for tag, a in tags if tag == "svg"]
    assert len(drawings) == 8
    assert all(a["role"] == "img" and a["aria-labelledby"] for a in drawings)
    assert text.count("<desc ") == 8
    assert text.count("Numbers behind this plot") == 7
    labelled = {a["for"] for tag, a in tags if tag == "label" and "for" in a}
    sliders = {a["id"] for tag, a in tags if tag == "input" and a["type"] == "range"}
    assert sliders == labelled
    assert "prefers-color-scheme:dark" in text
    assert "@media print" in text


def luminance(colour: str) -> float:
    full = "".join(2 * c for c in colour) if len(colour) == 3 else colour
    parts = [int(full[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_words_stand_out_in_both_modes(pages: dict[str, Path]) -> None:
    """WCAG 2.1 asks for a contrast of 4.5 between words and what is behind them."""
    text = pages["case-study"].read_text(encoding="utf-8")
    for block in re.findall(r":root\{(.*?)\}", text):
        colours = dict(re.findall(r"--(\w+):#(\w+)", block))
        for ink in ("ink", "soft", "main", "a", "b", "c", "mark"):
            for paper in ("paper", "panel"):
                light, dark = sorted((luminance(colours[ink]), luminance(colours[paper])), reverse=True)
                assert (light + 0.05) / (dark + 0.05) >= 4.5, (ink, paper)


def test_the_same_plan_gives_the_same_bytes(pages: dict[str, Path], tmp_path: Path) -> None:
    assert report(priced(), tmp_path / "again.html").read_bytes() == pages["case-study"].read_bytes()


@pytest.mark.parametrize("ending", ["html", "md"])
def test_names_are_harmless(ending: str, tmp_path: Path) -> None:
    base = priced()
    for far, near in ((EVIL[0], EVIL[1]), (EVIL[2], EVIL[3])):
        clusters = (dataclasses.replace(base.cluster[0], name=far), dataclasses.replace(base.cluster[1], name=near))
        links = (dataclasses.replace(base.link[0], origin=far, destination=near),)
        scenario = dataclasses.replace(base, name=EVIL[1], description=EVIL[4], cluster=clusters, link=links)
        text = report(scenario, tmp_path / f"evil.{ending}").read_text(encoding="utf-8")
        assert "<script>alert" not in text
        assert not re.search(r"(?<!\\)<img", text)
        assert "\u202e" not in text
        if ending == "html":
            tags = Tags(text)
            assert tags.open == []
            assert [tag for tag, _ in tags.found].count("script") == 2
            assert "@BODY@" in text


def test_text_in_the_data_cannot_end_its_element() -> None:
    base = priced()
    name = "</script><b>"
    clusters = (base.cluster[0], dataclasses.replace(base.cluster[1], name=name))
    links = (dataclasses.replace(base.link[0], destination=name),)
    text = write_page(what_if(dataclasses.replace(base, cluster=clusters, link=links)))
    body = re.search(r'<script type="application/json" id="data">(.*?)</script>', text)
    assert body
    assert json.loads(body[1])["home"] == name


def test_an_unlimited_link_and_a_single_length(tmp_path: Path) -> None:
    scenario = with_law(Constant(8000.0), "mean").replace("link.0.bandwidth_gbps", float("inf"))
    for ending in ("html", "md", "xlsx"):
        assert report(scenario, tmp_path / f"plan.{ending}").stat().st_size > 1000


def test_models_beside_the_plan_have_the_published_throughput() -> None:
    """Φ_kv on 8×H200 of arXiv 2604.15039, Table 3, which the shipped times are derived from [Gbit/s]."""
    found = what_if(priced())
    lengths = [row.length_tokens for row in found.kv_rates]
    published = {
        "MiniMax-M2.5": (4.94, 59.93),
        "MiMo-V2-Flash": (0.82, 4.66),
        "Ring-2.5-1T / Ling-2.5-1T": (7.27, 2.59),
    }
    assert {c.model for c in found.compared} == set(published)
    for other in found.compared:
        at = dict(zip(lengths, other.gbps, strict=True))
        assert (at[1024], at[32768]) == pytest.approx(published[other.model], rel=0.05)
    table = next(t for t in curve_tables(found) if t.title.startswith("KV throughput"))
    assert [row[3] for row in table.rows] == list(found.compared[0].gbps)


def test_the_model_of_the_plan_is_not_compared_with_itself() -> None:
    assert "MiMo-V2-Flash" not in {c.model for c in compared_rates("mimo-v2-flash", [1024])}
    assert compared_rates("x", [512, 1024])[0].gbps[0] is None  # below the shortest published length


def test_operating_points_are_counted_from_the_layers() -> None:
    found = what_if(ESTIMATED)
    case, best = found.case, found.best
    near = Deployment(load_model("mimo-v2-flash"), load_hardware("h20-96gb-sxm"), 8)
    far, short, decode = found.roofs.points
    step = decode_step(near, case.decode.batch, case.workload.law.mean + 512.0)
    assert (decode.intensity, decode.flops) == pytest.approx((step.intensity, step.flops / case.decode.step_seconds))
    assert best.mean_short
    assert case.local_prefill
    time = prefill_time(near, best.mean_short)
    expected = (time.intensity, time.flops / case.local_prefill.seconds(best.mean_short))
    assert (short.intensity, short.flops) == pytest.approx(expected)
    assert far.tokens == best.mean_long
    assert all(0.0 < p.flops <= p.attainable for p in found.roofs.points)


def test_roofs_are_those_of_the_data_sheets() -> None:
    roofs = what_if(priced()).roofs
    assert [(r.accelerator, r.dtype) for r in roofs.roofs][:2] == [("H200 SXM", "bf16"), ("H200 SXM", "fp8")]
    for roof in roofs.roofs:
        assert roof.attainable(roof.ridge / 4.0) == pytest.approx(roof.flops / 4.0)
        assert roof.attainable(roof.ridge * 4.0) == roof.flops
    assert roofs.points == ()  # the layers of this model are not published
    assert "not known" in roofs.notes[0]


def test_lines_are_drawn_where_the_numbers_are(pages: dict[str, Path]) -> None:
    found = what_if(ESTIMATED)
    text = pages["estimated"].read_text(encoding="utf-8")
    drawing = re.search(r'<svg[^>]*aria-labelledby="roofline-t.*?</svg>', text)
    assert drawing
    dots = [(float(a), float(b)) for a, b in re.findall(r'<circle[^>]*cx="([\d.]+)" cy="([\d.]+)"', drawing[0])]
    points = found.roofs.points
    assert len(dots) == len(points) == 3
    (a, b), (c, d), (e, f) = dots
    i, j, k = (math.log(p.intensity) for p in points)
    assert (a - c) / (c - e) == pytest.approx((i - j) / (j - k), rel=0.05)
    i, j, k = (math.log(p.flops) for p in points)
    assert (b - d) / (d - f) == pytest.approx((i - j) / (j - k), rel=0.05)
    for row in roof_tables(found)[1].rows:
        assert f"<bdi>{show(float(str(row[6])), '')}</bdi>" in text


def test_names_in_the_plots_are_harmless() -> None:
    found = what_if(ESTIMATED)
    for evil in EVIL:
        case = dataclasses.replace(found.case, model=dataclasses.replace(found.case.model, name=evil))
        clusters = {"remote": dataclasses.replace(priced().cluster[0], accelerator=evil)}
        roofs = dataclasses.replace(
            found.roofs,
            roofs=tuple(dataclasses.replace(r, accelerator=evil) for r in found.roofs.roofs),
            points=tuple(dataclasses.replace(p, cluster=evil) for p in found.roofs.points),
            notes=(evil,),
        )
        hostile = dataclasses.replace(found, case=dataclasses.replace(case, **clusters), roofs=roofs)
        drawn = "".join(plot.drawing + plot.title for plot in plots(hostile))
        assert Tags(drawn).open == []
        text = write_page(hostile)
        assert Tags(text).open == []
        assert "<script>alert" not in text
        assert "<img" not in text
        assert "\u202e" not in text


def test_names_do_not_lie_on_each_other() -> None:
    axes = (Axis("x", 0.0, 10.0), Axis("y", 0.0, 10.0))
    lines = [Line(f"line {i}", ((0.0, 5.0 + 0.1 * i), (10.0, 5.0 + 0.1 * i)), "c") for i in range(5)]
    places = [line.place for line in arranged(axes, lines)]
    for i, one in enumerate(places):
        for other in places[:i]:
            assert one
            assert other
            assert abs(one[1] - other[1]) >= 19 or abs(one[0] - other[0]) > 60


def test_ticks_are_round_and_inside() -> None:
    for low, high in ((0.0, 6.2), (0.0, 84_000.0), (0.3, 0.9)):
        ticks = Axis("x", low, high).ticks()
        assert 3 <= len(ticks) <= 8
        assert all(low <= t <= high * 1.0001 for t in ticks)


def dom(page: Path, folder: Path, state: str = "") -> tuple[str, str]:
    """Open a page in Chromium with some slider values, and give its document and what it logged."""
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
               "--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr", "--v=0",
               f"--user-data-dir={folder / 'profile'}", "--dump-dom", f"{page.as_uri()}#{state}"]  # fmt: skip
    found = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return found.stdout, found.stderr


def shown(document: str) -> dict[str, str]:
    return dict(re.findall(r'<dd id="out-(\w+)"(?: data-value="([^"]*)")?', document))


STATES: list[dict[str, float]] = [
    {},
    {"gbps": 6.0},
    {"remote": 6, "prefill": 4, "decode": 7},
    {"output": 2500, "gbps": 20},
    {"threshold": 12_000, "load": 50},
    {"threshold": 60_000, "gbps": 3, "remote": 2},
    {"prefill": 0, "decode": 8},
    {"gbps": 1.5, "remote": 9, "prefill": 8, "decode": 8, "output": 400},
]


def expected(scenario: Scenario, state: dict[str, float], planned: OperatingPoint) -> tuple[OperatingPoint, float]:
    """The operating point of the library for slider values, and what it costs."""
    paths = {"gbps": "link.0.bandwidth_gbps", "remote": "cluster.prfaas.instances", "output": "workload.output_tokens"}
    for name, path in paths.items():
        if name in state:
            scenario = scenario.replace(path, state[name])
    system, _ = planned_system(look_up(scenario))
    assert planned.system.local is not None
    prefill = int(state.get("prefill", planned.system.local.instances))
    split = system.split(prefill, int(state.get("decode", planned.system.decode.instances)))
    point = operate(split, int(state["threshold"])) if "threshold" in state else best_point(split)
    return point, cost_per_hour(scenario, point) or 0.0


@needs_chromium
@pytest.mark.parametrize("name", SCENARIOS)
def test_sliders_move_the_numbers_as_the_library_does(name: str, pages: dict[str, Path], tmp_path: Path) -> None:
    planned = operating_points(look_up(SCENARIOS[name]))[0]
    states = STATES if name == "case-study" else [STATES[2]]
    if name == "estimated":
        low, high = output_ends(1024.0)
        states.append({"output": round(low * (high / low) ** 0.87), "gbps": 40})
    for state in states:
        address = "&".join(f"{key}={value}" for key, value in state.items())
        document, log = dom(pages[name], tmp_path, address)
        assert "CONSOLE" not in log
        values = shown(document)
        point, cost = expected(SCENARIOS[name], state, planned)
        load = state.get("load", 80) / 100
        assert float(values["rate"]) == pytest.approx(point.max_rate, rel=5e-3)
        assert float(values["share"]) == pytest.approx(point.long_share, rel=5e-3, abs=1e-4)
        assert float(values["used"]) == pytest.approx(load * point.link_used_bytes_per_s / GBPS, rel=5e-3, abs=1e-6)
        assert float(values["ttft"]) == pytest.approx(mean_ttft(point), rel=5e-3)
        assert float(values["cost"]) == pytest.approx(cost, rel=5e-3)
        if point.threshold is not None:
            assert float(values["threshold"]) == pytest.approx(point.threshold, rel=5e-3)


@needs_chromium
def test_the_panel_starts_at_the_plan(pages: dict[str, Path], tmp_path: Path) -> None:
    document, _ = dom(pages["case-study"], tmp_path)
    found = operating_points(look_up(priced()))[0]
    values = shown(document)
    assert float(values["rate"]) == pytest.approx(found.max_rate, rel=1e-9)
    assert float(values["threshold"]) == found.threshold
    assert values["bound"] == " and ".join(found.bottlenecks)
