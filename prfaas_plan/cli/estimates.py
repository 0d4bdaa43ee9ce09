"""Commands that estimate or calibrate times: roofline, estimate, calibrate."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from prfaas_plan.cli.completion import accelerators, models
from prfaas_plan.cli.options import FormatOption, OutputOption, ProfilesOption, read_counts
from prfaas_plan.cli.output import Format, Output, emit, emit_text

__all__ = ["calibrate", "estimate", "roofline"]


def roofline(
    model: Annotated[str, typer.Argument(help="A model profile, or a path to config.json.", autocompletion=models)],
    accelerator: Annotated[str, typer.Argument(help="A hardware profile.", autocompletion=accelerators)],
    gpus: Annotated[int, typer.Option("--gpus", help="Accelerators of one instance.")] = 8,
    tp: Annotated[int | None, typer.Option("--tp", help="Tensor-parallel ranks; default: what is left.")] = None,
    ep: Annotated[int, typer.Option("--ep", help="Ranks the experts are divided over.")] = 1,
    dp: Annotated[int, typer.Option("--dp", help="Attention groups with sequences of their own.")] = 1,
    pp: Annotated[int, typer.Option("--pp", help="Pipeline stages.")] = 1,
    cp: Annotated[int, typer.Option("--cp", help="Ranks that share one prompt.")] = 1,
    weights_dtype: Annotated[str | None, typer.Option("--weights-dtype", help="Default: the checkpoint's.")] = None,
    kv_dtype: Annotated[str | None, typer.Option("--kv-dtype", help="Default: the model's.")] = None,
    engine: Annotated[str, typer.Option("--engine", help="Serving engine.")] = "sglang",
    request_overhead_s: Annotated[
        float | None, typer.Option("--request-overhead-s", help="Fixed seconds of one prefill request.")
    ] = None,
    lengths: Annotated[str, typer.Option("--lengths", help="Prompt lengths.")] = "1Ki,8Ki,32Ki,128Ki",
    batches: Annotated[str, typer.Option("--batches", help="Decode batches.")] = "1,8,32,128",
    contexts: Annotated[str, typer.Option("--contexts", help="Decode contexts.")] = "4Ki,32Ki",
    tpot: Annotated[str, typer.Option("--tpot", help="Time per output token to meet.")] = "50 ms",
    form: FormatOption = None,
    output: OutputOption = None,
    profiles: ProfilesOption = None,
) -> None:
    """Estimate prefill and decode times, what they are spent on, and the best way to divide an instance.

    Example: prfaas-plan roofline deepseek-v3 h200 --lengths 8k,64k --tpot '25 ms'
    """
    from prfaas_plan.catalog import load_hardware, load_model
    from prfaas_plan.deployment import Deployment
    from prfaas_plan.reports.roofline import report_roofline
    from prfaas_plan.roofline_table import roofline as tabulate
    from prfaas_plan.units import parse

    folders = profiles or ()
    deployment = Deployment(
        load_model(model, folders),
        load_hardware(accelerator, folders),
        gpus,
        tp,
        ep,
        dp,
        pp,
        cp,
        weights_dtype,
        kv_dtype,
        engine,
        request_overhead_s,
    )
    table = tabulate(
        deployment,
        read_counts(lengths, "--lengths"),
        read_counts(batches, "--batches"),
        read_counts(contexts, "--contexts"),
        parse(tpot, "s", where="--tpot"),
    )
    emit("roofline", table.to_dict(), report_roofline(table), Output(form, output))


def estimate(
    file: Annotated[Path, typer.Argument(help="A CSV table of cases.")],
    form: FormatOption = None,
    output: OutputOption = None,
    profiles: ProfilesOption = None,
) -> None:
    """Estimate prefill and decode times for a table of cases, in the same rows and order.

    Columns: id, model, accelerator, gpus, tp, ep, dp, pp, cp, weights_dtype, kv_dtype, phase (prefill or decode),
    batch, input_tokens, cached_tokens, chunk_tokens, engine, request_overhead_s. Others pass through.

    Example: prfaas-plan estimate cases.csv --output times.csv
    """
    from prfaas_plan.estimates import estimate_csv, read_answers
    from prfaas_plan.files import read_text
    from prfaas_plan.reports.roofline import report_estimates

    answered = estimate_csv(read_text(file), str(file), profiles or ())
    wanted = Output(form, output)
    if wanted.format is Format.csv:
        emit_text(answered, output)
        return
    rows = read_answers(answered)
    emit("estimate", {"rows": rows}, report_estimates(rows), wanted)


def calibrate(
    benchmarks: Annotated[list[Path], typer.Argument(help="Benchmark outputs, as their tools write them.")],
    model: Annotated[str | None, typer.Option("--model", help="Model profile of the run.")] = None,
    accelerator: Annotated[
        str | None, typer.Option("--accelerator", help="Hardware profile of the run.", autocompletion=accelerators)
    ] = None,
    gpus: Annotated[int | None, typer.Option("--gpus", help="Accelerators of the measured instance.")] = None,
    parallelism: Annotated[str | None, typer.Option("--parallelism", help="Such as 'TP8' or 'TP4 EP8'.")] = None,
    precision: Annotated[str | None, typer.Option("--precision", help="Such as 'fp8 weights, bf16 KV'.")] = None,
    engine: Annotated[str | None, typer.Option("--engine", help="Engine and version.")] = None,
    date: Annotated[str | None, typer.Option("--date", help="When it was measured, YYYY-MM-DD.")] = None,
    input_tokens: Annotated[float | None, typer.Option("--input-tokens", help="Prompt length of the run.")] = None,
    output_tokens: Annotated[float | None, typer.Option("--output-tokens", help="Answer length of the run.")] = None,
    concurrency: Annotated[float | None, typer.Option("--concurrency", help="Requests in flight.")] = None,
    context: Annotated[float | None, typer.Option("--context", help="Mean decode context to keep.")] = None,
    accept: Annotated[
        list[str] | None,
        typer.Option("--accept", help="Flag runs that break this rule, do not refuse them. Repeatable."),
    ] = None,
    form: FormatOption = None,
    output: OutputOption = None,
    profiles: ProfilesOption = None,
) -> None:
    """Fit a measured profile, for use in scenarios, to the results of benchmark tools.

    With --output FILE.toml the profile is written there and the findings go to the terminal.

    Example: prfaas-plan calibrate run.json --model qwen3-32b --accelerator h100 --gpus 4 --parallelism TP4
    --precision 'bf16 weights, bf16 KV' --output mine.toml
    """
    from prfaas_plan.calibration.calibrate import calibrate as fit
    from prfaas_plan.calibration.setup import Setup
    from prfaas_plan.reports.calibrate import report_calibration

    setup = Setup(
        model=model,
        accelerator=accelerator,
        gpus_per_instance=gpus,
        parallelism=parallelism,
        precision=precision,
        engine=engine,
        date=date,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        concurrency=concurrency,
        context_tokens=context,
        accept=tuple(accept or ()),
    )
    result = fit(benchmarks, setup, profiles=profiles or ())
    if output is not None and output.suffix.lower() == ".toml":
        emit_text(result.to_toml(), output)
        sys.stderr.write(f"wrote {output}\n")
        output = None
    emit("calibrate", result.to_dict(), report_calibration(result), Output(form, output))
