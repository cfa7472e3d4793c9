"""The head of the page: what was predicted, under which regime, how well beside the baselines, and
from which data."""

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
from gelgt.report.predictions import BINARY, MULTICLASS, MULTILABEL, REGRESSION
from gelgt.report.run import Run

REGIMES = {
    "frozen": "rows after the test timestamp are hidden from the model, for every seed",
    "seed-time": "each seed sees every row before its own seed time, and none after it",
}


def header(run: Run) -> str:
    """The first block, which is no numbered section."""
    told = run.facts
    where = [
        f"Report on the run {told.run or run.folder.name}",
        f"preset {told.preset}" if told.preset else "",
    ]
    parts = [
        "<header><p "
        f'class="over">{escape(" · ".join(w for w in where if w))}</p><h1>{escape(told.task.name)}</h1>',
        f'<p class="lead">{task_words(run)}</p>',
        code(told.task.sentence) if told.task.sentence else "",
        f'<p class="lead">{verdict(run)}</p>',
        _cards(run),
        note(_regime(run)),
        facts(_facts(run)),
        note(_choices(run)),
        "</header>",
    ]
    return "".join(parts)


def task_words(run: Run) -> str:
    """The task as a sentence."""
    task = run.facts.task
    target = f"<b class='name'>{escape(task.target or task.name)}</b>"
    what = {
        BINARY: f"whether {target} comes true (yes or no)",
        REGRESSION: f"the value of {target}",
        MULTICLASS: f"which of {len(task.classes) or 'several'} classes of {target} comes true",
        MULTILABEL: f"which of {len(task.classes) or 'several'} labels of {target} come true",
    }.get(task.task_type, target)
    window = (task.timedelta or "0 days").removesuffix(" 00:00:00")  # as pandas writes whole days
    when = "" if window.startswith("0 ") else f", over the {escape(window)} after the seed time"
    return f"Predicts {what} for each row of <b class='name'>{escape(task.entity_table)}</b>{when}."


def verdict(run: Run) -> str:
    """The score beside the best baseline, and whether the difference is more than chance."""
    told, split = run.facts, main_split(run)
    own = run.score(told.model, split)
    scored = {
        b: s for b in told.baselines if (s := run.score(b, split)) is not None and is_number(s)
    }
    if own is None or not is_number(own):
        return f"This run has no {escape(word(told.metric))} yet."
    name = escape(word(told.model))
    if not scored:
        return (
            f"{name} reaches a {split_word(split)} {escape(word(told.metric))} of "
            f"{score(own)}. No baseline was scored beside it."
        )
    lower = is_lower_better(told.metric)
    best = (min if lower else max)(scored, key=lambda b: scored[b])
    ahead = difference(own, scored[best], told.metric)
    sentence = (
        f"{name} reaches a {split_word(split)} {escape(word(told.metric))} of "
        f"{score(own, (scored[best],))}"
    )
    sentence += (
        f", {ahead} {'as' if ahead == 'the same' else 'than'} the best baseline, "
        f"{escape(word(best))}."
    )
    gain = run.intervals.gains.get(best) if run.intervals and split == "test" else None
    if gain is None:
        return sentence
    over = " over entities" if run.intervals and run.intervals.over_entities else ""
    around = f"{signed(gain.low, (own,))} to {signed(gain.high, (own,))}"
    if gain.low <= 0 <= gain.high:
        return (
            f"{sentence} The {LEVEL} interval{over} of that difference, {around}, holds 0: it "
            "may be chance."
        )
    return (
        f"{sentence} The {LEVEL} interval{over} of that difference, {around}, leaves out 0: it "
        "is more than chance."
    )


def main_split(run: Run) -> str:
    """Test where it was scored, else validation."""
    return "test" if is_number(run.score(run.facts.model, "test")) else "val"


def split_word(split: str) -> str:
    return {"val": "validation", "train": "training"}.get(split, split)


def _cards(run: Run) -> str:
    told, split = run.facts, main_split(run)
    scores = {model: run.score(model, split) for model in run.models}
    cards = []
    for model, found in scores.items():
        shown = score(found, tuple(scores.values()))
        if model == told.model:
            interval = (
                run.intervals.models.get(model) if run.intervals and split == "test" else None
            )
            over = " over entities" if run.intervals and run.intervals.over_entities else ""
            below = (
                f"{LEVEL} interval{over} {score(interval.low)} to {score(interval.high)}"
                if interval
                else ""
            )
            title = f"{split_word(split).capitalize()} {word(told.metric)}, {word(model)}"
            css = "own"
        else:
            title, css = (
                heading(model),
                difference(scores[told.model], found, told.metric).rpartition(" ")[2],
            )
            ahead = difference(scores[told.model], found, told.metric)
            below = f"{word(told.model)} is {ahead}" if ahead != MISSING else "not scored"
        cards.append(
            '<div class="card '
            f'c{run.colour(model)}{" own" if css == "own" else ""}"><span>{escape(title)}</span><b>{shown}</b>'
        )
        cards.append(f'<span class="{css}">{escape(below)}</span></div>')
    return f'<div class="cards">{"".join(cards)}</div>'


def _regime(run: Run) -> str:
    told = run.facts
    words = REGIMES.get(told.regime or "", "the run does not say which rows a seed could see")
    horizon = (
        f' Ages are measured from <span class="day">{escape(moment(told.horizon))}</span> at the '
        "latest."
        if told.horizon
        else ""
    )
    direction = "lower" if is_lower_better(told.metric) else "higher"
    return (
        f"Regime <b>{escape(told.regime or 'unknown')}</b>: {words}.{horizon} Every score on this "
        "page is of this regime; "
        f"for {escape(word(told.metric))}, {direction} is better."
    )


def _choices(run: Run) -> str:
    chosen = (
        "Epochs and settings are chosen on the validation rows; the test rows were never "
        "used for a choice"
    )
    return (
        f"{chosen}, and "
        f"{'score only what was chosen' if main_split(run) == 'test' else 'have not been scored'}."
    )


def _predictors(run: Run) -> str:
    """Who predicts, where it is not one network alone."""
    told = run.facts
    networks = (
        f"the mean of {count(len(told.members))} networks" if len(told.members) > 1 else "a network"
    )
    if told.trees is None:
        return networks if len(told.members) > 1 else ""
    split = main_split(run)
    alone = {
        part: f" (alone {score(found)})" if is_number(found := run.score(part, split)) else ""
        for part in run.parts
    }
    return (
        f"{networks}, {1 - told.trees.share:.0%}{alone.get('network', '')}<br>"
        f"LightGBM on the same history, {told.trees.share:.0%}{alone.get('trees', '')}"
    )


def _retrain(run: Run) -> str:
    retrain = run.facts.retrain
    if retrain is None:
        return ""
    if retrain.labels == "all":
        return f"all {count(retrain.rows)} labels, after it was scored"
    return f"the {count(retrain.rows)} labels known at the test time, before test was scored"


def _facts(run: Run) -> list[tuple[str, str]]:
    told, task, data = run.facts, run.facts.task, run.facts.data
    rows = [
        f"{count(task.rows[s])} {split_word(s)}" for s in ("train", "val", "test") if s in task.rows
    ]
    graph = (
        f"{count(data.nodes)} rows<br>{count(data.edges)} edges" if data.nodes is not None else ""
    )
    epochs = (
        f"{count(len(told.epochs))} epochs, best {told.best_epoch}"
        if told.epochs and told.best_epoch is not None
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
        ("Label rows", "<br>".join(rows)),
        ("Validation from", escape(moment(task.val_timestamp)) if task.val_timestamp else ""),
        ("Test from", escape(moment(task.test_timestamp)) if task.test_timestamp else ""),
        ("Time taken", duration(told.seconds) if told.seconds is not None else ""),
        ("Training", epochs),
        ("Predicted by", _predictors(run)),
        ("Retrained on", _retrain(run)),
        ("Parameters", count(told.parameters) if told.parameters is not None else ""),
        ("Seed", str(told.seed) if told.seed is not None else ""),
    ]
