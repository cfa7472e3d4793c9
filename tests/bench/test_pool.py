"""Several runs at once: the same results as one after the other; a run that fails or dies leaves
the others alone."""

import os
import signal
from pathlib import Path
from typing import Any

from gelgt import Database, Task
from gelgt.bench.pool import News
from gelgt.bench.study import Study, Variant, Wish, plan, run_study
from gelgt.bench.tables import study_markdown
from gelgt.runs.folder import CHECKPOINT, MARK

ONE = Study("quality", "", (Variant("gelgt"),), "gelgt")


def test_two_at_once(db: Database, task: Task, out: Path, tiny: dict[str, Any]) -> None:
    """Four runs: one finds a damaged checkpoint, one is killed, the other two come out as they do
    alone."""
    wish = Wish(out, seeds=(0, 1, 2, 3), changes=tiny | {"train.epochs": 3}, jobs=2)
    cells = plan(ONE, [task], wish)
    cells[1].folder.mkdir(parents=True)
    (cells[1].folder / MARK).touch()
    (cells[1].folder / CHECKPOINT).write_bytes(b"no checkpoint")
    heard: list[News] = []

    def tell(news: News) -> None:
        heard.append(news)
        if news.what == "begin" and news.cell.seed == 2:
            os.kill(news.process, signal.SIGKILL)

    result = run_study(ONE, db, [task], wish, tell=tell, draws=5)
    failed = {entry["seed"]: entry["error"] for entry in result["failed"]}
    assert failed.keys() == {1, 2}
    assert failed[1].startswith("damaged_file: ")
    assert failed[2] == "the process ended with code -9 (killed)"
    assert len({news.process for news in heard if news.what == "begin"}) >= 2
    assert "[2 of 4 seeds]" in study_markdown(result)
    alone = run_study(
        ONE, db, [task], Wish(out.with_name("alone"), seeds=(0, 3), changes=wish.changes), draws=5
    )
    assert result["results"][0]["scores"] == alone["results"][0]["scores"]


def test_stopping_leaves_runs_that_go_on(
    db: Database, task: Task, out: Path, tiny: dict[str, Any]
) -> None:
    wish = Wish(
        out, seeds=(0, 1), changes=tiny | {"train.epochs": 400, "train.patience": 400}, jobs=2
    )
    begun: list[News] = []
    result = run_study(
        ONE, db, [task], wish, tell=begun.append, stop=lambda: len(begun) > 0, draws=5
    )
    assert [left["seed"] for left in result["left"]] == [0, 1]
    assert result["failed"] == []
    said = [news.what for news in begun]
    assert set(said) == {"begin", "stopped"}
    assert said.count("begin") == said.count("stopped")
    assert all((news.cell.folder / CHECKPOINT).is_file() for news in begun)
