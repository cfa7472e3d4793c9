"""Watches the whole test suite for planted secrets: passwords, tokens and keys that hold `MARK`.

Searched, without a word in the tests themselves:

    errors       message and hint of each GelgtError, in the moment in which it is made
    output       what tests read of standard output and error, what is captured beside that, and
                 what processes print that tests start
    logs         every record that reaches the root logger
    processes    arguments of each process that gelgt itself starts; and, many times a second while
                 they live, the titles of these processes and of those below them
    files        everything under pytest's own folder, caches, runs and reports included, and the
                 logs of database servers, when the tests have ended

`MARK` stays what it is in addresses, JSON, HTML and Python's own notation; it is also looked for in
base64. What a user wrote down somewhere stands there rightly: `ALLOWED`.
"""

import base64
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import gelgt
from gelgt.errors import GelgtError
from process_titles import Titles

MARK = "s3cr3t"
# of its three places in base64, what does not depend on the letters before and behind it
_SHIFTED = [base64.b64encode(b"\0" * place + MARK.encode()) for place in range(3)]
_FORMS = [MARK.encode(), _SHIFTED[0][:7], _SHIFTED[1][2:9], _SHIFTED[2][3:10]]
_PACKAGE = str(Path(gelgt.__file__).parent)
MOST = 64 << 20  # bytes: larger files are searched in their first part
# Parts of the names of tests and files, and why a secret stands there.
ALLOWED = {
    "test_secrets_come_from_files": "the stand-in for gelgt prints the environment it was given",
    "test_errors_name_no_path_and_no_password": "a planted bug raises it, and tracebacks of "
    "bugs go to the log of whoever runs the server, not to who asks",
    "test_secrets_watch.py": "shows that the watch sees what it should",
}


def forms_in(content: bytes) -> bool:
    """Whether bytes hold the mark in any of its forms."""
    return any(form in content for form in _FORMS)


def allowed(name: str) -> bool:
    return any(part in name for part in ALLOWED)


class Watch:
    """What was seen since the last look, each with where it was."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.titles = Titles(lambda title: self.look("title of a process", title))

    def look(self, what: str, text: Any) -> None:
        content = text if isinstance(text, bytes) else str(text or "").encode(errors="replace")
        if forms_in(content):
            self.seen.append(f"{what}: {content[:2000].decode(errors='replace')}")

    def take(self) -> list[str]:
        seen, self.seen = self.seen, []
        return seen


class _Records(logging.Handler):
    def __init__(self, watch: Watch) -> None:
        super().__init__(logging.NOTSET)
        self._watch = watch

    def emit(self, record: logging.LogRecord) -> None:
        self._watch.look(f"log {record.name}", self.format(record))


def _is_ours() -> bool:
    """Whether a function of gelgt is among the callers."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename.startswith(_PACKAGE):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def install(watch: Watch, patch: pytest.MonkeyPatch) -> None:
    """Look at errors, output and processes from now on."""

    def after(owner: Any, name: str, look: Callable[[Any, tuple[Any, ...], Any], None]) -> None:
        real = getattr(owner, name)

        def looked_at(self: Any, *arguments: Any, **options: Any) -> Any:
            result = real(self, *arguments, **options)
            look(self, (*arguments, *options.values()), result)
            return result

        patch.setattr(owner, name, looked_at)

    def started(process: Any, arguments: tuple[Any, ...], _: None) -> None:
        words = arguments[0] if arguments else ""
        if forms_in(str(words).encode(errors="replace")) and _is_ours():
            watch.look("arguments of a process", words)

    def printed(what: str) -> Callable[[Any, tuple[Any, ...], Any], None]:
        return lambda _self, _arguments, result: (
            [watch.look(what, text) for text in result] and None
        )

    after(GelgtError, "__init__", lambda error, _words, _none: watch.look("error", error))
    after(subprocess.Popen, "__init__", started)
    after(subprocess.Popen, "communicate", printed("output of a process"))
    after(pytest.CaptureFixture, "readouterr", printed("output"))
    handler = _Records(watch)
    logging.getLogger().addHandler(handler)


def search(folder: Path) -> list[str]:
    """Files below a folder, or names of theirs, that hold a secret where none should be."""
    found = []
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            shown = os.path.relpath(path, folder)
            if not allowed(shown) and (forms_in(os.fsencode(name)) or _holds(path)):
                found.append(shown)
    return found


def _holds(path: str) -> bool:
    try:
        if os.path.islink(path) or not os.path.isfile(path):  # a pipe would be waited for
            return False
        with open(path, "rb") as file:
            return forms_in(file.read(MOST))
    except OSError:
        return False  # closed to us, as some tests want it


@pytest.fixture(scope="session")
def secrets_watch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watch]:
    """The watch; at its end, no file holds a secret."""
    watch = Watch()
    with pytest.MonkeyPatch.context() as patch:
        install(watch, patch)
        watch.titles.watch(patch, _is_ours)
        yield watch
        watch.titles.end()
    found = search(tmp_path_factory.getbasetemp())
    assert not found, f"files that hold a planted secret: {found[:20]}"


@pytest.fixture(autouse=True)
def _no_secret_is_told(request: pytest.FixtureRequest, secrets_watch: Watch) -> Iterator[None]:
    yield
    for _, key, text in request.node._report_sections:  # what pytest shows where a test fails
        secrets_watch.look(f"captured {key}", text)
    seen = secrets_watch.take()
    assert not seen or allowed(request.node.nodeid), f"planted secrets were told: {seen[:5]}"
