"""The head of the page: what is predicted, in which regime, how well beside the baselines, and from
which data."""

from gelgt.report.html import code, escape, facts, note
from gelgt.report.numbers import (
    LEVEL,
    MISSING,
    count,
    difference,
    duration,
    heading,
    is_lower_better,
    is_number,
    moment,
    score,
    signed,
    word,
)
from gelgt.report.run import Run
from gelgt.runs.predictions import BINARY, MULTICLASS, MULTILABEL, REGRESSION
from gelgt.runs.record import TaskFacts
from gelgt.runs.words import doubts

SHOWN_DOUBTS = 6
REGIMES = {
    "frozen": "no seed sees rows after the test time",
    "seed-time": "each seed sees every row before its seed time, and none after it",
}


def header(run: Run) -> str:
    """The head of the page, above the sections."""
    record = run.record
    where = [f"Report on the run {record.run or run.folder.name}"]
    where += [f"preset {record.preset}"] if record.preset else []
    parts = [
        f'<header><p class="over">{escape(" · ".join(where))}</p>',
        f"<h1>{escape(record.task.name)}</h1>",
        f'<p class="lead">{task_words(run)}</p>',
        code(record.task.sentence) if record.task.sentence else "",
        f'<p class="lead">{verdict(run)}</p>',
        _cards(run),
        note(_regime(run)),
        facts(_facts(run)),
        note(_choices(run)),
        _doubts(run),
        "</header>",
    ]
    return "".join(parts)


def task_words(run: Run) -> str:
    """The task as a sentence."""
    task = run.record.task
    table = f"<b class='name'>{escape(task.entity_table)}</b>"
    if run.is_recommendation:
        return f"Recommends to each row of {table} {_recommended(run)}{_when(task)}."
    target = f"<b class='name'>{escape(task.target or task.name)}</b>"
    what = {
        BINARY: f"whether {target} is true (yes or no)",
        REGRESSION: f"the value of {target}",
        MULTICLASS: f"which of {len(task.classes) or 'several'} classes {target} has",
        MULTILABEL: f"which of {len(task.classes) or 'several'} labels {target} has",
    }.get(task.task_type, target)
    return f"Predicts {what} for each row of {table}{_when(task)}."


def _recommended(run: Run) -> str:
    """What a recommendation chooses from."""
    facts, target = run.record.ranking, escape(run.record.task.target or "the key")
    if facts is None:
        return f"the rows that <b class='name'>{target}</b> will name"
    table = f"<b class='name'>{escape(facts.table)}</b>"
    return f"the {facts.k} rows of {table} that {target} will most likely name"


def _when(task: TaskFacts) -> str:
    window = (task.timedelta or "0 days").removesuffix(" 00:00:00")  # as pandas writes whole days
    return "" if window.startswith("0 ") else f", over the {escape(window)} after the seed time"


def verdict(run: Run) -> str:
    """The score beside the best baseline, and whether the difference is more than chance."""
    record, split = run.record, main_split(run)
    ours = run.score(record.model, split)
    if ours is None or not is_number(ours):
        return f"This run has no {escape(word(record.metric))} yet."
    best = best_baseline(run, split)
    reaches = (
        f"{escape(word(record.model))} reaches a {split_word(split)} {escape(word(record.metric))} "
        "of"
    )
    if best is None:
        return f"{reaches} {score(ours)}. No baseline was scored beside it."
    theirs = run.score(best, split)
    gap = difference(ours, theirs, record.metric)
    than = "as" if gap == "the same" else "than"
    sentence = (
        f"{reaches} {score(ours, (theirs,))}, {gap} {than} the best baseline, {escape(word(best))}."
    )
    gain = run.intervals.gains.get(best) if run.intervals and split == "test" else None
    if gain is None:
        return sentence
    over = " over entities" if run.intervals and run.intervals.over_entities else ""
    interval = (
        f"The {LEVEL} interval{over} of that difference, {signed(gain.low, (ours,))} to "
        f"{signed(gain.high, (ours,))},"
    )
    if gain.low <= 0 <= gain.high:
        return f"{sentence} {interval} contains 0: it may be chance."
    return f"{sentence} {interval} does not contain 0: it is more than chance."


def best_baseline(run: Run, split: str) -> str | None:
    """The baseline with the best score of a split."""
    scores = {
        name: value
        for name in run.record.baselines
        if (value := run.score(name, split)) is not None and is_number(value)
    }
    if not scores:
        return None
    return (min if is_lower_better(run.record.metric) else max)(scores, key=scores.__getitem__)


def main_split(run: Run) -> str:
    """Test where it was scored, else validation."""
    return "test" if is_number(run.score(run.record.model, "test")) else "val"


def split_word(split: str) -> str:
    return {"val": "validation", "train": "training"}.get(split, split)


def _cards(run: Run) -> str:
    split = main_split(run)
    scores = {model: run.score(model, split) for model in run.models}
    return f'<div class="cards">{"".join(_card(run, model, scores) for model in run.models)}</div>'


def _card(run: Run, model: str, scores: dict[str, float | None]) -> str:
    """The score of a model; of a baseline also how far the run's model is from it."""
    record, split = run.record, main_split(run)
    if model == record.model:
        title = f"{split_word(split).capitalize()} {word(record.metric)}, {word(model)}"
        interval = run.intervals.models.get(model) if run.intervals and split == "test" else None
        over = " over entities" if run.intervals and run.intervals.over_entities else ""
        below, css = "", "own"
        if interval:
            below = f"{LEVEL} interval{over} {score(interval.low)} to {score(interval.high)}"
    else:
        title = heading(model)
        gap = difference(scores[record.model], scores[model], record.metric)
        below = f"{word(record.model)} is {gap}" if gap != MISSING else "not scored"
        css = gap.rpartition(" ")[2]
    own = " own" if css == "own" else ""
    shown = score(scores[model], tuple(scores.values()))
    return (
        f'<div class="card c{run.colour(model)}{own}"><span>{escape(title)}</span><b>{shown}</b>'
        f'<span class="{css}">{escape(below)}</span></div>'
    )


def _regime(run: Run) -> str:
    record = run.record
    words = REGIMES.get(record.regime or "", "the run does not say which rows a seed could see")
    horizon = ""
    if record.horizon:
        day = f'<span class="day">{escape(moment(record.horizon))}</span>'
        horizon = f" Ages are measured from {day} at the latest."
    direction = "lower" if is_lower_better(record.metric) else "higher"
    return (
        f"Regime <b>{escape(record.regime or 'unknown')}</b>: {words}.{horizon} All scores on this "
        f"page are of this regime. For {escape(word(record.metric))}, {direction} is better."
    )


def _choices(run: Run) -> str:
    test = "score only the selected model" if main_split(run) == "test" else "have not been scored"
    return (
        "Epochs, and the share of trees where there are some, are selected on the validation rows. "
        f"The test rows were used for no selection; they {test}."
    )


def _doubts(run: Run) -> str:
    """Findings because of which the scores may be wrong."""
    listed = [escape(words) for words in doubts(run.record)]
    if not listed:
        return ""
    rest = f"<br>and {len(listed) - SHOWN_DOUBTS} more" if len(listed) > SHOWN_DOUBTS else ""
    shown = "<br>".join(listed[:SHOWN_DOUBTS])
    return note(
        f'These scores may be wrong (<a href="#findings">findings</a>):<br>{shown}{rest}', "warn"
    )


def _predictors(run: Run) -> str:
    """What predicts, where it is not one network alone."""
    record = run.record
    networks = (
        f"the mean of {count(len(record.members))} networks"
        if len(record.members) > 1
        else "a network"
    )
    if record.trees is None:
        return networks if len(record.members) > 1 else ""
    alone = {
        part: f" (alone {score(value)})"
        for part in run.parts
        if is_number(value := run.score(part, main_split(run)))
    }
    share = record.trees.share
    return (
        f"{networks}, {1 - share:.0%}{alone.get('network', '')}<br>"
        f"LightGBM on the same history, {share:.0%}{alone.get('trees', '')}"
    )


def _retrain(run: Run) -> str:
    retrain = run.record.retrain
    if retrain is None:
        return ""
    if retrain.labels == "all":
        return f"all {count(retrain.rows)} labels, after it was scored"
    return f"the {count(retrain.rows)} labels known at the test time, before test was scored"


def _facts(run: Run) -> list[tuple[str, str]]:
    record, task, data = run.record, run.record.task, run.record.data
    rows = [
        f"{count(task.rows[s])} {split_word(s)}" for s in ("train", "val", "test") if s in task.rows
    ]
    graph = (
        f"{count(data.nodes)} rows<br>{count(data.edges)} edges" if data.nodes is not None else ""
    )
    epochs = (
        f"{count(len(record.epochs))} epochs, best {record.best_epoch}"
        if record.epochs and record.best_epoch is not None
        else ""
    )
    return [
        ("Data", escape(data.name or run.source)),
        (
            "Tables",
            f"{count(len(data.tables))} with {count(sum(data.tables.values()))} rows"
            if data.tables
            else "",
        ),
        ("Graph", graph),
        (
            "Recommended table",
            f"{escape(record.ranking.table)}, {count(record.ranking.size)} rows"
            if record.ranking is not None
            else "",
        ),
        ("Label rows", "<br>".join(rows)),
        ("Validation from", escape(moment(task.val_timestamp)) if task.val_timestamp else ""),
        ("Test from", escape(moment(task.test_timestamp)) if task.test_timestamp else ""),
        ("Time taken", duration(record.seconds) if record.seconds is not None else ""),
        ("Training", epochs),
        ("Predicted by", _predictors(run)),
        ("Retrained on", _retrain(run)),
        ("Parameters", count(record.parameters) if record.parameters is not None else ""),
        ("Seed", str(record.seed) if record.seed is not None else ""),
    ]
