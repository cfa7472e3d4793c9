"""Tables about a data set or about trained runs, without training of their own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gelgt.bench.gating import effective_neighbours
from gelgt.bench.homophily import homophily
from gelgt.bench.machine import machine
from gelgt.bench.paper import EFFECTIVE_NEIGHBOURS, is_published
from gelgt.bench.tables import portable
from gelgt.config import Visibility
from gelgt.presets import RunConfig
from gelgt.runs.folder import load_run
from gelgt.sources import Database
from gelgt.tasks import Task
from gelgt.training.regime import in_regime

# what an analysis of trained runs repeats from the study that trained them
STUDY_KEYS = ("preset", "seeds", "budget_seconds", "settings", "regime")


@dataclass(frozen=True)
class Analysis:
    """A table with the question that it answers.

    Attributes:
        name: Of its files.
        title: The question.
        about: How to read the columns.
        db: The database.
        tasks: Its tasks that were looked at.
        entries: The rows of the table.
        facts: Regime, and where runs were trained how.
    """

    name: str
    title: str
    about: str
    db: Database
    tasks: Sequence[Task]
    entries: Sequence[Mapping[str, Any]]
    facts: Mapping[str, Any] = field(default_factory=dict)

    def content(self, command: str) -> dict[str, Any]:
        """What is written as JSON; `command` is what the user typed."""
        return {
            "machine": machine(),
            "study": self.name,
            "title": self.title,
            "about": self.about,
            "dataset": self.db.schema.name,
            **self.facts,
            "command": portable(command),
            "rows": sum(self.db.num_rows(table) for table in self.db.table_names),
            "tasks": {
                task.name: {"type": task.task_type, "rows": task.rows} for task in self.tasks
            },
            "results": list(self.entries),
            "ratios": {},
        }


def homophily_analysis(
    db: Database,
    tasks: Sequence[Task],
    settings: Mapping[str, Any],
    visibility: Visibility | None,
    seeds: int,
) -> Analysis:
    """Edge homophily of tasks.

    Args:
        db: The database.
        tasks: Its tasks.
        settings: Of sampling, such as ``sampling.hops``.
        visibility: The regime; None for the database's default.
        seeds: Training seeds whose neighbourhoods are sampled.
    """
    entries, regime = [], ""
    for task in tasks:
        config = in_regime(RunConfig.of("cpu", task.task_type, settings), task, visibility)
        entries.append(homophily(db, task, config.sampling, seeds))
        regime = config.sampling.visibility
    hops, budget = settings["sampling.hops"], settings["sampling.budget"]
    about = f"Neighbourhoods of {hops} hops and at most {budget:,} rows."
    title = "Do linked rows have the same label?"
    return Analysis("homophily", title, about, db, tasks, entries, {"regime": regime})


def budget_analysis(
    db: Database,
    tasks: Sequence[Task],
    study: Mapping[str, Any],
    out: Path,
    sizes: Sequence[int],
    device: str,
) -> Analysis:
    """Effective neighbours of trained models, as neighbourhoods grow.

    Args:
        db: The database.
        tasks: Its tasks.
        study: The result of the study that trained the runs.
        out: The study's folder.
        sizes: Rows of a neighbourhood.
        device: ``auto``, ``cpu``, ``cuda``, …
    """
    entries = []
    for task in tasks:
        folder = next(out / run["folder"] for run in study["runs"] if run["task"] == task.name)
        is_real = is_published(db.schema.name, task.name, task.rows["train"])
        paper = EFFECTIVE_NEIGHBOURS.get((db.schema.name, task.name)) if is_real else None
        measured = effective_neighbours(load_run(folder), db, task, sizes, device)
        entries += [{"task": task.name, **entry, "paper": paper} for entry in measured]
    about = (
        "Means over validation seeds of one trained model: rows sampled, those of the first hop, "
        "the sum of all gates, the share of seeds whose neighbourhood is full, and exp(entropy) of "
        "attention at the run's own budget. The paper gives no formula; this one is ours "
        "(`gelgt/bench/gating.py`)."
    )
    facts = {key: study[key] for key in STUDY_KEYS if key in study}
    return Analysis("budget", "How many neighbours count?", about, db, tasks, entries, facts)
