"""How to reproduce the run: command, data, timings, machine, versions, configuration."""

import shlex
from collections.abc import Mapping
from typing import Any

from gelgt.report.html import Section, code, escape, figures, paragraph, table
from gelgt.report.numbers import count, duration, percent
from gelgt.report.run import Run, without_secrets

SHOWN_COLUMNS = 20


def section(run: Run) -> Section:
    aid = (
        "What is needed to train this run again; the files of the run folder hold the same values."
    )
    parts = [
        "<h3>Command</h3>",
        code(command(run)),
        _secret(run),
        _sql(run),
        figures([*_phases(run), *_tables(run)]),
        figures(_history(run)),
        figures([*_pairs("Machine", run.record.machine), *_pairs("Versions", run.record.versions)]),
        _configuration(run),
    ]
    return Section("setup", "Configuration and how to reproduce", aid, "".join(parts))


def command(run: Run) -> str:
    """The command that trains this run: the stored one, or one put together from the record."""
    record = run.record
    if record.command:
        return without_secrets(record.command)
    words = [
        "gelgt",
        "train",
        run.source or "SOURCE",
        record.task.sentence or record.task.name,
        "--out",
        record.run or run.folder.name,
    ]
    words += ["--model", record.model] if record.model != "gelgt" else []
    words += ["--preset", record.preset] if record.preset else []
    words += ["--seed", str(record.seed)] if record.seed is not None else []
    words += ["--visibility", record.regime] if record.regime else []
    return shlex.join(words)


def _secret(run: Run) -> str:
    if "://" not in run.source or run.source.startswith(
        ("sqlite", "duckdb", "hf:", "s3:", "gs:", "az:")
    ):
        return ""
    return (
        '<p class="small">The address is stored without its password: add it to the address, or '
        "set it in the environment, when you run this.</p>"
    )


def _sql(run: Run) -> str:
    return f"<h3>Labels</h3>{code(run.record.task.sql)}" if run.record.task.sql else ""


def _phases(run: Run) -> list[str]:
    phases = run.record.phases
    total = sum(phases.values())
    if not phases or total <= 0:
        return []
    rows = [
        [escape(name), duration(seconds), percent(seconds / total)]
        for name, seconds in phases.items()
    ]
    rows.append(["<b>all</b>", f'<td class="n best">{duration(total)}</td>', ""])
    limit = run.record.time.limit
    words = "" if limit is None else paragraph(escape(f"Time limit: {duration(limit)}."))
    if run.record.time.cut_off:
        cut_off = "; ".join(run.record.time.cut_off)
        words += paragraph(escape(f"Not finished in it: {cut_off}. More time goes there."))
    shown_rows = table(["Phase", "time", "share"], rows)
    return [f"<figure><h3>Time by phase</h3>{shown_rows}{words}</figure>"]


def _history(run: Run) -> list[str]:
    """The history columns that were chosen, the best first, and why others were not."""
    history = run.record.history
    if history is None or not history.columns:
        return []
    rows = [
        [f'<span class="name">{escape(column.name)}</span>', percent(column.gain)]
        for column in sorted(history.columns, key=lambda c: -c.gain)[:SHOWN_COLUMNS]
    ]
    left_out = ", ".join(f"{number:,} {why}" for why, number in history.left_out.items())
    about = (
        f"{len(history.columns):,} of {history.proposed:,} columns that the schema gives, judged "
        f"on {history.rows:,} training rows by what a quick LightGBM gains from them"
    )
    title = "History columns"
    if run.record.ranking is not None:  # those of the rows that are recommended
        title += f" of {escape(run.record.ranking.table)}"
    words = f"{about}. Left out: {left_out or 'none'}. metrics.json lists all."
    body = table(["Column", "share of the gain"], rows) + paragraph(escape(words))
    return [f"<figure><h3>{title}</h3>{body}</figure>"]


def _tables(run: Run) -> list[str]:
    tables = run.record.data.tables
    if not tables:
        return []
    order = sorted(tables, key=lambda t: (-tables[t], t))
    rows = [
        [f'<span class="name">{escape(name)}</span>', count(tables[name])] for name in order[:40]
    ]
    rows += (
        [[f"{len(order) - 40} other tables", count(sum(tables[t] for t in order[40:]))]]
        if len(order) > 40
        else []
    )
    about = (
        f'<p class="small">Content hash <code>{escape(run.record.data.hash[:16])}</code></p>'
        if run.record.data.hash
        else ""
    )
    return [f"<figure><h3>Data</h3>{table(['Table', 'rows'], rows)}{about}</figure>"]


def _pairs(title: str, values: Mapping[str, Any]) -> list[str]:
    rows = [[escape(name), escape(shown(value))] for name, value in flat(values)]
    return (
        [f"<figure><h3>{title}</h3>{table(['', ''], rows, words=2, css='pairs')}</figure>"]
        if rows
        else []
    )


def _configuration(run: Run) -> str:
    """One small table for each group of the configuration."""
    groups: dict[str, list[list[str]]] = {}
    for name, value in run.record.config.items():
        if isinstance(value, Mapping) and value:
            groups[name] = [[escape(k), escape(shown(v))] for k, v in flat(value)]
        else:
            groups.setdefault("general", []).append([escape(name), escape(shown(value))])
    if not groups:
        return ""
    tables = [
        table([f"<b>{escape(name)}</b>", ""], rows, words=2, css="pairs")
        for name, rows in groups.items()
    ]
    return f'<h3>Configuration</h3><div class="configuration">{"".join(tables)}</div>'


def flat(values: Mapping[str, Any], before: str = "") -> list[tuple[str, Any]]:
    """Nested values as (dotted name, value)."""
    out: list[tuple[str, Any]] = []
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            out += flat(value, f"{before}{name}.")
        else:
            out.append((f"{before}{name}", value))
    return out


def shown(value: Any) -> str:
    """A configured value as it would be typed."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return ", ".join(shown(v) for v in value) or "none"
    return str(value) if not isinstance(value, Mapping) else "none"
