"""The judge of messy databases: it answers where nothing is doubtful, and sees what is wrong."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from campaigns.frame import random_of
from campaigns.messy import tried
from campaigns.messy_judge import Verdict, judge, labels, told
from campaigns.messy_shapes import random_world
from campaigns.messy_world import DAY, Question, Table, World, cleaned, write
from campaigns.world import cached_in


@pytest.mark.parametrize("shape", ["favourites", "dates inside the entity"])
def test_without_doubt_everything_is_answered(shape: str, tmp_path: Path) -> None:
    world, verdict = tried(tmp_path / "case", random_of(4, 1), shape, is_clean=True)
    assert world.shapes[0] == shape
    assert verdict == Verdict("answered", [], [])


def _judged(world: World, folder: Path) -> Verdict:
    folder.mkdir()
    source = write(world, folder, random_of(4, 2))
    with cached_in(folder / "cache"):
        return judge(world, source)


def _events(world: World) -> Table:
    assert world.question is not None
    return world.tables[world.question.table]


def test_what_comes_later_than_it_is_shown_is_wrong(tmp_path: Path) -> None:
    world = cleaned(random_world(random_of(4, 1), "favourites"))
    _events(world).born[:] += 5 * DAY
    verdict = _judged(world, tmp_path / "rows")
    assert verdict.outcome == "wrong"
    assert f"rows of {_events(world).name} before they came" in verdict.notes[0]


def test_other_labels_are_wrong(tmp_path: Path) -> None:
    world = cleaned(random_world(random_of(4, 1), "favourites"))
    question = world.question
    assert question is not None
    world.question = replace(question, window=question.window // 2)
    verdict = _judged(world, tmp_path / "labels")
    assert verdict.outcome == "wrong"
    assert "labels differ" in verdict.notes[0]


def test_a_column_that_knows_the_flips_is_wrong(tmp_path: Path) -> None:
    world = random_world(random_of(4, 1), "overwritten counts")
    verdict = _judged(world, tmp_path / "flips")
    assert verdict.outcome == "wrong"
    assert any("coin flips" in note for note in verdict.notes)


def test_labels_are_those_of_nested_loops() -> None:
    world = cleaned(random_world(random_of(4, 1), "favourites"))
    question = world.question
    assert isinstance(question, Question)
    events = _events(world)
    owner, when = events.columns[question.owner[0]].values, events.columns[question.time].values
    time = int(np.median(when))
    inside = {o for o, t in zip(owner, when) if time < t <= time + question.window * DAY}
    truth = labels(world, [time])
    assert {
        e for (_, e), value in truth.items() if value == float(question.form != "none")
    } == inside


def test_ranks_are_compared_within_groups() -> None:
    random = np.random.default_rng(3)
    groups = np.repeat([0, 1], 400)
    labels_ = (random.random(800) < np.where(groups == 1, 0.9, 0.1)).astype(float)
    columns = np.stack([groups + random.random(800), labels_ + random.random(800)], axis=1)
    z, auc = told(columns, labels_, groups)
    assert abs(z[0]) < 4  # it only tells the group
    assert z[1] > 10
    assert auc[1] > 0.9
