"""The reference pages are made from the program: its commands and the keys of its files.

``UPDATE_DOCS=1`` writes docs/commands.md and the tables of docs/files.md anew.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import inspect
import io
import json
import math
import os
import re
import shlex
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest
import typer

from prfaas_plan import inventory, laws, measured, model, observed_laws, scenario, workload
from prfaas_plan.blocks import Block, Index
from prfaas_plan.calibration.calibrate import calibrate
from prfaas_plan.calibration.setup import Setup
from prfaas_plan.cli import build_app
from prfaas_plan.efficiency import Efficiency
from prfaas_plan.hardware import HardwareProfile, Price
from prfaas_plan.records import Spec, specs
from prfaas_plan.trace import records as trace_records

DOCS = Path(__file__).resolve().parent.parent / "docs"
WIDTH = 120
APP = build_app()

RECORDS: dict[str, Any] = {
    "scenario": scenario.Scenario,
    "slo": inventory.Slo,
    "kv": scenario.KvSettings,
    "cluster": inventory.Cluster,
    "link": inventory.Link,
    "workload": workload.WorkloadTable,
    "constant": laws.Constant,
    "lognormal": laws.LogNormal,
    "histogram": observed_laws.Histogram,
    "mixture part": workload.MixturePart,
    "trace": workload.TraceInput,
    "columns": trace_records.Columns,
    "demand": inventory.DemandTable,
    "period": inventory.Period,
    "measured": measured.MeasuredProfile,
    "measured prefill": measured.PrefillPoint,
    "measured decode": measured.DecodePoint,
    "hardware": HardwareProfile,
    "hardware price": Price,
    "efficiency": Efficiency,
    "model": model.ModelProfile,
    "weights": model.WeightFormats,
    "kv point": model.KvPoint,
    "index": Index,
}
JSON_OF = (
    "plan",
    "compare",
    "sweep --quiet --vary link.0.bandwidth_gbps=10,100",
    "kv qwen3-8b",
    "roofline qwen3-8b h200 --lengths 8k --batches 8 --contexts 4k",
    "trace tests/data/traces/mooncake.jsonl",
    "link 100",
    "size --quiet --target-rps 3 --minimize gpus",
    "routing --quiet --bandwidth 10",
    "simulate --quiet --rps 2 --requests 500 --replications 2",
    "calibrate tests/data/benchmarks/vllm_sweep.json --accelerator h200 --gpus 8 --parallelism TP8 --precision bf16",
    "profiles show h200-sxm",
    "verify",
)
BLOCKS = {f"block {kind.kind}": kind for kind in get_args(Block)}
MARKED = re.compile(r"<!-- keys: ([\w -]+) -->\n.*?<!-- end -->", re.DOTALL)


def row(*cells: str) -> Iterator[str]:
    """Give the lines of a table row; a last cell that is too long goes on in a row of its own."""
    *first, last = (cell.replace("|", "\\|") for cell in cells)
    room = WIDTH - sum(len(cell) + 3 for cell in first) - 4
    parts = textwrap.wrap(last, room, break_long_words=False, break_on_hyphens=False) or [""]
    yield "| " + " | ".join([*first, parts[0]]) + " |"
    for part in parts[1:]:
        yield "| " + " | ".join([*("" for _ in first), part]) + " |"


def table(*header: str) -> list[str]:
    return ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]


def meaning(spec: Spec) -> str:
    limits = [
        f"{word} {bound:,g}"
        for word, bound in (("at least", spec.at_least), ("above", spec.above), ("at most", spec.at_most))
        if bound is not None and not 0.0 < bound < 1e-6 and bound < 1e5
    ]
    symbol = f"{spec.symbol}: " if spec.symbol else ""
    choices = "; one of " + ", ".join(f"`{c}`" for c in spec.choices) if spec.choices else ""
    return symbol + spec.doc + choices + (f" ({', '.join(limits)})" if limits else "")


def default(field: dataclasses.Field[Any]) -> str:
    value = field.default
    if value is dataclasses.MISSING:
        return "required" if field.default_factory is dataclasses.MISSING else "–"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, float):
        return "`inf`" if math.isinf(value) else f"`{value:g}`"
    return f"`{value}`" if isinstance(value, (str, int)) and value != "" else "–"


def unit(spec: Spec, hint: Any) -> str:
    if spec.kind == "part":
        plural = any(get_origin(kind) in (tuple, dict) for kind in (hint, *get_args(hint)))
        return "tables" if plural else "table"
    listed = any(get_origin(kind) is tuple for kind in (hint, *get_args(hint)))
    return {"number": spec.unit, "flag": "true, false"}.get(spec.kind, "text") + (", list" if listed else "")


def keys(name: str) -> str:
    lines = table("key", "unit", "default", "meaning")
    for key, (field, spec, hint) in specs({**RECORDS, **BLOCKS}[name]).items():
        lines += row(f"`{key}`", unit(spec, hint), default(field), meaning(spec))
    return "\n".join(lines)


def blocks() -> str:
    lines = table("kind", "what it is", "keys (defaults)")
    for kind in get_args(Block):
        found = specs(kind).items()
        listed = ", ".join(
            f"`{k}`" + ("" if default(f) == "required" else f" ({default(f)})") for k, (f, _, _) in found
        )
        what = re.split(r"[:,.]", re.sub(r" \(.*?\)| of `matrices` weight matrices", "", str(kind.__doc__)))[0]
        lines += row(f"`{kind.kind}`", what, listed)
    return "\n".join(lines)


def json_keys() -> str:
    """List the keys of each command's JSON, as it prints them."""
    lines = table("command", "keys beside `schema`")
    for line in JSON_OF:
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
            APP([*shlex.split(line), "--format", "json"])
        printed = json.loads(out.getvalue())
        name = printed.pop("schema").split("/")[1]
        lines += row(f"`{name}`", ", ".join(f"`{key}`" for key in printed))
    return "\n".join(lines)


TABLES = {"blocks": blocks, "json": json_keys}


def generated(page: str) -> str:
    """Give a page with its marked tables made anew."""

    def made(match: re.Match[str]) -> str:
        body = TABLES[match[1]]() if match[1] in TABLES else keys(match[1])
        return f"<!-- keys: {match[1]} -->\n{body}\n<!-- end -->"

    return MARKED.sub(made, page)


@dataclasses.dataclass(frozen=True)
class Parameter:
    """An argument or option of a command, as its function declares it."""

    name: str
    info: Any
    kind: Any
    default: Any

    @property
    def is_argument(self) -> bool:
        return isinstance(self.info, typer.models.ArgumentInfo)

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty

    @property
    def many(self) -> bool:
        return get_origin(self.kind) is list

    @property
    def label(self) -> str:
        if self.is_argument:
            name = (self.info.metavar or self.name).upper().removesuffix("...")
            return name + ("..." if self.many else "")
        declared = [self.info.default, *(self.info.param_decls or ())]
        names = [n for n in declared if isinstance(n, str)] or [f"--{self.name.replace('_', '-')}"]
        return " ".join([", ".join(names), self.placeholder]).strip()

    @property
    def placeholder(self) -> str:
        kind = get_args(self.kind)[0] if self.many else self.kind
        if self.info.metavar or kind is bool:
            return self.info.metavar or ""
        if issubclass(kind, enum.Enum):
            return "|".join(member.value for member in kind)
        return {int: "N", float: "X", Path: "PATH"}.get(kind, "TEXT")

    def row(self) -> Iterator[str]:
        plain = isinstance(self.default, (str, int, float)) and not isinstance(self.default, bool)
        shown = "required" if self.required else f"`{self.default}`" if plain else "–"
        return row(f"`{self.label}`", shown, self.info.help or "")


def commands(program: Any = APP, name: str = "prfaas-plan") -> Iterator[tuple[str, Any]]:
    for command in program.registered_commands:
        yield f"{name} {command.name}", command.callback
    for group in program.registered_groups:
        yield from commands(group.typer_instance, f"{name} {group.name}")


def parameters(function: Any) -> Iterator[Parameter]:
    hints = get_type_hints(function, include_extras=True)
    for name, declared in inspect.signature(function).parameters.items():
        kind, info = get_args(hints[name])
        kinds = [k for k in get_args(kind) if k is not type(None)] if isinstance(kind, types.UnionType) else [kind]
        yield Parameter(name, info, kinds[0], declared.default)


def parts_of_help(function: Any) -> tuple[list[str], list[str]]:
    """Give the paragraphs of a help text, and the command lines of its examples."""
    texts, examples = [], []
    for part in inspect.cleandoc(function.__doc__ or "").split("\n\n"):
        text, *found = " ".join(part.split()).split("Example: ")
        texts += [text.strip()] if text else []
        examples += [line.strip() for line in found]
    return texts, examples


def command_text(name: str, function: Any) -> str:
    texts, examples = parts_of_help(function)
    found = sorted(parameters(function), key=lambda p: not p.is_argument)
    arguments = [p.label if p.required else f"[{p.label}]" for p in found if p.is_argument]
    lines = [f"## {name.removeprefix('prfaas-plan ')}", "", "\n\n".join(wrapped(t) for t in texts)]
    lines += ["", "```text", " ".join([name, *arguments, "[OPTIONS]"]), "```", ""]
    lines += table("argument or option", "default", "meaning")
    for parameter in found:
        lines += parameter.row()
    return "\n".join([*lines, "", "Example:", "", "```sh", *map(command_line, examples), "```"])


def command_line(text: str) -> str:
    """Break a command line that is too long before an option."""
    lines = [""]
    for part in re.split(r" (?=--)", text):
        if lines[-1] and len(lines[-1]) + len(part) > WIDTH - 4:
            lines.append("  " + part)
        else:
            lines[-1] += (" " if lines[-1] else "") + part
    return " \\\n".join(lines)


def wrapped(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


INTRODUCTION = """# Commands

This page is made from the program's own help (`prfaas-plan COMMAND --help`); a test fails when it is out of date.

What holds for all of them:

- A scenario is a TOML file or the name of a shipped one; left out, it is `case-study`.
- Token counts are written `32000`, `32k` (32,000) or `32Ki` (32,768); other quantities may carry a unit (`"25 ms"`).
- The result goes to standard output, everything else to standard error.
- `--output` writes a whole file or leaves the old one. JSON, exit codes and errors: [files.md](files.md).
- `--profiles FOLDER`, or the environment variable `PRFAAS_PLAN_PROFILES`, is searched for profiles first.
- Colours and borders appear on a terminal only; `NO_COLOR` turns the colours off.
- Shell completion: `prfaas-plan --install-completion`.
"""


def commands_page() -> str:
    names = [n.removeprefix("prfaas-plan ") for n, _ in commands()]
    links = [f"[{n}](#{n})".replace(" ", "\u00a0", 1).replace(" ", "-") for n in names]
    listed = wrapped("Commands: " + " · ".join(links)).replace("\u00a0", " ")
    return "\n\n".join([INTRODUCTION + "\n" + listed, *(command_text(n, c) for n, c in commands())]) + "\n"


def check(path: Path, wanted: str) -> None:
    if os.environ.get("UPDATE_DOCS"):
        path.write_text(wanted, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == wanted, f"{path.name} is out of date; UPDATE_DOCS=1 writes it anew"


def test_the_page_of_commands_is_up_to_date() -> None:
    check(DOCS / "commands.md", commands_page())


def test_the_tables_of_keys_are_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DOCS.parent)
    path = DOCS / "files.md"
    check(path, generated(path.read_text(encoding="utf-8")))


def test_every_record_of_a_file_has_its_table() -> None:
    shown = set(MARKED.findall((DOCS / "files.md").read_text(encoding="utf-8")))
    assert shown == {*RECORDS, *TABLES}


@pytest.mark.parametrize(("name", "function"), [pytest.param(n, f, id=n) for n, f in commands()])
def test_every_command_has_an_example_that_its_options_accept(name: str, function: Any) -> None:
    texts, examples = parts_of_help(function)
    assert texts, "a help text says what the command does"
    assert examples, "a help text has an example"
    command = typer.main.get_command(APP)
    for word in name.split()[1:]:
        command = command.commands[word]  # type: ignore[attr-defined]
    for example in examples:
        assert example.startswith(name)
        with command.make_context(name, shlex.split(example)[len(name.split()) :]):
            pass


@pytest.mark.parametrize(("name", "function"), [pytest.param(n, f, id=n) for n, f in commands()])
def test_every_option_says_what_it_is(name: str, function: Any) -> None:
    assert [p.name for p in parameters(function) if not (p.info.help or "").strip()] == []


def test_lines_fit_the_page() -> None:
    for name in ("README", "first-plan", "method", "files", "commands", "cookbook"):
        text = re.sub(r"^```.*?^```$", "", (DOCS / f"{name}.md").read_text(encoding="utf-8"), flags=re.M | re.S)
        assert [line for line in text.splitlines() if len(line) > WIDTH] == [], name


def test_the_first_plan_shows_the_scenario_it_plans() -> None:
    shown = re.search(r"^```toml\n(.*?)^```$", (DOCS / "first-plan.md").read_text(encoding="utf-8"), re.M | re.S)
    assert shown
    assert shown[1] == (DOCS / "examples" / "my-service.toml").read_text(encoding="utf-8")


def test_the_shipped_benchmark_profile_is_what_calibrate_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DOCS.parent)
    setup = Setup(
        accelerator="h200",
        gpus_per_instance=8,
        parallelism="TP8",
        precision="bf16 weights, bf16 KV",
        date="2026-08-01",
    )
    written = calibrate(["tests/data/benchmarks/vllm_sweep.json"], setup).to_toml()
    assert (DOCS / "examples" / "qwen3-8b-h200.toml").read_text(encoding="utf-8") == written


def test_every_page_is_in_the_index() -> None:
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    assert {path.name for path in DOCS.glob("*.md")} - {"README.md"} == set(re.findall(r"\]\(([\w-]+\.md)\)", index))


COMMANDS_IN_TEXT = re.compile(r"(?:^|`)(prfaas-plan (?!COMMAND)[^`\n]+?)(?: \| head -\d+)?(?:`|$)", re.MULTILINE)


def test_commands_in_the_text_can_be_typed() -> None:
    for name in ("README", "first-plan", "method", "files", "cookbook"):
        text = re.sub(r"^```(?!sh).*?^```$", "", (DOCS / f"{name}.md").read_text(encoding="utf-8"), flags=re.M | re.S)
        for line in COMMANDS_IN_TEXT.findall(text):
            command: Any = typer.main.get_command(APP)
            words = shlex.split(line)[1:]
            while hasattr(command, "commands"):
                assert words[0] in command.commands, f"{name}.md: {line}"
                command = command.commands[words.pop(0)]
            if words:
                with command.make_context(line, words):
                    pass
