"""The what-if report as one page: everything is in the file, nothing is fetched, and a panel recomputes the plan."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from prfaas_plan import __version__
from prfaas_plan.plan_record import Plan
from prfaas_plan.reports.document import Document, Table
from prfaas_plan.reports.plan import report_comparison, report_plan
from prfaas_plan.units import show
from prfaas_plan.whatif.tables import WhatIf
from prfaas_plan.writers.cells import cell_text, heading
from prfaas_plan.writers.page_data import OUTPUT_STEP, output_ends, page_data
from prfaas_plan.writers.page_map import fleet_map
from prfaas_plan.writers.page_plots import plots
from prfaas_plan.writers.svg import escaped

__all__ = ["write_document_page", "write_page"]

_SHORT = 28
"""Texts up to this many characters are not broken over lines."""
_HERE = Path(__file__).resolve().parent


def write_page(found: WhatIf) -> str:
    """Write the page of a plan; the same plan gives the same bytes."""
    script = (_HERE / "page.js").read_text(encoding="utf-8")
    return _page(f"{found.plan.scenario}: plan", "\n".join(_body(found)), page_data(found), script)


def write_document_page(document: Document) -> str:
    """Write a document as a page of the same kind, without a panel."""
    parts = [f"<h1>{_name(document.title)}</h1>", *(f"<p>{_name(line)}</p>" for line in document.headline)]
    parts += [_table(table) for table in document.tables]
    if document.notes:
        parts += ["<h2>Notes</h2><ul>", *(f"<li>{_name(note)}</li>" for note in document.notes), "</ul>"]
    return _page(document.title, "\n".join(parts), "{}", "")


def _page(title: str, body: str, data: str, script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    parts = {
        "@TITLE@": escaped(title),
        "@SCRIPT_HASH@": f"sha256-{digest}",
        "@DATA@": data,
        "@SCRIPT@": script,
        "@BODY@": body,
    }
    return "".join(_filled((_HERE / "page.html").read_text(encoding="utf-8"), parts))


def _filled(page: str, parts: Mapping[str, str]) -> Iterator[str]:
    """Put the parts into the template; a text that looks like a placeholder is never replaced."""
    places = sorted((page.index(name), name) for name in parts)
    end = 0
    for start, name in places:
        yield page[end:start]
        yield parts[name]
        end = start + len(name)
    yield page[end:]


def _body(found: WhatIf) -> Iterator[str]:
    plan = found.plan
    yield f"<h1>{_name(plan.scenario)}</h1>"
    if found.scenario.description:
        yield f'<p class="lead">{_name(found.scenario.description)}</p>'
    yield _cards(plan)
    yield "<h2>What to buy</h2>"
    yield f"<p>{_purchase(found)}</p>"
    yield f"<figure>{fleet_map(plan)}</figure>"
    document = report_plan(plan)
    yield _tables(document.tables[:2])
    yield from _why(found)
    yield from _limits(found)
    yield from _certainty(found)
    yield _panel(found)
    yield "<h2>Curves</h2>" + '<div class="plots">'
    for plot in plots(found):
        yield (
            f"<figure><h3>{escaped(plot.title)}</h3>{plot.drawing}<figcaption>{escaped(plot.says)}</figcaption>"
            f"<details><summary>Numbers behind this plot</summary>{_tables(plot.tables)}</details></figure>"
        )
    yield "</div>"
    yield "<h2>How each number came about</h2>"
    yield f"<details><summary>Equations and sources</summary>{_explanation(plan)}</details>"
    yield f'<p class="lead">Written by prfaas-plan {escaped(__version__)}.</p>'


def _name(text: str) -> str:
    return f"<bdi>{escaped(text)}</bdi>"


def _cards(plan: Plan) -> str:
    cards = [(show(plan.lambda_max_rps, "req/s"), "largest rate that is served")]
    if plan.threshold_tokens is not None:
        cards.append(
            (
                f"{plan.threshold_tokens:,} tokens",
                f"threshold: longer prompts ({plan.offloaded_fraction:.0%}) prefill remotely",
            )
        )
    cards.append(
        (show(plan.ttft_s.mean, "s"), f"mean time to first token on idle machines (p90 {show(plan.ttft_s.p90, 's')})")
    )
    cards += [(show(x.used_gbps, "Gbit/s"), f"of {show(x.usable_gbps)} usable across the link") for x in plan.links[:1]]
    if plan.cost_usd_per_hour is not None:
        each = show(plan.usd_per_million_output_tokens, "USD")
        cards.append((show(plan.cost_usd_per_hour, "USD/h"), f"{each} per million output tokens, all GPUs counted"))
    shown = "".join(f'<div class="card"><b>{escaped(a)}</b><span>{escaped(b)}</span></div>' for a, b in cards)
    return f'<div class="cards">{shown}</div>'


def _purchase(found: WhatIf) -> str:
    plan = found.plan
    parts = [
        f"{p.instances} {p.role} instances × {p.gpus_per_instance} {_name(p.accelerator)} = {p.gpus} GPUs "
        f"at {_name(p.cluster)}"
        for p in plan.pools
    ]
    total = f"; {plan.gpus} GPUs in all." if len(plan.pools) > 1 else "."
    link = found.case.link
    if link is not None and math.isfinite(link.bandwidth_gbps):
        needed = show(plan.links[0].used_gbps / link.usable_fraction, "Gbit/s") if plan.links else "0"
        total += f" The link needs {needed} at the largest rate; {show(link.bandwidth_gbps, 'Gbit/s')} are planned."
    return ", ".join(parts) + total


def _why(found: WhatIf) -> Iterator[str]:
    if found.comparison is None:
        return
    document = report_comparison(found.comparison)
    yield "<h2>Why</h2>"
    yield from (f"<p>{escaped(line)}</p>" for line in document.headline)
    yield _tables(document.tables[:1])


def _limits(found: WhatIf) -> Iterator[str]:
    plan = found.plan
    yield "<h2>What limits it</h2>"
    yield f"<p>{_name(plan.bottleneck)}. One more of each, planned anew:</p><ul>"
    for worth in found.worth:
        gain = worth.lambda_max_rps / plan.lambda_max_rps - 1.0
        yield f"<li>{_name(worth.what)}: {show(worth.lambda_max_rps, 'req/s')} ({gain:+.1%})</li>"
    yield "</ul>"
    tables = [t for t in report_plan(plan).tables if t.title.startswith("Next best")]
    yield _tables(tuple(tables))


def _certainty(found: WhatIf) -> Iterator[str]:
    plan = found.plan
    yield "<h2>How sure</h2>"
    if plan.lambda_interval_rps is not None:
        low, high = (show(x, "req/s") for x in plan.lambda_interval_rps)
        yield f"<p>{low} to {high} with every estimated time at either end of its 80 % interval.</p>"
    else:
        yield "<p>No service time is estimated by a roofline: all are measured, or derived from published results.</p>"
    other = plan.other_reading
    readings = {"mean": "mean service time", "at-mean-length": "service time at the mean length"}
    yield (
        f"<p>Capacity is computed from the {readings[plan.service_time]} of each class; the other reading gives "
        f"{show(other.lambda_max_rps, 'req/s')}.</p>"
    )
    yield "<ul>" + "".join(f"<li>{_name(note)}</li>" for note in plan.notes) + "</ul>"


def _tables(tables: tuple[Table, ...]) -> str:
    return "".join(_table(table) for table in tables)


def _table(table: Table) -> str:
    heads = "".join(f'<th scope="col"{_right(c.right)}>{escaped(heading(c))}</th>' for c in table.columns)
    rows = []
    for i, row in enumerate(table.rows):
        cells = "".join(_cell(cell_text(v, c), c.right) for v, c in zip(row, table.columns, strict=True))
        limit = i in table.marked
        rows.append(f'<tr class="limit">{cells}<td class="s">◀ limits</td></tr>' if limit else f"<tr>{cells}</tr>")
    extra = '<th scope="col"></th>' if table.marked else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escaped(table.title)}"><table>'
        f"<caption>{escaped(table.title)}</caption><thead><tr>{heads}{extra}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _cell(text: str, right: bool) -> str:
    kind = "n" if right else "w" if len(text) > _SHORT else "s"
    return f'<td class="{kind}"><bdi>{escaped(text)}</bdi></td>'


def _right(right: bool) -> str:
    return ' class="n"' if right else ""


def _explanation(plan: Plan) -> str:
    return _table(report_plan(plan, explain=True).tables[-1])


def _panel(found: WhatIf) -> str:
    case, best = found.case, found.best
    link = case.link
    gbps = 1e9 if link is None or math.isinf(link.bandwidth_gbps) else link.bandwidth_gbps
    prefill = best.system.local.instances if best.system.local else 0
    remote = case.remote.instances if case.remote else 0
    first, last = case.workload.law.finite_support
    threshold = float(best.threshold or max(first, 1.0))
    output = case.workload.output_tokens
    sliders = [
        _ratio("gbps", "bandwidth of the link", gbps, (min(0.5, gbps / 2 or 0.5), max(1000.0, 2 * gbps))),
        _count("remote", "remote prefill instances", remote, max(12, 3 * remote)),
        _count("prefill", "local prefill instances", prefill, max(16, 3 * prefill)),
        _count(
            "decode", "local decode instances", best.system.decode.instances, max(16, 3 * best.system.decode.instances)
        ),
        _ratio("output", "mean output length", output, output_ends(output), OUTPUT_STEP),
        _ratio("threshold", "length threshold", threshold, (max(1.0, first), max(last, 2.0 * max(1.0, first)))),
        _slider("load", "load, share of the largest rate", 'min="10" max="100" step="1" value="80"'),
    ]
    checked = " checked" if found.scenario.slo.ttft_p90_s is None else ""
    results = "".join(
        f'<div><dt>{label}</dt><dd id="out-{name}">–</dd></div>'
        for name, label in (
            ("rate", "largest rate"), ("threshold", "threshold"), ("bound", "limited by"), ("share", "offloaded"),
            ("offered", "rate at this load"), ("used", "egress at this load"), ("pools", "load of the pools"),
            ("ttft", "mean TTFT, idle machines"), ("queued", "mean TTFT with queues"), ("cost", "cost"),
            ("million", "a million output tokens"),
        )
    )  # fmt: skip
    return (
        '<h2>What if</h2><section class="panel live" aria-label="What-if panel">'
        f'<div class="sliders">{"".join(sliders)}'
        f'<label><input type="checkbox" id="in-auto"{checked}> best threshold for these values</label></div>'
        f'<p><button type="button" id="reset">As planned</button></p><dl aria-live="polite">{results}</dl></section>'
    )


def _slider(name: str, label: str, attributes: str) -> str:
    return (
        f'<label for="in-{name}">{label} <output id="at-{name}" for="in-{name}"></output>'
        f'<input type="range" id="in-{name}" {attributes} autocomplete="off"></label>'
    )


def _count(name: str, label: str, value: int, most: int) -> str:
    least = 1 if name == "decode" else 0
    return _slider(name, label, f'min="{least}" max="{most}" step="1" value="{value}"')


def _ratio(name: str, label: str, value: float, ends: tuple[float, float], step: int = 1) -> str:
    low, high = ends
    kept = min(high, max(low, value))
    place = step * round(1000 / step * math.log(kept / low) / math.log(high / low))
    attributes = f'min="0" max="1000" step="{step}" value="{place}" data-low="{low:.12g}" data-high="{high:.12g}"'
    return _slider(name, label, f'{attributes} data-exact="{value:.12g}"')
