"""The lines that training prints: events in, text out."""

import pytest

from gelgt.cli.progress import Lines
from gelgt.config import TrainConfig
from gelgt.runs.record import Epoch


def epoch(number: int, auc: float) -> Epoch:
    return Epoch(epoch=number, seconds=4.1, loss=0.612, val={"roc_auc": auc})


@pytest.fixture
def lines() -> Lines:
    progress = Lines()
    progress.prepare(TrainConfig(epochs=30), "roc_auc")
    return progress


def test_the_scores_of_the_baselines_are_events(
    lines: Lines, capsys: pytest.CaptureFixture[str]
) -> None:
    lines.baselines("roc_auc", {"lightgbm": 0.7012, "a: name, with marks": 0.61234})
    lines.phase("baselines")
    assert "validation roc_auc: lightgbm 0.7012, a: name, with marks 0.6123" in (
        capsys.readouterr().err
    )


def test_an_epoch_names_the_best_score(lines: Lines, capsys: pytest.CaptureFixture[str]) -> None:
    lines.epoch(epoch(1, 0.73), best_epoch=1)
    lines.epoch(epoch(2, 0.7), best_epoch=1)
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith("loss 0.6120, validation roc_auc 0.7300, the best so far")
    assert second.endswith("validation roc_auc 0.7000 (best so far 0.7300, epoch 1)")


def test_each_network_of_an_ensemble_has_a_best_score_of_its_own(
    lines: Lines, capsys: pytest.CaptureFixture[str]
) -> None:
    lines.epoch(epoch(1, 0.73), best_epoch=1)
    lines.member(2, 3)
    lines.resumed(1, 12)
    lines.epoch(epoch(2, 0.73), best_epoch=1)
    _, network, resumed, last = capsys.readouterr().err.splitlines()
    assert network.strip() == "network 2 of 3"
    assert resumed.strip() == "resumes after 1 epochs and 12 steps"
    assert last.endswith("(best so far epoch 1)")
