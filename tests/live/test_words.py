"""What the page says: every way in which a training can stand, in words that are true."""

import time

import pytest
from records import record

from gelgt.live.page import title
from gelgt.live.sections import parts
from gelgt.live.words import sentence, state, times
from gelgt.runs.progress import SILENT, Earlier

NOW = time.time()


def test_a_training_that_goes_on() -> None:
    running = record(updated=NOW)
    assert state(running, NOW) == "running"
    assert sentence(running, NOW) == "Training network 2 of 2."
    assert title(running, NOW) == "epoch 3, training network 2 of 2 · churn"
    shown = dict(times(running, NOW + 2))
    assert shown["Running for"] == "42 s"
    assert shown["Time left, at most"] == "4 min 18 s of 5 min 0 s"
    assert shown["Epoch"] == "3 of at most 30"
    assert shown["Best validation ROC-AUC"] == "0.720<br>epoch 2, network 1"


def test_the_best_score_is_that_of_all_networks() -> None:
    """Also where the newest network is behind, and where smaller is better."""
    first, second = record().curves
    worse = tuple(point.model_copy(update={"score": 0.5}) for point in second.points)
    curves = (first, second.model_copy(update={"points": worse}))
    shown = dict(times(record(updated=NOW, curves=curves), NOW))
    assert shown["Best validation ROC-AUC"] == "0.720<br>epoch 2, network 1"
    shown = dict(times(record(updated=NOW, curves=curves, metric="mae"), NOW))
    assert any(value == "0.500<br>epoch 2, network 2" for value in shown.values())


def test_without_a_limit_nothing_is_promised() -> None:
    shown = dict(times(record(updated=NOW, limit=None), NOW))
    assert shown["Time left, at most"] == "no time limit"
    assert shown["This network, at most"] == "12 s left"


def test_a_process_that_is_gone() -> None:
    """Nobody can say so but the time that has passed since it last wrote."""
    silent = record(updated=NOW - SILENT - 1)
    assert state(silent, NOW) == "silent"
    since = time.strftime("%H:%M:%S", time.localtime(silent.updated))
    assert since in sentence(silent, NOW)
    assert "No sign of life since" in sentence(silent, NOW)
    shown = dict(times(silent, NOW))
    assert shown["Time taken"] == "40 s"  # it does not count on
    assert "its end was never told" in parts(silent, NOW, False)["phases"]
    assert "Time left, at most" not in shown
    assert "<progress" not in parts(silent, NOW, False)["times"]
    long_ago = record(updated=NOW - 3 * 86_400)
    assert time.strftime("%Y-%m-%d", time.localtime(long_ago.updated)) in sentence(long_ago, NOW)


def test_a_training_that_has_ended_is_never_silent() -> None:
    assert state(record(status="finished", updated=NOW - 1e6), NOW) == "finished"


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"status": "finished", "ended": "all epochs"}, "every epoch was taken"),
        ({"status": "finished", "ended": "time limit"}, "--resume continues"),
        ({"status": "interrupted", "scores": {"gelgt": {"test": 0.7}}}, "scored and kept"),
        ({"status": "interrupted"}, "Stopped before it was done"),
        ({"is_stopping": True}, "Ctrl-C was pressed"),
        ({"phase": "scoring"}, "Scoring validation and test."),
    ],
)
def test_every_end(facts: dict[str, object], words: str) -> None:
    assert words in sentence(record(updated=NOW, **facts), NOW)


def test_a_failure_names_code_message_and_hint() -> None:
    error = {"code": "no_memory", "message": "Too many rows.", "hint": "Use fewer."}
    failed = record(updated=NOW, status="failed", error=error)
    assert sentence(failed, NOW) == "Failed (no_memory). Too many rows. Use fewer."


def test_a_folder_that_is_gone() -> None:
    assert "no progress any more" in sentence(None, NOW)
    assert parts(None, NOW, False)["curves"] == ""


def test_curves_have_their_numbers_behind_them() -> None:
    html = parts(record(updated=NOW), NOW, False)["curves"]
    assert html.count('<svg viewBox="0 0 400') == 2
    table = html[html.index("<details") :]
    for text in ("Network 1", "Network 2", "2 (best)", "0.610", "0.720", "12 s"):
        assert text in table
    assert "Outside the picture: entity mean 0.100." in html


def test_values_that_are_no_numbers_are_drawn_as_gaps() -> None:
    broken = record(updated=NOW)
    points = tuple(
        p.model_copy(update={"loss": float("nan"), "score": None}) for p in broken.curves[0].points
    )
    curve = broken.curves[0].model_copy(update={"points": points})
    html = parts(broken.model_copy(update={"curves": (curve,)}), NOW, False)["curves"]
    assert "nan" not in html.lower()
    assert "–" in html


def test_names_from_data_are_escaped() -> None:
    nasty = "<script>alert(1)</script>"
    shown = record(
        updated=NOW,
        run=nasty,
        task=nasty,
        work=nasty,
        notices=(nasty,),
        baselines={nasty: 0.66},
        status="running",
        earlier=(Earlier(began=NOW - 100, seconds=3.0, status="running"),),
    )
    html = parts(shown, NOW, False)
    assert all(nasty not in text for text in html.values())
    assert "was killed after 3.0 s" in html["notices"]
    failed = record(updated=NOW, status="failed", error={"code": nasty, "message": nasty})
    assert nasty not in parts(failed, NOW, False)["status"]


def test_scores_stand_beside_the_baselines() -> None:
    scores = {"gelgt": {"val": 0.8, "test": 0.79}, "lightgbm": {"val": 0.7, "test": 0.71}}
    html = parts(record(status="finished", scores=scores), NOW, True)["result"]
    for text in ("0.790", "0.710", "gelgt is 0.080 better", 'href="report"'):
        assert text in html
    assert "href" not in parts(record(status="finished", scores=scores), NOW, False)["result"]
