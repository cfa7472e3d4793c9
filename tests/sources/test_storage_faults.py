"""Object storage that fails: what passes is tried again, what lasts is an error that names the
object, and what changes meanwhile is read again."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from storage_server import ENVIRONMENT, Fault

import gelgt
from gelgt.errors import GelgtError
from gelgt.sources.unchanged import content_hash
from gelgt.storage import Store, is_lasting, is_storage, safe_place, storage_error
from gelgt.storage.failures import scrubbed

DAYS = pd.date_range("2024-01-01", periods=60).astype("datetime64[us]")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GELGT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    (folder / "orders").mkdir(parents=True)
    pd.DataFrame({"id": range(5), "joined_at": DAYS[:5]}).to_csv(folder / "users.csv", index=False)
    for part in range(3):
        rows = {"id": range(part * 20, part * 20 + 20), "user_id": [i % 5 for i in range(20)]}
        frame = pd.DataFrame(rows).assign(placed_at=DAYS[part * 20 : part * 20 + 20])
        frame.to_parquet(folder / "orders" / f"{part}.parquet")
    return folder


def fails(work: Callable[[], Any]) -> GelgtError:
    with pytest.raises(GelgtError) as caught:
        work()
    text = f"{caught.value}"
    assert ENVIRONMENT["AWS_SECRET_ACCESS_KEY"] not in text
    assert "bug" not in text
    return caught.value


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *[(kind, "orders/1.parquet") for kind in (500, "stall", "cut")],
        *[(kind, "users.csv") for kind in (503, "cut")],
        *[(kind, "list-type") for kind in (500, "cut")],
    ],
)
def test_what_passes_is_tried_again(kind: Any, name: str, folder: Path, s3: Any) -> None:
    address = s3.put_folder(folder, "shop")
    s3.faults.append(Fault("GET", name, kind, times=2))
    found = gelgt.open(address)
    assert s3.faults[0].times == 0
    assert content_hash(found.folder) == content_hash(gelgt.open(folder).folder)


@pytest.mark.parametrize(
    ("kind", "code"),
    [(500, "storage_failed"), ("stall", "unreachable"), ("cut", "storage_failed")],
)
def test_what_lasts_is_an_error_that_names_the_object(
    kind: Any, code: str, folder: Path, s3: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = 1 if kind == "stall" else 3
    monkeypatch.setattr("gelgt.storage.requests.ATTEMPTS", attempts)
    address = s3.put_folder(folder, "shop")
    s3.faults.append(Fault("GET", "orders/1.parquet", kind))
    error = fails(lambda: gelgt.open(address))
    assert error.code == code
    assert s3.address("shop/orders/1.parquet") in error.message
    tries = [p for verb, p in s3.requests if verb == "GET" and p.endswith("orders/1.parquet")]
    assert len(tries) == 2 * attempts  # each of which tries twice
    assert not list(Path(os.environ["GELGT_CACHE"]).glob("imports/*"))


def test_head_that_fails(folder: Path, s3: Any) -> None:
    address = s3.put_folder(folder, "shop")
    s3.faults.append(Fault("HEAD", "orders/2.parquet", 500, times=3))
    gelgt.open(address)
    s3.faults.append(Fault("HEAD", "orders/2.parquet", 500))
    error = fails(lambda: gelgt.open(address, fresh=True))
    assert error.code == "storage_failed"
    assert "orders/2.parquet" in error.message


def test_no_permission(folder: Path, s3: Any) -> None:
    address = s3.put_folder(folder, "shop")
    s3.faults.append(Fault("GET", "list-type", 403))
    s3.faults.append(Fault("HEAD", "manifest.yaml", 403))
    error = fails(lambda: gelgt.open(address))
    assert (error.code, "AWS_ACCESS_KEY_ID" in error.hint) == ("no_access", True)
    assert len(s3.requests) == 1  # it is not tried again


def test_places_that_are_not_there(folder: Path, s3: Any) -> None:
    s3.put_folder(folder, "shop")
    s3.put("notes/readme.txt", b"hello")
    cases = {
        "s3://no-such-bucket/shop": "not_found",
        s3.address("sho"): "not_found",
        s3.address("notes"): "no_tables",
        s3.address("shop/users.csv"): "unknown_file",
        "s3://": "bad_address",
        "s3:///shop": "bad_address",
    }
    for address, code in cases.items():
        assert fails(lambda address=address: gelgt.open(address)).code == code, address


@pytest.mark.parametrize("body", [b"", b"hello, I am no Parquet file", b"PAR1" * 100])
def test_an_object_that_is_no_parquet(body: bytes, folder: Path, s3: Any) -> None:
    address = s3.put_folder(folder, "shop")
    s3.put("shop/orders/2.parquet", body)
    error = fails(lambda: gelgt.open(address))
    assert (error.code, "orders/2.parquet" in error.message) == ("unreadable_file", True)


def test_an_endpoint_nobody_answers_at(monkeypatch: pytest.MonkeyPatch, s3: Any) -> None:
    monkeypatch.setattr("gelgt.storage.requests.ATTEMPTS", 1)
    with socket.socket() as silent:  # accepts, and says nothing
        silent.bind(("127.0.0.1", 0))
        silent.listen(20)
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        assert fails(lambda: gelgt.open(s3.address("shop"))).code == "unreachable"
    assert fails(lambda: gelgt.open(s3.address("shop"))).code == "unreachable"  # refused


def test_an_object_that_changes_while_it_is_read(folder: Path, s3: Any, tmp_path: Path) -> None:
    """It is read again: all tables come out of one state."""
    address = s3.put_folder(folder, "shop")
    new = folder / "orders" / "1.parquet"

    def replace() -> None:
        frame = pd.read_parquet(new)
        frame.iloc[:10].to_parquet(new)
        s3.put("shop/orders/1.parquet", new.read_bytes())

    s3.faults.append(Fault("GET", "orders/2.parquet", replace, times=1, skip=1))
    found = gelgt.open(address)
    assert s3.faults[0].times == 0
    assert found.num_rows("orders") == 50
    assert content_hash(found.folder) == content_hash(gelgt.open(folder).folder)


def test_an_object_that_vanishes(folder: Path, s3: Any) -> None:
    address = s3.put_folder(folder, "shop")
    gone = lambda: s3.delete("shop/orders/1.parquet")  # noqa: E731
    s3.faults.append(Fault("GET", "list-type=2&max-keys=1000", lambda: None, times=1))
    s3.faults.append(Fault("GET", "orders/0.parquet", gone, times=1, skip=1))
    found = gelgt.open(address)
    assert found.num_rows("orders") == 40


def test_objects_that_change_all_the_time(folder: Path, s3: Any) -> None:
    address, count = s3.put_folder(folder, "shop"), iter(range(5, 100))

    def grow() -> None:
        more = (folder / "users.csv").read_bytes() + f"{next(count)},2024-05-01\n".encode() * 2
        s3.put("shop/users.csv", more * (1 + next(count) % 2) + b"\n" * next(count))

    s3.faults.append(Fault("GET", "orders/2.parquet", grow))
    error = fails(lambda: gelgt.open(address))
    assert (error.code, address in error.message) == ("source_changed", True)


def test_new_objects_do_not_disturb_a_reading(folder: Path, s3: Any) -> None:
    address = s3.put_folder(folder, "shop")
    late = (folder / "orders" / "0.parquet").read_bytes()
    arrive = lambda: s3.put("shop/orders/9.parquet", late)  # noqa: E731
    s3.faults.append(Fault("GET", "orders/2.parquet", arrive, times=1))
    assert gelgt.open(address).num_rows("orders") == 60
    assert gelgt.open(address).num_rows("orders") == 80


def test_listed_twice_is_read_once(folder: Path, s3: Any) -> None:
    store = Store(s3.put_folder(folder, "shop"))
    listed = store._system.get_file_info

    class Twice:
        def get_file_info(self, what: Any) -> Any:
            return listed(what) * 2

    expected = store.objects()
    store._system = Twice()
    assert store.objects() == expected


@pytest.mark.parametrize("size", [0, 5, 12 << 20])
def test_an_object_is_written_whole(size: int, tmp_path: Path, s3: Any) -> None:
    file, body = tmp_path / "x.bin", os.urandom(size)
    file.write_bytes(body)
    s3.faults.append(Fault("PUT", "x.bin", 500, times=1))
    Store(s3.address("out/x.bin")).write(file)
    assert s3.get("out/x.bin") == body
    assert s3.keys() == ["out/x.bin"]


@pytest.mark.parametrize(
    ("verb", "path", "kind", "code"),
    [
        ("POST", "?uploads", "stall", "unreachable"),  # begins an upload
        ("PUT", "partNumber", 500, "storage_failed"),
        ("PUT", "partNumber", 403, "no_access"),
        ("POST", "?uploadId", 500, "storage_failed"),  # would complete it
        ("POST", "?uploadId", 403, "no_access"),
    ],
)
def test_an_object_that_cannot_be_written_is_not_there(
    verb: str,
    path: str,
    kind: Any,
    code: str,
    tmp_path: Path,
    s3: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gelgt.storage.requests.ATTEMPTS", 1 if kind == "stall" else 2)
    file = tmp_path / "x.bin"
    file.write_bytes(os.urandom(100_000))
    s3.put("out/x.bin", b"older")
    s3.faults.append(Fault(verb, path, kind))
    error = fails(lambda: Store(s3.address("out/x.bin")).write(file))
    assert error.code == code
    assert s3.address("out/x.bin") in error.message
    assert s3.get("out/x.bin") == b"older"


def test_a_killed_upload_leaves_nothing(tmp_path: Path, s3: Any) -> None:
    file = tmp_path / "x.bin"
    file.write_bytes(os.urandom(12 << 20))
    s3.faults.append(Fault("PUT", "partNumber=2", "stall"))
    code = (
        "import sys, pathlib; from gelgt.storage import Store; "
        f"Store({s3.address('out/x.bin')!r}).write(pathlib.Path({str(file)!r}))"
    )
    environment = {**os.environ, "GELGT_STORAGE_TIMEOUT": "30"}
    process = subprocess.Popen([sys.executable, "-c", code], env=environment)
    while not any("partNumber=2" in path for _, path in s3.requests):
        assert process.poll() is None
    process.kill()
    process.wait()
    assert s3.keys() == []


def test_credentials_are_refused_in_addresses_and_shown_nowhere(s3: Any) -> None:
    for address in (
        "s3://AKIAX:se/cr+et@bucket/shop",
        "s3://AKIAX@bucket/shop",
        "s3://bucket/shop?X-Amz-Signature=secret&X-Amz-Credential=AKIAX",
    ):
        assert is_storage(address)
        assert safe_place(address) == "s3://bucket/shop"
        error = fails(lambda address=address: gelgt.open(address))
        assert error.code == "bad_address"
        assert not any(word in str(error) for word in ("AKIAX", "secret", "se/cr+et"))
    assert s3.requests == []
    secret = ENVIRONMENT["AWS_SECRET_ACCESS_KEY"]
    text = f"denied {secret} at https://me:pass@host/x?sig=abc\nmore"
    assert scrubbed(text) == "denied *** at https://***@host/x"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("When reading key 'year=403/500.parquet': AWS Error UNKNOWN (HTTP status 503)", "failed"),
        ("When reading key 'NO_SUCH_KEY': AWS Error ACCESS_DENIED during HeadObject", "no_access"),
        ("google::cloud::Status(UNAVAILABLE: Could not create a OAuth2 access token", "no_access"),
        ("Failed to get token from DefaultAzureCredential", "no_access"),
        ("google::cloud::Status(NOT_FOUND: The bucket does not exist", "not_found"),
        ("Azure Error: [ContainerNotFound] 404 The container does not exist", "not_found"),
        ("Azure Error: [] Fail to get a new connection. Could not resolve hostname", "unreachable"),
    ],
)
def test_what_other_providers_answer(text: str, code: str) -> None:
    """As pyarrow words it."""
    error = storage_error(OSError(text), "gs://bucket/x")
    assert error.code.endswith(code)
    assert is_lasting(OSError(text)) == (code in ("no_access", "not_found"))


def test_nothing_secret_is_written(folder: Path, s3: Any, tmp_path: Path) -> None:
    gelgt.open(s3.put_folder(folder, "shop"))
    for path in (tmp_path / "cache").rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert ENVIRONMENT["AWS_SECRET_ACCESS_KEY"].encode() not in content
            assert ENVIRONMENT["AWS_ACCESS_KEY_ID"].encode() not in content


def test_support_that_pyarrow_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow.fs

    monkeypatch.delattr(pyarrow.fs, "GcsFileSystem", raising=False)
    error = fails(lambda: gelgt.open("gs://bucket/shop"))
    assert (error.code, "pip install" in error.hint) == ("missing_package", True)
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    assert fails(lambda: gelgt.open("az://box/shop")).code == "no_access"
    monkeypatch.setenv("GELGT_STORAGE_TIMEOUT", "soon")
    assert fails(lambda: gelgt.open("s3://bucket/shop")).code == "bad_setting"
