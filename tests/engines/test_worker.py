"""What a worker of a cluster refuses; without the cluster."""

from pathlib import Path
from typing import Any

import pytest

import gelgt
from gelgt.engines.worker import PartWorker, probe_name
from gelgt.inference.part_scorer import PartScorer, Question
from gelgt.inference.plan import Plan, agree
from gelgt.inference.shards import finish, missing


def opened(question: Question, plan: Plan, folder: Path, has_probe: bool = True) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    if has_probe:
        (folder / probe_name("token")).touch()
    return PartWorker().open(question, plan.model_dump(), str(folder), "token")


def test_a_worker_makes_parts(question: Question, scorer: PartScorer, tmp_path: Path) -> None:
    plan = scorer.plan(2)
    agree(tmp_path, plan)
    (tmp_path / probe_name("token")).touch()
    worker = PartWorker()
    assert "error" not in worker.open(question, plan.model_dump(), str(tmp_path), "token")
    assert [worker.write(number)["value"]["part"] for number in (1, 0)] == [1, 0]
    assert missing(tmp_path, plan) == []
    assert finish(tmp_path, plan)


@pytest.mark.parametrize(
    ("field", "code"), [("model", "model_mismatch"), ("data", "data_mismatch")]
)
def test_another_model_or_graph(
    question: Question, scorer: PartScorer, tmp_path: Path, field: str, code: str
) -> None:
    plan = scorer.plan(2).model_copy(update={field: "0" * 32})
    assert opened(question, plan, tmp_path / "out")["error"]["code"] == code


def test_another_version(
    question: Question, scorer: PartScorer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = scorer.plan(2)
    monkeypatch.setattr(gelgt, "__version__", "0.0.1")
    error = opened(question, plan, tmp_path / "out")["error"]
    assert error["code"] == "version_mismatch"
    assert "0.0.1" in error["message"]


def test_a_folder_that_is_not_shared(
    question: Question, scorer: PartScorer, tmp_path: Path
) -> None:
    error = opened(question, scorer.plan(2), tmp_path / "out", has_probe=False)["error"]
    assert error["code"] == "not_shared"


def test_a_source_that_is_not_there(question: Question, scorer: PartScorer, tmp_path: Path) -> None:
    elsewhere = Question(question.run, str(tmp_path / "no.db"), at=question.at, device="cpu")
    answer = opened(elsewhere, scorer.plan(2), tmp_path / "out")
    assert answer["error"]["code"] == "not_found"
    assert answer["host"]
