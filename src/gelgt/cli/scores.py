"""Prints the scores of a run beside its baselines and the temporal kernels that it learned, and
gives scripts the same as JSON."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gelgt.calibration import ProbabilityMap
from gelgt.cli.output import print_table, say
from gelgt.runs.record import Profile, Retrained, RunRecord, TimeFacts
from gelgt.runs.words import doubts, ranking_words, repeat_words, score_words
from gelgt.schema.finding_text import MOST_TOLD

Scores = Mapping[str, float | None]
# what of metrics.json `gelgt train --json` prints
RUN_KEYS = {
    "regime",
    "horizon",
    "seed",
    "preset",
    "metric",
    "metrics",
    "parts",
    "tree_share",
    "baselines",
    "baseline_labels",
    "intervals",
    "probabilities",
    "seconds",
    "training_seconds",
    "best_epoch",
    "ended",
    "parameters",
    "retrain",
    "time",
    "ranking",
    "findings",
}
TASK_KEYS = {"name", "task_type", "entity_table", "rows", "val_timestamp", "test_timestamp"}


def run_json(record: RunRecord, run: Path, profile: Profile | None) -> dict[str, Any]:
    """What `gelgt train --json` prints."""
    kernels = [] if profile is None else profile.strongest_kernels()
    return {
        **record.model_dump(mode="json", include=RUN_KEYS),
        "epochs": len(record.epochs),
        "task": record.task.model_dump(mode="json", include=TASK_KEYS),
        "temporal_profile": [
            {**kernel.model_dump(exclude={"weights"}), "weight": weight}
            for kernel, weight in kernels
        ],
        "run": str(run),
    }


def score_rows(
    model: str,
    scores: Mapping[str, Scores],
    parts: Mapping[str, Mapping[str, Scores]],
    tree_share: float,
) -> dict[str, Mapping[str, Scores]]:
    """A row for the model; where it has several parts, also one for each of them alone."""
    rows = {model: scores}
    if "trees" in parts or "columns" in parts:
        rows["  network alone"] = parts["network"]
    if "columns" in parts:
        rows["    its columns alone"] = parts["columns"]
    if "trees" in parts:
        rows[f"  trees alone (share {100 * tree_share:.0f} %)"] = parts["trees"]
    return rows


def baseline_words(counts: Mapping[str, int]) -> list[str]:
    """A line on which labels the baselines learned; none without LightGBM."""
    if not counts:
        return []
    test = (
        f" and, for test, the {counts['known']:,} known at the test time"
        if "known" in counts
        else ""
    )
    return [
        f"LightGBM learned the same {counts['train']:,} labels as the model{test}; "
        "the entity's past labels are those whose windows have closed by the seed time."
    ]


def ranking_lines(record: RunRecord) -> list[str]:
    """What the scores and the baselines of a recommendation are."""
    words = ranking_words(record)
    width = max(map(len, words), default=0)
    lines = [f"  {name:<{width}}  {meaning}" for name, meaning in words.items()]
    return [
        score_words(record),
        *(["", "baselines", *lines, repeat_words(record)] if lines else []),
    ]


def print_run(
    record: RunRecord,
    profile: Profile | None,
    extra: Mapping[str, Mapping[str, Scores]] | None = None,
) -> None:
    """Scores beside baselines, how training went, and what was learned about time.

    Args:
        record: Of the run.
        profile: Its profile, to be printed too.
        extra: More rows of the table, such as an oracle.
    """
    say("", f"{record.task.name}: scores beside baselines ({regime_words(record)})", style="bold")
    rows = score_rows(record.model, record.metrics, record.parts, record.tree_share)
    print_scores(record.metric, rows | record.baselines | dict(extra or {}))
    if record.ranking is not None:
        say(*ranking_lines(record))
    elif record.baselines:
        say(*baseline_words(record.baseline_labels))
    if record.intervals:
        say("", *interval_lines({level: vars(each) for level, each in record.intervals.items()}))
    if record.probabilities is not None and record.probabilities.kind != "none":
        say("", probability_words(record.probabilities))
    if record.retrain is not None:
        say("", retrain_words(record.retrain))
    if record.trees is not None:
        share = record.trees.share
        ranks = record.ranking is not None
        columns, judge = ("candidates", "MAP") if ranks else ("history", "loss")
        say(
            "",
            f"LightGBM on the same {columns} makes up {share:.0%} of the prediction, the network "
            f"{1 - share:.0%}; the validation {judge} decided.",
        )
    say(
        "",
        f"best epoch {record.best_epoch} of {len(record.epochs)}, ended by: {record.ended}; "
        f"seed {record.seed}, preset {record.preset}, {record.parameters:,} parameters",
    )
    if record.time.cut_off:
        say("", time_words(record.time))
    print_doubts(record)
    if profile is not None:
        print_profile(profile)


def print_doubts(record: RunRecord) -> None:
    """Findings because of which the scores may be wrong."""
    listed = list(doubts(record))
    if not listed:
        return
    say("", "These scores may be wrong", style="bold")
    say(*(f"  {words}" for words in listed[:MOST_TOLD]))
    if len(listed) > MOST_TOLD:
        say(f"  and {len(listed) - MOST_TOLD} more; report.html lists them")


def interval_lines(measured: Mapping[str, Mapping[str, Any]], split: str = "test") -> list[str]:
    """How prediction intervals did, a line for each level."""
    return [f"Prediction intervals (--interval) on {split}"] + [
        f"  {float(level):.0%} hold {each['coverage']:.1%} of the labels, mean width "
        f"{_number(each['mean_width'])}"
        for level, each in measured.items()
    ]


def probability_words(used: ProbabilityMap) -> str:
    """What is done to probabilities, and why."""
    return (
        f"Probabilities are calibrated by {used.words}, which keeps their order: it lowers "
        f"the log loss of held-out validation entities by {used.gain:.4f} ± {used.error:.4f}."
    )


def time_words(time: TimeFacts) -> str:
    """What a run could not do in its time."""
    from gelgt.cli.waiting import duration

    limit = "" if time.limit is None else f" in {duration(time.limit)}"
    return f"Not finished{limit}: {'; '.join(time.cut_off)}. --time-limit gives them more time."


def retrain_words(retrained: Retrained) -> str:
    """On which labels a run was retrained, and which model its scores are of."""
    rows = retrained.rows
    epochs = f", for {retrained.epochs} epochs" if retrained.epochs else ""
    if retrained.labels == "all":
        return (
            f"Then retrained on all {rows:,} labels{epochs}; the scores are those of the model "
            "before retraining."
        )
    return (
        f"Then retrained on the {rows:,} labels known at the test time{epochs}; the validation "
        "score is that of the model before retraining."
    )


def print_scores(
    metric: str, models: Mapping[str, Mapping[str, Scores]], splits: Sequence[str] = ("val", "test")
) -> None:
    """A row for each model: the deciding metric of every split, then the other metrics of the last
    split."""
    from gelgt.metrics import SMALLER_IS_BETTER

    last = splits[-1]
    names = {"train": "training", "val": "validation", "test": "test"}
    others = list(
        dict.fromkeys(m for scores in models.values() for m in scores.get(last, {}) if m != metric)
    )
    headers = [
        "model",
        *(f"{names[s]} {metric}" for s in splits),
        *(f"{names[last]} {m}" for m in others),
    ]
    rows = [
        [
            name,
            *(_number(scores.get(s, {}).get(metric)) for s in splits),
            *(_number(scores.get(last, {}).get(m)) for m in others),
        ]
        for name, scores in models.items()
    ]
    print_table(headers, rows, right=range(1, len(headers)))
    smaller = [m for m in (metric, *others) if m in SMALLER_IS_BETTER]
    if metric in smaller:
        say(f"smaller is better: {', '.join(smaller)}")


def regime_words(record: RunRecord) -> str:
    """The regime, and which rows are visible in it."""
    horizon = (record.horizon or "")[:10]
    if record.regime == "frozen":
        return f"regime frozen: rows up to {horizon} are visible"
    ages = f", ages from {horizon} at the latest" if horizon else ""
    return f"regime seed-time: rows before each seed time are visible{ages}"


def print_profile(profile: Profile) -> None:
    """The strongest kernels of the Gaussian bias, and the tables that attention goes to."""
    kernels = profile.strongest_kernels(3)
    if kernels:
        say("", "Learned temporal kernels of the Gaussian bias, strongest first", style="bold")
        say(*(f"  {kernel.text}, weight {weight:+.2f}" for kernel, weight in kernels))
    by_table = profile.attention.by_table if profile.attention is not None else {}
    if by_table:
        largest = sorted(by_table.items(), key=lambda entry: -entry[1])[:4]
        shares = [f"{name} {share:.0%}" for name, share in largest if share >= 0.005]
        say("Attention goes to " + ", ".join(shares))


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.4f}" if abs(value) < 100 else f"{value:,.1f}"
