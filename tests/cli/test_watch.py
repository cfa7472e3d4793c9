"""`gelgt train --watch` and `gelgt report --live` as commands: their address, what they show of
every end, and that they end."""

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from forked import Forked
from gelgt.cli import watch
from gelgt.cli.watch import TrainingPage, WatchOptions
from gelgt.demo import Shop
from gelgt.runs.progress import PROGRESS, SILENT, ProgressRecord
from gelgt.runs.record import read_record

Run = Callable[..., Any]
GELGT = (sys.executable, "-c", "from gelgt.cli import main; main()")
SENTENCE = "PREDICT COUNT(orders.*, 0, 10, days) > 0 FOR EACH customers.id"
SETTINGS = {
    "train.ensemble": 1,
    "train.steps_per_epoch": 2,
    "train.batch_size": 32,
    "train.windows": 1,
    "train.patience": 1000,
    "model.trees": "false",
    "model.column_members": 0,
    "model.history_columns": 20,
}
TINY = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
TINY += ["--max-rows", "300", "--eval-timestamps", "1"]


def heed_control_c() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def started(*arguments: object) -> Forked:
    return Forked(*arguments, OMP_NUM_THREADS="1", DISPLAY="")


def address(process: Forked) -> str:
    """The address that a command prints."""
    for line in process.stderr:
        if found := re.search(r"http://127\.0\.0\.1:\d+/", line):
            threading.Thread(
                target=process.stderr.read, daemon=True
            ).start()  # a full pipe stops it
            return found[0]
    raise AssertionError("no address was printed")


def asked(url: str) -> dict[str, Any]:
    with urlopen(f"{url}live.json?page=test", timeout=30) as answer:
        content = json.loads(answer.read())
    assert isinstance(content, dict)
    return content


def wait_for(what: Callable[[], bool]) -> None:
    for _ in range(2400):
        if what():
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen")


def test_a_training_is_watched_to_its_end(small_shop: Shop, tmp_path: Path) -> None:
    """By two pages; both learn how it ended before the command ends, and the report is served."""
    folder = tmp_path / "run"
    command = ("train", small_shop.path, SENTENCE, "--out", folder, *TINY, "--watch", "--json")
    with started(*command, "--time-limit", "3s") as process:
        url = address(process)
        states: dict[str, list[dict[str, Any]]] = {"a": [], "b": []}

        def page(name: str) -> None:
            while not states[name] or not states[name][-1]["over"]:
                try:
                    with urlopen(f"{url}live.json?page={name}", timeout=30) as answer:
                        states[name].append(json.loads(answer.read()))
                except URLError:
                    return
                time.sleep(0.1)

        pages = [threading.Thread(target=page, args=(name,)) for name in states]
        for each in pages:
            each.start()
        out = process.stdout.read()
        assert process.wait(timeout=300) == 0
        for each in pages:
            each.join()
    result = json.loads(out)
    for seen in states.values():
        assert [s for s in dict.fromkeys(e["state"] for e in seen) if s != "preparing"] == [
            "running",
            "finished",
        ]
        assert f"{result['metrics']['test']['roc_auc']:.3f}" in seen[-1]["parts"]["result"]
        assert "Open the report" in seen[-1]["parts"]["result"]
        titles = {each["title"] for each in seen}
        assert len(titles) > 2, titles  # phases, or an epoch where one lasts long enough to be seen
        assert any("poch" in part for part in seen[-1]["parts"].values())
    with pytest.raises(URLError):
        asked(url)


@pytest.mark.slow
def test_on_a_terminal_the_page_stays_until_control_c(small_shop: Shop, tmp_path: Path) -> None:
    """So that the report can be read; then the command ends as the training did."""
    folder, (ours, theirs) = tmp_path / "run", pty.openpty()
    settings = [*TINY, "--set", "train.epochs=1", "--time-limit", "10s", "--watch"]
    process = subprocess.Popen(
        [*GELGT, "train", str(small_shop.path), SENTENCE, "--out", str(folder), *settings],
        stdin=theirs,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env={**os.environ, "OMP_NUM_THREADS": "1", "DISPLAY": "", "WAYLAND_DISPLAY": ""},
        preexec_fn=heed_control_c,
    )
    os.close(theirs)
    try:
        shown = b""
        while b"until you press Ctrl-C" not in shown:
            shown += os.read(ours, 4096)
        found = re.search(rb"stays at (http://127\.0\.0\.1:\d+/)", shown)
        assert found is not None
        url = found[1].decode()
        assert asked(url)["state"] == "finished"
        with urlopen(f"{url}report", timeout=60) as answer:
            assert answer.read() == (folder / "report.html").read_bytes()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_control_c_is_shown_and_ends_the_server(small_shop: Shop, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    command = ("train", small_shop.path, SENTENCE, "--out", folder, *TINY, "--watch")
    with started(*command, "--set", "train.epochs=100000", "--no-report", "--json") as process:
        url = address(process)
        wait_for(lambda: "epoch" in asked(url)["title"])
        process.send_signal(signal.SIGINT)
        told: list[dict[str, Any]] = []
        wait_for(lambda: bool(told.append(asked(url)) or told[-1]["over"]))
        assert "Interrupted: the best weights" in told[-1]["parts"]["status"]
        process.wait(timeout=120)
    assert process.returncode == 130


def test_kill_9_is_shown_by_the_page_of_another_process(small_shop: Shop, tmp_path: Path) -> None:
    """`gelgt report --live` shows a training of another process, and that it was killed."""
    folder = tmp_path / "run"
    command = ("train", small_shop.path, SENTENCE, "--out", folder, *TINY)
    with started(*command, "--set", "train.epochs=100000") as training:
        threading.Thread(target=training.communicate, daemon=True).start()
        wait_for((folder / PROGRESS).exists)
        with started("report", folder, "--live") as process:
            url = address(process)
            wait_for(lambda: "epoch" in asked(url)["title"])
            files = sorted(path.name for path in folder.iterdir() if path.suffix != ".tmp")
            assert "report.html" not in files
            os.kill(training.pid, signal.SIGKILL)
            training.wait(timeout=60)
            record = read_record(folder / PROGRESS, ProgressRecord)
            assert record.status == "running"  # it could not say more
            # as if the time had passed already
            aged = record.model_copy(update={"updated": record.updated - SILENT})
            (folder / PROGRESS).write_text(aged.model_dump_json())
            wait_for(lambda: asked(url)["state"] == "silent")
            assert "No sign of life since" in asked(url)["parts"]["status"]
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=60) == 0
    assert not (folder / "report.html").exists()


def test_an_error_is_shown_before_the_command_ends() -> None:
    """Also where it left no folder; the page asks once more within the last seconds."""
    page, told = TrainingPage(WatchOptions(watch=True)), []
    page.__enter__()
    assert page.server is not None
    url = page.server.address
    told.append(asked(url))
    asking = threading.Thread(
        target=wait_for, args=(lambda: bool(told.append(asked(url)) or told[-1]["over"]),)
    )
    asking.start()
    page.__exit__(ValueError, ValueError("s3cret"), None)
    asking.join()
    assert (told[0]["state"], told[-1]["state"]) == ("preparing", "failed")
    assert "s3cret" not in json.dumps(told)
    with pytest.raises(URLError):
        asked(url)


def test_a_record_of_an_earlier_training_is_not_taken_for_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gelgt.live.server.LINGER", 0.0)  # no page waits for the end
    old = ProgressRecord(status="interrupted", updated=time.time() - 60)
    (tmp_path / PROGRESS).write_text(old.model_dump_json())
    with TrainingPage(WatchOptions(watch=True)) as page:
        page.folder = tmp_path
        assert page.server is not None
        assert asked(page.server.address)["state"] == "preparing"
        new = old.model_copy(update={"status": "running", "updated": time.time() + 1})
        (tmp_path / PROGRESS).write_text(new.model_dump_json())
        assert asked(page.server.address)["state"] == "running"


def test_without_watch_nothing_listens(tmp_path: Path) -> None:
    with TrainingPage(WatchOptions()) as page:
        assert page.server is None


@pytest.mark.parametrize(
    ("display", "is_terminal", "opened"), [("", True, 0), (":0", False, 0), (":0", True, 1)]
)
def test_a_browser_opens_only_in_front_of_a_person(
    display: str, is_terminal: bool, opened: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    import webbrowser

    addresses: list[str] = []
    monkeypatch.setenv("DISPLAY", display)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr(watch.sys, "platform", "linux")
    monkeypatch.setattr(watch.sys.stderr, "isatty", lambda: is_terminal)
    monkeypatch.setattr(webbrowser, "open", addresses.append)
    lines: list[str] = []
    watch.show_address("http://127.0.0.1:1/", lines.append)
    assert (len(addresses), lines) == (opened, ["watch at http://127.0.0.1:1/"])


def test_live_of_what_is_no_run(run: Run, trained: Any, tmp_path: Path) -> None:
    assert run("report", tmp_path / "none", "--live", "--json").error == "no_run"
    copy = Path(shutil.copytree(trained.folder, tmp_path / "copy"))
    (copy / PROGRESS).unlink()
    assert run("report", copy, "--live", "--json").error == "no_progress"


def test_live_with_json_prints_the_address(trained: Any) -> None:
    with started("report", trained.folder, "--live", "--json") as process:
        content = json.loads(process.stdout.readline())
        assert content["run"] == str(trained.folder)
        assert asked(content["address"])["state"] == "finished"
        with urlopen(f"{content['address']}report", timeout=60) as answer:
            assert answer.read() == (trained.folder / "report.html").read_bytes()
