"""What the process of a prediction leaves out: it changes no bit, comes back where it is asked for,
and is left out nowhere else."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
WITHOUT = "from gelgt.cli import main; main()"
SCRIPT = "from gelgt.cli import script; script()"


def python(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def prepared(code: str) -> str:
    """What a process prints in which things are left out."""
    done = python(f"from gelgt.cli import lean\nlean.prepare()\n{code}")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_predictions_are_the_same_bits(trained: Any, tmp_path: Path) -> None:
    paths = [tmp_path / "with.parquet", tmp_path / "without.parquet"]
    for code, path in zip((SCRIPT, WITHOUT), paths):
        done = python(code, "predict", trained.folder, "--at", "2024-12-26", "--out", path)
        assert (done.returncode, done.stderr) == (0, "")
        assert "predictions written to" in done.stdout  # all of it, though the process ended early
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_errors_and_other_commands_end_as_ever(tmp_path: Path) -> None:
    done = python(SCRIPT, "predict", tmp_path, "--json")
    assert done.returncode == 2
    assert '"incomplete_run"' in done.stdout
    assert python(SCRIPT, "predict", "--help").returncode == 0
    assert python(SCRIPT, "--version").returncode == 0


def test_shapes_are_loaded_when_they_are_asked_for() -> None:
    code = """
import inspect, sys, torch
kind = lambda: type(sys.modules['torch._meta_registrations']).__name__
inspect.getmodule(inspect.currentframe())  # looks at every module
before = kind()
name = torch._meta_registrations.register_meta.__name__
print(before, kind(), name, torch._meta_registrations is sys.modules['torch._meta_registrations'])
"""
    assert prepared(code) == "_Deferred module register_meta True"


def test_what_a_model_does_on_a_cpu_needs_no_shapes(tmp_path: Path) -> None:
    code = f"""
import torch
from torch import nn
path = {str(tmp_path / "weights.pt")!r}
net = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.GELU(), nn.Linear(4, 1))
loss = net(torch.ones(5, 3)).square().mean()
loss.backward()
torch.save(net.state_dict(), path)
net.load_state_dict(torch.load(path, weights_only=True))
q = torch.rand(1, 2, 8, 4)
nn.functional.scaled_dot_product_attention(q, q, q).sum().item()
torch.nn.utils.rnn.pad_sequence([torch.ones(2), torch.ones(3)])
print(type(__import__('sys').modules['torch._meta_registrations']).__name__)
"""
    assert prepared(code) == "_Deferred"


@pytest.mark.slow
def test_the_compiler_finds_what_it_counts_on() -> None:
    code = """
import sys, torch
net = torch.nn.Linear(3, 1)
net(torch.ones(2, 3)).sum().backward()
torch.optim.AdamW(net.parameters()).step()  # loads the compiler, to keep it out of its steps
double = torch.compile(lambda x: x * 2, backend='eager')
print(type(sys.modules['torch._meta_registrations']).__name__, double(torch.ones(1)).item())
"""
    assert prepared(code) == "module 2.0"


def test_the_meta_device_works_once_they_are_loaded() -> None:
    code = """
import torch
from torch import nn
lean.load_deferred()
lean.load_deferred()
x = nn.Conv1d(3, 4, 2).to('meta')(torch.empty(2, 3, 9, device='meta'))
print(tuple(x.shape), tuple(torch.linalg.qr(torch.empty(4, 3, device='meta'))[1].shape))
"""
    assert prepared(code) == "(2, 4, 8) (3, 3)"


def test_numba_does_without_scipy_which_stays_whole() -> None:
    code = """
import sys
import numpy as np
from gelgt.history.event_kernels import first_from
a = np.arange(3)
found = first_from(a, a[:1], a[2:], a[1:2]).tolist()
before = 'scipy.linalg' in sys.modules
import scipy.linalg
print(found, before, scipy.linalg.solve([[2.0]], [4.0]).tolist())
"""
    assert prepared(code) == "[1] False [2.0]"


def test_a_network_of_others_gets_all_of_pytorch(
    trained: Any, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gelgt.cli import predict
    from gelgt.cli.options import RunOptions

    asked: list[str] = []
    monkeypatch.setattr(predict, "load_deferred", lambda: asked.append("loaded"))
    command = ("predict", trained.folder, "--at", "2024-12-26", "--json")
    assert run(*command).code == 0
    assert asked == []
    load = RunOptions.load

    def as_rdl(self: RunOptions) -> Any:
        from dataclasses import replace

        loaded = load(self)
        config = loaded.config.model_copy(update={"kind": "rdl"})
        return replace(loaded, config=config)

    monkeypatch.setattr(RunOptions, "load", as_rdl)
    monkeypatch.setattr(predict, "_predict", lambda *_: asked.append("predicted"))
    assert run(*command).code == 0
    assert asked == ["loaded", "predicted"]
