"""The routes, asked as clients ask: the same answers and errors as the library's own."""

import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from gelgt import Database
from gelgt.inference import Predictor, Recommend
from gelgt.runs.folder import Run
from gelgt.serve.arrow import MEDIA

Clients = Callable[..., Any]
Runs = Callable[[str], Run]
ARROW = {"Content-Type": MEDIA, "Accept": MEDIA}


@pytest.fixture(scope="module")
def keys(db: Database) -> list[int]:
    found = db.keys("customers")
    assert found is not None
    listed: list[int] = found.column("id").to_pylist()
    return listed


@pytest.fixture(scope="module")
def predictor(run_of: Runs, db: Database) -> Predictor:
    return Predictor(run_of("binary"), db, device="cpu")


@pytest.fixture(scope="module")
def at(predictor: Predictor) -> str:
    assert predictor.newest_event is not None
    return (predictor.newest_event - pd.Timedelta(days=20)).floor("s").isoformat()


def code(response: Any) -> str:
    return str(response.json()["error"]["code"])


def near(values: list[float]) -> Any:
    """Who stands beside a row in its batch may change the last bits of a prediction."""
    return pytest.approx(values, rel=1e-5, abs=1e-6)


def stream(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as out:
        out.write_table(table)
    return sink.getvalue()


# Predictions.
def test_predictions_are_those_of_the_library(
    client: Any, predictor: Predictor, keys: list[int], at: str
) -> None:
    response = client.post("/v1/predictions", {"entities": keys[:5], "at": at})
    assert response.status_code == 200
    own = predictor.predict(keys[:5], at).table
    listed = response.json()["predictions"]
    assert [row["id"] for row in listed] == keys[:5]
    assert [row["probability"] for row in listed] == near(own.column("probability").to_pylist())
    assert {row["time"] for row in listed} == {at}


def test_requests_at_one_time_are_answered_together_each_with_its_own(
    client: Any, predictor: Predictor, keys: list[int], at: str
) -> None:
    asked = [
        ("POST", "/v1/predictions", {"json": {"entities": [key], "at": at}}) for key in keys[:12]
    ]
    asked.insert(3, ("POST", "/v1/predictions", {"json": {"entities": [-5], "at": at}}))
    meter = client.service.meters._seeds
    own = predictor.predict(keys[:12], at).table.column("probability").to_pylist()

    def batches_of_all() -> int:
        before, batches = meter._sum.get(), sum(b.get() for b in meter._buckets)
        responses = client.ask(*asked)
        assert code(responses.pop(3)) == "unknown_keys"
        assert [r.json()["predictions"][0]["probability"] for r in responses] == near(own)
        assert meter._sum.get() - before == 13
        return int(sum(b.get() for b in meter._buckets) - batches)

    # on a busy machine each may be answered before the next one has come
    assert any(batches_of_all() < 13 for _ in range(5))


def test_rows_have_times_of_their_own(client: Any, predictor: Predictor, keys: list[int]) -> None:
    newest = predictor.newest_event
    assert newest is not None
    times = [(newest - pd.Timedelta(days=days)).floor("s") for days in (3, 40)]
    rows = [{"entity": keys[0], "time": t.isoformat() + "Z"} for t in times]
    listed = client.post("/v1/predictions", {"rows": rows}).json()["predictions"]
    frame = pd.DataFrame({"id": [keys[0]] * 2, "time": times})
    own = predictor.predict(frame=frame).table
    assert [row["probability"] for row in listed] == near(own.column("probability").to_pylist())
    assert [row["time"] for row in listed] == [t.isoformat() for t in times]


def test_arrow_goes_in_and_out(client: Any, predictor: Predictor, keys: list[int], at: str) -> None:
    moment = pd.Timestamp(at)
    table = pa.table({"id": keys[:3], "time": pa.array([moment] * 3, pa.timestamp("us"))})
    response = client.post("/v1/predictions", content=stream(table), headers=ARROW)
    assert response.headers["content-type"] == MEDIA
    with pa.ipc.open_stream(response.content) as reader:
        given = reader.read_all()
    assert given.select(["id", "time", "prediction", "probability"]).equals(
        predictor.predict(keys[:3], at).table
    )
    assert json.loads(given.schema.metadata[b"data"])["number"] == 1


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nonsense",
        stream(pa.table({"id": [10000] * 50}), compression="zstd"),
        stream(pa.table({"id": pa.array(["a", "b"]).dictionary_encode()})),
        stream(pa.table({"other": [1]})),
        stream(pa.table({"id": pa.array([], pa.int64())})),
        stream(pa.table({"id": [10000]}))[:-40],
        stream(pa.table({"id": [10000] * 10_001})),
    ],
    ids=["empty", "nonsense", "compressed", "dictionary", "other", "no rows", "cut", "too many"],
)
def test_arrow_that_is_not_accepted(client: Any, body: bytes) -> None:
    response = client.post("/v1/predictions", content=body, headers=ARROW)
    assert response.status_code in (400, 413)
    assert code(response) in ("bad_request", "too_many_rows")


def test_an_interval_stands_beside_a_number(client_of: Clients, run_of: Runs, db: Database) -> None:
    client = client_of("regression")
    predictor = Predictor(run_of("regression"), db, device="cpu")
    example = client.get("/v1/model").json()["example"]
    body = {"entities": example["keys"], "at": example["at"], "interval": 0.8}
    listed = client.post("/v1/predictions", body).json()["predictions"]
    own = predictor.predict(example["keys"], example["at"], interval=0.8).table
    for name in ("prediction", "lower", "upper"):
        assert [row[name] for row in listed] == near(own.column(name).to_pylist())
    assert code(client.post("/v1/predictions", {**body, "interval": 2})) == "bad_level"


def test_recommendations_are_those_of_the_library(
    client_of: Clients, run_of: Runs, db: Database
) -> None:
    client = client_of("recommendation")
    predictor = Predictor(run_of("recommendation"), db, device="cpu")
    keys = client.get("/v1/model").json()["example"]["keys"]
    asked = [
        ("POST", "/v1/recommendations", {"json": {"entities": keys, "k": 3}}),
        ("POST", "/v1/recommendations", {"json": {"entities": keys[:1], "k": 3}}),
        ("POST", "/v1/recommendations", {"json": {"entities": keys[1:], "new_only": True}}),
        ("POST", "/v1/recommendations", {"json": {"entities": keys, "allowed": ["nothing"]}}),
    ]
    first, one, new, unknown = client.ask(*asked)
    own = predictor.predict(keys, recommend=Recommend(3)).table.to_pylist()
    names = [name for name in own[0] if name != "time"]
    assert [[row[n] for n in names] for row in first.json()["recommendations"]] == [
        [row[n] for n in names] for row in own
    ]
    assert one.json()["recommendations"] == first.json()["recommendations"][:3]
    fresh = predictor.predict(keys[1:], recommend=Recommend(None, True)).table
    assert len(new.json()["recommendations"]) == fresh.num_rows
    assert code(unknown) == "unknown_keys"
    assert code(client.post("/v1/predictions", {"entities": keys})) == "wrong_task"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"entities": [-1]}, "unknown_keys"),
        ({"entities": ["' OR 1=1 --"]}, "unknown_keys"),
        ({"entities": ["../../etc/passwd"]}, "unknown_keys"),
        ({"entities": [True]}, "bad_request"),
        ({"entities": [2**200]}, "unknown_keys"),
        ({"entities": []}, "bad_request"),
        ({}, "bad_request"),
        ([], "bad_request"),
        ({"entities": [1], "rows": [{"entity": 1, "time": "2025-01-01"}]}, "bad_request"),
        ({"entities": [1], "password": "x"}, "bad_request"),
        ({"entities": [10_000], "at": "soon"}, "bad_time"),
        ({"entities": [10_000], "at": "-9999999-01-01"}, "bad_time"),
        ({"entities": [10_000], "at": "1990-01-01"}, "not_there_yet"),
        ({"entities": [10_000], "interval": 0.9}, "no_interval"),
        ({"entities": [1] * 10_001}, "too_many_rows"),
        ({"rows": [{"entity": 10_000}]}, "bad_request"),
    ],
)
def test_what_is_wrong_is_said(client: Any, body: Any, expected: str) -> None:
    response = client.post("/v1/predictions", body)
    assert 400 <= response.status_code < 500
    assert code(response) == expected
    assert response.json()["error"]["message"]


def test_bodies_that_are_no_requests(client: Any) -> None:
    as_json = {"Content-Type": "application/json"}
    for content in (b"", b"{", b"\xff\xfe", b"[" * 200_000, b'{"entities": [1e999]}', b"null"):
        response = client.post("/v1/predictions", content=content, headers=as_json)
        assert (response.status_code, code(response)) == (400, "bad_request"), content[:20]
    plain = client.post("/v1/predictions", content=b'{"entities": [1]}')
    assert (plain.status_code, code(plain)) == (415, "wrong_media_type")


def test_a_body_that_is_too_large_is_not_read(client_of: Clients) -> None:
    client = client_of("binary", body_bytes=2_000)
    body = {"entities": list(range(1_000))}
    response = client.post("/v1/predictions", body)
    assert (response.status_code, code(response)) == (413, "too_large")
    assert response.headers["connection"] == "close"

    async def endless() -> Any:
        while True:
            yield b"1" * 500

    headers = {"Content-Type": "application/json"}
    streamed = client.post("/v1/predictions", content=endless(), headers=headers)
    assert (streamed.status_code, code(streamed)) == (413, "too_large")


# What one looks at.
def test_an_explanation_is_that_of_the_library(
    client: Any, predictor: Predictor, keys: list[int], at: str
) -> None:
    from gelgt.explain import Explainer

    own = Explainer(predictor).explain(keys[0], at)
    asked = {"entity": keys[0], "at": at}
    given = client.post("/v1/explanations", asked).json()
    assert (given["prediction"], given["base"]) == (own.prediction, own.base)
    assert [e["effect"] for e in given["effects"]] == [e.effect for e in own.effects]
    page = client.post("/v1/explanations", asked, headers={"Accept": "text/html"})
    assert page.headers["content-type"].startswith("text/html")
    assert "The rows over time" in page.text
    assert code(client.post("/v1/explanations", {"entity": -1})) == "unknown_keys"


def test_entities_are_found_by_key_and_by_text(client: Any, keys: list[int]) -> None:
    found = client.get("/v1/entities", params={"search": str(keys[3])}).json()["entities"]
    assert found[0]["key"] == keys[3]
    begins = client.get("/v1/entities", params={"search": str(keys[3])[:3], "limit": 7}).json()
    assert len(begins["entities"]) == 7
    assert all(str(e["key"]).startswith(str(keys[3])[:3]) for e in begins["entities"])
    country = client.get("/v1/entities", params={"search": "pl", "limit": 5}).json()["entities"]
    assert country
    assert {e["about"]["country"] for e in country} == {"PL"}
    assert client.get("/v1/entities", params={"search": "%_'\"\\"}).json()["entities"] == []
    assert client.get("/v1/entities", params={"limit": 0}).status_code == 400


def listed(client: Any, **params: Any) -> dict[str, Any]:
    """The overview, once it is there."""
    overview = client.service.served.overview
    overview.start()
    for _ in range(2_000):
        if overview.table is not None:
            break
        import time

        time.sleep(0.01)
    content: dict[str, Any] = client.get("/v1/overview", params=params).json()
    return content


def test_the_overview_lists_the_highest_and_the_lowest(client: Any, predictor: Predictor) -> None:
    content = listed(client, limit=3)
    every = predictor.predict().table
    top = np.sort(every.column("probability").to_numpy())
    assert content["population"] == content["matching"] == every.num_rows
    assert [row["probability"] for row in content["predictions"]] == top[::-1][:3].tolist()
    low = listed(client, limit=3, direction="lowest")["predictions"]
    assert [row["probability"] for row in low] == top[:3].tolist()
    middle = float(np.median(top))
    assert listed(client, least=middle)["matching"] == int((top >= middle).sum())
    country = listed(client, where=["country=PL"], limit=1000)
    assert 0 < country["matching"] < every.num_rows
    bad = client.get("/v1/overview", params={"where": ["nothing=1"]})
    assert code(bad) == "unknown_column"
    assert client.get("/v1/overview", params={"order": "id"}).status_code == 422


def test_the_overview_is_a_csv_file_too(client: Any) -> None:
    listed(client)
    response = client.get("/v1/overview.csv")
    frame = pd.read_csv(io.StringIO(response.text))
    assert list(frame.columns) == ["id", "time", "prediction", "probability"]
    assert frame["probability"].is_monotonic_decreasing
    assert "attachment" in response.headers["content-disposition"]


def test_no_cell_of_the_csv_file_is_a_formula() -> None:
    from gelgt.serve.routes.explore import _csv

    text = _csv([{"id": "=cmd()", "value": -1.5}, {"id": "a", "value": 2}], ["id", "value"])
    assert text.decode().splitlines() == ["id,value", "'=cmd(),-1.5", "a,2"]


def test_who_is_alike_is_someone_else(client: Any, keys: list[int]) -> None:
    listed(client)
    found = client.post("/v1/look-alikes", {"entity": keys[0], "k": 5}).json()["look_alikes"]
    assert len(found) == 5
    assert keys[0] not in {row["id"] for row in found}
    likeness = [row["likeness"] for row in found]
    assert likeness == sorted(likeness, reverse=True)
    assert all(-1.0001 <= value <= 1.0001 for value in likeness)


def test_the_card_says_what_the_model_is_and_no_path(client: Any, run_of: Runs) -> None:
    response = client.get("/v1/model")
    card, record = response.json(), run_of("binary").record
    assert card["task"]["sentence"] == record.task.sentence
    assert card["metrics"] == json.loads(json.dumps(record.metrics))
    assert card["schema"]["orders"]["foreign_keys"] == {"customer_id": "customers"}
    assert str(run_of("binary").folder.parent) not in response.text
    html = client.get("/v1/model", headers={"Accept": "text/html"})
    assert "Predicts whether" in html.text
    assert str(run_of("binary").folder.parent) not in html.text


# The document.
def test_examples_of_the_document_work_as_they_stand(client_of: Clients) -> None:
    for name in ("binary", "recommendation"):
        client = client_of(name)
        document = client.get("/openapi.json").json()
        tried = 0
        for path, methods in document["paths"].items():
            if name == "binary" and path == "/v1/recommendations":
                continue
            if name == "recommendation" and path == "/v1/predictions":
                continue
            body = methods.get("post", {}).get("requestBody", {}).get("content", {})
            for example in body.get("application/json", {}).get("examples", {}).values():
                assert client.post(path, example["value"]).status_code == 200
                tried += 1
        assert tried >= 5


def test_what_is_not_there_is_said(client: Any) -> None:
    for method, path, status in (
        ("GET", "/v2", 404),
        ("GET", "/v1/predictions", 405),
        ("POST", "/v1/model", 405),
        ("GET", "/static/../app.py", 404),
        ("GET", "/static/%2e%2e%2fapp.py", 404),
        ("GET", "/docs", 404),
    ):
        response = client.ask((method, path, {}))[0]
        assert response.status_code == status
        assert code(response) in ("not_found", "wrong_method")


def test_meters_count_requests(client_of: Clients) -> None:
    client = client_of("binary", queue=63)
    client.post("/v1/predictions", {"entities": [-1]})
    client.get("/nothing")
    text = client.get("/metrics").text
    assert 'gelgt_requests_total{route="/v1/predictions",status="404"} 1.0' in text
    assert 'gelgt_requests_total{route="other",status="404"} 1.0' in text
    for name in ("gelgt_batch_seeds_count 1.0", "gelgt_queue_requests 0.0", "gelgt_data_age_sec"):
        assert name in text


def test_a_bug_is_told_without_its_traceback(
    client_of: Clients, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = client_of("binary", queue=62)

    def broken(*_: Any) -> None:
        raise ZeroDivisionError("a/secret/path")

    monkeypatch.setattr("gelgt.serve.service.answer", broken)
    response = client.post("/v1/predictions", {"entities": [10_000]})
    assert (response.status_code, code(response)) == (500, "bug")
    assert "secret" not in response.text
    assert "ZeroDivisionError" in caplog.text  # for whoever runs the server
