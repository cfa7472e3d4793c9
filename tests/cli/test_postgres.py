"""From a PostgreSQL server to a Parquet file of predictions, as a role that may only read; its
password is found nowhere."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd
import pytest
import sqlalchemy as sa

from gelgt.demo import Shop
from gelgt.testing import to_sql

Run = Callable[..., Any]
SENTENCE = "PREDICT COUNT(orders.*, 0, 10, days) > 0 FOR EACH customers.id"
TINY = (
    "--set",
    "train.epochs=1",
    "--set",
    "train.steps_per_epoch=3",
    "--set",
    "train.batch_size=32",
    "--set",
    "train.ensemble=1",
    "--set",
    "train.windows=1",
    "--set",
    "model.history_columns=20",
    "--set",
    "model.column_members=1",
)
PASSWORD = "s3cr3t:r3ad/ing@p'lease"


@pytest.fixture
def reader(small_shop: Shop, postgres: Any) -> str:
    """The address of the shop on a real server, for a role that may read its tables and no more."""
    to_sql(small_shop, postgres.url, replace=True)
    engine = sa.create_engine(
        postgres.url.replace("postgresql:", "postgresql+psycopg:"), isolation_level="AUTOCOMMIT"
    )
    with engine.connect() as connection:
        connection.exec_driver_sql(
            "DROP OWNED BY shop_reader"
            if _has_reader(connection)
            else "CREATE ROLE shop_reader LOGIN"
        )
        connection.exec_driver_sql(
            f"ALTER ROLE shop_reader PASSWORD '{PASSWORD.replace(chr(39), chr(39) * 2)}'"
        )
        connection.exec_driver_sql("ALTER ROLE shop_reader SET default_transaction_read_only = on")
        connection.exec_driver_sql("GRANT SELECT ON ALL TABLES IN SCHEMA public TO shop_reader")
    engine.dispose()
    return str(postgres.url.replace(f"tester:{quote(postgres.password, safe='')}", "shop_reader"))


def _has_reader(connection: Any) -> bool:
    return bool(
        connection.exec_driver_sql("SELECT 1 FROM pg_roles WHERE rolname = 'shop_reader'").first()
    )


@pytest.mark.postgres
def test_the_story(run: Run, reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = reader.replace("shop_reader@", f"shop_reader:{quote(PASSWORD, safe='')}@")
    cache, folder, out = tmp_path / "cache", tmp_path / "runs" / "soon", tmp_path / "soon.parquet"
    printed = []
    monkeypatch.setenv("GELGT_CACHE", str(cache))

    def call(*arguments: object, **environment: str) -> Any:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        result = run(*arguments)
        printed.append(result.out + result.err)
        return result

    assert (
        call("inspect", url, "--json").json["tables"]["orders"]["primary_key"]["origin"]
        == "declared"
    )
    task = call("task", url, SENTENCE, "--name", "soon", "--json").json
    trained = call("train", url, "soon", "--out", folder, *TINY)
    assert trained.code == 0, trained.err
    assert "regime seed-time" in trained.out
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["data"]["source"] == reader
    assert metrics["command"].startswith(f"gelgt train {reader} soon")
    assert metrics["task"]["rows"] == task["rows"]

    refused = call("predict", folder, "--all", "--out", out, "--json", PGPASSWORD="wrong")
    assert (refused.code, refused.error) == (2, "cannot_open")
    assert "PGPASSWORD" in refused.json["error"]["hint"]
    assert not out.exists()
    named = call(
        "predict", folder, "--source", url, "--all", "--at", "2024-12-26", "--out", out, "--json"
    ).json
    frame = pd.read_parquet(out)
    assert (named["rows"], named["out"], named["source"]) == (len(frame), str(out), reader)
    assert list(frame.columns) == ["id", "time", "prediction", "probability"]
    scored = call("evaluate", folder, "--json", PGPASSWORD=PASSWORD).json
    assert scored["metrics"]["test"] == metrics["metrics"]["test"]

    secrets = [
        form.encode() for form in (PASSWORD, quote(PASSWORD, safe=""), json.dumps(PASSWORD)[1:-1])
    ]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"metrics.json", "report.html", "manifest.yaml", "soon.parquet"} <= {
        path.name for path in files
    }
    for path, content in [
        *((p, p.read_bytes()) for p in files),
        *(("stream", text.encode()) for text in printed),
    ]:
        assert not any(secret in content for secret in secrets), path
