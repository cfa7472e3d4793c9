"""New rows: a refresh swaps them in whole, or leaves the old ones."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pandas as pd
import pytest

from gelgt.inference import Predictor, open_for
from gelgt.runs.folder import Run
from gelgt.serve import make_app

Clients = Callable[..., Any]
Add = Callable[..., pd.Timestamp]


def test_an_unchanged_source_is_not_read_again(
    client_of: Clients, growing: Path, add_orders: Add
) -> None:
    client = client_of("binary", source=str(growing))
    served = client.service.served
    answer = client.post("/v1/refresh").json()
    assert answer["refresh"]["ok"]
    assert not answer["refresh"]["changed"]
    assert client.service.served is served


def test_new_rows_answer_after_a_refresh_and_not_before(
    client_of: Clients, growing: Path, run_of: Callable[[str], Run], add_orders: Add
) -> None:
    client, run = client_of("binary", source=str(growing)), run_of("binary")
    keys = client.get("/v1/model").json()["example"]["keys"]
    when = add_orders(growing)
    at = (when + pd.Timedelta(days=1)).isoformat()
    before = client.post("/v1/predictions", {"entities": keys, "at": at}).json()
    assert before["data"]["number"] == 1
    answer = client.post("/v1/refresh").json()
    assert answer["refresh"]["changed"]
    assert answer["data"]["number"] == 2
    after = client.post("/v1/predictions", {"entities": keys, "at": at}).json()
    assert after["data"]["number"] == 2
    assert pd.Timestamp(after["data"]["newest_row"]) == when
    own = Predictor(run, open_for(run, str(growing)), "cpu").predict(keys, at).table
    given = [r["probability"] for r in after["predictions"]]
    assert given == pytest.approx(own.column("probability").to_pylist(), abs=1e-6)
    assert after["predictions"] != before["predictions"]
    assert "gelgt_data_number 2.0" in client.get("/metrics").text


def test_rows_after_a_time_change_no_answer_at_that_time(
    client_of: Clients, growing: Path, add_orders: Add
) -> None:
    client = client_of("binary", source=str(growing))
    example = client.get("/v1/model").json()["example"]
    asked = {"entities": example["keys"], "at": example["at"]}
    why = {"entity": example["keys"][0], "at": example["at"]}
    before = client.post("/v1/predictions", asked).json()["predictions"]
    effects = client.post("/v1/explanations", why).json()["effects"]
    add_orders(growing, days=30)
    assert client.post("/v1/refresh").json()["data"]["number"] == 2
    assert client.post("/v1/predictions", asked).json()["predictions"] == before
    assert client.post("/v1/explanations", why).json()["effects"] == effects


@pytest.mark.parametrize("damage", ["gone", "no table", "nonsense"])
def test_a_refresh_that_fails_leaves_the_old_rows_answering(
    client_of: Clients, growing: Path, damage: str
) -> None:
    client = client_of("binary", source=str(growing))
    example = client.get("/v1/model").json()["example"]
    asked = {"entities": example["keys"], "at": example["at"]}
    before = client.post("/v1/predictions", asked).json()
    whole = growing.read_bytes()
    if damage == "gone":
        growing.unlink()
    elif damage == "nonsense":
        growing.write_bytes(b"nonsense" * 1000)
    else:
        with sqlite3.connect(growing) as connection:
            connection.execute("ALTER TABLE order_items RENAME TO lines")
        connection.close()
    failed = client.post("/v1/refresh")
    assert failed.status_code == 502
    assert not failed.json()["refresh"]["ok"]
    assert str(growing.parent) not in failed.text
    assert client.post("/v1/predictions", asked).json() == before
    ready = client.get("/v1/health/ready")
    assert ready.status_code == 200
    assert ready.json()["refresh"]["error"] == failed.json()["error"]["code"]
    assert "gelgt_refresh_failing 1.0" in client.get("/metrics").text
    growing.write_bytes(whole)
    assert client.post("/v1/refresh").json()["refresh"]["ok"]
    assert "gelgt_refresh_failing 0.0" in client.get("/metrics").text


def test_answers_switch_at_one_moment_while_many_ask(
    client_of: Clients, growing: Path, add_orders: Add
) -> None:
    client = client_of("binary", source=str(growing), queue=200)
    example = client.get("/v1/model").json()["example"]
    add_orders(growing)

    async def asking(http: httpx.AsyncClient, begun: asyncio.Event) -> list[tuple[int, int]]:
        seen: list[tuple[int, int]] = []
        while not seen or seen[-1][1] == 1:
            body = {"entities": example["keys"], "at": "2030-01-01"}
            response = await http.post("/v1/predictions", json=body)
            content = response.json()
            seen.append((response.status_code, content["data"]["number"]))
            begun.set()
        return seen

    async def go() -> list[list[tuple[int, int]]]:
        begun = asyncio.Event()
        transport = httpx.ASGITransport(make_app(client.service))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            askers = [asyncio.create_task(asking(http, begun)) for _ in range(8)]
            await begun.wait()
            answer = (await http.post("/v1/refresh")).json()
            assert answer["refresh"]["changed"]
            return await asyncio.wait_for(asyncio.gather(*askers), 60)

    every = asyncio.run(go())
    assert {status for seen in every for status, _ in seen} == {200}
    for seen in every:
        numbers = [number for _, number in seen]
        assert numbers == sorted(numbers)
    assert {number for seen in every for _, number in seen} == {1, 2}


def test_the_source_is_looked_at_now_and_then(
    client_of: Clients, growing: Path, add_orders: Add
) -> None:
    client = client_of("binary", source=str(growing), refresh=0.2)
    changed = threading.Event()
    service, refresh = client.service, client.service._refresh

    def noted(began: float) -> Any:
        done = refresh(began)
        if done.is_changed:
            changed.set()
        return done

    service._refresh = noted
    add_orders(growing)
    assert changed.wait(60)
    assert service.served.number >= 2
    service.close()  # or it would look at the source, and into the cache, of other tests


def test_graphs_of_older_rows_do_not_fill_the_disk(
    client_of: Clients, growing: Path, add_orders: Add
) -> None:
    client = client_of("binary", source=str(growing))
    first = client.service.served.predictor.db.cache_dir
    folders = [first]
    for _ in range(4):
        add_orders(growing, days=0.1)
        assert client.service.refresh().is_changed
        folders.append(client.service.served.predictor.db.cache_dir)
    assert [folder.exists() for folder in folders] == [True, False, False, True, True]
    keys = client.get("/v1/model").json()["example"]["keys"]
    assert client.post("/v1/predictions", {"entities": keys}).status_code == 200
