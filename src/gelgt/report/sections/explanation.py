"""What the predictions rest on, measured by deletion over a validation sample: `explanation.json`,
which `gelgt explain RUN` writes into the run folder."""

from collections.abc import Mapping, Sequence
from typing import Any

from gelgt.report.charts import Plot
from gelgt.report.html import Section, code, escape, figure, figures, table
from gelgt.report.numbers import LEVEL, count, number
from gelgt.report.run import Run
from gelgt.report.scales import ages, linear

FILE = "explanation.json"
MOST = 10  # lines of a table
CURVES = 4  # tables whose ages are drawn


def section(run: Run) -> Section | None:
    path = run.folder / FILE
    if not path.is_file():
        return None
    from gelgt.runs.folder import read_json

    return whole_section(read_json(path))


def whole_section(content: Mapping[str, Any]) -> Section:
    """The section of a whole model's explanation, as `WholeExplanation.to_dict` has it."""
    aid = (
        f"Each line is deleted for {count(content['entities'])} entities at "
        f"{escape(str(content['at']))}, and {escape(str(content['what']))} is made again. "
        f"Importance is the mean absolute change, with its {LEVEL} interval over entities; the "
        "effect keeps its sign."
    )
    parts = [
        f"<h3>{title}</h3>{_table(content[name])}"
        for title, name in (("Paths", "paths"), ("Columns", "columns"), ("Tables", "tables"))
        if content[name]
    ]
    curves = sorted(
        (item for item in content["ages"].items() if item[0]),
        key=lambda item: -max(entry["importance"] for entry in item[1]),
    )
    drawn = [_curve(name, entries) for name, entries in curves[:CURVES] if len(entries) > 1]
    if drawn:
        parts.append(figures(drawn))
    if content.get("sql"):
        parts.append(f"<h3>The rows and columns that it uses, as a view</h3>{code(content['sql'])}")
    return Section("explanation", "What predictions rest on", aid, "".join(parts))


def _table(entries: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        [
            escape(entry["name"]),
            number(entry["importance"]),
            f"{number(entry['low'])} to {number(entry['high'])}",
            number(entry["effect"]),
        ]
        for entry in entries[:MOST]
    ]
    return table(["", "Importance", LEVEL, "Effect"], rows)


def _curve(name: str, entries: Sequence[Mapping[str, Any]]) -> str:
    """The mean effect of rows of each age on the entities that have such rows."""
    middles = [
        (entry["from_days"] + (entry["to_days"] or 2 * entry["from_days"])) / 2 for entry in entries
    ]
    effects = [entry["effect"] / entry["share"] for entry in entries]
    plot = Plot(
        ages(middles, [middles[0]], "age"),
        linear(min(0.0, *effects), max(0.0, *effects), "mean effect where there are rows"),
        f"Effect of {name} by age",
    )
    plot.segment((plot.x.low, 0.0), (plot.x.high, 0.0))
    plot.line(middles, effects)
    plot.dots(middles, effects, names=[entry["name"] for entry in entries])
    caption = "All rows of the table at that age are deleted together."
    return figure(f"{name} by age", plot.svg(), caption)
