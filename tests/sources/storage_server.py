"""An S3 server on this machine, and a proxy before it that can fail in chosen ways.

    with storage() as server, server.used() as s3:
        s3.put("shop/orders.parquet", data)
        s3.faults.append(Fault("GET", "orders", 500, times=2))
        gelgt.open(s3.address("shop"))
        s3.requests     # what was asked for: [("GET", "/bucket/shop/orders.parquet"), …]

Clients upload in HTTP chunks with trailers, which moto's server cannot read: the proxy hands on
whole bodies.
"""

import http.client
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

STALL = 4.0  # seconds without an answer, more than a client waits
BUCKET = "gelgt-tests"
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "AKIATESTTESTTEST",
    "AWS_SECRET_ACCESS_KEY": "verysecretvalue/123",
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "GELGT_STORAGE_TIMEOUT": "1",
}


@dataclass
class Fault:
    """A way to fail requests.

    Attributes:
        method: Of the requests that fail.
        path: A part of their paths.
        kind: An HTTP status, ``stall`` (no answer), ``cut`` (half of the body), or something to do
            before the request is answered.
        times: How many requests fail.
        skip: How many pass before.
    """

    method: str
    path: str
    kind: int | str | Callable[[], Any]
    times: int = 10**9
    skip: int = 0

    def strikes(self, method: str, path: str) -> bool:
        if method != self.method or self.path not in unquote(path) or self.times <= 0:
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        self.times -= 1
        return True


@dataclass
class S3:
    """The server as tests use it."""

    client: Any
    url: str
    faults: list[Fault] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def address(self, prefix: str) -> str:
        return f"s3://{BUCKET}/{prefix}"

    def put(self, key: str, body: bytes) -> None:
        self.client.put_object(Bucket=BUCKET, Key=key, Body=body)

    def put_folder(self, folder: Path, prefix: str) -> str:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                self.put(f"{prefix}/{path.relative_to(folder).as_posix()}", path.read_bytes())
        return self.address(prefix)

    def get(self, key: str) -> bytes:
        body: bytes = self.client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        return body

    def delete(self, key: str) -> None:
        self.client.delete_object(Bucket=BUCKET, Key=key)

    @contextmanager
    def used(self) -> Iterator["S3"]:
        """The server, empty, with the environment that names it."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in {**ENVIRONMENT, "AWS_ENDPOINT_URL": self.url}.items():
                patch.setenv(name, value)
            patch.delenv("AWS_ENDPOINT_URL_S3", raising=False)
            patch.setattr("gelgt.storage.requests.FIRST_PAUSE", 0.02)
            for key in self.keys():
                self.delete(key)
            self.faults.clear()
            self.requests.clear()
            yield self

    def keys(self, prefix: str = "") -> list[str]:
        listed = self.client.list_objects_v2(Bucket=BUCKET, Prefix=prefix)
        return [item["Key"] for item in listed.get("Contents", [])]


def _handler(s3: S3, port: int) -> type[BaseHTTPRequestHandler]:
    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self._body()
            s3.requests.append((self.command, self.path))
            fault = next((f for f in s3.faults if f.strikes(self.command, self.path)), None)
            kind = None if fault is None else fault.kind
            if kind == "stall":
                s3.over.wait(STALL)
                self.close_connection = True
                return
            if isinstance(kind, int):
                self._send(kind, {}, b"")
                return
            if callable(kind):
                kind()
            self._hand_on(body, is_cut=kind == "cut")

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _answer  # noqa: N815

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding", "") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            blocks = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                blocks.append(self.rfile.read(size))
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
            return b"".join(blocks)

        def _hand_on(self, body: bytes, is_cut: bool) -> None:
            headers = {k: v for k, v in self.headers.items() if k.lower() not in _HOPS}
            headers["Content-Length"] = str(len(body))
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            connection.request(self.command, self.path, body, headers)
            response = connection.getresponse()
            content = response.read()
            kept = {k: v for k, v in response.getheaders() if k.lower() not in _HOPS}
            if self.command == "HEAD" or is_cut:
                kept["Content-Length"] = response.headers.get("Content-Length") or "0"
            self._send(response.status, kept, content[: len(content) // 2] if is_cut else content)
            connection.close()
            self.close_connection = self.close_connection or is_cut

        def _send(self, status: int, headers: dict[str, str], content: bytes) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content if self.command != "HEAD" else b"")

        def log_message(self, *arguments: Any) -> None:
            pass

    return Proxy


_HOPS = ("connection", "transfer-encoding", "content-length", "expect", "server", "date")


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # clients that gave up


@contextmanager
def storage() -> Iterator[S3]:
    """A running server with an empty bucket."""
    import boto3
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    port = moto.get_host_and_port()[1]
    client = boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{port}",
        region_name="us-east-1",
        aws_access_key_id=ENVIRONMENT["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=ENVIRONMENT["AWS_SECRET_ACCESS_KEY"],
    )
    client.create_bucket(Bucket=BUCKET)
    s3 = S3(client, "")
    proxy = _Quiet(("127.0.0.1", 0), _handler(s3, port))
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    s3.url = f"http://127.0.0.1:{proxy.server_port}"
    try:
        yield s3
    finally:
        s3.over.set()
        proxy.shutdown()
        proxy.server_close()
        moto.stop()
