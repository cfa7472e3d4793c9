"""The watch over planted secrets sees each of the ways in which one could get out."""

import base64
import json
import logging
import os
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import quote

import pytest

from database_servers import PASSWORD
from gelgt import GelgtError
from secrets_watch import MARK, Watch, forms_in, search


@pytest.mark.parametrize(
    "form",
    [
        lambda text: text,
        lambda text: quote(text, safe=""),
        json.dumps,
        repr,
        lambda text: base64.b64encode(text.encode()).decode(),
        lambda text: base64.b64encode(f"x{text}".encode()).decode(),
        lambda text: base64.b64encode(f"me:{text}".encode()).decode(),
    ],
)
def test_forms_of_a_secret(form: object) -> None:
    assert callable(form)
    assert forms_in(str(form(PASSWORD)).encode())
    assert not forms_in(str(form("secret password")).encode())


def test_errors_output_logs_and_processes(
    secrets_watch: Watch, capsys: pytest.CaptureFixture[str]
) -> None:
    GelgtError("cannot_open", "no", hint=f"The password was {PASSWORD}.")
    logging.getLogger("somewhere").warning("token %s", PASSWORD)
    print("password", PASSWORD)
    capsys.readouterr()
    script = f"import sys; sys.stderr.write('{MARK}')"
    subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    ways = [seen.partition(":")[0] for seen in secrets_watch.take()]
    assert ways == ["error", "log somewhere", "output", "output of a process"]


def test_arguments_of_processes_that_gelgt_starts(
    secrets_watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [sys.executable, "-c", "", PASSWORD]
    subprocess.run(words, check=True)
    assert secrets_watch.take() == []  # that is what a user types
    monkeypatch.setattr("secrets_watch._PACKAGE", str(Path(__file__).parent))
    subprocess.run(words, check=True)
    ways = {seen.partition(":")[0] for seen in secrets_watch.take()}
    # the title too, where the process lives long enough
    assert ways - {"title of a process"} == {"arguments of a process"}


STARTS = """
import subprocess, sys
words = [sys.executable, "-c", "input()", "s3c" + "r3t" if sys.argv[1:] else "-"]
subprocess.run(words, stdin=sys.stdin)
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="titles are read on Linux")
@pytest.mark.parametrize("words", [["told"], []])
def test_titles_of_processes_below(secrets_watch: Watch, words: list[str]) -> None:
    asked: list[bytes] = []
    secrets_watch.titles.ask = asked.append  # what was looked at, whatever it held
    typed = [sys.executable, "-c", STARTS, *words]
    with subprocess.Popen(typed, stdin=subprocess.PIPE) as process:
        deadline = time.monotonic() + 60
        while not any(b"input()" in title for title in asked) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert process.stdin is not None
        process.stdin.write(b"\n")
    ways = [seen.partition(":")[0] for seen in secrets_watch.take()]
    assert ways == ["title of a process"] * len(words)


def test_captured_output_is_seen(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "from secrets_watch import _no_secret_is_told, secrets_watch"
    )
    (tmp_path / "test_it.py").write_text(
        f"def test_prints(): print('{MARK[:3]}' + '{MARK[3:]}')\ndef test_quiet(): print('fine')"
    )
    words = [sys.executable, "-m", "pytest", "-p", "no:xdist", "-rA", "--rootdir", str(tmp_path)]
    # compiled, the two halves of the mark would be one
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    done = subprocess.run(
        [*words, str(tmp_path)], capture_output=True, text=True, env=environment, check=False
    )
    assert "2 passed, 1 error" in done.stdout, done.stdout
    assert "planted secrets were told: ['captured stdout: " in done.stdout


def test_files(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "run.json").write_bytes(b"x" * 5000 + PASSWORD.encode())
    (tmp_path / f"{MARK}.csv").touch()
    (tmp_path / "clean").write_text("password: ***")
    assert sorted(search(tmp_path)) == ["deep/run.json", f"{MARK}.csv"]
    for path in (tmp_path / "deep" / "run.json", tmp_path / f"{MARK}.csv"):
        path.unlink()
