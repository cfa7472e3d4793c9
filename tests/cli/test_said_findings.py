"""Findings are said where they matter: by `task`, `train`, `predict`, `evaluate` and the report; an
error stops `train` until it is accepted."""

import sqlite3
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gelgt.training import load_run

Run = Callable[..., Any]
TINY = (
    "--set",
    "train.epochs=1",
    "--set",
    "train.retrain=false",
    "--set",
    "train.steps_per_epoch=3",
    "--set",
    "train.ensemble=1",
    "--set",
    "train.batch_size=32",
    "--set",
    "train.windows=1",
    "--set",
    "model.history_columns=20",
    "--set",
    "model.column_members=1",
)
SENTENCE = "PREDICT COUNT(orders.*, 0, 30, days) = 0 FOR EACH customers.id"


@pytest.fixture(scope="module")
def leaky(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Customers order until they cancel, and `cancelled_at` says when; `notes` is linked to nobody
    and constant."""
    path, rng = tmp_path_factory.mktemp("source") / "shop.db", np.random.default_rng(0)
    with sqlite3.connect(path) as db:
        db.execute(
            "CREATE TABLE customers (id INTEGER PRIMARY KEY, signed_up_at TIMESTAMP, "
            "cancelled_at TIMESTAMP, country TEXT)"
        )
        db.execute(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES "
            "customers, placed_at TIMESTAMP)"
        )
        db.execute("CREATE TABLE notes (body TEXT, language TEXT)")
        db.executemany("INSERT INTO notes VALUES (?, 'en')", [(f"note {i}",) for i in range(9)])
        for i in range(120):
            start = datetime(2023, 1, 1) + timedelta(days=int(rng.integers(0, 60)))
            end = start + timedelta(days=int(rng.integers(60, 500)))
            is_over = end < datetime(2024, 3, 1)
            row = (i, str(start), str(end) if is_over else None, "SE")
            db.execute("INSERT INTO customers VALUES (?, ?, ?, ?)", row)
            moment = start
            while (moment := moment + timedelta(days=float(rng.exponential(10)))) < min(
                end, datetime(2024, 3, 1)
            ):
                order = (i, str(moment)[:19])
                db.execute("INSERT INTO orders (customer_id, placed_at) VALUES (?, ?)", order)
    return path


@pytest.fixture
def leaky_run(run: Run, leaky: Path, known: tuple[object, ...], tmp_path: Path) -> Any:
    result = run("train", leaky, SENTENCE, "--out", tmp_path / "run", *TINY, *known)
    assert result.code == 0, result.err
    return tmp_path / "run", result


@pytest.fixture
def known(tmp_path: Path) -> tuple[object, ...]:
    """States that no date is unknown before it happens, which would hide the leak."""
    (tmp_path / "known.yaml").write_text("customers: {event_dates: {}}")
    return "--schema", tmp_path / "known.yaml"


def test_task_says_the_findings_of_its_tables(
    run: Run, leaky: Path, known: tuple[object, ...]
) -> None:
    result = run("task", leaky, SENTENCE, "--dry-run", *known)
    notes = [line for line in result.err.splitlines() if line.startswith("note: ")]
    assert notes[0].startswith("note: leak: customers.cancelled_at (")
    assert "customers: {kinds: {cancelled_at: ignored}}" in notes[0]
    assert notes[-1] == f"note: … and 1 notice about these tables: gelgt inspect {leaky}"
    assert "leak" not in result.out
    findings = run("task", leaky, SENTENCE, "--dry-run", "--json", *known).json["findings"]
    assert [(f["severity"], f["code"], f["table"], f["column"]) for f in findings] == [
        ("leak", "suspected_leak", "customers", "cancelled_at"),
        ("notice", "constant_column", "customers", "country"),
    ], "nothing of notes"


def test_train_names_the_share_of_a_leak(run: Run, leaky: Path, leaky_run: Any) -> None:
    folder, result = leaky_run
    assert "note: leak: customers.cancelled_at (" in result.err
    assert "These scores may be wrong" in result.out
    (said,) = (line for line in result.out.splitlines() if "suspected leak" in line)
    (leak,) = (f for f in load_run(folder).record.findings if f.severity == "leak")
    assert leak.share is not None
    assert leak.share > 0.2, "the trees read when a customer left"
    assert said == f"  customers.cancelled_at: suspected leak, {leak.share:.0%}".replace(
        "%", " % of the trees' gain"
    )
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert 'id="findings"' in page
    assert page.count("customers.cancelled_at") >= 2, "in the head and in the section"
    assert "customers: {kinds: {cancelled_at: ignored}}" in page
    assert f"{leak.share:.0%}".replace("%", " %") in page

    evaluated = run("evaluate", folder)
    assert said in evaluated.out.splitlines()
    shares = [f["share"] for f in run("evaluate", folder, "--json").json["findings"]]
    assert shares == [leak.share, None]

    predicted = run("predict", folder, "--entities", "1,2")
    assert predicted.err.splitlines()[0].startswith("note: leak: customers.cancelled_at (")
    assert "constant" not in predicted.err
    codes = [f["code"] for f in run("predict", folder, "--all", "--json").json["findings"]]
    assert codes == ["suspected_leak", "constant_column"]


def test_an_answered_leak_is_silent(
    run: Run, leaky: Path, known: tuple[object, ...], tmp_path: Path
) -> None:
    """The YAML that `inspect` gives, pasted as it is; and a date that is hidden is no leak."""
    assert "leak" not in run("task", leaky, SENTENCE, "--dry-run").err
    lines = run("inspect", leaky, *known).out.splitlines()
    yaml = "\n".join(line.removeprefix("  ") for line in lines[lines.index("  tables:") :])
    (tmp_path / "answers.yaml").write_text(yaml)
    stated = ("--schema", tmp_path / "answers.yaml")
    assert "leak" not in run("task", leaky, SENTENCE, "--dry-run", *stated).err
    result = run("train", leaky, SENTENCE, "--out", tmp_path / "run", *TINY, *stated)
    assert result.code == 0, result.err
    assert "leak" not in result.err
    assert "These scores may be wrong" not in result.out


@pytest.fixture
def timeless(tmp_path: Path) -> tuple[object, ...]:
    """A table without any time, labels of its rows, and the command that trains on them."""
    (tmp_path / "data").mkdir()
    scores = pd.DataFrame({"id": range(60), "score": np.arange(60) * 1.5})
    scores.to_csv(tmp_path / "data" / "users.csv", index=False)
    rows = [
        (i, f"2024-{month:02}-01", (i + month) % 2) for month in range(1, 10) for i in range(60)
    ]
    labels = pd.DataFrame(rows, columns=["id", "at", "target"])
    labels.to_csv(tmp_path / "labels.csv", index=False)
    about = ("--entity", "users.id", "--timedelta", "20 days", "--out", tmp_path / "run")
    splits = ("--val", "2024-06-15", "--test", "2024-08-15")
    return ("train", tmp_path / "data", tmp_path / "labels.csv", *about, *splits, *TINY)


def test_an_error_stops_train(run: Run, timeless: tuple[object, ...], tmp_path: Path) -> None:
    result = run(*timeless)
    assert (result.code, result.out) == (2, "")
    assert "error (unanswered_findings): 1 finding would make the predictions wrong:" in result.err
    assert "  no_times:users: no table has a time column (users)" in result.err
    assert "--accept no_times:users" in result.err
    assert not (tmp_path / "run").exists()
    assert "✓ data" not in result.err
    other = run(*timeless, "--accept", "no_times:orders", "--json")
    assert (other.code, other.error) == (2, "unanswered_findings")


def test_an_accepted_error_is_recorded(
    run: Run, timeless: tuple[object, ...], tmp_path: Path
) -> None:
    result = run(*timeless, "--accept", "no_times:users")
    assert result.code == 0, result.err
    assert "note: error: users: no table has a time column" in result.err
    assert "  users: no times, accepted: no table has a time column (users)" in result.out
    (error,) = (f for f in load_run(tmp_path / "run").record.findings if f.severity == "error")
    assert (error.code, error.table, error.is_accepted) == ("no_times", "users", True)
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "error, accepted" in page
