"""`gelgt evaluate`: the scores of a run again, from its weights."""

import time
from typing import Annotated

import typer

from gelgt.cli.bundle import bundled
from gelgt.cli.options import JsonFlag, RunOptions
from gelgt.cli.output import note, print_json, say
from gelgt.cli.parse import one_of


@bundled
def evaluate_command(
    *,
    split: Annotated[
        str,
        typer.Option("--split", metavar="test|val|train", help="Split whose labels are scored."),
    ] = "test",
    run: RunOptions,
    as_json: JsonFlag = False,
) -> None:
    """Score a run again, from its weights.

    On the data that it was trained on, the scores equal those of the training. On a source with
    newer rows, the labels are computed from those rows.
    """
    one_of("--split", split, ("test", "val", "train"))
    from gelgt.cli.scores import (
        baseline_words,
        interval_lines,
        print_doubts,
        print_scores,
        ranking_lines,
        regime_words,
        score_rows,
    )
    from gelgt.cli.waiting import working
    from gelgt.inference import evaluate_run

    start = time.perf_counter()
    loaded = run.load()
    with working(f"scoring {split}"):
        scored = evaluate_run(loaded, run.open(loaded), split, device=run.device)
    record = loaded.record
    result = scored | {
        "metric": record.metric,
        "split": split,
        "source": run.address(loaded),
        "seconds": round(time.perf_counter() - start, 2),
        "findings": [finding.model_dump(mode="json") for finding in record.findings],
    }
    if as_json:
        print_json(result)
        return
    say(
        f"{record.task.name}: {scored['rows']:,} rows of {split} ({regime_words(record)})",
        style="bold",
    )
    rows = score_rows(record.model, scored["metrics"], scored["parts"], scored["tree_share"])
    print_scores(record.metric, rows | scored["baselines"], (split,))
    if record.ranking is not None:
        say(*ranking_lines(record))
    elif scored["baselines"]:
        say(*baseline_words(scored["baseline_labels"]))
    if scored["intervals"]:
        say("", *interval_lines(scored["intervals"], split))
    print_doubts(record)
    for text in scored["notices"]:
        note(f"note: {text}")
