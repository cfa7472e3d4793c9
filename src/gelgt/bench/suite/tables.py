"""A suite for people: tables of tasks × columns, of ranks and means, and of differences."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gelgt.bench.suite.looks import FILE
from gelgt.bench.suite.scores import raw_score
from gelgt.bench.tables import NOT_RUN, machine_line, markdown_table
from gelgt.files import write_text
from gelgt.runs.folder import write_json

Table = tuple[list[str], list[list[str]]]
ABOUT = (
    "Means over seeds ± their standard deviation; best mean in bold; – has no score. Points are "
    "100 · AUC, or 100 · (1 - MAE / MAE of the constant): larger is better."
)
ABOUT_DIFFERENCES = (
    "Differences in points with 95 % intervals, over entities (tasks fixed) and over databases. A "
    "task is won or lost where its own interval over entities lies on one side of 0."
)


def write_suite(result: Mapping[str, Any], out: Path) -> Path:
    """OUT/NAME.json and OUT/NAME.md; gives the second."""
    write_json(out / f"{result['study']}.json", result)
    path = out / f"{result['study']}.md"
    write_text(path, suite_markdown(result))
    return path


def suite_facts(result: Mapping[str, Any]) -> list[str]:
    """What a suite was run on and how, a line for each fact."""
    data = ", ".join(f"{name} ({rows:,} rows)" for name, rows in result["datasets"].items())
    budget = result["budget_seconds"]
    limit = f"at most {budget:g} s for each run, baseline and peer" if budget else "no time limit"
    settings = "".join(f", {name}={value}" for name, value in result["settings"].items())
    lines = [
        f"data: {data}; regime {result['regime']}",
        f"runs: preset {result['preset']}, seeds {', '.join(map(str, result['seeds']))}, "
        f"{limit}{settings}",
        *(
            f"variant {name}: " + ", ".join(f"{path}={value}" for path, value in each.items())
            for name, each in result["variants"].items()
        ),
        machine_line(result["machine"]),
        look_line(result),
    ]
    return [*lines, f"command: `{result['command']}`"] if result["command"] else lines


def look_line(result: Mapping[str, Any]) -> str:
    """Whether test labels were scored."""
    if result["origins"]:
        count = result["origins"]
        which = "one origin" if count == 1 else f"up to {count} origins"
        return f"scored: {which} before the test; no test label was used"
    if result["look"] is None:
        return "scored: nothing yet"
    return f"scored: the test, look {result['look']} in this folder ({FILE} lists all)"


def task_table(result: Mapping[str, Any]) -> Table:
    """Tasks × columns, in the metric of each task; then ranks and means."""
    names = result["columns"]
    lines = []
    for task in result["results"]:
        is_binary = task["type"] == "binary_classification"
        best = max((entry["points"] for entry in task["columns"].values()), default=None)
        cells = [
            _cell(task["columns"].get(name), best, is_binary, task, len(result["seeds"]))
            for name in names
        ]
        arrow = "↑" if is_binary else "↓"
        lines.append([task["task"], f"{task['metric']} {arrow}", *cells])
    for key, label, digits in (("mean_rank", "mean rank", 2), ("mean_points", "mean points", 2)):
        values = [result[key].get(name) for name in names]
        arrow = "↓" if key == "mean_rank" else "↑"
        shown = [NOT_RUN if value is None else f"{value:.{digits}f}" for value in values]
        lines.append([f"**{label}**", f"over tasks {arrow}", *shown])
    return ["task", "metric", *names], lines


def _cell(
    entry: Mapping[str, Any] | None,
    best: float | None,
    is_binary: bool,
    task: Mapping[str, Any],
    seeds: int,
) -> str:
    if entry is None:
        return NOT_RUN
    mark = "**" if entry["points"] == best else ""
    spread = f" ± {entry['spread'] / 100:.4f}" if entry["seeds"] > 1 else ""
    few = "" if entry["seeds"] in (1, seeds) else f" [{entry['seeds']} of {seeds} seeds]"
    if len(entry["origins"]) < len(task["rows"]):
        few += f" [{len(entry['origins'])} of {len(task['rows'])} origins]"
    return f"{mark}{raw_score(entry['points'], is_binary):.4f}{mark}{spread}{few}"


def origin_table(result: Mapping[str, Any]) -> Table:
    """A line for each task and origin."""
    names, lines = result["columns"], []
    for task in result["results"]:
        is_binary = task["type"] == "binary_classification"
        for origin, rows in task["rows"].items():
            points = [
                task["columns"].get(name, {}).get("origins", {}).get(origin) for name in names
            ]
            cells = [NOT_RUN if p is None else f"{raw_score(p, is_binary):.4f}" for p in points]
            counts = ", ".join(f"{count:,}" for count in rows.values())
            lines.append([task["task"], origin, counts, *cells])
    return ["task", "origin", "labels of train, val, test", *names], lines


def difference_table(result: Mapping[str, Any]) -> Table:
    """A line for each pair of columns."""
    lines = [
        [
            f"{each['one']} − {each['other']}",
            f"{each['difference']:+.2f}",
            _interval(each["entities"]),
            "one database" if each["databases"] is None else _interval(each["databases"]),
            f"{each['wins']} : {each['losses']} of {len(each['tasks'])}",
        ]
        for each in result["comparisons"]
    ]
    headers = ["difference", "mean", "95 % over entities", "95 % over databases", "won : lost"]
    return headers, lines


def difference_by_task(result: Mapping[str, Any]) -> Table:
    """A line for each pair of columns and task."""
    lines = [
        [
            f"{each['one']} − {each['other']}",
            task["task"],
            f"{task['difference']:+.2f}",
            _interval((task["low"], task["high"])),
            task["shown"],
        ]
        for each in result["comparisons"]
        for task in each["tasks"]
    ]
    return ["difference", "task", "points", "95 % over entities", "shown"], lines


def _interval(ends: Sequence[float]) -> str:
    return f"{ends[0]:+.2f} to {ends[1]:+.2f}"


def failures(result: Mapping[str, Any]) -> list[str]:
    """A line for each run that failed."""
    return [
        f"{f['dataset']} / {f['task']}, {f['model']}, seed {f['seed']}: {f['error']}"
        for f in result["failed"]
    ]


def suite_markdown(result: Mapping[str, Any]) -> str:
    """A whole suite."""
    lines = [f"# {result['title']}", "", *(f"- {fact}" for fact in suite_facts(result)), ""]
    lines += [*markdown_table(*task_table(result)), "", ABOUT]
    if result["comparisons"]:
        lines += ["", "## Differences", "", ABOUT_DIFFERENCES, ""]
        lines += [*markdown_table(*difference_table(result)), ""]
        lines += ["By task:", "", *markdown_table(*difference_by_task(result))]
    if result["origins"]:
        lines += ["", "## By origin", "", *markdown_table(*origin_table(result))]
    if result["left_out"]:
        lines += ["", "Left out:", "", *(f"- {line}" for line in result["left_out"])]
    if result["failed"]:
        lines += ["", "Runs that failed:", "", *(f"- {line}" for line in failures(result))]
    if result["left"]:
        count = len(result["left"])
        lines += ["", f"Stopped before {count} runs were finished; the same command continues."]
    return "\n".join(lines) + "\n"
