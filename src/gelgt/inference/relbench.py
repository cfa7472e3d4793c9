"""RelBench's prediction table, for its leaderboard: the test table with the target replaced by
predictions.

    driverId,date,did_not_finish
    1,2010-01-01,0.83

Binary tasks give the probability, regression tasks the value, recommendations a JSON list of k rows
(-1 where there are fewer). `relbench.submit.evaluate_task`
scores such a file, and a folder of them, each named DATASET__TASK.csv, is a submission.
"""

import json
from pathlib import Path
from typing import Any

import pandas as pd

from gelgt.errors import GelgtError
from gelgt.inference.evaluate import score_split
from gelgt.inference.write import written_text
from gelgt.runs.folder import Run

SUPPORTED = ("binary_classification", "regression", "recommendation")


def write_relbench(
    run: Run, source: Any, out: str | Path, *, split: str = "test", device: str = "auto"
) -> Path:
    """Write the prediction table of a run's test split, in the run's own regime.

    Args:
        run: The run.
        source: The RelBench folder or name that it was trained on; None takes the run's own.
        out: A .csv file, or a folder in which the file is named as RelBench wants it.
        split: Which rows.
        device: ``auto``, ``cpu``, ``cuda``, …

    Returns:
        The file that was written.

    Raises:
        GelgtError: RelBench has no such table for the kind of task, or the model has learned its
            labels.
    """
    kind = run.target.task_type
    if kind not in SUPPORTED:
        raise GelgtError(
            "no_submission",
            f"RelBench takes no predictions of {kind} tasks.",
            hint=f"It takes {' and '.join(SUPPORTED)}.",
        )
    scored = score_split(run, source, split, device=device)
    if scored.learned and split != "train":
        raise GelgtError(
            "learned_test",
            f"The model was retrained and has learned {scored.learned:,} of the "
            f"{len(scored.labels):,} labels of '{split}'.",
            hint="Train without --retrain-all."
            if split == "test"
            else "Train with train.retrain = false.",
        )
    task = scored.data.task
    frame: pd.DataFrame = task.table(split).select([task.entity_col, task.time_col]).to_pandas()
    predictions = scored.parts.together
    frame[task.label_col] = (
        [json.dumps(row.tolist()) for row in predictions]
        if kind == "recommendation"
        else predictions
    )
    path = Path(out).expanduser()
    path = path if path.suffix.lower() == ".csv" else path / f"{run.schema.name}__{task.name}.csv"
    with written_text(path) as file:
        frame.to_csv(file, index=False)
    return path
