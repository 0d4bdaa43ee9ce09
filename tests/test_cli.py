"""The program as a user meets it: exit codes, formats, files, messages."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from prfaas_plan.cli import main

COMMANDS = [
    ["plan"],
    ["plan", "--explain"],
    ["plan", "day-night", "--worth"],
    ["plan", "multi-region"],
    ["size", "--target-rps", "5", "--minimize", "gpus", "--headroom", "0.1", "--spare", "1"],
    ["routing", "--bandwidth", "5,20"],
    ["compare"],
    ["kv", "qwen3-235b-a22b", "kimi-linear-48b-a3b", "--tp", "8"],
    ["verify"],
    ["profiles", "list"],
    ["profiles", "show", "h200-sxm"],
    ["profiles", "show", "kimi-linear-1t-paper"],
    ["profiles", "show", "deepseek-v3"],
    ["roofline", "deepseek-v3", "h200", "--lengths", "8k,64k"],
    ["link", "100", "--rtt", "30 ms", "--loss", "1e-5", "--needed", "13", "--model", "qwen3-235b-a22b"],
    ["simulate", "--rps", "1", "--requests", "400", "--replications", "2"],
    ["trace", str(Path(__file__).parent / "data" / "traces" / "mooncake.jsonl")],
]


def run(args: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["prfaas-plan", *args])
    code = 0
    try:
        main()
    except SystemExit as stop:
        code = int(stop.code or 0)
    shown = capsys.readouterr()
    return code, shown.out, shown.err


@pytest.mark.parametrize("args", COMMANDS, ids=" ".join)
def test_json_is_one_object_with_a_schema(
    args: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = run([*args, "--format", "json"], capsys, monkeypatch)
    assert (code, err) == (0, "")
    data = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))
    assert data["schema"] == f"prfaas-plan/{args[0]}/1"


@pytest.mark.parametrize("args", COMMANDS, ids=" ".join)
def test_tables_fit_eighty_columns_without_colour(
    args: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, _ = run(args, capsys, monkeypatch)
    assert code == 0
    assert "\x1b" not in out
    too_wide = [line for line in out.splitlines() if len(line) > 80]
    assert not too_wide


@pytest.mark.parametrize("args", COMMANDS, ids=" ".join)
def test_csv_has_as_many_cells_as_headings(
    args: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, _ = run([*args, "--format", "csv"], capsys, monkeypatch)
    rows = list(csv.reader(io.StringIO(out)))
    assert code == 0
    assert len(rows) > 1
    assert {len(row) for row in rows} == {len(rows[0])}


@pytest.mark.parametrize("args", COMMANDS, ids=" ".join)
def test_markdown_tables_are_whole(
    args: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, _ = run([*args, "--format", "md"], capsys, monkeypatch)
    assert code == 0
    assert out.startswith("# ")
    assert "| --- |" in out or "| ---: |" in out


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["plan", "no-such-scenario"], "no-such-scenario"),
        (["plan", "case-stdy"], "case-study"),
        (["plan", "--set", "link.0.bandwidth_gbps=fast"], "link.0.bandwidth_gbps"),
        (["plan", "--set", "link.0.bandwidth_gbps=-1"], "of at least 0"),
        (["plan", "--set", "link.0.bandwidth_gbps=nan"], "bandwidth_gbps"),
        (["plan", "--set", "link.0.bandwith_gbps=10"], "bandwidth_gbps"),
        (["plan", "--set", "link.7.bandwidth_gbps=10"], "no element '7'"),
        (["plan", "--set", "cluster.lokal.instances=10"], "local"),
        (["plan", "--set", "cluster.local.instances=1.5"], "whole number"),
        (["plan", "--set", "cluster.local.instances"], "PATH=VALUE"),
        (["plan", "--set", "cluster.local.accelerator=h20-9"], "h20-96"),
        (["plan", "--set", "model=kimi"], "no model profile has this name"),
        (["plan", "--set", "workload.input_tokens.sigma=0"], "workload.input_tokens.sigma"),
        (["plan", "--set", "service_time=median"], "at-mean-length"),
        (["plan", "--output", "plan.ods"], "expected .xlsx"),
        (["sweep", "--vary", "link.0.loss=0:0.4:3000000"], "--fast"),
        (["sweep", "--monte-carlo", "10"], "--vary: missing"),
        (["sweep", "--tornado", "--monte-carlo", "10"], "does not go together with --monte-carlo"),
        (["sweep", "--tornado", "--pareto", "gpus,lambda_max_rps"], "does not go together with --pareto"),
        (["sweep", "--vary", "link.0.loss=0,0.1", "--pareto", "gpus"], "expected two results"),
        (["sweep", "--vary", "link.0.loss=0,0.1", "--plot", "bottleneck"], "holds words"),
        (["kv", "no-such-model"], "no-such-model"),
        (["kv", "deepseek-v3", "--lengths", "1k,many"], "many"),
        (["kv", "deepseek-v3", "--lengths", "0"], "at least 1 token"),
        (["kv", "deepseek-v3", "--kv-dtype", "fp7"], "fp8"),
        (["kv", "deepseek-v3", "--memory", "80 GBit"], "GBit"),
        (["kv", "deepseek-v3", "--tp", "0"], "tensor_parallel"),
        (["profiles", "show", "h201"], "h20"),
        (["profiles", "list", "software"], "hardware"),
        (["profiles", "check", "missing.toml"], "missing.toml"),
    ],
)
def test_bad_input_exits_2_and_says_what(
    args: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = run(args, capsys, monkeypatch)
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err
    assert err.startswith("error: ")


def test_every_fault_comes_in_one_go(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    bad = ["link.0.bandwidth_gbps=fast", "cluster.local.instances=-3", "slo.tokens_per_second=0", "colour=1"]
    args = [word for setting in bad for word in ("--set", setting)]
    code, _, err = run(["plan", *args], capsys, monkeypatch)
    assert code == 2
    for key in ("link.0.bandwidth_gbps", "cluster.1.instances", "slo.tokens_per_second", "colour"):
        assert key in err
    assert len(err.splitlines()) == 4


def test_infeasible_exits_3_and_names_what_binds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = run(["plan", "--set", "cluster.local.instances=0"], capsys, monkeypatch)
    assert (code, out) == (3, "")
    assert "local" in err


def test_a_wrong_constant_makes_verify_exit_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from prfaas_plan.profiles import shipped_folder

    shipped = (shipped_folder("model_profiles") / "qwen3-8b.toml").read_text(encoding="utf-8")
    altered = shipped.replace("kv_heads = 8", "kv_heads = 4")
    assert altered != shipped
    (tmp_path / "qwen3-8b.toml").write_text(altered, encoding="utf-8")
    code, out, _ = run(["verify", "--profiles", str(tmp_path), "--format", "json"], capsys, monkeypatch)
    wrong = [row["quantity"] for row in json.loads(out)["rows"] if not row["ok"]]
    assert code == 1
    assert any("qwen3-8b" in quantity for quantity in wrong)


def test_a_failed_run_leaves_the_old_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "plan.json"
    target.write_text("old", encoding="utf-8")
    code, _, _ = run(["plan", "nothing", "--format", "json", "--output", str(target)], capsys, monkeypatch)
    assert (code, target.read_text(encoding="utf-8")) == (2, "old")
    code, out, _ = run(["plan", "--format", "json", "--output", str(target)], capsys, monkeypatch)
    assert (code, out) == (0, "")
    assert json.loads(target.read_text(encoding="utf-8"))["scenario"] == "case-study"
    assert [p.name for p in tmp_path.iterdir()] == ["plan.json"]


def test_an_output_that_cannot_be_written_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for target in (tmp_path, tmp_path / "missing" / "plan.json"):
        code, _, err = run(["plan", "--output", str(target)], capsys, monkeypatch)
        assert code == 2
        assert str(target) in err


def test_the_module_is_the_program_and_json_is_alone_on_stdout() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "prfaas_plan", "compare", "case-study", "--format", "json"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "40"},
    )
    assert done.stderr == ""
    names = [d["name"] for d in json.loads(done.stdout)["deployments"]]
    assert names == ["prfaas-pd", "homogeneous-pd", "naive-heterogeneous-pd"]


def test_plan_imports_nothing_heavy() -> None:
    code = (
        "import sys; sys.argv=['prfaas-plan','plan'];\n"
        "from prfaas_plan.cli import main\n"
        "main()\n"
        "heavy={'numpy','scipy','pulp','pandas','matplotlib','xlsxwriter'}&set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)


def test_names_cannot_become_markup_formulas_or_escape_codes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from prfaas_plan.scenario import shipped_scenarios

    nasty = "=cmd|' /C calc'!A0 <script>alert(1)</script> [red]x[/red] \\u001b[31m \\u202e | `"
    text = shipped_scenarios()["case-study"].read_text(encoding="utf-8")
    text = text.replace('name = "case-study"', f'name = "{nasty}"', 1)
    path = tmp_path / "nasty.toml"
    path.write_text(text, encoding="utf-8")
    for form in ("table", "json", "csv", "md"):
        code, out, err = run(["plan", str(path), "--format", form], capsys, monkeypatch)
        assert (code, err) == (0, "")
        assert "\x1b" not in out
        assert "\u202e" not in out
        if form == "csv":
            assert next(csv.DictReader(io.StringIO(out)))["scenario"].startswith("'=")
        if form == "md":
            assert "<script>" not in out


def test_what_only_a_fleet_follows_is_refused_elsewhere_and_planned_by_plan(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    power = ["--set", "power_cap_w=90000", "--set", "cluster.local.power_w_per_gpu=500"]
    code, out, err = run(["compare", "--set", "slo.ttft_s=3", "--set", "power_cap_w=50000"], capsys, monkeypatch)
    assert (code, out) == (2, "")
    assert "slo.ttft_s" in err
    assert "power_cap_w" in err
    assert "fleet" in err
    code, out, _ = run(["plan", *power, "--format", "json"], capsys, monkeypatch)
    assert code == 0
    assert json.loads(out)["power_w"] <= 90_000


def test_size_names_what_is_missing_or_wrong(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, err = run(["size"], capsys, monkeypatch)
    assert code == 2
    assert "--target-rps" in err
    code, _, err = run(["size", "--target-rps", "5"], capsys, monkeypatch)
    assert code == 2
    assert "cluster.prfaas.price_usd_per_gpu_hour" in err
    code, _, err = run(["size", "--target-rps", "5", "--minimize", "gpus", "--gap", "2"], capsys, monkeypatch)
    assert code == 2
    assert "--gap" in err
    code, _, err = run(["plan", "multi-region", "--set", "budget_usd_per_hour=400"], capsys, monkeypatch)
    assert code == 3
    assert "budget" in err


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("prfaas-plan kv qwen3-ne", "qwen3-next-80b-a3b"),
        ("prfaas-plan plan day", "day-night"),
        ("prfaas-plan roofline qwen3-8b h200-s", "h200-sxm"),
        ("prfaas-plan profiles show mi300", "mi300x"),
        ("prfaas-plan plan --model kimi-linear-4", "kimi-linear-48b-a3b"),
        ("prfaas-plan rou", "routing"),
    ],
)
def test_a_shell_completes_commands_scenarios_and_profiles(typed: str, offered: str) -> None:
    asked = {"_PRFAAS_PLAN_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": typed}
    code = "import sys; sys.argv = ['prfaas-plan']; from prfaas_plan.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | asked, capture_output=True, text=True, check=False, timeout=60
    )
    assert offered in done.stdout


@pytest.mark.parametrize("command", [["sweep", "--vary", "link.0.bandwidth_gbps=10,100"], ["verify"], ["compare"]])
def test_every_result_can_be_a_workbook_or_a_page(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    book, page = tmp_path / "result.xlsx", tmp_path / "result.html"
    assert run([*command, "-o", str(book)], capsys, monkeypatch)[0] == 0
    assert run([*command, "-o", str(page)], capsys, monkeypatch)[0] == 0
    with zipfile.ZipFile(book) as parts:
        assert parts.read("xl/worksheets/sheet1.xml").count(b"<row ") > 2
    assert "<table" in page.read_text(encoding="utf-8")
