"""Commands about what-if questions: sweep, report, schema."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prfaas_plan.cli.options import FormatOption, OutputOption, ProfilesOption, ScenarioArgument, SetOption
from prfaas_plan.cli.output import Format, Output, emit, emit_text

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from contextlib import AbstractContextManager

__all__ = ["report", "schema", "sweep"]


def sweep(
    scenario: ScenarioArgument = "case-study",
    vary: Annotated[
        list[str] | None,
        typer.Option("--vary", metavar="PATH=SPEC", help="a,b,c or start:stop:count[:log] or names. Repeatable."),
    ] = None,
    override: SetOption = None,
    zipped: Annotated[bool, typer.Option("--zip", help="Go through the values together, not in every way.")] = False,
    tornado: Annotated[
        bool, typer.Option("--tornado", help="One input at a time; without --vary, all by 20 %.")
    ] = False,
    draws: Annotated[
        int, typer.Option("--monte-carlo", min=0, help="Draw so many cases; SPEC is then normal(…), triangular(…), ….")
    ] = 0,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the draws.")] = 0,
    pareto: Annotated[
        str | None,
        typer.Option(
            "--pareto", metavar="X,Y", help="Keep the cases no other beats in both, e.g. gpus,lambda_max_rps."
        ),
    ] = None,
    plot: Annotated[str, typer.Option("--plot", metavar="RESULT", help="Result to plot.")] = "lambda_max_rps",
    fast: Annotated[
        bool, typer.Option("--fast", help="Evaluate all cases together (1e-12), for a million cases.")
    ] = False,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Processes to plan in, up to one a core.")] = 1,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
    form: FormatOption = None,
    output: OutputOption = None,
    profiles: ProfilesOption = None,
) -> None:
    """Plan many variants of a scenario: a table of what-ifs, one input at a time, or draws from what is believed.

    Example: prfaas-plan sweep --vary link.0.bandwidth_gbps=1:100:9:log --vary workload.output_tokens=256,1024
    """
    from prfaas_plan.cli.progress import progress_bar
    from prfaas_plan.reports.sweeps import report_monte_carlo, report_sweep, report_tornado
    from prfaas_plan.scenario import load_scenario
    from prfaas_plan.whatif.sweeps import monte_carlo
    from prfaas_plan.whatif.sweeps import pareto as front
    from prfaas_plan.whatif.sweeps import sweep as run
    from prfaas_plan.whatif.sweeps import tornado as one_at_a_time

    base, folders, wanted = load_scenario(scenario, override or ()), profiles or (), Output(form, output)
    varied = vary or []
    _alone({"--tornado": tornado, "--monte-carlo": draws > 0, "--pareto": pareto is not None})
    _alone({"--tornado": tornado, "--monte-carlo": draws > 0, "--zip": zipped})
    if tornado:
        bars = one_at_a_time(base, varied, metric=plot, profiles=folders)
        emit("sweep", bars.to_dict(), report_tornado(bars), wanted)
        return
    if draws:
        with _pool(jobs) as executor:
            drawn = monte_carlo(base, varied, samples=draws, seed=seed, fast=fast, executor=executor, profiles=folders)
        emit("sweep", drawn.to_dict(), report_monte_carlo(drawn), wanted)
        return
    if not varied:
        from prfaas_plan.errors import Fault, InputError

        raise InputError(Fault("--vary", "", "missing; expected PATH=SPEC, such as link.0.bandwidth_gbps=10,100"))
    with progress_bar("planning", quiet=quiet) as shown, _pool(jobs) as executor:
        mode = "zip" if zipped else "grid"
        result = run(base, varied, mode=mode, fast=fast, executor=executor, progress=shown, profiles=folders)
    if pareto is not None:
        result = front(result, *_two(pareto))
    document = report_sweep(result, y=plot, every_case=wanted.format is Format.csv or wanted.as_file == ".xlsx")
    emit("sweep", result.to_dict() if wanted.format is Format.json else {}, document, wanted)


def _alone(given: dict[str, bool]) -> None:
    from prfaas_plan.errors import Fault, InputError

    names = [name for name, is_given in given.items() if is_given]
    if len(names) > 1:
        raise InputError(Fault(names[0], "", f"does not go together with {names[1]}"))


def _two(pareto: str) -> tuple[str, str]:
    from prfaas_plan.errors import Fault, InputError

    names = [name.strip() for name in pareto.split(",")]
    if len(names) != 2 or not all(names):
        raise InputError(Fault("--pareto", "", "expected two results, such as gpus,lambda_max_rps", pareto))
    return names[0], names[1]


def _pool(jobs: int) -> AbstractContextManager[Executor | None]:
    import os
    from contextlib import nullcontext

    if jobs <= 1:
        return nullcontext()
    from concurrent.futures import ProcessPoolExecutor

    return ProcessPoolExecutor(min(jobs, os.cpu_count() or 1))


def report(
    scenario: ScenarioArgument = "case-study",
    output: Annotated[Path, typer.Option("--output", "-o", help="report.xlsx, report.html or report.md.")] = Path(
        "report.html"
    ),
    override: SetOption = None,
    profiles: ProfilesOption = None,
) -> None:
    """Write the what-if report: a workbook that calculates, a page that needs no network, or Markdown.

    Example: prfaas-plan report case-study --output plan.xlsx
    """
    from prfaas_plan.reporting import report as write
    from prfaas_plan.scenario import load_scenario

    written = write(load_scenario(scenario, override or ()), output, profiles=profiles or ())
    sys.stderr.write(f"wrote {written}\n")


def schema(
    name: Annotated[str, typer.Argument(help="scenario, hardware, model, measured or plan.")],
    output: OutputOption = None,
) -> None:
    """Print the JSON Schema of a file, or of the JSON that a command prints.

    Example: prfaas-plan schema scenario
    """
    import json

    from prfaas_plan.json_schema import schema as of

    emit_text(json.dumps(of(name), indent=2, ensure_ascii=False) + "\n", output)
