"""Multiclass and multilabel outcomes: the confusion matrix, and the scores of each label."""

import numpy as np

from gelgt.report.html import escape, note, table, tint
from gelgt.report.numbers import MISSING, count, cut, percent, score
from gelgt.report.run import Run
from gelgt.runs.intervals import scorer
from gelgt.runs.predictions import Array, Predictions

MOST_CLASSES, MOST_LABELS = 12, 30


def confusion(run: Run, rows: Predictions) -> str:
    """Shares of each true class by predicted class; the rarest of many classes are one."""
    true, predicted = rows.label.astype(int), rows.scores[run.record.model].argmax(axis=1)
    unseen = int((true < 0).sum())
    names = list(rows.classes)
    true, predicted = true[true >= 0], predicted[true >= 0]
    sizes = np.bincount(true, minlength=len(names))
    if len(names) > MOST_CLASSES:
        largest = np.sort(np.argsort(-sizes, kind="stable")[: MOST_CLASSES - 1])
        place = np.full(len(names), len(largest))
        place[largest] = np.arange(len(largest))
        true, predicted = place[true], place[predicted]
        names = [*(names[k] for k in largest), f"other ({len(names) - len(largest)})"]
    matrix = np.zeros((len(names), len(names)), dtype=int)
    np.add.at(matrix, (true, predicted), 1)
    html = _matrix(matrix, names)
    if unseen:
        html += note(
            f"{count(unseen)} rows have a class that training did not have; they count as wrong in "
            "every score."
        )
    return html


def _matrix(matrix: Array, names: list[str]) -> str:
    rows = []
    for i, name in enumerate(names):
        total = int(matrix[i].sum())
        cells = [
            _cell(matrix[i, j] / total if total else 0.0, int(matrix[i, j]), i == j)
            for j in range(len(names))
        ]
        rows.append(
            [
                f'<span title="{escape(name)}">{escape(cut(name, 28))}</span>',
                f'<td class="n">{count(total)}</td>',
                *cells,
            ]
        )
    predicted = matrix.sum(axis=0)
    rows.append(
        [
            "<i>predicted</i>",
            f'<td class="n">{count(int(matrix.sum()))}</td>',
            *(f'<td class="n">{count(int(p))}</td>' for p in predicted),
        ]
    )
    head = [
        "True class ↓, predicted →",
        '<th class="n">rows</th>',
        *(f'<th class="n" title="{escape(n)}">{escape(cut(n, 14))}</th>' for n in names),
    ]
    return table(head, rows, css="heat")


def _cell(share: float, rows: int, is_diagonal: bool) -> str:
    """Tinted by its share, with one colour for the diagonal and one for errors."""
    css = tint(0 if is_diagonal else 1, share)
    return (
        f'<td class="{css}" title="{count(rows)} rows">{percent(share) if rows else MISSING}</td>'
    )


def by_label(run: Run, predictions: Predictions) -> str:
    """ROC-AUC and average precision of each label."""
    score_of, weights = predictions.scores[run.record.model], np.ones(len(predictions))
    sizes = predictions.label.sum(axis=0)
    order = np.argsort(-sizes, kind="stable")
    rows = []
    for c in order[:MOST_LABELS]:
        cells = []
        for metric in ("roc_auc", "average_precision"):
            measure = scorer(metric, predictions.label[:, c], score_of[:, c])
            cells.append(score(measure(weights) if measure else None))
        rows.append(
            [
                escape(predictions.classes[c]),
                count(int(sizes[c])),
                percent(float(sizes[c]) / len(predictions)),
                *cells,
            ]
        )
    html = table(["Label", "rows", "share", "ROC-AUC", "average precision"], rows)
    if len(order) > MOST_LABELS:
        html += note(f"The {MOST_LABELS} most frequent of {count(len(order))} labels.")
    return html
