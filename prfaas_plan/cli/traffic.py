"""Commands about traffic: trace, link, simulate."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prfaas_plan.cli.completion import accelerators
from prfaas_plan.cli.options import (
    FormatOption,
    OutputOption,
    ProfilesOption,
    ScenarioArgument,
    SetOption,
    read_counts,
)
from prfaas_plan.cli.output import Output, emit, emit_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prfaas_plan.numerics import Curve
    from prfaas_plan.simulation.settings import Failure, LinkEpisode
    from prfaas_plan.trace.records import Columns

__all__ = ["link", "simulate", "trace"]


def trace(
    file: Annotated[Path, typer.Argument(help="A request trace: JSONL, JSON or CSV, plain or .gz.")],
    input_column: Annotated[str | None, typer.Option("--input-column", help="Column of the input length.")] = None,
    output_column: Annotated[str | None, typer.Option("--output-column", help="Column of the output length.")] = None,
    time_column: Annotated[str | None, typer.Option("--time-column", help="Column of the arrival time.")] = None,
    time_unit: Annotated[str | None, typer.Option("--time-unit", help="s, ms, us, ns or date.")] = None,
    pools: Annotated[str, typer.Option("--pools", help="Prefix pool sizes to evaluate [GB].")] = "10,100,1000",
    model: Annotated[str | None, typer.Option("--model", help="Model whose cache fills the pools.")] = None,
    checkpoint: Annotated[
        str | None, typer.Option("--checkpoint", help="Keep recurrent state every so many tokens (hybrid models).")
    ] = None,
    workload: Annotated[
        str | None,
        typer.Option("--workload", help="Print a [workload] block instead: histogram, lognormal, mixture or trace."),
    ] = None,
    uncached: Annotated[bool, typer.Option("--uncached", help="In that block, what a full cache leaves.")] = False,
    form: FormatOption = None,
    output: OutputOption = None,
    profiles: ProfilesOption = None,
) -> None:
    """Say what a request trace holds: lengths, arrivals, prefix reuse, a fitted law, rows dropped.

    With --model, also how much of it prefix pools of several sizes would hit.

    Example: prfaas-plan trace requests.csv --input-column prompt --time-column t --time-unit s
    """
    from prfaas_plan.reports.trace import report_trace
    from prfaas_plan.trace.files import read_trace
    from prfaas_plan.trace.pools import pools_of, read_sizes
    from prfaas_plan.trace.stats import read_block_law, trace_stats, workload_block
    from prfaas_plan.units import parse_tokens

    read = read_trace(file, _columns(input_column, output_column, time_column, time_unit))
    if workload is not None:
        emit_text(workload_block(read, read_block_law(workload), "infinite" if uncached else "none"), output)
        return
    data = trace_stats(read).to_dict()
    if model is not None:
        every = None if checkpoint is None else parse_tokens(checkpoint, where="--checkpoint")
        found = pools_of(read, model, read_sizes(pools), every, profiles or ())
        data["prefix"]["by_pool"] = [row.to_dict() for row in found]
    emit("trace", data, report_trace(file.name, data), Output(form, output))


def _columns(
    input_column: str | None, output_column: str | None, time_column: str | None, time_unit: str | None
) -> Columns | None:
    from prfaas_plan.errors import Fault, InputError
    from prfaas_plan.trace.records import Columns

    if input_column is None:
        if output_column or time_column or time_unit:
            raise InputError(Fault("--input-column", "", "missing; a column map needs the column of the input length"))
        return None
    return Columns(input=input_column, output=output_column, timestamp=time_column, timestamp_unit=time_unit)


def link(
    bandwidth: Annotated[str, typer.Argument(help="Nominal rate, e.g. '100 Gbit/s'; a bare number is Gbit/s.")],
    rtt: Annotated[str, typer.Option("--rtt", help="Round trip.")] = "10 ms",
    loss: Annotated[float, typer.Option("--loss", help="Share of packets lost.")] = 0.0,
    connections: Annotated[int, typer.Option("--connections", help="Parallel connections.")] = 64,
    congestion: Annotated[str, typer.Option("--congestion", help="reno, cubic, bbr or bbr1.")] = "cubic",
    mtu: Annotated[int, typer.Option("--mtu", help="Largest IP packet [B].")] = 1500,
    window: Annotated[str | None, typer.Option("--window", help="Largest window of a connection, e.g. 64MiB.")] = None,
    host: Annotated[float, typer.Option("--host", help="Share of the line the end hosts reach.")] = 1.0,
    needed: Annotated[str | None, typer.Option("--needed", help="Rate you need: what loss and RTT leave it?")] = None,
    model: Annotated[str | None, typer.Option("--model", help="Fetch its KV cache, or recompute it?")] = None,
    accelerator: Annotated[
        str | None, typer.Option("--accelerator", help="Where it would be recomputed.", autocompletion=accelerators)
    ] = None,
    gpus: Annotated[int, typer.Option("--gpus", help="Accelerators of that instance.")] = 8,
    lengths: Annotated[str, typer.Option("--lengths", help="Prefix lengths.")] = "8Ki,32Ki,128Ki",
    form: FormatOption = None,
    output: OutputOption = None,
    profiles: ProfilesOption = None,
) -> None:
    """Say what a network path carries, how many connections it takes, and what loss and distance it stands.

    With --model, also whether fetching the KV cache of a prefix beats computing it again.

    Example: prfaas-plan link 100 --rtt '30 ms' --loss 1e-5 --connections 256 --mtu 9000 --needed 13
    """
    from prfaas_plan.link import Path as NetworkPath
    from prfaas_plan.link import Transport
    from prfaas_plan.link_table import link as answer
    from prfaas_plan.reports.link import report_link
    from prfaas_plan.units import GBPS, parse

    path = NetworkPath(
        parse(bandwidth, "Gbit/s", where="BANDWIDTH") * GBPS, parse(rtt, "s", where="--rtt"), loss, mtu, 0, host
    )
    largest = math.inf if window is None else parse(window, "B", where="--window")
    wanted = None if needed is None else parse(needed, "Gbit/s", where="--needed") * GBPS
    curves = None if model is None else _curves(model, accelerator, gpus, profiles or [])
    asked = read_counts(lengths, "--lengths") if model is not None else []
    table = answer(path, Transport(congestion, connections, largest), wanted, curves, asked)
    emit("link", table.to_dict(), report_link(table), Output(form, output))


def _curves(model: str, accelerator: str | None, gpus: int, profiles: list[Path]) -> tuple[Curve, Curve]:
    from prfaas_plan.catalog import load_model
    from prfaas_plan.errors import Fault, InputError
    from prfaas_plan.kv_cache import wire_curve
    from prfaas_plan.services import prefill_of

    profile = load_model(model, profiles)
    prefill = prefill_of(profile, (accelerator, gpus) if accelerator is not None else None, profiles)
    if prefill is None:
        raise InputError(Fault("--accelerator", "", "missing; no prefill time of this model is known", model))
    return wire_curve(profile), prefill.seconds


def simulate(
    scenario: ScenarioArgument = "case-study",
    rps: Annotated[float | None, typer.Option("--rps", help="Request rate [req/s]; default: the workload's.")] = None,
    override: SetOption = None,
    policy: Annotated[
        str,
        typer.Option(
            "--policy", help="static, bandwidth-aware, all-remote, all-local, least-loaded, earliest-finish, or 'all'."
        ),
    ] = "static",
    requests: Annotated[int, typer.Option("--requests", help="Requests of one replication.")] = 20_000,
    replications: Annotated[int, typer.Option("--replications", help="Independent repetitions.")] = 5,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same result.")] = 1,
    arrivals: Annotated[str, typer.Option("--arrivals", help="poisson, gamma, hyperexponential or trace.")] = "poisson",
    arrival_cv: Annotated[float, typer.Option("--arrival-cv", help="Variation of the gaps; 1 is Poisson.")] = 1.0,
    trace_file: Annotated[Path | None, typer.Option("--trace", help="Replay the requests of a trace.")] = None,
    transfer: Annotated[str, typer.Option("--transfer", help="serial, or overlapped layer by layer.")] = "serial",
    layers: Annotated[int | None, typer.Option("--layers", help="Layers sent one by one when overlapped.")] = None,
    episode: Annotated[
        list[str] | None, typer.Option("--episode", metavar="START:END:GBPS", help="A slow link. Repeatable.")
    ] = None,
    failure: Annotated[
        list[str] | None,
        typer.Option("--failure", metavar="CLUSTER:ROLE:N:START:END", help="Instances gone. Repeatable."),
    ] = None,
    time_line: Annotated[Path | None, typer.Option("--time-line", help="Write the time line to a CSV file.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
    form: FormatOption = None,
    output: OutputOption = None,
    profiles: ProfilesOption = None,
) -> None:
    """Simulate the planned deployment request by request: stability, latency under load, what a policy saves.

    Example: prfaas-plan simulate case-study --rps 2.8 --policy all --episode 600:1200:5
    """
    from prfaas_plan.cli.progress import progress_bar
    from prfaas_plan.reports.simulation import report_policies, report_simulation
    from prfaas_plan.scenario import load_scenario
    from prfaas_plan.simulation.settings import POLICIES
    from prfaas_plan.simulation.simulate import compare_policies
    from prfaas_plan.simulation.simulate import simulate as run
    from prfaas_plan.trace.files import read_trace

    loaded = load_scenario(scenario, override or ())
    read = None if trace_file is None else read_trace(trace_file)
    settings: dict[str, Any] = {
        "requests": requests if read is None else read.requests,
        "replications": replications if read is None else 1,
        "seed": seed,
        "arrivals": arrivals if read is None else "trace",
        "arrival_cv": arrival_cv,
        "trace": read,
        "transfer": transfer,
        "layers": layers,
        "episodes": tuple(_episodes(episode or [])),
        "failures": tuple(_failures(failure or [])),
    }
    folders = profiles or ()
    with progress_bar("simulating", quiet=quiet) as report:
        if policy == "all":
            compared = compare_policies(loaded, rps, POLICIES, profiles=folders, progress=report, **settings)
            first = compared.results[0]
        else:
            first = run(loaded, rps, profiles=folders, progress=report, policy=policy, **settings)
    if time_line is not None:
        emit_text(first.time_line_csv(), time_line)
        sys.stderr.write(f"wrote {time_line}\n")
    if policy == "all":
        emit("simulate", compared.to_dict(), report_policies(compared), Output(form, output))
    else:
        emit("simulate", first.to_dict(), report_simulation(first), Output(form, output))


def _episodes(written: list[str]) -> Iterator[LinkEpisode]:
    from prfaas_plan.simulation.settings import LinkEpisode

    for text in written:
        start, end, rate = _numbers(text.split(":"), 3, "--episode", "START:END:GBPS", text)
        yield LinkEpisode(start, end, rate)


def _failures(written: list[str]) -> Iterator[Failure]:
    from prfaas_plan.errors import Fault, InputError
    from prfaas_plan.simulation.settings import Failure

    for text in written:
        cluster, _, rest = text.partition(":")
        role, _, rest = rest.partition(":")
        count, start, end = _numbers(rest.split(":"), 3, "--failure", "CLUSTER:ROLE:N:START:END", text)
        if count != round(count):
            raise InputError(Fault("--failure", "", "expected a whole number of instances", text))
        yield Failure(cluster, role, round(count), start, end)


def _numbers(parts: list[str], count: int, option: str, form: str, text: str) -> list[float]:
    from prfaas_plan.errors import Fault, InputError

    try:
        found = [float(part) for part in parts]
    except ValueError:
        found = []
    if len(found) != count or not all(math.isfinite(x) for x in found):
        raise InputError(Fault(option, "", f"expected {form} in seconds", text))
    return found
