"""The regime of a run: which rows its seeds may see (docs/time.md).

frozen      rows up to the test time; ages are measured from it at the latest. The default for
            RelBench folders.
seed-time   all rows before each seed's own time. The default for everything else, and always
            for predictions.
"""

from pathlib import Path

from gelgt.config import Visibility
from gelgt.errors import GelgtError
from gelgt.presets import RunConfig
from gelgt.schema.manifest import MANIFEST, load_yaml
from gelgt.sources.database import Database
from gelgt.tasks import Task
from gelgt.tasks.times import seconds


def in_regime(
    config: RunConfig, task: Task, visibility: Visibility | None = None, as_of: int | None = None
) -> RunConfig:
    """A configuration whose sampling follows the regime and the task.

    Args:
        visibility: None is `frozen` for a RelBench folder and `seed-time` for everything else.
        as_of: Seconds since 1970 from which ages are measured at the latest, under `seed-time`.

    Raises:
        GelgtError: the frozen regime without a test time, or with a time to measure ages from,
            which it has itself.
    """
    chosen: Visibility = visibility or ("frozen" if is_relbench(task.database) else "seed-time")
    horizon = as_of
    if chosen == "frozen" and as_of is not None:
        message = (
            "--as-of has no meaning in the frozen regime, where ages are measured from the "
            "test time."
        )
        raise GelgtError(
            "bad_option", message, hint="Add --visibility seed-time, or leave --as-of out."
        )
    if chosen == "frozen":
        if task.test_timestamp is None:
            raise GelgtError(
                "no_horizon",
                f"The task '{task.name}' has no test time, which the frozen regime needs.",
                hint="Use seed-time.",
            )
        horizon = seconds(task.test_timestamp)
    causality = "inclusive" if task.kind == "autocomplete" else "strict"
    return config.with_values(
        "derived",
        sampling__visibility=chosen,
        sampling__horizon=horizon,
        sampling__causality=causality,
    )


def is_relbench(db: Database) -> bool:
    """Whether a database came as a RelBench folder, not from a source that gelgt imported."""
    for folder in (Path(db.source), db.folder):
        if "://" not in str(folder) and (folder / MANIFEST).is_file():
            # kinds that someone states import nothing
            return "format" not in (load_yaml(folder / MANIFEST).get("gelgt") or {})
    return False
