"""What the documents show is what the program prints; ``UPDATE_DOCS=1`` writes the shown output anew."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from prfaas_plan.cli import main

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> Iterator[tuple[Path, str]]:
    for page in PAGES:
        for match in BLOCK.finditer(page.read_text(encoding="utf-8")):
            if match[1] == language:
                yield page, match[2]


def run(command: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a command line of the program; the only pipe it may have is into ``head -N`` or ``tail -N``."""
    command, end, count = re.fullmatch(r"(.+?)(?: \| (head|tail) -(\d+))?", command).groups()  # type: ignore[union-attr]
    words = shlex.split(command)
    assert words[0] == "prfaas-plan"
    monkeypatch.setattr("sys.argv", words)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(ROOT)
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        main()
    lines = out.getvalue().splitlines(keepends=True)
    return "".join(lines[: int(count)] if end == "head" else lines[-int(count or 0) :])


def parametrised(language: str) -> list[object]:
    return [pytest.param(page, body, id=f"{page.stem}-{i}") for i, (page, body) in enumerate(blocks(language))]


@pytest.mark.parametrize(("page", "body"), parametrised("console"))
def test_shown_output_is_real(page: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    command, _, shown = body.partition("\n")
    assert command.startswith("$ "), "a console block starts with one command"
    printed = run(command[2:], monkeypatch)
    if os.environ.get("UPDATE_DOCS"):
        text = page.read_text(encoding="utf-8")
        page.write_text(
            text.replace(f"```console\n{body}```", f"```console\n{command}\n{printed}```"), encoding="utf-8"
        )
        return
    assert shown == printed


@pytest.mark.parametrize(("page", "body"), parametrised("python"))
def test_python_examples_run(page: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(body, str(page), "exec"), {"__name__": "example"})


@pytest.mark.parametrize(("page", "body"), parametrised("toml"))
def test_toml_examples_parse(page: Path, body: str) -> None:
    assert tomllib.loads(body)


def test_readme_has_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in ("plan", "test"):
        assert re.search(rf"<!-- command: {name} -->\n```sh\n.+\n```", text)


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
