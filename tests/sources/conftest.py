"""Puts this folder on the path, for what its tests share, and starts an S3 server where one is
needed."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

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
