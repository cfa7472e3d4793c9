"""A secret in each place where a user could give one: whatever becomes of the command, it is told
nowhere. `tests/secrets_watch.py` searches errors, output, logs, processes and files besides."""

import sys
from pathlib import Path

import pytest

from .conftest import SENTENCE, Run, Trained

SECRET = "s3cr3t-p/l@ce"
QUOTED = "s3cr3t-p%2Fl%40ce"
CLOSED = "127.0.0.1:9"  # nobody listens there
ADDRESSES = [
    f"postgresql://me:{QUOTED}@{CLOSED}/shop",
    f"postgresql+psycopg://me:{QUOTED}@{CLOSED}/shop",
    f"postgresql://{CLOSED}/shop?user=me&password={QUOTED}",
    f"postgresql://me@{CLOSED}/shop?sslmode=require&sslpassword={QUOTED}",
    f"postgresql://me:{SECRET}@[{CLOSED}/shop",  # cannot be parsed
    f"postgresql://me:{QUOTED}@{CLOSED}9999/shop",  # no port
    f"postgres://me:{QUOTED}@{CLOSED}/shop",
    f"mysql://me:{QUOTED}@{CLOSED}/shop",
    f"mariadb://me:{QUOTED}@{CLOSED}/shop",
    f"mssql+pyodbc://me:{QUOTED}@{CLOSED}/shop",
    f"snowflake://me:{QUOTED}@account/shop",
    f"snowflake://me@account/shop?private_key={QUOTED}&token={QUOTED}",
    f"bigquery://project/data?credentials={QUOTED}&access_token={QUOTED}",
    f"adbc+flightsql://{CLOSED}?authorization={QUOTED}&password={QUOTED}",
    f"nosuch://me:{QUOTED}@host/shop",
    f"s3://key:{QUOTED}@bucket/shop",
    f"s3://bucket/shop?secret_access_key={QUOTED}",
    f"az://container/shop?sig={QUOTED}",
    f"https://me:{QUOTED}@host/shop.db?token={QUOTED}",
    f"sqlite:///missing.db?key={QUOTED}",
    f"duckdb:///missing.duckdb?password={QUOTED}",
    f"postgresql:/me:{QUOTED}@host/shop",  # mistyped: a path, and the name of a database
    f"mariadb:/+/me:{QUOTED}@host/shop",
    f"postgresql://*/me:{QUOTED}@host/shop",
    f"me:{QUOTED}@host postgresql://[me",
]


def check(run: Run, *words: object) -> str:
    """Run a command that cannot succeed; what it said."""
    done = run(*words)
    assert done.code == 2, done
    assert "Traceback" not in done.err
    said = done.out + done.err
    assert "s3cr3t" not in said
    return said


@pytest.mark.parametrize("address", ADDRESSES, ids=range(len(ADDRESSES)))
def test_addresses(run: Run, tmp_path: Path, address: str) -> None:
    check(run, "inspect", address)
    check(run, "import", address, tmp_path / "out", "--json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("address", [ADDRESSES[0], ADDRESSES[15]], ids=["SQL", "storage"])
def test_every_command_that_takes_a_source(
    run: Run, trained: Trained, tmp_path: Path, address: str
) -> None:
    source, out = ("--source", address), tmp_path / "out.csv"
    for words in (
        ("task", address, SENTENCE),
        ("train", address, SENTENCE, "--out", tmp_path / "run"),
        ("predict", trained.folder, *source, "--all", "--out", out),
        ("predict", trained.folder, *source, "--all", "--out", tmp_path / "out", "--shards", 2),
        ("explain", trained.folder, *source, "--entity", "1", "--at", "2024-05-01"),
        ("evaluate", trained.folder, *source),
        ("serve", trained.folder, *source, "--port", 0),
    ):
        check(run, *words)


@pytest.mark.parametrize(
    "words",
    [
        ("inspect", "shop.db", ADDRESSES[0]),  # one argument too many
        ("inspect", "--sorce", ADDRESSES[0]),
        ("inspect", f"--sorce={ADDRESSES[0]}"),
        (ADDRESSES[0], "inspect"),
        ("train", "shop.db"),
        ("train", "shop.db", SENTENCE, "--set", f"source={ADDRESSES[0]}"),
        ("train", "shop.db", SENTENCE, "--seed", ADDRESSES[0]),
        ("train", "shop.db", SENTENCE, "--out", ADDRESSES[0]),
        ("train", "shop.db", SENTENCE, "--out", f"s3://key:{QUOTED}@bucket/run"),
        ("train", "shop.db", ADDRESSES[0]),
        ("train", "shop.db", SENTENCE, "--engine", "ray", "--address", f"ray://me:{QUOTED}@h:1"),
        ("predict", ADDRESSES[0]),
        ("serve", "missing", "--token-env", SECRET),  # the token in the place of its name
        ("report", ADDRESSES[0]),
        ("mcp", ADDRESSES[0]),
    ],
)
def test_the_wrong_place(
    run: Run, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    check(run, *words)
    if words[0] not in ("serve", "mcp"):
        check(run, *words, "--json")


def test_where_predictions_go(run: Run, trained: Trained) -> None:
    for out in (f"s3://key:{QUOTED}@bucket/out.csv", f"az://c/out.csv?sig={QUOTED}"):
        check(run, "predict", trained.folder, "--all", "--out", out)
        check(run, "predict", trained.folder, "--all", "--out", out, "--shards", 2)


def test_the_environment(
    run: Run, trained: Trained, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in (
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_STORAGE_SAS_TOKEN",
        "PGPASSWORD",
        "MYSQL_PWD",
        "HF_TOKEN",
        "MLFLOW_TRACKING_PASSWORD",
        "MLFLOW_TRACKING_TOKEN",
        "GELGT_TOKEN",
    ):
        monkeypatch.setenv(name, SECRET)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "me")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{CLOSED}")
    monkeypatch.setenv("AWS_REGION", "nowhere")
    monkeypatch.setenv("GELGT_STORAGE_TIMEOUT", "1")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "me")
    for source in ("s3://bucket/shop", f"postgresql://me@{CLOSED}/shop", f"mysql://me@{CLOSED}/s"):
        check(run, "inspect", source)
    check(run, "predict", trained.folder, "--all", "--out", "s3://bucket/out.csv")
    check(run, "serve", "missing", "--token-env", "GELGT_TOKEN")
    assert sys.argv[-1] == "GELGT_TOKEN"
