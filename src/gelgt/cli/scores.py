"""Prints a run for people: its scores beside its baselines, and the times that it looks for. Gives
scripts the same as JSON."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gelgt.cli.output import print_table, say
from gelgt.runs.record import Retrained, RunRecord

Scores = Mapping[str, float | None]


def run_json(record: RunRecord, run: Path, shown: Mapping[str, Any]) -> dict[str, Any]:
    """What `gelgt train --json` prints."""
    keys = (
        "regime",
        "horizon",
        "seed",
        "preset",
        "metric",
        "metrics",
        "baselines",
        "seconds",
        "training_seconds",
        "best_epoch",
        "ended",
    )
    metrics = record.to_json()
    task = metrics["task"]
    return {
        **{key: metrics[key] for key in keys},
        **apart_json(metrics),
        "epochs": len(record.epochs),
        "task": {
            key: task[key]
            for key in (
                "name",
                "task_type",
                "entity_table",
                "rows",
                "val_timestamp",
                "test_timestamp",
            )
        },
        "parameters": metrics["parameters"],
        "retrain": metrics["retrain"],
        "temporal_profile": strongest(shown, limit=None),
        "run": str(run),
    }


def apart_json(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The scores of the network and the trees alone, the share of the trees, and how many labels
    LightGBM learned; older runs have none."""
    return {
        "parts": metrics.get("parts", {}),
        "tree_share": metrics.get("tree_share"),
        "baseline_labels": metrics.get("baseline_labels", {}),
    }


def told_apart(model: str, scored: Mapping[str, Any]) -> dict[str, Mapping[str, Scores]]:
    """A row for a model, and where trees were grown beside its network one for each of both
    alone."""
    parts = scored.get("parts", {})
    rows: dict[str, Mapping[str, Scores]] = {model: scored["metrics"]}
    if "trees" in parts:
        rows["  network alone"] = parts["network"]
        rows[f"  trees alone (share {100 * scored['tree_share']:.0f} %)"] = parts["trees"]
    return rows


def baseline_words(scored: Mapping[str, Any]) -> str:
    """Which labels the baselines learned, in a sentence; nothing for runs that do not say, or have
    no LightGBM beside them."""
    labels = scored.get("baseline_labels") or {}
    if not labels or not scored["baselines"]:
        return ""
    known = (
        f", and for test the {labels['known']:,} known at the test time"
        if "known" in labels
        else ""
    )
    return (
        f"LightGBM learned the {labels['train']:,} labels that the model learned{known}; "
        "the entity's past is every window of its own that has closed by the seed time."
    )


def print_run(
    record: RunRecord,
    shown: Mapping[str, Any],
    extra: Mapping[str, Mapping[str, Scores]] | None = None,
) -> None:
    """Scores beside baselines, and what was learned about time.

    Args:
        extra: More rows of the table, such as an oracle.
    """
    say("", f"{record.task.name}: scores beside baselines ({regime_words(record)})", style="bold")
    rows = {**told_apart(record.model, record.to_json()), **record.baselines, **(extra or {})}
    print_scores(record.metric, rows)
    if words := baseline_words(record.to_json()):
        say(words)
    if record.retrain is not None:
        say("", retrain_words(record.retrain))
    if record.trees is not None:
        share = record.trees.share
        say(
            "",
            f"LightGBM on the same history makes {share:.0%} of the prediction, the network "
            f"{1 - share:.0%}; validation chose so.",
        )
    say(
        "",
        f"best epoch {record.best_epoch} of {len(record.epochs)}, ended by: {record.ended}; seed "
        f"{record.seed}, preset {record.preset}, {record.parameters:,} parameters",
    )
    print_profile(shown)


def retrain_words(retrained: Retrained) -> str:
    """What was learned once validation had chosen, and what the scores are of."""
    epochs = f"for {retrained.epochs} epochs"
    if retrained.labels == "all":
        return (
            f"Then retrained on all {retrained.rows:,} labelled rows {epochs}; the scores are "
            "those of the model before."
        )
    return (
        f"Then retrained on the {retrained.rows:,} labels that are known at the test time, "
        f"{epochs}; the validation score is that of the model before."
    )


def print_scores(
    metric: str, models: Mapping[str, Mapping[str, Scores]], splits: Sequence[str] = ("val", "test")
) -> None:
    """A row a model; the deciding metric of every split first, then the others of the last
    split."""
    from gelgt.metrics import SMALLER_IS_BETTER

    last = splits[-1]
    names = {"val": "validation", "test": "test"}
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
    """The regime, and what it lets a seed see."""
    if record.regime == "frozen":
        return f"regime frozen: rows up to {str(record.horizon)[:10]} are seen"
    ages = f", ages from {record.horizon[:10]} at the latest" if record.horizon else ""
    return f"regime seed-time: all rows before each seed's own time are seen{ages}"


def print_profile(shown: Mapping[str, Any]) -> None:
    """The strongest kernels of the Gaussian bias, and the tables that attention goes to."""
    kernels = strongest(shown)
    if kernels:
        say(
            "",
            "What it looks for in time (kernels of the Gaussian bias, strongest first)",
            style="bold",
        )
        say(*(f"  {k['text']}, weight {k['weight']:+.2f}" for k in kernels))
    by_table = shown.get("attention", {}).get("by_table", {})
    if by_table:
        share = sorted(by_table.items(), key=lambda entry: -entry[1])[:4]
        say(
            "Attention goes to "
            + ", ".join(f"{name} {value:.0%}" for name, value in share if value >= 0.005)
        )


def strongest(shown: Mapping[str, Any], limit: int | None = 3) -> list[dict[str, Any]]:
    """The kernels by their largest weight in any head, falling."""
    found = [
        {
            "text": kernel["text"],
            "centre_days": kernel["centre_days"],
            "width_days": kernel["width_days"],
            "weight": max(kernel["weights"], key=abs),
        }
        for layer in shown.get("bias", ())
        for kernel in layer["kernels"]
        if kernel.get("weights")
    ]
    return sorted(found, key=lambda kernel: -abs(kernel["weight"]))[:limit]


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.4f}" if abs(value) < 100 else f"{value:,.1f}"
