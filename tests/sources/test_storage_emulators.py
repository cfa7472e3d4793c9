"""Google Cloud Storage and Azure Blob Storage, as their emulators know them: sources, outputs,
parts, and what goes wrong.

    pip install gcp-storage-emulator         # on PATH, or its folder in GELGT_EMULATORS
    npm install azurite
"""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import gelgt
from gelgt.errors import GelgtError
from gelgt.inference.plan import PLAN, SUCCESS, agree, commit_name, part_name
from gelgt.inference.shards import finish, is_finished, missing
from gelgt.sources.unchanged import content_hash
from gelgt.storage import Store

from ..conftest import free_port

from test_storage_shards import SHARDS, make, plan_of  # isort: skip

pytestmark = pytest.mark.emulator
BUCKET = "gelgt-tests"
# The account that every Azurite has; it is no secret.
AZURE_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)


@dataclass
class Emulator:
    """A running emulator with an empty bucket."""

    scheme: str
    environment: dict[str, str]
    system: Any  # pyarrow's, to look past gelgt
    process: "subprocess.Popen[bytes]"

    def address(self, prefix: str) -> str:
        return f"{self.scheme}://{BUCKET}/{prefix}"

    def put(self, key: str, body: bytes) -> None:
        with self.system.open_output_stream(f"{BUCKET}/{key}") as file:
            file.write(body)

    def get(self, key: str) -> bytes:
        with self.system.open_input_stream(f"{BUCKET}/{key}") as file:
            body: bytes = file.read()
            return body

    def put_folder(self, folder: Path, prefix: str) -> str:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                self.put(f"{prefix}/{path.relative_to(folder).as_posix()}", path.read_bytes())
        return self.address(prefix)

    def names(self) -> list[str]:
        from pyarrow.fs import FileSelector, FileType

        found = self.system.get_file_info(FileSelector(BUCKET, recursive=True))
        files = [info.path for info in found if info.type == FileType.File]
        return sorted(path.removeprefix(f"{BUCKET}/") for path in files)


def _command(name: str, port: int) -> list[str]:
    places = os.pathsep.join([os.environ.get("GELGT_EMULATORS", ""), os.environ["PATH"]])
    binary = shutil.which(name, path=places)
    if binary is None:
        pytest.skip(f"needs {name} on PATH or in a folder of GELGT_EMULATORS")
    if name == "azurite-blob":
        options = ["--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck"]
        return [binary, *options, "--blobHost", "127.0.0.1", "--blobPort", str(port)]
    options = ["--host", "127.0.0.1", "--default-bucket", BUCKET, "-M"]
    return [binary, "start", *options, "--port", str(port)]


@contextmanager
def _started(scheme: str) -> Iterator[Emulator]:
    import pyarrow.fs

    port = free_port()
    command = _command({"gs": "gcp-storage-emulator", "az": "azurite-blob"}[scheme], port)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait(port, process)
        if scheme == "gs":
            host = f"127.0.0.1:{port}"
            system = pyarrow.fs.GcsFileSystem(anonymous=True, endpoint_override=host, scheme="http")
            environment = {"STORAGE_EMULATOR_HOST": f"http://{host}"}
        else:
            places = {f"{kind}_storage_authority": f"127.0.0.1:{port}" for kind in ("blob", "dfs")}
            places |= {f"{kind}_storage_scheme": "http" for kind in ("blob", "dfs")}
            system = pyarrow.fs.AzureFileSystem(
                account_name="devstoreaccount1", account_key=AZURE_KEY, **places
            )
            system.create_dir(BUCKET)
            environment = {
                "AZURE_STORAGE_ACCOUNT_NAME": "devstoreaccount1",
                "AZURE_STORAGE_ACCOUNT_KEY": AZURE_KEY,
                "AZURE_STORAGE_ENDPOINT": f"http://127.0.0.1:{port}",
            }
        yield Emulator(scheme, environment, system, process)
    finally:
        process.terminate()
        process.wait(timeout=30)


def _wait(port: int, process: "subprocess.Popen[bytes]") -> None:
    for _ in range(300):
        assert process.poll() is None, "the emulator ended at once"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                time.sleep(0.5)
                return
        time.sleep(0.1)
    pytest.fail("the emulator did not start")


@pytest.fixture(scope="module", params=["gs", "az"])
def emulator(request: pytest.FixtureRequest) -> Iterator[Emulator]:
    with _started(request.param) as started:
        yield started


@pytest.fixture
def storage(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> Emulator:
    """The emulator, empty, named by the environment."""
    for name, value in {**emulator.environment, "GELGT_STORAGE_TIMEOUT": "2"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("gelgt.storage.requests.FIRST_PAUSE", 0.02)
    for key in emulator.names():
        emulator.system.delete_file(f"{BUCKET}/{key}")
    return emulator


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Users in a CSV file, orders in three Parquet files."""
    target = tmp_path / "shop"
    (target / "orders").mkdir(parents=True)
    (target / "users.csv").write_text("id,joined_at\n1,2024-01-01\n2,2024-02-01\n")
    for part in range(3):
        ids = range(20 * part, 20 * part + 20)
        days = pd.Timestamp("2024-03-01") + pd.to_timedelta(list(ids), "h")
        rows = {"id": ids, "user_id": [1 + i % 2 for i in ids], "at": days, "price": 1.5}
        pd.DataFrame(rows).to_parquet(target / "orders" / f"{part}.parquet")
    return target


def test_a_source(storage: Emulator, folder: Path) -> None:
    """The rows of a local folder; not read again until an object changes."""
    address = storage.put_folder(folder, "deep/shop")
    found = gelgt.open(address)
    assert content_hash(found.folder) == content_hash(gelgt.open(folder).folder)
    assert gelgt.open(address).folder == found.folder
    frame = pd.read_parquet(folder / "orders" / "1.parquet")
    frame["price"] = 2.5  # the same size, within a second
    frame.to_parquet(folder / "orders" / "1.parquet")
    storage.put_folder(folder, "deep/shop")
    again = gelgt.open(address)
    assert content_hash(again.folder) == content_hash(gelgt.open(folder).folder)
    assert content_hash(again.folder) != content_hash(found.folder)


def test_a_relbench_folder(storage: Emulator, folder: Path, tmp_path: Path) -> None:
    local = gelgt.open(folder, out=tmp_path / "imported")
    found = gelgt.open(storage.put_folder(tmp_path / "imported", "imported"))
    assert content_hash(found.folder) == content_hash(local.folder)


@pytest.mark.parametrize("size", [0, 5, 20 << 20])
def test_an_object_is_written_whole(size: int, storage: Emulator, tmp_path: Path) -> None:
    body = os.urandom(size)
    (tmp_path / "x.bin").write_bytes(body)
    storage.put("out/x.bin", b"older")
    Store(storage.address("out/x.bin")).write(tmp_path / "x.bin")
    assert storage.get("out/x.bin") == body
    assert storage.names() == ["out/x.bin"]


def test_parts(storage: Emulator, tmp_path: Path) -> None:
    """The bytes of a local folder, made again where they are damaged."""
    address, plan = storage.address("churn"), plan_of()
    agree(address, plan)
    assert missing(address, plan) == list(range(SHARDS))
    for place in (address, tmp_path / "local"):
        make(place, plan)
    assert is_finished(address)
    names = {part_name(n, SHARDS) for n in range(SHARDS)}
    commits = {commit_name(n, SHARDS) for n in range(SHARDS)}
    assert storage.names() == sorted(f"churn/{n}" for n in {*names, *commits, PLAN, SUCCESS})
    for name in names:
        assert storage.get(f"churn/{name}") == (tmp_path / "local" / name).read_bytes()
    body = storage.get(f"churn/{part_name(1, SHARDS)}")
    storage.put(f"churn/{part_name(1, SHARDS)}", body)  # the same bytes, another version
    assert finish(address, plan)
    storage.put(f"churn/{part_name(1, SHARDS)}", body[:-8] + bytes(8))
    with pytest.raises(GelgtError, match="was changed after it was written"):
        finish(address, plan)
    assert missing(address, plan) == [1]
    make(address, plan)
    assert storage.get(f"churn/{part_name(1, SHARDS)}") == body
    with pytest.raises(GelgtError) as caught:
        agree(address, plan_of(model="o" * 32))
    assert caught.value.code == "model_mismatch"


def test_errors(storage: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    for address in (storage.address("nothing"), f"{storage.scheme}://no-such-bucket/shop"):
        with pytest.raises(GelgtError) as caught:
            gelgt.open(address)
        assert (caught.value.code, address in caught.value.message) == ("not_found", True)
    if storage.scheme == "az":
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "d3Jvbmc=")
        with pytest.raises(GelgtError) as caught:
            gelgt.open(storage.address("shop"))
        assert caught.value.code == "no_access"
        assert "d3Jvbmc" not in str(caught.value)


def test_a_server_that_is_gone(storage: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gelgt.storage.requests.ATTEMPTS", 1)
    name = {"gs": "STORAGE_EMULATOR_HOST", "az": "AZURE_STORAGE_ENDPOINT"}[storage.scheme]
    monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    with pytest.raises(GelgtError) as caught:
        gelgt.open(storage.address("shop"))
    assert caught.value.code == "unreachable"
