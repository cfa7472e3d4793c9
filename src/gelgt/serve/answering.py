"""A batch of questions → one pass through the model → the answer to each.

What is wrong with one question is the answer to that one alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from gelgt.errors import GelgtError
from gelgt.inference import Recommend, SeedRows
from gelgt.serve.questions import Question
from gelgt.serve.served import Served


@dataclass(frozen=True)
class Answered:
    """The answer to one question, and the state that gave it."""

    table: pa.Table
    notices: tuple[str, ...]
    served: Served


def answer(served: Served, questions: Sequence[Question]) -> list[Answered | Exception]:
    """The answers to some questions, in their order."""
    answers: dict[int, Answered | Exception] = {}
    for wish, places in _alike(questions):
        seeds = _seeds(served, [questions[place] for place in places])
        good = [place for place, own in zip(places, seeds) if isinstance(own, SeedRows)]
        answers |= {p: own for p, own in zip(places, seeds) if isinstance(own, GelgtError)}
        try:
            tables = _tables(served, [s for s in seeds if isinstance(s, SeedRows)], wish)
        except GelgtError as error:  # of what may be recommended, which they have in common
            answers |= dict.fromkeys(good, error)
            continue
        for place, table in zip(good, tables):
            answers[place] = _finished(served, questions[place], table)
    return [answers[place] for place in range(len(questions))]


def _alike(questions: Sequence[Question]) -> list[tuple[Recommend | None, list[int]]]:
    """The places of questions that recommend from the same rows: of all, where nothing is."""
    groups: list[tuple[Recommend | None, list[int]]] = []
    for place, question in enumerate(questions):
        own = next((places for wish, places in groups if wish == question.recommend), None)
        if own is None:
            groups.append((question.recommend, own := []))
        own.append(place)
    return groups


def _seeds(served: Served, questions: Sequence[Question]) -> list[SeedRows | GelgtError]:
    """The rows of each question, looked up together; one by one where that fails."""
    try:
        every = served.predictor.named_seeds(
            [key for question in questions for key in question.entities],
            [time for question in questions for time in question.times],
        )
    except GelgtError as error:
        if len(questions) == 1:
            return [error]
        return [_seeds(served, [question])[0] for question in questions]
    ends = np.cumsum([question.size for question in questions])[:-1]
    parts = zip(np.split(every.rows, ends), np.split(every.times, ends))
    return [SeedRows(rows, times) for rows, times in parts]


def _tables(served: Served, seeds: list[SeedRows], wish: Recommend | None) -> list[pa.Table]:
    """What is predicted for each question."""
    if not seeds:
        return []
    rows = np.concatenate([own.rows for own in seeds])
    times = np.concatenate([own.times for own in seeds])
    table = pa.concat_tables(served.predictor.predict_table(rows, times, wish)).combine_chunks()
    if served.recommends:
        firsts = np.flatnonzero(table.column("rank").to_numpy() == 1)
        if len(firsts) < len(rows):  # some got nothing, and the lines do not say which
            return [_tables(served, [own], wish)[0] for own in seeds] if len(seeds) > 1 else [table]
        starts = np.append(firsts, table.num_rows)
    else:
        starts = np.arange(len(rows) + 1)
    ends = np.cumsum([0, *(len(own) for own in seeds)])
    return [
        table.slice(starts[first], starts[last] - starts[first]) for first, last in pairwise(ends)
    ]


def _finished(served: Served, question: Question, table: pa.Table) -> Answered | Exception:
    if question.interval is not None:
        try:
            bounds = served.bounds(question.interval)
        except GelgtError as error:
            return error
        for name, values in bounds(table.column("prediction").to_numpy()).items():
            table = table.append_column(name, values)
    notices = (*served.predictor.notices, *question.notices)
    return Answered(table, notices, served)
