"""`gelgt train` on several workers, as far as no cluster is needed: options, what a worker checks
before it begins, and what the driver shows."""

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gelgt import GelgtError
from gelgt.cli.app import app
from gelgt.cli.options import SourceOptions, TaskOptions
from gelgt.cli.progress import Lines
from gelgt.cli.train import TrainingOptions
from gelgt.cli.train_ray import Echo, RemoteTraining
from gelgt.cli.workers import LAUNCHED, EngineOptions, launched, restarted
from gelgt.runs.progress import Curve, Phase, Point, ProgressRecord


@pytest.fixture
def launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in LAUNCHED:
        monkeypatch.setenv(name, "1")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (EngineOptions(workers=2), "--workers"),
        (EngineOptions(address="10.0.0.1:6379"), "--address"),
        (EngineOptions(engine="spark"), "spark"),
    ],
)
def test_options_that_do_not_go_together(options: EngineOptions, named: str) -> None:
    with pytest.raises(GelgtError) as caught:
        options.check()
    assert caught.value.code == "bad_option"
    assert named in caught.value.message


@pytest.mark.usefixtures("launcher")
def test_an_engine_under_torchrun() -> None:
    with pytest.raises(GelgtError, match="torchrun"):
        EngineOptions(engine="ray").check()


def test_no_ray(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is said before the source is opened."""
    monkeypatch.setitem(sys.modules, "ray", None)
    asked = ["train", str(tmp_path / "none.db"), "PREDICT x", "--engine", "ray"]
    result = CliRunner().invoke(app, asked)
    assert result.exit_code
    assert isinstance(result.exception, GelgtError)
    assert (result.exception.code, "gelgt[ray]" in result.exception.hint) == ("missing_extra", True)


def test_alone_nothing_is_joined() -> None:
    with launched("cpu") as workers:
        assert workers is None


def test_workers_that_torchrun_starts_again_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not restarted(TrainingOptions()).resume
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert restarted(TrainingOptions()).resume


def test_a_folder_that_is_not_shared(tmp_path: Path) -> None:
    probe = tmp_path / "shared" / "probe"
    question = RemoteTraining(
        SourceOptions("shop.db"),
        TaskOptions("PREDICT x"),
        TrainingOptions(),
        str(tmp_path / "run"),
        str(tmp_path),
        str(probe),
        "gelgt train",
        0.0,
    )
    with pytest.raises(GelgtError) as caught:
        question.check()
    assert caught.value.code == "not_shared"
    assert str(probe.parent) in caught.value.message


class Kept(Lines):
    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def print(self, line: str, style: str | None = None) -> None:
        self.said.append(line)


def test_what_the_driver_shows(tmp_path: Path) -> None:
    """Everything once, in the order in which it happened; and that workers were started anew."""
    kept = Kept()
    echo = Echo(tmp_path, kept, "2 on 1 node share every batch")
    points = tuple(Point(epoch=n, loss=0.5, score=0.6 + n / 100, seconds=1.0) for n in (1, 2))
    phases = tuple(Phase(name=name, seconds=1.0) for name in ("data", "trees", "training"))
    curve = Curve(network=1, epochs=2, best_epoch=2)
    records = [
        ProgressRecord(metric="roc_auc", phases=phases[:1]),
        ProgressRecord(metric="roc_auc", phases=phases[:2], curves=(curve,)),
        ProgressRecord(
            metric="roc_auc",
            phases=phases,
            curves=(curve.model_copy(update={"points": points}),),
            notices=("trees make up 20%",),
        ),
    ]
    kept.metric = "roc_auc"
    for record in (records[0], records[0], *records[1:], records[2]):
        echo.tell(record)
    words = [line.split()[:2] for line in kept.said]
    assert words == [
        ["✓", "workers"],
        ["✓", "data"],
        ["✓", "trees"],
        ["epoch", "1/1"],
        ["epoch", "2/1"],
        ["✓", "training"],
        ["note:", "trees"],
    ]
    echo.tell(records[0])
    assert "a worker was lost" in kept.said[-1]
