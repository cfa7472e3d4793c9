"""Studies as Markdown: a table of tasks × variants, one of details, and a sentence for each
comparison.

A cell that was not run is a dash. The best mean of a task is bold. A published score stands in
brackets, beside runs of the same regime only, and is never compared.
"""

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from gelgt.bench.cells import BASELINES, SEEDLESS
from gelgt.bench.compare import NO_DIFFERENCE, ONE_SEED
from gelgt.metrics import SMALLER_IS_BETTER

NOT_RUN = "–"
SPLIT_MODEL = "gelgt"  # the model whose network and trees have columns of their own
NETWORK, TREES, SHARE, TOGETHER = "network alone", "trees alone", "share of trees", "together"
OLDER = (
    "in this older study the baselines learned the training labels only, and the entity's past "
    "counted no test windows, while the model also had overlapping windows and, where the settings "
    "say so, was retrained on all labels known at the test time; its network and its trees were "
    "not scored alone"
)


def rows_of(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The lines of the table: (task, metric) for every task, finished or not, with its main metric
    first."""
    from gelgt.metrics import MAIN

    lines = []
    for name, task in result["tasks"].items():
        of_task = [entry["metric"] for entry in result["results"] if entry["task"] == name]
        lines += [(name, metric) for metric in dict.fromkeys([MAIN[task["type"]], *of_task])]
    return lines


def score_text(entry: Mapping[str, Any] | None, is_best: bool = False) -> str:
    """A cell: mean ± spread, or a dash."""
    if entry is None:
        return NOT_RUN
    mark = "**" if is_best else ""
    spread = f" ± {entry['spread']:.4f}" if entry["seeds"] > 1 else ""
    return f"{mark}{entry['test']:.4f}{mark}{spread}"


def paper_text(entry: Mapping[str, Any] | None) -> str:
    """The published score of a cell, in brackets."""
    figure = None if entry is None else entry.get("paper")
    if not figure:
        return ""
    spread = f" ± {figure['spread']:g}" if figure["spread"] is not None else ""
    return f"({figure['value']:g}{spread})"


def wide(
    result: Mapping[str, Any], *, with_paper: bool = True
) -> tuple[list[str], list[list[str]]]:
    """Headers and cells of the table of tasks × variants; published scores are of the frozen regime
    and stand beside runs of it only."""
    columns, with_paper = _columns(result), with_paper and result["regime"] == "frozen"
    lines = []
    for task, metric in rows_of(result):
        entries = {
            e["model"]: e for e in result["results"] if (e["task"], e["metric"]) == (task, metric)
        }
        shown = [_entry(entries.get(model), part) for model, part in columns]
        tests = [entry["test"] for entry in shown if entry is not None and "test" in entry]
        best = _best(metric, tests)
        cells = []
        for (model, part), entry in zip(columns, shown):
            if part == SHARE:
                cells.append(NOT_RUN if entry is None else f"{entry['tree_share']:.0%}")
                continue
            text = score_text(entry, entry is not None and len(tests) > 1 and entry["test"] == best)
            text += _few(entry, len(result["seeds"]), model) if part in ("", TOGETHER) else ""
            cells.append(f"{text} {paper_text(entry)}".strip() if with_paper else text)
        lines.append([task, metric + (" ↓" if metric in SMALLER_IS_BETTER else " ↑"), *cells])
    return ["task", "metric", *(f"{model} {part}".strip() for model, part in columns)], lines


def _columns(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(variant, part) of each column: for `quality` one for each part of gelgt, and one for
    LightGBM over two hops."""
    models = list(result["models"])
    if result["study"] != "quality":
        return [(model, "") for model in models]
    if "lightgbm" in models and "lightgbm-2hop" not in models:  # an older study
        models.insert(models.index("lightgbm") + 1, "lightgbm-2hop")
    parts = (NETWORK, TREES, SHARE, TOGETHER)
    return [
        (model, part) for model in models for part in (parts if model == SPLIT_MODEL else ("",))
    ]


def _entry(entry: Mapping[str, Any] | None, part: str) -> Mapping[str, Any] | None:
    """What stands in a column: a variant's entry, or that of one of its parts."""
    if entry is None or part in ("", TOGETHER):
        return entry
    if part == SHARE:
        return {"tree_share": entry["tree_share"]} if "tree_share" in entry else None
    of_part: Mapping[str, Any] | None = entry.get("parts", {}).get(part.partition(" ")[0])
    return of_part


def _few(entry: Mapping[str, Any] | None, asked: int, model: str) -> str:
    """A mark where fewer seeds were finished than were asked for."""
    if entry is None or entry["seeds"] >= asked or model in SEEDLESS:
        return ""
    return f" [{entry['seeds']} of {asked} seeds]"


def _best(metric: str, values: Sequence[float]) -> float | None:
    if not values:
        return None
    return min(values) if metric in SMALLER_IS_BETTER else max(values)


def sentences(result: Mapping[str, Any]) -> list[str]:
    """What each comparison shows, a sentence each."""
    entries = {(e["task"], e["metric"], e["model"]): e for e in result["results"]}
    comparisons = []
    for (task, metric, model), entry in entries.items():
        if "shown" not in entry:
            continue
        other, shown = entry["against"], entry["shown"]
        reference = entries[task, metric, other]
        verdict = shown if shown in (NO_DIFFERENCE, ONE_SEED) else f"{model} is {shown}"
        scores = f"{model} {score_text(entry)} against {other} {score_text(reference)}"
        comparisons.append(f"{task}, {metric}: {scores}: {verdict}.")
    return comparisons


def facts(result: Mapping[str, Any]) -> list[str]:
    """What a study was run on and how, a line for each fact."""
    lines = [f"data: {result['dataset']} ({result['rows']:,} rows); regime {result['regime']}"]
    if "preset" in result:  # something was trained
        budget = (
            f"at most {result['budget_seconds']:g} s of training a run"
            if result["budget_seconds"]
            else "no time limit"
        )
        settings = "".join(f", {name}={value}" for name, value in result["settings"].items())
        lines.append(
            f"runs: preset {result['preset']}, seeds {', '.join(map(str, result['seeds']))}, "
            f"{budget}{settings}"
        )
        lines += _about_baselines(result)
    lines.append(machine_line(result["machine"]))
    if result.get("note"):  # added by hand to the file of an older study
        lines.append(f"note: {result['note']}")
    if result.get("command"):
        lines.append(f"command: `{result['command']}`")
    return lines


def machine_line(on: Mapping[str, Any]) -> str:
    """The machine that something ran on."""
    where = f"{on['gpu']}, " if "gpu" in on else ""
    versions = ", ".join(
        f"{name} {version}"
        for name, version in on["versions"].items()
        if name in ("gelgt", "torch", "triton")
    )
    return f"machine: {where}{on['cpu']}, {on['cores']} cores, {on['memory_gib']} GiB, {versions}"


def _about_baselines(result: Mapping[str, Any]) -> list[str]:
    """Which labels the baselines learned."""
    if not set(BASELINES) & set(result.get("models", ())):
        return []
    labels = result.get("baseline_labels")
    if labels is None:
        return [f"note: {OLDER}"]
    settings = ", ".join(f"{path}={value}" for path, value in labels.items() if value is not None)
    beside = next((model for model in result["models"] if model not in BASELINES), "")
    return (
        [f"baselines: LightGBM learns the labels that {beside} learns ({settings})"]
        if beside
        else []
    )


def study_markdown(result: Mapping[str, Any], level: int = 1) -> str:
    """A whole study."""
    head = "#" * level
    lines = [f"{head} {result['title']}", "", *(f"- {fact}" for fact in facts(result)), ""]
    has_paper = result["regime"] == "frozen" and any(
        entry.get("paper") for entry in result["results"]
    )
    lines += markdown_table(*wide(result))
    lines += [
        "",
        "Test scores, mean ± standard deviation over seeds; best mean in bold; – was not run.",
    ]
    if has_paper:
        lines[-1] += " In brackets the published score, measured by others in the same regime."
    comparisons = sentences(result)
    if comparisons:
        rule = (
            "A variant is called better or worse only where the seeds and a bootstrap over the "
            "entities of the test rows agree."
        )
        if any("shown" in entry and "difference_low" not in entry for entry in result["results"]):
            rule += " Tasks with several classes are judged by the seeds alone."
        lines += ["", rule, ""]
        lines += [f"- {sentence}" for sentence in comparisons]
    lines += ["", *markdown_table(*_details(result))] if result["results"] else []
    if result["failed"]:
        lines += ["", "Runs that failed:", ""]
        lines += [
            f"- {f['task']}, {f['model']}, seed {f['seed']}: {f['error']}" for f in result["failed"]
        ]
    if result["left"]:
        lines += [
            "",
            f"Stopped before {len(result['left'])} runs were finished; the same command continues.",
        ]
    return "\n".join(lines) + "\n"


_DETAILS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "task": lambda entry: entry["task"],
    "regime": lambda entry: entry["regime"],
    "metric": lambda entry: entry["metric"],
    "model": lambda entry: entry["model"],
    "seeds": lambda entry: str(entry["seeds"]),
    "validation": lambda entry: f"{entry['validation']:.4f}",
    "test": lambda entry: score_text(entry),
    "95 % interval": lambda entry: (
        f"{entry['low']:.4f} to {entry['high']:.4f}" if "low" in entry else ""
    ),
    "difference": lambda entry: f"{entry['difference']:+.4f}" if "difference" in entry else "",
    "95 % interval of it": lambda entry: (
        f"{entry['difference_low']:+.4f} to {entry['difference_high']:+.4f}"
        if "difference_low" in entry
        else ""
    ),
    "s per run": lambda entry: f"{entry['seconds']:g}",
    "s per epoch": lambda entry: (
        "" if entry.get("epoch_seconds") is None else f"{entry['epoch_seconds']:g}"
    ),
}


def _details(result: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Everything that is known about each entry."""
    headers = list(_DETAILS)
    lines = [[cell(entry) for cell in _DETAILS.values()] for entry in result["results"]]
    references = {
        entry["against"]
        for entry in result["results"]
        if f"{entry.get('against')} beats it" in entry
    }
    if references:
        name = references.pop() if len(references) == 1 else "its reference"
        headers.append(f"{name} beats it")
        for entry, cells in zip(result["results"], lines):
            cells.append(str(entry.get(f"{entry.get('against')} beats it", "")))
    return headers, lines


def portable(command: str) -> str:
    """A command without the folders of the machine it was typed on.

    Example:
        >>> portable("gelgt bench bias --dataset ../data/rel-f1 --out /tmp/x")
        'gelgt bench bias --dataset rel-f1 --out x'
    """
    return shlex.join(
        PurePath(word).name if "/" in word and " " not in word else word
        for word in shlex.split(command)
    )


def markdown_table(headers: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table."""
    return ["| " + " | ".join(line) + " |" for line in (headers, ["---"] * len(headers), *lines)]
