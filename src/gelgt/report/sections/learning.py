"""The learning curve: training loss and validation score by epoch."""

from gelgt.report.charts import Plot
from gelgt.report.html import Section, escape, figure, figures, legend, note
from gelgt.report.numbers import duration, heading, is_number, score, word
from gelgt.report.run import Run
from gelgt.report.scales import Scale, linear, whole

_DOTTED = 40  # epochs up to which each one has its own dot


def section(run: Run) -> Section:
    aid = (
        "Training should lower the loss; the weights of the epochs with the best validation scores "
        "are kept."
    )
    if not run.record.epochs:
        return Section(
            "learning", "Learning curve", aid, note("Left out: metrics.json lists no epochs.")
        )
    pictures = [picture for picture in (_loss(run), _score(run)) if picture]
    return Section("learning", "Learning curve", aid, figures(pictures) + _pace(run))


def _loss(run: Run) -> str:
    losses = [
        (e.epoch, e.loss) for e in run.record.epochs if e.loss is not None and is_number(e.loss)
    ]
    if not losses:
        return ""
    values = [loss for _, loss in losses]
    plot = Plot(
        _epochs(run), linear(min(values), max(values), "training loss"), "Training loss by epoch"
    )
    _curve(run, plot, losses)
    caption = (
        f"From {score(values[0])} to {score(values[-1])}." if len(values) > 1 else "One epoch only."
    )
    return figure(
        "Training loss",
        plot.svg(),
        caption + _beside(run) + _dashed(run),
        legend([(word(run.record.model), 0, "line")]),
    )


def _beside(run: Run) -> str:
    """What the loss holds besides that of the labels."""
    weight = run.record.config.get("model", {}).get("futures", 0.0)
    if not weight or run.record.task.task_type in ("regression", "recommendation"):
        return ""
    return " It includes what else the windows of labels hold (model.futures)."


def _score(run: Run) -> str:
    metric = run.record.metric
    points = [
        (e.epoch, v)
        for e in run.record.epochs
        if (v := e.val.get(metric)) is not None and is_number(v)
    ]
    if not points:
        return ""
    values = [v for _, v in points]
    baselines = _near(run, min(values), max(values))
    ends = [*values, *baselines.values()]
    title = f"validation {word(metric)}"
    scale = linear(min(ends), max(ends), title)
    plot = Plot(_epochs(run), scale, f"Validation {word(metric)} by epoch")
    for name, value in baselines.items():
        xs = [plot.x.low, plot.x.high]
        plot.line(xs, [value, value], run.colour(name), "dash thin", word(name))
    _curve(run, plot, points)
    entries = [(heading(name), run.colour(name), "dash") for name in baselines]
    key = legend([(word(run.record.model), 0, "line"), *entries])
    epoch = run.record.best_epoch
    best = None if epoch is None else dict(points).get(epoch)
    caption = "" if best is None else f"Best at epoch {epoch}: {score(best)}.{_dashed(run)}"
    return figure(f"Validation {word(metric)}", plot.svg(), escape(caption), key)


def _near(run: Run, low: float, high: float) -> dict[str, float]:
    """Validation scores of the baselines; without those that would flatten the curve."""
    room = 2 * (high - low) or abs(high) * 0.2
    scores = {name: run.score(name, "val") for name in run.record.baselines}
    return {
        name: value
        for name, value in scores.items()
        if value is not None and low - room <= value <= high + room
    }


def _epochs(run: Run) -> Scale:
    return whole(run.record.epochs[0].epoch, run.record.epochs[-1].epoch, "epoch")


def _curve(run: Run, plot: Plot, points: list[tuple[int, float]]) -> None:
    if run.record.best_epoch is not None:
        plot.upright(run.record.best_epoch)
    xs, ys = [float(x) for x, _ in points], [y for _, y in points]
    plot.line(xs, ys)
    if len(points) <= _DOTTED:
        plot.dots(
            xs, ys, css="solid", radius=3, names=[f"epoch {x:g}: {score(y)}" for x, y in points]
        )
    for x, y in points:
        if x == run.record.best_epoch:
            plot.dots([x], [y], radius=5)


def _dashed(run: Run) -> str:
    return (
        f" Dashed vertical line: the best epoch, {run.record.best_epoch}."
        if run.record.best_epoch is not None
        else ""
    )


def _pace(run: Run) -> str:
    seconds = [
        e.seconds for e in run.record.epochs if e.seconds is not None and is_number(e.seconds)
    ]
    if not seconds:
        return ""
    middle = sorted(seconds)[len(seconds) // 2]
    return f'<p class="small">An epoch took {duration(middle)} (median of {len(seconds)}).</p>'
