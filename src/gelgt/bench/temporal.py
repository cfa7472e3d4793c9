"""`gelgt bench temporal`: where the temporal kernels look, epoch by epoch.

The paper's table shows one μ and one σ that hardly move (33.31 to 33.16 days in ten epochs at a
rate of 1e-4). Every run of gelgt keeps the centres and widths of all kernels after every epoch, so
that the table can be made of any run.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gelgt.bench.plots import standing_alone
from gelgt.bench.tables import markdown_table
from gelgt.files import write_text
from gelgt.nn.base import duration
from gelgt.report.charts import Plot
from gelgt.report.scales import ages, whole

Kernels = Sequence[Mapping[str, float]]


def kernels_by_epoch(metrics: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Epochs of a run with the centres and widths (days) of the first set of kernels after each;
    epochs without any are left out."""
    return [
        {
            "epoch": record["epoch"],
            "centres": [kernel["centre_days"] for kernel in record["kernels"][0]],
            "widths": [kernel["width_days"] for kernel in record["kernels"][0]],
        }
        for record in metrics["epochs"]
        if record.get("kernels")
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
    share = moved(epochs)
    told = (
        f"From the first epoch to the last, a centre moved by {100 * (share or 0):.1f} % at most."
    )
    return "\n".join([f"### {name}", "", *markdown_table(headers, lines), "", told]) + "\n"


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
