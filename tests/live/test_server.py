"""The server of the page: what it answers, to whom, and that it ends."""

import http.client
import json
import socket
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from records import write

from gelgt import GelgtError
from gelgt.live import LiveServer, RunFolder


@pytest.fixture
def server(tmp_path: Path):
    write(tmp_path)
    with LiveServer(RunFolder(tmp_path)) as server:
        yield server


def ask(server: LiveServer, path: str, method: str = "GET", host: str | None = None):
    """The status, the headers and the text of an answer."""
    url = urlsplit(server.address)
    connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=30)
    connection.request(method, path, headers={"Host": host or url.netloc})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, answer.headers, text


def test_the_page_is_whole_without_javascript(server: LiveServer) -> None:
    status, headers, text = ask(server, "/")
    assert status == 200
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert "script-src 'self'" in headers["Content-Security-Policy"]
    for part in ("Training network 2 of 2.", "<svg", 'http-equiv="refresh"', 'lang="en"'):
        assert part in text
    assert "http://" not in text
    assert "https://" not in text


def test_what_the_script_asks_for(server: LiveServer, tmp_path: Path) -> None:
    first = json.loads(ask(server, "/live.json?page=a")[2])
    assert (first["state"], first["over"]) == ("running", False)
    write(tmp_path, status="finished", ended="all epochs", scores={"gelgt": {"test": 0.8}})
    second = json.loads(ask(server, "/live.json?page=a")[2])
    assert (second["state"], second["over"]) == ("finished", True)
    assert "Open the report" not in second["parts"]["result"]  # there is none
    (tmp_path / "progress.json").unlink()
    assert json.loads(ask(server, "/live.json")[2])["state"] == "gone"
    (tmp_path / "progress.json").write_text("{half")
    assert json.loads(ask(server, "/live.json")[2])["state"] == "gone"


@pytest.mark.parametrize("path", ["/page.js", "/page.css"])
def test_script_and_style_come_from_the_package(server: LiveServer, path: str) -> None:
    status, _, text = ask(server, path)
    assert status == 200
    assert text
    assert "http" not in text.replace("http-equiv", "")


@pytest.mark.parametrize("path", ["/x", "/../conftest.py", "/%2e%2e/progress.json", "//etc/passwd"])
def test_nothing_else_is_served(server: LiveServer, path: str) -> None:
    assert ask(server, path)[0] == 404


def test_no_report_before_the_run_is_whole(server: LiveServer) -> None:
    status, _, text = ask(server, "/report")
    assert (status, text) == (404, "There is no report yet.")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_it_only_reads(server: LiveServer, method: str) -> None:
    assert ask(server, "/", method)[0] == 501


def test_head_has_no_body(server: LiveServer) -> None:
    status, headers, text = ask(server, "/", "HEAD")
    assert (status, text) == (200, "")
    assert int(headers["Content-Length"]) > 1000


@pytest.mark.parametrize(
    ("host", "status"),
    [("evil.example", 403), ("127.0.0.1.evil.example:80", 403), ("localhost:9", 200)],
)
def test_only_this_machine_s_own_name_is_answered(
    server: LiveServer, host: str, status: int
) -> None:
    assert ask(server, "/live.json", host=host)[0] == status


def test_it_listens_on_this_machine_alone(server: LiveServer) -> None:
    assert server.address.startswith("http://127.0.0.1:")


def test_a_client_that_says_nothing_holds_nobody_up(server: LiveServer) -> None:
    url = urlsplit(server.address)
    with socket.create_connection((url.hostname, url.port)) as silent:
        silent.send(b"GET / HT")
        assert ask(server, "/")[0] == 200


def test_a_port_that_is_taken(server: LiveServer) -> None:
    port = urlsplit(server.address).port or 0
    with pytest.raises(GelgtError) as caught:
        LiveServer(server.watched, port)
    assert caught.value.code == "port_taken"
    assert str(port) in caught.value.message


def test_it_ends_with_its_block(tmp_path: Path) -> None:
    before = threading.active_count()
    with LiveServer(RunFolder(tmp_path)) as server:
        ask(server, "/")
    with pytest.raises(OSError, match="refused"):
        ask(server, "/")
    assert threading.active_count() <= before + 1  # a thread that serves may be about to end


def test_open_pages_learn_the_end_before_it_closes(tmp_path: Path) -> None:
    """It waits for a page that has not asked since the end, not for one that knows."""
    write(tmp_path)
    with LiveServer(RunFolder(tmp_path)) as server:
        ask(server, "/live.json?page=open")
        assert server.untold() == ["open"]
        write(tmp_path, status="finished")
        told: list[str] = []

        def asks_again() -> None:
            time.sleep(0.3)
            told.append(json.loads(ask(server, "/live.json?page=open")[2])["state"])

        asking = threading.Thread(target=asks_again)
        asking.start()
        server.linger()
        assert not server.untold()
        asking.join()
        assert told == ["finished"]
        server.told |= {"left": (time.monotonic() - 60, False), "new": (time.monotonic(), False)}
        assert server.untold() == ["new"]  # the other was closed a minute ago


def test_a_folder_without_progress_is_refused(tmp_path: Path) -> None:
    for folder, code in ((tmp_path / "none", "no_run"), (tmp_path, "no_progress")):
        with pytest.raises(GelgtError) as caught:
            RunFolder(folder).check()
        assert caught.value.code == code
