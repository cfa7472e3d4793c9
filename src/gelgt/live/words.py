"""What the page says of a training, as sentences and facts."""

import time

from gelgt.report.html import escape
from gelgt.report.numbers import duration, is_lower_better, score, word
from gelgt.runs.progress import Curve, ProgressRecord

PHASES = {
    "source": "reading the source",
    "task": "computing the labels",
    "data": "building graph and features",
    "columns": "choosing history columns",
    "candidates": "finding candidates",
    "baselines": "scoring the baselines",
    "trees": "growing trees",
    "columns network": "training the columns network",
    "training": "training the network",
    "retrain": "retraining with the labels that were held out",
    "scoring": "scoring validation and test",
    "writing": "writing the run folder",
}
ENDED = {
    "all epochs": "every epoch was taken",
    "no better validation score": "the validation score no longer improved",
    "time limit": "the time limit was reached; the same command with --resume continues",
}
RESUME = "The same gelgt train command with --resume continues from the last checkpoint"
GONE = (
    "The run folder holds no progress any more: it was removed, or its training ended before "
    "anything was trained."
)


def state(record: ProgressRecord | None, now: float) -> str:
    """The status of a training, or ``silent`` or ``gone``."""
    if record is None:
        return "gone"
    return "silent" if record.is_silent(now) else record.status


def sentence(record: ProgressRecord | None, now: float) -> str:
    """How a training stands, for everyone who sees or hears the page."""
    if record is None:
        return GONE
    status = state(record, now)
    if status == "silent":
        return (
            f"No sign of life since {clock(record.updated, now)}: the training was killed, or its "
            f"machine stopped. {RESUME}, if there is one."
        )
    if status == "failed":
        error = record.error
        parts = (error.get("message", ""), error.get("hint", ""))
        return f"Failed ({error.get('code', 'bug')}). {' '.join(part for part in parts if part)}"
    if status == "finished":
        return f"Finished: {ENDED.get(record.ended, record.ended or 'the run folder is whole')}."
    if status == "interrupted":
        if record.scores:
            return f"Interrupted: the best weights until then were scored and kept. {RESUME}."
        return f"Stopped before it was done. {RESUME}, if there is one."
    if record.is_stopping:
        return "Ctrl-C was pressed: the best weights so far are being scored and saved."
    return f"{activity(record).capitalize()}."


def activity(record: ProgressRecord) -> str:
    """What goes on, as ``training network 2 of 5``."""
    curve, several = present(record), record.networks > 1
    if curve is not None and several and record.phase in ("training", "retrain"):
        verb = "retraining" if curve.is_retraining else "training"
        return f"{verb} network {curve.network} of {record.networks}"
    return PHASES.get(record.phase, record.phase)


def present(record: ProgressRecord) -> Curve | None:
    """The curve of the network that is trained, or that was trained last."""
    return record.curves[-1] if record.curves else None


def times(record: ProgressRecord, now: float) -> list[tuple[str, str]]:
    """How long it has taken and will take, and where it stands: names and values as HTML."""
    is_going = state(record, now) in ("preparing", "running")
    spent = elapsed(record, now)
    in_phase = record.phase_seconds + spent - record.seconds
    pairs = [("Running for" if is_going else "Time taken", duration(spent))]
    if is_going:
        pairs.append(("Time left, at most", _left(record, spent)))
        plan = f" of at most {duration(record.plan)}" if record.plan is not None else ""
        pairs.append(("This phase", duration(in_phase) + plan))
    if record.step is not None:
        pairs += _step(record, now)
    best = best_score(record)
    if best is not None:
        value, curve = best
        which = f", network {curve.network}" if len(record.curves) > 1 else ""
        pairs.append(
            (
                f"Best validation {escape(word(record.metric))}",
                f"{score(value)}<br>epoch {curve.best_epoch}{which}",
            )
        )
    return pairs


def elapsed(record: ProgressRecord, now: float) -> float:
    """Seconds since the command began, until now or until it ended."""
    is_going = state(record, now) in ("preparing", "running")
    return record.seconds + (max(0.0, now - record.updated) if is_going else 0.0)


def _left(record: ProgressRecord, spent: float) -> str:
    if record.limit is None:
        return "" if record.status == "preparing" else "no time limit"
    if spent >= record.limit:
        return f"none of the time limit of {duration(record.limit)}: it ends soon"
    return f"{duration(record.limit - spent)} of {duration(record.limit)}"


def _step(record: ProgressRecord, now: float) -> list[tuple[str, str]]:
    step, curve = record.step, present(record)
    if step is None or curve is None:
        return []
    pairs = [
        ("Epoch", f"{step.epoch} of at most {curve.epochs}"),
        ("Step", f"{step.step} of {step.steps}<br>loss {score(step.loss)}"),
    ]
    if step.left is not None and state(record, now) == "running":
        pairs.append(("This network, at most", f"{duration(step.left)} left"))
    return pairs


def best_score(record: ProgressRecord) -> tuple[float, Curve] | None:
    """The best validation score of all networks so far."""
    scored = [
        (point.score, curve)
        for curve in record.curves
        for point in curve.points
        if point.epoch == curve.best_epoch and point.score is not None and not curve.is_retraining
    ]
    pick = min if is_lower_better(record.metric) else max
    return pick(scored, key=lambda pair: pair[0]) if scored else None


def clock(moment: float, now: float) -> str:
    """A time of this machine's clock, with its day where that is another."""
    at, today = time.localtime(moment), time.localtime(now)
    form = "%H:%M:%S" if at[:3] == today[:3] else "%Y-%m-%d %H:%M:%S"
    return time.strftime(form, at)
