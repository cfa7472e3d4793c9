"""A training in the middle, for the tests of its page."""

import time
from pathlib import Path
from typing import Any

from gelgt.files import write_text
from gelgt.runs.progress import PROGRESS, Curve, Phase, Point, ProgressRecord, Step

SCORES = (0.61, 0.72, 0.7)


def record(**changes: Any) -> ProgressRecord:
    """The second of two networks, in its third epoch; `changes` replace its facts."""
    points = tuple(
        Point(epoch=epoch, loss=0.9 - 0.1 * epoch, score=score, seconds=4.0 * epoch)
        for epoch, score in enumerate(SCORES, 1)
    )
    now = time.time()
    facts: dict[str, Any] = {
        "run": "churn",
        "task": "PREDICT COUNT(orders.*, 0, 30, days) = 0 FOR EACH customers.id",
        "metric": "roc_auc",
        "began": now - 40,
        "updated": now,
        "seconds": 40.0,
        "limit": 300.0,
        "phase": "training",
        "phase_seconds": 21.0,
        "phases": (Phase(name="data", seconds=1.9, facts="9 rows in 2 tables"),),
        "networks": 2,
        "step": Step(epoch=3, step=2, steps=10, loss=0.5, left=12.0),
        "curves": (
            Curve(network=1, epochs=30, best_epoch=2, points=points),
            Curve(network=2, epochs=30, best_epoch=2, points=points[:2]),
        ),
        "baselines": {"lightgbm": 0.66, "entity-mean": 0.1},
    }
    return ProgressRecord(**facts | changes)


def write(folder: Path, **changes: Any) -> ProgressRecord:
    """The same as the file of a run folder."""
    content = record(**changes)
    write_text(folder / PROGRESS, content.model_dump_json())
    return content
