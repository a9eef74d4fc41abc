"""A report as one HTML file: it needs nothing but itself, and no script."""

from __future__ import annotations

import re
import shlex
from functools import cache

from penstock import __version__
from penstock.paths import PACKAGE
from penstock.report import tables
from penstock.report.facts import Facts
from penstock.report.figures import figures
from penstock.report.finding import Finding
from penstock.report.plots import plots
from penstock.report.ran import as_kept, in_words
from penstock.report.report import Report
from penstock.report.svg import WORDS
from penstock.report.words import clock, count, day, length, moment, period, plural, prose, text

_SIGNS = {"good": "●", "idle": "○", "warning": "▲", "critical": "■", "note": "○"}
_LEVELS = {
    "good": "good",
    "idle": "nothing to judge",
    "warning": "warning",
    "critical": "critical",
    "note": "note",
}
_CODE = re.compile(r"`([^`]*)`")
_SPEC_MAX = 60_000
_BRAND = (
    '<svg viewBox="0 0 32 32" aria-hidden="true"><path d="M2 10h9v12H2zM21 10h9v12h-9z"/>'
    '<path class="gate" d="M13 3h6v26h-6z"/></svg>'
)


def page(report: Report) -> str:
    facts = report.facts
    body = _empty(facts) if facts.end == "empty" else _parts(report)
    return document(
        f"{report.judgement.headline}: {facts.name}, {day(facts.to_ms)} UTC",
        "report",
        _verdict(report) + body,
        f"Made by penstock {text(__version__)} at {day(report.made_at_ms)}. All times are UTC. It holds"
        " neither addresses nor what producers sent.",
    )


def document(title: str, what: str, body: str, footer: str, more_style: str = "") -> str:
    """A page that needs nothing but itself."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">'
        # Whatever slipped through: nothing is fetched, and nothing runs.
        '<meta http-equiv="Content-Security-Policy"'
        " content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{text(title)}</title>"
        f"<style>{_style()}{more_style}</style></head><body>\n"
        f'<header class="masthead">{_BRAND}<span>Penstock</span><span>{text(what)}</span></header>\n'
        f"<main>{body}</main>\n"
        f"<footer><p>{footer}</p></footer>\n</body></html>\n"
    )


@cache
def _style() -> str:
    return (PACKAGE / "report" / "page.css").read_text(encoding="utf-8")


def _verdict(report: Report) -> str:
    facts, judgement = report.facts, report.judgement
    when = (
        f"{period(facts.from_ms, facts.to_ms)} UTC, {length(facts.took_ms)}" if facts.end != "empty" else ""
    )
    if facts.record.is_cut:
        when += "; the journal begins earlier"
    return (
        f'<section class="verdict" data-level="{judgement.level}" aria-label="Judgement">'
        f'<span class="sign" aria-hidden="true">{_SIGNS[judgement.level]}</span><div>'
        f"<h1>{text(judgement.headline)} <span>{text(facts.name)}</span></h1>"
        f'<p><span class="quiet">{_LEVELS[judgement.level]}: </span>{prose(judgement.reason)}</p>'
        f'<p class="when">{prose(when)}</p></div></section>'
    )


def _empty(facts: Facts) -> str:
    return _part(
        "Nothing to report",
        "<p>There is no journal here, or nothing that can be read in it. A pipeline writes one as soon"
        " as it starts:</p>"
        f"<pre>{text(f'penstock run {shlex.quote(facts.name)}')}</pre>"
        "<p>If yours keeps its data elsewhere, name the directory with <code>--data</code>.</p>",
    )


def _parts(report: Report) -> str:
    facts = report.facts
    return "\n".join(
        [
            _part("What ran", _ran(report)),
            _part(
                "Key figures",
                figures(facts) + "<h3>Latency from event to readable, by sink</h3>" + tables.latencies(facts),
            ),
            _part("Findings", _findings(report)),
            _part(
                "Over time",
                _signs() + f'<div class="plots">{plots(facts, _downs(facts))}</div>',
                f"A point is {length(facts.strip.bin_ms)}; it holds the worst of its time, but for rates"
                f" and shares, of"
                " which it holds the mean. Shaded: it did not run, or waited for a service.",
            ),
            _part("Sinks", tables.sinks(facts)),
            _part("Partitions", tables.partitions(facts)),
            _part(
                "Slowest batches",
                tables.slowest(facts),
                "Compute is reading, decoding, cleansing, enriching and state.",
            ),
            _part(
                "Processes and brokers",
                tables.processes(facts) + tables.brokers(facts),
                "At the end of the record.",
            ),
            _part("Events of the run", tables.events(facts)),
            _part("How to get more", _commands(facts)),
        ]
    )


def _part(title: str, content: str, said: str = "") -> str:
    more = f'<p class="said">{text(said)}</p>' if said else ""
    return f'<section class="part"><h2>{text(title)}</h2>{more}{content}</section>'


def _ran(report: Report) -> str:
    facts = report.facts
    starts = [life.start_ms for life in facts.lives if life.start_ms is not None]
    told = [
        ("pipeline", facts.name),
        ("when", f"{period(facts.from_ms, facts.to_ms)}, {length(facts.took_ms)}"),
        (
            "started",
            ", ".join(map(day, starts[-3:])) + (f" ({len(starts)} times)" if len(starts) > 3 else "")
            if starts
            else "before this record begins",
        ),
        ("on", facts.machine or "not recorded: a version before this one"),
        *(
            in_words(report.spec)
            if report.spec
            else [("spec", "not kept beside this journal, or of another version")]
        ),
    ]
    pairs = "".join(f"<div><dt>{text(name)}</dt><dd>{prose(value)}</dd></div>" for name, value in told)
    kept = ""
    if report.spec is not None:
        kept = (
            "<details><summary>The spec as it ran, without addresses</summary>"
            f"<pre>{text(as_kept(report.spec), _SPEC_MAX)}</pre></details>"
        )
    return f'<dl class="pairs">{pairs}</dl>{kept}'


def _findings(report: Report) -> str:
    if not report.findings:
        return "<p>Nothing was wrong.</p>"
    items = "".join(_finding(finding, report.facts) for finding in report.findings)
    return f'<ol class="findings">{items}</ol>'


def _finding(finding: Finding, facts: Facts) -> str:
    end_ms = facts.to_ms if finding.to_ms is None else finding.to_ms
    same_day = moment(finding.from_ms).date() == moment(end_ms).date()
    say = clock if same_day else day
    if finding.from_ms <= facts.from_ms and end_ms >= facts.to_ms:
        when = "over the whole record"
    elif end_ms <= finding.from_ms:
        when = f"at {day(finding.from_ms)}"
    elif finding.times > 1:
        when = f"{finding.times:,} times from {say(finding.from_ms)} to {say(end_ms)}"
    else:
        when = f"{say(finding.from_ms)} to {say(end_ms)}, {length(end_ms - finding.from_ms)}"
    if not finding.is_past and end_ms > finding.from_ms:
        when += ", until the end"
    return (
        f'<li data-level="{finding.weight}"><span class="sign"'
        f' aria-hidden="true">{_SIGNS[finding.weight]}</span>'
        f"<div><h3>{text(finding.title)}</h3>"
        f'<p class="when"><span class="word">{_LEVELS[finding.weight]}</span> · {prose(when)}</p></div>'
        f'<div><p>{prose(finding.what)}</p><p class="next"><b>Next:</b>'
        f" {_with_code(finding.next, facts.name)}</p></div></li>"
    )


def _with_code(told: str, name: str) -> str:
    """Text of ours, in which commands stand between backticks, and NAME for the pipeline."""
    return _CODE.sub(r"<code>\1</code>", text(told).replace("NAME", text(shlex.quote(name))))


def _signs() -> str:
    shown = "".join(
        f'<span><span aria-hidden="true" style="color:var({colour})">{sign}</span> {word}</span>'
        for sign, word, colour in WORDS.values()
        if word
    )
    return f'<p class="signs">{shown}</p>'


def _downs(facts: Facts) -> list[tuple[int, int]]:
    """When it did not run, from one life to the next batch, and when it waited."""
    downs = [
        (one.end_ms, after.first_batch_ms or facts.to_ms)
        for one, after in zip(facts.lives, facts.lives[1:], strict=False)
        if one.end_ms is not None
    ]
    return downs + [(outage.from_ms, outage.back_ms or facts.to_ms) for outage in facts.outages]


def _commands(facts: Facts) -> str:
    name = shlex.quote(facts.name)
    commands = [
        (f"penstock web {name} --open", "the live page; --replay DIR plays this run again"),
        (f"penstock lag {name}", "what waits, by partition, and where it is going"),
        (f"penstock audit {name}", "lost and doubled, counted"),
        (f"penstock dead-letters list {name}", "the records that were set aside, and why"),
        (f"penstock check {name}", "what would go wrong at the next start"),
        (
            f"penstock report {name} --from {clock(facts.from_ms)} --to {clock(facts.to_ms)}",
            "a part of the time",
        ),
    ]
    items = "".join(f"<div><pre>{text(command)}</pre><p>{text(why)}</p></div>" for command, why in commands)
    lines, unread = plural(facts.record.lines, "line"), count(facts.record.unread)
    read = f"{lines} of the journal were read, {unread} could not be."
    return f'<div class="commands">{items}</div><p class="said">{text(read)}</p>'
