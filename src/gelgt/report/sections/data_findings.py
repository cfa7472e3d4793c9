"""What the run should know about its data: findings of the tables that it reads, with the YAML that
answers them."""

from gelgt.report.html import Section, code, escape, paragraph, table
from gelgt.report.numbers import count, percent
from gelgt.report.run import Run
from gelgt.runs.record import FindingFacts
from gelgt.schema.finding_text import answers, counts_text, listing

SHOWN = 40


def section(run: Run) -> Section | None:
    """Errors, leaks and warnings row by row; notices summed up by what they say."""
    findings = run.record.findings
    if not findings:
        return None
    graver = [each for each in findings if each.severity != "notice"]
    notices = [each.finding for each in findings if each.severity == "notice"]
    parts = []
    if graver:
        has_share = any(each.share is not None for each in graver)
        head = ["Severity", "Where", "What", "rows", *(["trees' gain"] * has_share)]
        parts.append(table(head, [_row(each, has_share) for each in graver[:SHOWN]], words=3))
        if len(graver) > SHOWN:
            parts.append(paragraph(f"{count(len(graver) - SHOWN)} more are in metrics.json."))
    yaml = answers(each.repair for each in graver[:SHOWN])
    if yaml:
        parts.append(paragraph("To answer, where it is so, in a file for <code>--schema</code>:"))
        parts.append(code("\n".join(yaml)))
    if notices:
        parts.append(f"<h3>{escape(counts_text(notices).capitalize())}</h3>")
        lines = [line.removeprefix("notice").strip() for line in listing(notices, 1_000)]
        parts.append(f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>")
    aid = f"{counts_text(each.finding for each in findings)} about the tables that this run reads."
    return Section("findings", "Findings about the data", escape(aid), "".join(parts))


def _row(each: FindingFacts, has_share: bool) -> list[str]:
    accepted = ", accepted" if each.is_accepted else ""
    cells = [
        escape(each.severity + accepted),
        f'<span class="name">{escape(each.finding.place)}</span>',
        escape(each.message),
        "" if each.count is None else count(each.count),
    ]
    share = "" if each.share is None else percent(each.share)
    return [*cells, *([share] if has_share else [])]
