"""Recommendations: hits by rank, how many different rows are recommended and how popular they are,
what candidates cover, and a few lists with the right ones marked."""

import numpy as np

from gelgt.report.charts import Plot, shares
from gelgt.report.html import Section, escape, figure, figures, legend, note, paragraph, table
from gelgt.report.numbers import MISSING, count, cut, heading, moment, number, percent, word
from gelgt.report.run import Run
from gelgt.report.scales import Scale, linear, whole
from gelgt.report.sections.headline import best_baseline, main_split, split_word
from gelgt.runs.predictions import Array
from gelgt.runs.rankings import Rankings, average_precision

TOP = 10  # destinations whose share of all recommendations is told
EXAMPLES = 6
SHOWN = 10  # recommendations of an example
NAME = 40  # letters that fit above a bar
RIGHT_COLOUR = 7  # of what was right, beside models
POINTS = 200


def section(run: Run) -> Section | None:
    """None for other tasks."""
    if not run.is_recommendation:
        return None
    aid = (
        "Good recommendations are right at the first ranks; a model that recommends the same few "
        "popular rows to everyone has a low coverage and a high concentration."
    )
    split = main_split(run)
    rows = run.rankings.get(split)
    if rows is None or not len(rows):
        missing = note("Left out: the run folder has no predictions with labels.")
        return Section("recommendations", "Recommendations", aid, figures(_locality(run)) + missing)
    models = [model for model in run.models if model in rows.lists]
    left_out = f"; {count(rows.left_out)} more have no right row" if rows.left_out else ""
    counted = f"{count(len(rows))} {split_word(split)} rows{left_out}."
    body = (
        figures([_hits(run, rows, split), _concentration(run, rows, split)])
        + _numbers(rows, models)
        + figures([*_locality(run), _reading(run, rows)])
        + _examples(run, rows)
        + f'<p class="small">{counted}</p>'
    )
    return Section("recommendations", "Recommendations", aid, body)


def _compared(run: Run, rows: Rankings, split: str) -> list[str]:
    """The run's model, and the best baseline."""
    best = best_baseline(run, split)
    return [run.record.model, *([best] if best in rows.lists else [])]


def _hits(run: Run, rows: Rankings, split: str) -> str:
    """The share of rows whose recommendation at each rank was right."""
    models = _compared(run, rows, split)
    values = {model: rows.hits[model].mean(0).tolist() for model in models}
    most = max(max(each) for each in values.values())
    plot = Plot(
        whole(1, rows.k, "rank of the recommendation"),
        linear(0, most or 1.0, "share that was right"),
        "Hits by rank",
    )
    ranks = [float(rank + 1) for rank in range(rows.k)]
    for model in reversed(models):
        is_run = model == run.record.model
        plot.line(ranks, values[model], run.colour(model), "" if is_run else "thin", word(model))
        names = [
            f"{word(model)}, rank {rank:g}: {percent(share)}"
            for rank, share in zip(ranks, values[model], strict=True)
        ]
        plot.dots(ranks, values[model], run.colour(model), "solid", 4 if is_run else 3, names)
    key = legend((heading(model), run.colour(model), "line") for model in models)
    caption = (
        f"Of the {count(len(rows))} rows, the share whose recommendation at a rank was right, "
        "beside the best baseline."
    )
    return figure("Hits by rank", plot.svg(), caption, key)


def _concentration(run: Run, rows: Rankings, split: str) -> str:
    """How much of everything that is recommended goes to the most recommended rows."""
    models = _compared(run, rows, split)
    curves = {model: _cumulated(rows.counts(model)) for model in models}
    right = _cumulated(rows.counts(None))
    most = max(len(each) for each in (*curves.values(), right)) - 1
    ticks = tuple((float(10**e), f"{10**e:,}") for e in range(9) if 10**e <= most)
    title = "most frequent rows (log scale)"
    plot = Plot(
        Scale(0, most, ticks, title, is_log=True),
        linear(0, 1, "share of all recommendations"),
        "Concentration of recommendations",
    )
    _draw(plot, right, RIGHT_COLOUR, "dash", "what was right")
    for model in reversed(models):
        css = "" if model == run.record.model else "thin"
        _draw(plot, curves[model], run.colour(model), css, word(model))
    key = legend(
        [
            *((heading(model), run.colour(model), "line") for model in models),
            ("what was right", RIGHT_COLOUR, "dash"),
        ]
    )
    caption = (
        "Share that goes to so many rows, the most frequent first. The further a line lies above "
        "that of what was right, the more the model prefers few rows."
    )
    return figure("Concentration", plot.svg(), caption, key)


def _cumulated(counts: Array) -> Array:
    """(n + 1,) the share of the n most frequent, from none to all."""
    descending = np.sort(counts[counts > 0])[::-1]
    return np.concatenate([[0.0], np.cumsum(descending) / max(int(descending.sum()), 1)])


def _draw(plot: Plot, curve: Array, colour: int, css: str, name: str) -> None:
    last = len(curve) - 1
    places = np.unique(np.geomspace(1, max(last, 1), POINTS).round().astype(int))
    places = np.concatenate([[0], places[places <= last]])
    plot.line([float(p) for p in places], curve[places].tolist(), colour, css, name)


def _numbers(rows: Rankings, models: list[str]) -> str:
    """Coverage and popularity of every model, and of what was right."""
    right = rows.counts(None)
    head = [
        "Model",
        "right at rank 1",
        f"hit rate@{rows.k}",
        "different rows",
        "of those right for anyone",
        f"share of its top {TOP}",
        "mean popularity rank",
    ]
    lines = [
        [
            escape(heading(model)),
            percent(float(rows.hits[model][:, 0].mean())),
            percent(float(rows.hits[model].any(1).mean())),
            *_spread(rows, rows.counts(model), right),
        ]
        for model in models
    ]
    lines.append(["<i>what was right</i>", MISSING, MISSING, *_spread(rows, right, right)])
    words = (
        f"Hit rate@{rows.k}: the share of rows with at least one right recommendation. Top {TOP}: "
        f"the {TOP} rows that a model recommends most often. The popularity rank is 1 for the row "
        "that was right most often."
    )
    return table(head, lines) + f'<p class="small">{words}</p>'


def _spread(rows: Rankings, counts: Array, right: Array) -> list[str]:
    """How many different rows, the share of the right ones among them, the share of the most
    frequent, and the mean popularity rank."""
    total = int(counts.sum())
    if not total:
        return ["0", percent(0.0), MISSING, MISSING]
    found = _distinct(counts * right) / max(_distinct(right), 1)
    top = float(np.sort(counts)[::-1][:TOP].sum() / total)
    rank = float((counts * rows.popularity).sum() / total)
    return [count(_distinct(counts)), percent(found), percent(top), number(rank)]


def _distinct(counts: Array) -> int:
    return int(np.count_nonzero(counts))


def _reading(run: Run, rows: Rankings) -> str:
    """Coverage and popularity bias as sentences, beside the picture of locality."""
    model, right = run.record.model, rows.counts(None)
    counts = rows.counts(model)
    text = "<h3>Coverage and popularity bias</h3>" + paragraph(
        f"{escape(word(model))} recommends {count(_distinct(counts))} different rows to anyone; "
        f"of the {count(_distinct(right))} rows that were right for anyone, it recommends "
        f"{count(_distinct(counts * right))}."
    )
    total = int(counts.sum())
    if not total:
        return f"<figure>{text}</figure>"
    ours = float((counts * rows.popularity).sum() / total)
    theirs = float((right * rows.popularity).sum() / max(int(right.sum()), 1))
    bias = "more popular than" if ours < theirs else "less popular than"
    if number(ours) == number(theirs):
        bias = "as popular as"
    text += paragraph(
        f"What it recommends has a mean popularity rank of {number(ours)}, what was right "
        f"{number(theirs)}: its recommendations are {bias} what was right."
    )
    return f"<figure>{text}</figure>"


def _locality(run: Run) -> list[str]:
    """The share of the training labels that candidates cover."""
    facts = run.record.ranking
    if facts is None:
        return []
    rows: list[tuple[str, float, float | None]] = [
        (_path(path), share, None) for path, share in facts.locality.items()
    ]
    rows += [("popular lately", facts.popular, None), ("all candidates", facts.covered, None)]
    caption = (
        "Share of the right rows of training that a path of foreign keys reaches from "
        f"{escape(run.record.task.entity_table or 'the entity')} to {escape(facts.table)}, that "
        "are among what everyone has had lately, and that are among all candidates. Other rows are "
        "scored without what ties them to the entity."
    )
    picture = shares("Share of right rows by path", rows, is_whole=True)
    return [figure("Locality: what candidates cover", picture, caption)]


def _path(path: str) -> str:
    """A path as it fits above its bar: a long one without its two ends, which all have."""
    return path if len(path) <= NAME else path.partition(" ")[2].rpartition(" ")[0]


def _examples(run: Run, rows: Rankings) -> str:
    """A few rows from the best to the worst, with the right recommendations marked."""
    model = run.record.model
    precision = average_precision(rows.right_count, rows.hits[model])
    order = np.argsort(-precision, kind="stable")
    shown = order[np.unique(np.linspace(0, len(order) - 1, EXAMPLES).round().astype(int))]
    has_times = rows.time is not None and len(np.unique(rows.time)) > 1
    head = [
        escape(run.record.task.entity_table or "entity"),
        *(["seed time"] if has_times else []),
        "recommended, the best first",
        "hits",
        "right rows",
    ]
    lines = [
        [
            escape(cut(rows.entity_keys[row], 30)),
            *([escape(moment(str(rows.time[row])))] if has_times and rows.time is not None else []),
            _list(rows, model, int(row)),
            count(int(rows.hits[model][row].sum())),
            count(int(rows.right_count[row])),
        ]
        for row in shown
    ]
    words = (
        f"{count(len(shown))} rows, evenly from the highest to the lowest average precision; ✓ "
        "marks what was right."
    )
    body = table(head, lines, words=2 + has_times)
    return f'<h3>Examples</h3>{body}<p class="small">{words}</p>'


def _list(rows: Rankings, model: str, row: int) -> str:
    """The keys of one list."""
    ranked, hits = rows.lists[model][row][:SHOWN], rows.hits[model][row][:SHOWN]
    keys = [
        _key(rows.keys[place], bool(hit))
        for place, hit in zip(ranked, hits, strict=True)
        if place >= 0
    ]
    more = ", …" if (rows.lists[model][row][SHOWN:] >= 0).any() else ""
    return (", ".join(keys) + more) or MISSING


def _key(key: str, is_hit: bool) -> str:
    """A key that no line breaks, marked where it was right."""
    shown = escape(cut(key, 24))
    if is_hit:
        return f'<b class="day better">✓\u00a0{shown}</b>'
    return f'<span class="day">{shown}</span>'
