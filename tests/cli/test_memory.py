"""Memory that runs out is an error of the system, told as such, and no bug."""

import json
import sys

import numpy as np
import pytest

from gelgt import cli
from gelgt.cli import app


@pytest.mark.parametrize(
    "error",
    [
        np.exceptions.AxisError("axis"),
        MemoryError(),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"),
        RuntimeError("can't start new thread"),
        ImportError("libx.so: failed to map segment from shared object"),
    ],
)
def test_memory_that_runs_out(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(app, "app", fail)
    monkeypatch.setattr(sys, "argv", ["gelgt", "inspect", "shop.db", "--json"])
    is_bug = isinstance(error, np.exceptions.AxisError)
    with pytest.raises(type(error) if is_bug else SystemExit) as caught:
        cli.main()
    told = json.loads(capsys.readouterr().out)["error"]
    assert told["code"] == ("bug" if is_bug else "out_of_memory")
    if not is_bug:
        assert isinstance(caught.value, SystemExit)
        assert caught.value.code == 2
        assert "--resume" in told["hint"]
