"""The package as a library: light to import, typed, immutable, and documented by examples that run."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pytest

import prfaas_plan as pp
from prfaas_plan.as_mapping import mapping_of
from prfaas_plan.errors import ScenarioError
from prfaas_plan.scenario import scenario_from_mapping, shipped_scenarios

PAGE = Path(__file__).resolve().parent.parent / "docs" / "library.md"


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_importing_the_package_imports_nothing_else() -> None:
    loaded = run("import sys; before = set(sys.modules); import prfaas_plan; print(set(sys.modules) - before)")
    assert set(re.findall(r"'([^']+)'", loaded)) <= {"prfaas_plan", "__future__", "types"}


def test_every_public_name_is_there_and_says_what_it_does() -> None:
    for name in pp.__all__:
        if name == "__version__":
            continue
        assert getattr(pp, name).__doc__, name
    assert set(pp.__all__) <= set(dir(pp))
    with pytest.raises(AttributeError, match="no attribute 'sweeep'"):
        pp.sweeep  # noqa: B018


def test_functions_keep_their_names_when_their_modules_are_imported() -> None:
    code = (
        "import pkgutil, prfaas_plan as pp;"
        "[__import__(m.name) for m in pkgutil.walk_packages(pp.__path__, 'prfaas_plan.')"
        " if not m.name.endswith('__main__')];"
        "print(callable(pp.report), callable(pp.simulate), callable(pp.estimate))"
    )
    assert run(code).split() == ["True", "True", "True"]


@pytest.mark.parametrize("name", shipped_scenarios())
def test_a_scenario_written_out_and_read_again_is_the_same(name: str) -> None:
    scenario = pp.load_scenario(name)
    again = scenario_from_mapping(mapping_of(scenario), scenario.where)
    assert dataclasses.replace(again, measured=scenario.measured) == scenario


def test_replace_changes_one_key_and_leaves_the_scenario() -> None:
    scenario = pp.load_scenario()
    changed = scenario.replace("link.0.bandwidth_gbps", "10 Gbit/s").replace("workload.input_tokens.mu", 9)
    assert (changed.link[0].bandwidth_gbps, changed.workload.law.mu) == (10.0, 9.0)  # type: ignore[union-attr]
    assert scenario == pp.load_scenario()
    assert dataclasses.replace(scenario.replace("link.0.bandwidth_gbps", 100), overridden=()) == scenario


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("cluster.locall.instances", 8, "did you mean 'local'"),
        ("cluster.local.instances", 1.5, "whole number"),
        ("cluster.local.instance", 8, "did you mean 'instances'"),
        ("slo.tpot_s", 0.03, "give either tpot_s or tokens_per_second"),
        ("link.7.efficiency", 0.9, "no element '7'"),
    ],
)
def test_replace_refuses_what_a_file_may_not_say(path: str, value: object, words: str) -> None:
    with pytest.raises(ScenarioError, match=re.escape(words)):
        pp.load_scenario().replace(path, value)


def test_replace_keeps_the_lengths_of_a_trace(tmp_path: Path) -> None:
    law = pp.Empirical.of([100, 2000, 30_000])
    scenario = dataclasses.replace(pp.load_scenario(), workload=pp.Workload(law, 512))
    changed = scenario.replace("link.0.bandwidth_gbps", 5)
    assert changed.workload is not None
    assert changed.workload.law == law


def test_results_are_immutable_and_show_themselves() -> None:
    found = pp.plan(pp.load_scenario())
    assert repr(found) == (
        "<Plan case-study (prfaas-pd): 3.248 req/s, threshold 19,418 tokens; 4×8 h200-sxm prefill + 3×8 h20-96gb-sxm "
        "prefill + 5×8 h20-96gb-sxm decode; limited by prefill at prfaas and prefill at local>"
    )
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.lambda_max_rps = 5.0  # type: ignore[misc]
    assert "3.248" in found._repr_html_()
    (row,) = found.to_rows()
    assert row["ttft_s_p90"] == found.ttft_s.p90
    assert not any(isinstance(value, (dict, list)) for value in row.values())


def test_a_comparison_has_one_row_a_deployment() -> None:
    result = pp.compare(pp.load_scenario())
    assert [row["name"] for row in result.to_rows()] == ["prfaas-pd", "homogeneous-pd", "naive-heterogeneous-pd"]
    assert "homogeneous-pd 2.1" in repr(result)


def test_names_cannot_become_markup_in_a_notebook() -> None:
    scenario = dataclasses.replace(pp.load_scenario(), name="<script>alert(1)</script>")
    shown = pp.plan(scenario)._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown


def test_the_examples_are_well_typed(tmp_path: Path) -> None:
    api = pytest.importorskip("mypy.api", reason="mypy is not installed")
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert blocks
    for index, body in enumerate(blocks):
        (tmp_path / f"example_{index}.py").write_text(body, encoding="utf-8")
    shown, errors, code = api.run(["--strict", "--cache-dir", str(tmp_path / "cache"), str(tmp_path)])
    assert code == 0, shown + errors


def test_every_result_shows_itself_and_gives_rows() -> None:
    table = pp.kv("kimi-linear-48b-a3b", [8192, 131072])
    assert repr(table).startswith("<KvTable model kimi-linear-48b-a3b")
    assert [row["length_tokens"] for row in table.to_rows()] == [8192, 131072]
    simulated = pp.simulate(pp.load_scenario(), 0.5, requests=200, replications=2)
    assert repr(simulated).startswith("<SimulationResult")
    assert len(simulated.to_rows()) == 1
    fleet = pp.size(pp.load_scenario(), 3.0, minimize="gpus")
    assert repr(fleet).startswith("<FleetPlan scenario case-study")
    assert "case-study" in fleet._repr_html_()


def test_every_question_takes_a_scenario_its_name_or_its_path() -> None:
    path = shipped_scenarios()["case-study"]
    for asked in ("case-study", path, pp.load_scenario("case-study")):
        assert pp.plan(asked).threshold_tokens == 19418
        assert pp.size(asked, 5.0, minimize="gpus").gpus > 0
    assert pp.compare("case-study").homogeneous is not None
    assert pp.fleet_plan("case-study").gap_fraction <= 1e-4
    with pytest.raises(pp.errors.InputError):
        pp.plan("no-such-scenario")


def test_a_scenario_made_in_code_is_checked_as_its_file_would_be() -> None:
    wrong = dataclasses.replace(
        pp.load_scenario("case-study"),
        where="",
        link=(pp.Link("prfaas", "local", bandwidth_gbps=-5.0),),
        slo=pp.Slo(tokens_per_second=0.0),
    )
    with pytest.raises(ScenarioError) as caught:
        pp.plan(wrong)
    assert {fault.key for fault in caught.value.faults} == {"link.0.bandwidth_gbps", "slo.tokens_per_second"}
