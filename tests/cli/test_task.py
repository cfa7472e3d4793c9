"""`gelgt task`: sentences, SQL, files of labels and saved tasks become label tables; errors say
where."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import gelgt

Run = Callable[..., Any]

SENTENCE = "PREDICT COUNT(orders.*, 0, 30, days) > 0 FOR EACH customers.id"
SQL = """
SELECT t.timestamp, c.id, count(o.id) AS orders
FROM timestamps t JOIN customers c ON c.signed_up_at <= t.timestamp
LEFT JOIN orders o ON o.customer_id = c.id
    AND o.placed_at > t.timestamp AND o.placed_at <= t.timestamp + INTERVAL '{timedelta}'
GROUP BY ALL
"""


def test_the_promised_shape(run: Run, project: Path) -> None:
    result = run("task", project, SENTENCE, "--name", "soon", "--json")
    assert (result.code, result.err) == (0, "")
    found = result.json
    assert found["task_type"] == "binary_classification"
    assert found["rows"].keys() == {"train", "val", "test"}
    assert all(found["rows"].values())
    assert found["sql"].startswith("WITH population AS")
    assert found["val_timestamp"] < found["test_timestamp"]
    assert found["out"] == str(project / "tasks" / "soon")
    assert sorted(p.name for p in (project / "tasks" / "soon").iterdir()) == [
        "gelgt",
        "manifest.yaml",
        "test.parquet",
        "train.parquet",
        "val.parquet",
    ]
    assert gelgt.open(project).task("soon").rows == found["rows"]


def test_for_people(run: Run, project: Path) -> None:
    result = run("task", project, SENTENCE, "--name", "soon")
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0] == "soon: binary classification for each row of customers"
    assert [line.split()[0] for line in lines if line.startswith(("train ", "val ", "test "))] == [
        "train",
        "val",
        "test",
    ]
    assert lines[-1] == f"written to {project / 'tasks' / 'soon'}"
    keys = set(map(str, gelgt.open(project).keys("customers").column(0).to_pylist()))  # type: ignore[union-attr]
    start = next(i for i, line in enumerate(lines) if line.startswith("timestamp "))
    assert {line.split()[2] for line in lines[start + 1 : start + 6]} <= keys, (
        "a person sees their own keys"
    )


def test_a_dry_run_writes_nothing(run: Run, project: Path) -> None:
    before = sorted(project.rglob("*"))
    result = run("task", project, SENTENCE, "--dry-run", "--json")
    assert result.code == 0
    assert result.json["out"] is None
    assert "written" not in run("task", project, SENTENCE, "--dry-run").out
    assert sorted(project.rglob("*")) == before


def test_split_options(run: Run, shop_source: Path) -> None:
    options = (
        "--val",
        "2024-08-01",
        "--test",
        "2024-10-01",
        "--eval-timestamps",
        2,
        "--max-rows",
        100,
        "--dry-run",
        "--json",
    )
    found = run("task", shop_source, SENTENCE, *options).json
    assert found["val_timestamp"] == "2024-08-01 00:00:00"
    assert found["rows"]["train"] == 100
    assert [found["seed_times"][split]["count"] for split in ("val", "test")] == [2, 2]
    assert any("sampled" in notice for notice in found["notices"])


def test_sql_and_its_file_say_the_same(run: Run, shop_source: Path, tmp_path: Path) -> None:
    (tmp_path / "labels.sql").write_text(SQL)
    options = ("--entity", "customers.id", "--timedelta", "30 days", "--dry-run", "--json")
    inline, file = (
        run("task", shop_source, SQL, *options).json,
        run("task", shop_source, tmp_path / "labels.sql", *options).json,
    )
    assert inline == file
    assert inline["task_type"] == "regression"
    assert inline["target_col"] == "orders"


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_file_of_labels(ending: str, run: Run, shop_source: Path, tmp_path: Path) -> None:
    keys = gelgt.open(shop_source).keys("customers").column("id").to_pylist()[:20]  # type: ignore[union-attr]
    labels = pd.DataFrame(
        [(k, f"2024-{m:02}-01", (k + m) % 2) for m in range(3, 13) for k in keys],
        columns=["id", "at", "churn"],
    )
    path = tmp_path / f"labels.{ending}"
    if ending == "csv":
        labels.to_csv(path, index=False)
    else:
        labels.assign(at=pd.to_datetime(labels["at"])).to_parquet(path)
    result = run(
        "task",
        shop_source,
        path,
        "--entity",
        "customers.id",
        "--timedelta",
        "30 days",
        "--dry-run",
        "--json",
    )
    assert result.code == 0, result.out
    assert result.json["kind"] == "external"
    assert result.json["task_type"] == "binary_classification"
    assert result.json["target_col"] == "churn"
    assert [
        result.json["seed_times"][split]["last"][:10] for split in ("train", "val", "test")
    ] == [
        "2024-09-01",
        "2024-10-01",
        "2024-12-01",
    ]


def test_files_that_cannot_be_read(run: Run, shop_source: Path, tmp_path: Path) -> None:
    for name, content in {
        "a.sql": b"\xff",
        "a.csv": b"",
        "b.csv": b"a,b\n1,2\n1,2,3\n",
        "a.parquet": b"x",
    }.items():
        (tmp_path / name).write_bytes(content)
        result = run(
            "task",
            shop_source,
            tmp_path / name,
            "--entity",
            "customers.id",
            "--timedelta",
            "1 day",
            "--json",
        )
        assert result.code == 2, name
        assert result.error in ("unreadable_file", "empty_file", "bad_csv"), name
        assert name in result.json["error"]["message"]
    assert run("task", shop_source, tmp_path / "none.sql", "--json").error == "not_found"


def test_an_error_points_into_the_sentence(run: Run, shop_source: Path) -> None:
    result = run(
        "task", shop_source, "PREDICT COUNT(oders.*, 0, 30, days) > 0 FOR EACH customers.id"
    )
    assert (result.code, result.out) == (2, "")
    lines = result.err.splitlines()
    assert lines[0] == "error (unknown_table): At character 15:"
    assert lines[2].index("^") == lines[1].index("oders")
    assert lines[-1] == "  Did you mean 'orders'?"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("nothing-like-it",), "unknown_task"),
        ((SENTENCE, "--val", "yesterday-ish"), "bad_time"),
        ((SENTENCE, "--val", "2025-01-01", "--test", "2024-01-01"), "bad_split"),
        ((SENTENCE, "--task-type", "guess"), "unknown_task_type"),
        ((SENTENCE, "--eval-timestamps", "0"), "bad_option"),
        ((SQL,), "missing_option"),
        (
            ("SELECT 1 FROM nowhere", "--entity", "customers.id", "--timedelta", "30 days"),
            "bad_sql",
        ),
        ((SENTENCE, "--name", "a/b"), "bad_name"),
    ],
)
def test_errors(arguments: tuple[str, ...], code: str, run: Run, shop_source: Path) -> None:
    result = run("task", shop_source, *arguments, "--dry-run", "--json")
    assert (result.code, result.error) == (2, code)


def test_another_task_of_the_same_name_is_kept(run: Run, project: Path) -> None:
    assert run("task", project, SENTENCE, "--name", "soon").code == 0
    other = SENTENCE.replace("30", "20")
    refused = run("task", project, other, "--name", "soon", "--json")
    assert (refused.code, refused.error) == (2, "task_exists")
    assert gelgt.open(project).task("soon").sentence == SENTENCE
    assert run("task", project, other, "--name", "soon", "--overwrite").code == 0
    assert gelgt.open(project).task("soon").sentence == other


def test_a_folder_of_its_own(run: Run, project: Path, tmp_path: Path) -> None:
    result = run("task", project, SENTENCE, "--out", tmp_path / "mine", "--json")
    assert result.json["out"] == str(tmp_path / "mine")
    assert not (project / "tasks").exists()
    assert (
        run("task", project, tmp_path / "mine", "--dry-run", "--json").json["rows"]
        == result.json["rows"]
    )
