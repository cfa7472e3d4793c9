"""`gelgt bench results`: one page from the JSON files of finished studies, and beside it what the
paper has and was not run.

Nothing on the page is typed by hand, so that it says what was run, on which machine, with which
seeds, and no more.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gelgt.bench.paper import is_published, published, published_models, published_tasks
from gelgt.bench.tables import NOT_RUN, facts, markdown_table, sentences, wide
from gelgt.bench.temporal import temporal_markdown
from gelgt.bench.write import analysis_markdown
from gelgt.errors import GelgtError
from gelgt.metrics import SMALLER_IS_BETTER

ORDER = (
    "paper-preset",
    "quality",
    "ablation",
    "bias",
    "generality",
    "sweep-size",
    "sweep-hops",
    "temporal",
    "budget",
    "homophily",
)
TITLES = {
    "paper-preset": "The preset `paper` beside the published figures",
    "quality": "Models beside each other",
    "ablation": "GelGT without each of its parts",
    "bias": "Kinds of temporal bias",
    "generality": "GelGT's sampling and bias in other models",
    "sweep-size": "Rows of a neighbourhood",
    "sweep-hops": "Depth of a neighbourhood",
    "temporal": "The temporal kernels, epoch by epoch",
    "budget": "Effective neighbours",
    "homophily": "Homophily",
}


INTRODUCTION = """
Written by `gelgt bench results` from the files of the studies; [benchmarks.md](benchmarks.md) says
which command makes which table. Test scores are means over seeds ± their standard deviation, the
best mean of a line in bold; – was not run. In brackets stands the published score, measured by
others in the frozen regime. A variant is called better or worse than another only where the seeds
and a bootstrap over the entities of the test rows agree (for several classes, the seeds alone);
otherwise no difference is shown. Tables of models have four columns for gelgt: its network alone,
its trees alone, the share of the trees, chosen on validation, and both together, which is what
gelgt predicts. Studies whose note says so are older, and drew single test rows for their intervals.
"""


def collect(places: Sequence[Path]) -> list[dict[str, Any]]:
    """The studies in some folders and files, in the order of the paper.

    Raises:
        GelgtError: ``no_study`` where a folder or file holds none.
    """
    studies = []
    for place in places:
        files = (
            [place] if place.is_file() else sorted([*place.glob("*.json"), *place.glob("*/*.json")])
        )
        read = [content for path in files if (content := _study(path)) is not None]
        if not read:
            raise GelgtError(
                "no_study",
                f"{place} holds no study.",
                hint="Give a folder that gelgt bench wrote, or a JSON file in it.",
            )
        studies += read
    return sorted(studies, key=lambda r: (ORDER.index(r["study"]), r["dataset"]))


def _study(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    is_one = isinstance(content, dict) and content.get("study") in ORDER and "results" in content
    return content if is_one else None


def results_page(studies: Sequence[Mapping[str, Any]]) -> str:
    """The whole page."""
    lines = ["# Results", ""]
    lines += [*INTRODUCTION.strip().splitlines(), "", "## Measured", ""]
    for name in ORDER:
        of_name = [study for study in studies if study["study"] == name]
        if of_name:
            lines += [f"### {TITLES[name]}", ""]
            for study in of_name:
                lines += [*_section(study), ""]
    lines += ["## Published, and not run here", "", *_not_run(studies)]
    return "\n".join(lines).rstrip("\n") + "\n"


def _section(study: Mapping[str, Any]) -> list[str]:
    if study["study"] == "paper-preset":
        return _paper_preset(study)
    if study["study"] in ("budget", "homophily"):
        return analysis_markdown({**study, "title": study["dataset"]}, 4).splitlines()
    lines = [
        f"#### {study['dataset']}, {study['regime']}",
        "",
        *(f"- {fact}" for fact in facts(study)),
        "",
    ]
    if study["study"] == "temporal":
        for entry in study["results"]:
            if entry["seed"] == study["seeds"][0]:  # the others are in the study's file
                lines += (
                    temporal_markdown(f"{entry['task']}, seed {entry['seed']}", entry["epochs"])
                    .replace("###", "#####")
                    .splitlines()
                )
                lines.append("")
        return lines
    lines += markdown_table(*wide(study))
    comparisons = sentences(study)
    lines += ["", *(f"- {sentence}" for sentence in comparisons)] if comparisons else []
    lines += [
        f"- failed: {f['task']}, {f['model']}, seed {f['seed']}: {f['error']}"
        for f in study["failed"]
    ]
    if study["left"]:
        lines += ["", f"Stopped before {len(study['left'])} runs were finished."]
    return lines


def _paper_preset(study: Mapping[str, Any]) -> list[str]:
    """The preset `paper`, trained here, beside what the paper reports; its file holds means and
    spreads alone."""
    scores = {(entry["task"], entry["regime"]): entry for entry in study["results"]}
    table = []
    for task in dict.fromkeys(entry["task"] for entry in study["results"]):
        metric = scores[task, "frozen"]["metric"]
        figure = published("quality", study["dataset"], task, study["model"], metric)
        paper = NOT_RUN if figure is None else _spread(figure.value, figure.spread)
        measured = [_measured(scores.get((task, regime))) for regime in ("frozen", "seed-time")]
        arrow = " ↓" if metric in SMALLER_IS_BETTER else " ↑"
        table.append([task, metric + arrow, paper, *measured])
    lines = [
        f"#### {study['dataset']}",
        "",
        f"- runs: preset paper, {study['seeds']} seeds",
        f"- machine: {study['machine']}",
    ]
    lines += [f"- note: {study['note']}"] if study.get("note") else []
    lines += [
        "- what the preset takes from the paper, and what it cannot: "
        "[model.md](model.md#the-preset-paper)",
        "",
    ]
    return lines + markdown_table(
        ["task", "metric", "published (frozen)", "measured, frozen", "measured, seed-time"], table
    )


def _measured(entry: Mapping[str, Any] | None) -> str:
    if entry is None:
        return NOT_RUN
    return _spread(entry["mean"], entry["spread"]) + ("" if entry.get("is_exact") else " †")


def _spread(mean: float, spread: float | None) -> str:
    return f"{mean:g}" if spread is None else f"{mean:g} ± {spread:g}"


def _not_run(studies: Sequence[Mapping[str, Any]]) -> list[str]:
    """The paper's tasks that have no score here, with what the paper reports."""
    run = {
        (study["dataset"], name)
        for study in studies
        if study["study"] == "quality"
        for name in study["tasks"]
        if _is_real(study, name)
    }
    left = [task for task in published_tasks() if task not in run]
    at_hand = {
        study["dataset"]
        for study in studies
        if any(_is_real(study, name) for name in study.get("tasks", {}))
    }
    here, elsewhere = (
        [task for task in left if task[0] in at_hand],
        [task for task in left if task[0] not in at_hand],
    )
    lines = []
    if elsewhere:
        how = "`gelgt bench quality --dataset DATASET --task TASK --preset paper`"
        lines += [
            f"These tasks need data that has to be downloaded first; {how} then runs one of them.",
            "",
            *_published_table(elsewhere),
            "",
        ]
    if here:
        lines += ["Not run yet, on data of the studies above:", "", *_published_table(here)]
    return lines or ["Every task of the paper has been run."]


def _is_real(study: Mapping[str, Any], task: str) -> bool:
    return is_published(study["dataset"], task, study["tasks"][task]["rows"]["train"])


def _published_table(tasks: Sequence[tuple[str, str]]) -> list[str]:
    table = []
    for dataset, task in tasks:
        figures = {
            model: figure
            for model in published_models()
            for metric in ("roc_auc", "mae", "mrr")
            if (figure := published("quality", dataset, task, model, metric)) is not None
        }
        metric = next(iter(figures.values())).metric
        sign = -1 if metric in SMALLER_IS_BETTER else 1
        best = max(
            ((sign * f.value, name) for name, f in figures.items() if name != "gelgt"), default=None
        )
        gelgt = f"{figures['gelgt'].value:g}" if "gelgt" in figures else NOT_RUN
        other = NOT_RUN if best is None else f"{best[1]} {sign * best[0]:g}"
        table.append([dataset, task, metric + (" ↓" if sign < 0 else " ↑"), NOT_RUN, gelgt, other])
    return markdown_table(
        [
            "data set",
            "task",
            "metric",
            "measured here",
            "published for gelgt",
            "best other published",
        ],
        table,
    )
