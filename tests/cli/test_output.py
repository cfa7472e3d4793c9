"""What is printed: plain in a pipe, rich on a terminal, names never taken for markup, secrets never
repeated."""

import io
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest

import gelgt
from gelgt.cli.output import note, print_error, print_json, print_table, say

Run = Callable[..., Any]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Terminal]:
    """Makes standard output a terminal; to be called in the test, because pytest sets the streams
    anew before it."""

    def start() -> Terminal:
        monkeypatch.setenv("TERM", "xterm-256color")
        monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.setenv("COLUMNS", "200")
        stream = Terminal()
        monkeypatch.setattr(sys, "stdout", stream)
        return stream

    return start


def test_a_pipe_gets_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    long = "a long line " * 200
    say("[bold]orders[/bold]", long, ":smile:", style="bold")
    assert capsys.readouterr().out == f"[bold]orders[/bold]\n{long}\n:smile:\n"


def test_a_terminal_gets_styles_but_no_markup(terminal: Callable[[], Terminal]) -> None:
    stream = terminal()
    say("[red]orders[/red]", style="bold")
    assert "\x1b[1m" in stream.getvalue()
    assert "[red]orders[/red]" in stream.getvalue()


def test_notes_stand_beside_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    note("written to [somewhere]")
    assert capsys.readouterr() == ("", "written to [somewhere]\n")


def test_tables_are_aligned_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["table", "rows"], [("orders", "1,536"), ("[b]odd[/b]", "7")], right=[1])
    assert capsys.readouterr().out.splitlines() == [
        "table        rows",
        "orders      1,536",
        "[b]odd[/b]      7",
    ]


def test_tables_without_rows(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["table", "rows"], [])
    assert capsys.readouterr().out == "table  rows\n"


def test_tables_on_a_terminal_keep_odd_names(terminal: Callable[[], Terminal]) -> None:
    stream = terminal()
    print_table(["table", "rows"], [("[b]odd[/b]", "7")], right=[1])
    assert "[b]odd[/b]" in stream.getvalue()


def test_json_is_one_line_whatever_it_holds(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"name": "Zoë\nBerg", "when": gelgt.GelgtError})
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert "Zoë" in out
    assert json.loads(out)["name"] == "Zoë\nBerg"


def test_errors(capsys: pytest.CaptureFixture[str]) -> None:
    error = gelgt.GelgtError(
        "unknown_table", "There is no table '[oders]'.", hint="Did you mean 'orders'?"
    )
    print_error(error, as_json=False)
    assert capsys.readouterr() == (
        "",
        "error (unknown_table): There is no table '[oders]'.\n  Did you mean 'orders'?\n",
    )
    print_error(error, as_json=True)
    streams = capsys.readouterr()
    assert json.loads(streams.out) == {"error": error.to_dict()}
    assert streams.err == ""


def test_a_wrong_command_line_is_a_users_error(run: Run) -> None:
    for arguments in (
        ("inspect",),
        ("inspekt", "x"),
        ("inspect", "x", "--wrong"),
        ("task", "x", "y", "--eval-timestamps", "many"),
    ):
        plain = run(*arguments)
        assert (plain.code, plain.out) == (2, "")
        assert plain.err
        as_json = run(*arguments, "--json")
        assert (as_json.code, as_json.error) == (2, "bad_command")


def test_a_wrong_command_line_does_not_repeat_a_password(run: Run) -> None:
    result = run("inspect", "postgresql://me:s3cr3t@nowhere/shop", "--wrong", "--json")
    assert result.code == 2
    assert "s3cr3t" not in result.out + result.err


def test_version_and_help(run: Run) -> None:
    assert run("--version") == type(run("--version"))(0, f"{gelgt.__version__}\n", "")
    help_ = run("--help")
    assert help_.code == 0
    for verb in (
        "inspect",
        "import",
        "task",
        "train",
        "evaluate",
        "predict",
        "report",
        "config",
        "demo",
        "bench",
    ):
        assert verb in help_.out


def test_a_bug_is_no_users_error(script: Run) -> None:
    code = (
        "import gelgt.sources as s\ndef broken(*a, **k): raise RuntimeError('boom')\ns.open = "
        "broken\n"
    )
    import subprocess

    command = [sys.executable, "-c", code + "from gelgt.cli import main; main()", "inspect", "x"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1
    assert "boom" in done.stderr
    assert done.stdout == ""
