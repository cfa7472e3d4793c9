"""Puts this folder on the path, for what its tests share, starts an S3 server where one is needed,
and gives imports two processes."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gelgt.sources import postgres as postgres_module
from gelgt.sources import processes
from gelgt.sources.processes import Processes

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def s3_server() -> Iterator[Any]:
    """An S3 server with a proxy that can fail, for the session."""
    pytest.importorskip("boto3", reason="needs boto3: pip install boto3 'moto[server,s3]'")
    pytest.importorskip("moto.server", reason="needs moto: pip install 'moto[server,s3]'")
    from storage_server import storage

    with storage() as server:
        yield server


@pytest.fixture
def s3(s3_server: Any) -> Iterator[Any]:
    """The S3 server, empty and without faults, named by the environment."""
    with s3_server.used() as server:
        yield server


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two processes for everything; the list holds what they were asked about tables."""
    asked: list[str] = []
    run = Processes.run

    def counted(self: Processes, questions: Any, *rest: Any) -> Any:
        asked.extend({question[0] for question in questions.values()})
        assert len(self._processes) == 2
        return run(self, questions, *rest)

    monkeypatch.setattr(processes, "LEAST_BYTES", 0)
    monkeypatch.setattr(postgres_module, "LEAST_SHARED", 0)
    monkeypatch.setattr(processes, "process_count", lambda: 2)
    monkeypatch.setattr(Processes, "run", counted)
    return asked
