"""`gelgt bench temporal`: centres and widths of the temporal kernels, epoch by epoch.

The paper's table shows one μ and one σ that hardly move (33.31 to 33.16 days in ten epochs at a
learning rate of 1e-4). Every run of gelgt records all centres and widths after every epoch, so that
there is such a table for any run.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gelgt.bench.plots import standing_alone
from gelgt.bench.tables import facts, markdown_table
from gelgt.files import write_text
from gelgt.nn.base import duration
from gelgt.report.charts import Plot
from gelgt.report.scales import ages, whole
from gelgt.runs.folder import write_json
from gelgt.runs.record import RunRecord, read_record

Kernels = Sequence[Mapping[str, float]]


def kernels_by_epoch(record: RunRecord) -> list[dict[str, Any]]:
    """Centres and widths (days) of the first layer's kernels after each epoch; epochs without any
    are left out."""
    return [
        {
            "epoch": epoch.epoch,
            "centres": [kernel.centre_days for kernel in epoch.kernels[0]],
            "widths": [kernel.width_days for kernel in epoch.kernels[0]],
        }
        for epoch in record.epochs
        if epoch.kernels
    ]


def moved(epochs: Sequence[Mapping[str, Any]]) -> float | None:
    """The largest share that a centre moved by from the first epoch to the last.

    Example:
        >>> moved([{"centres": [10.0, 100.0]}, {"centres": [11.0, 98.0]}])
        0.1
    """
    if not epochs:
        return None
    first, last = epochs[0]["centres"], epochs[-1]["centres"]
    return round(
        max(abs(float(b) - float(a)) / max(abs(float(a)), 1e-9) for a, b in zip(first, last)), 4
    )


def temporal_markdown(name: str, epochs: Sequence[Mapping[str, Any]]) -> str:
    """A table of one run: a line for each epoch, a column for each kernel."""
    if not epochs:
        return f"{name}: no kernels were learned.\n"
    headers = [
        "epoch",
        *(f"kernel {number + 1}: centre, width" for number in range(len(epochs[0]["centres"]))),
    ]
    lines = [
        [
            str(entry["epoch"]),
            *(f"{duration(c)}, {duration(w)}" for c, w in zip(entry["centres"], entry["widths"])),
        ]
        for entry in epochs
    ]
    share = 100 * (moved(epochs) or 0)
    summary = f"From the first epoch to the last, a centre moved by {share:.1f} % at most."
    return "\n".join([f"### {name}", "", *markdown_table(headers, lines), "", summary]) + "\n"


def write_temporal(study: Mapping[str, Any], out: Path) -> tuple[dict[str, Any], str]:
    """Writes OUT/temporal.json, OUT/temporal.md and a chart of each run of a study.

    Returns:
        What the JSON file holds, and the text of the Markdown file.
    """
    parts = [f"# {study['title']}", "", *(f"- {fact}" for fact in facts(study)), ""]
    results = []
    for run in study["runs"]:
        name = f"{run['task']}, seed {run['seed']}"
        epochs = kernels_by_epoch(read_record(out / run["folder"] / "metrics.json", RunRecord))
        results.append(
            {"task": run["task"], "seed": run["seed"], "epochs": epochs, "moved": moved(epochs)}
        )
        parts.append(temporal_markdown(name, epochs))
        if epochs:
            picture = out / f"temporal-{run['task']}-seed-{run['seed']}.svg"
            temporal_plot(f"{study['dataset']}, {name}: centres of the kernels", epochs, picture)
            parts.append(f"![{picture.stem}]({picture.name})\n")
    content = {**study, "scores": study["results"], "results": results}
    text = "\n".join(parts)
    write_json(out / "temporal.json", content)
    write_text(out / "temporal.md", text)
    return content, text


def temporal_plot(title: str, epochs: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Centres against epochs, a line for each kernel."""
    xs = [float(entry["epoch"]) for entry in epochs]
    centres = [list(line) for line in zip(*(entry["centres"] for entry in epochs))]
    every = [c for line in centres for c in line]
    plot = Plot(
        whole(int(xs[0]), int(xs[-1]), "epoch"),
        ages([max(every)], every, "centre of a kernel"),
        title,
    )
    for number, line in enumerate(centres):
        plot.line(xs, line, number % 8, name=f"kernel {number + 1}")
    write_text(path, standing_alone(plot.svg(), title))
