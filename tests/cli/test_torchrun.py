"""`torchrun … -m gelgt train`: one result, whatever dies, and one error.

pytest tests/cli/test_torchrun.py -m slow
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from gelgt.demo import Shop
from gelgt.runs.folder import CHECKPOINT, load_run
from gelgt.runs.progress import PROGRESS

pytestmark = pytest.mark.slow
SETTINGS = {
    "train.epochs": 4,
    "train.patience": 4,
    "train.steps_per_epoch": 40,
    "train.ensemble": 1,
    "train.windows": 1,
    "train.batch_size": 32,
    "model.width": 16,
    "model.heads": 2,
    "model.row_width": 8,
    "model.history": 0,
    "model.trees": "false",
    "sampling.budget": 24,
}


def command(shop: Shop, out: Path, *launcher: str, sentence: str | None = None) -> list[str]:
    words = ["-m", "gelgt", "train", shop.url, sentence or shop.sentence, "--out", str(out)]
    for name, value in SETTINGS.items():
        words += ["--set", f"{name}={value}"]
    launched = ["-m", "torch.distributed.run", "--nproc-per-node", "2", *launcher]
    return [sys.executable, *launched, *words, "--no-report", "--device", "cpu", "--json"]


def test_workers_are_started_again(small_shop: Shop, tmp_path: Path) -> None:
    """One is killed: all of them go on from the checkpoint, to the same weights."""
    whole = subprocess.run(
        command(small_shop, tmp_path / "whole"), check=True, capture_output=True, text=True
    )
    assert json.loads(whole.stdout)["run"] == str(tmp_path / "whole")
    out = tmp_path / "run"
    process = subprocess.Popen(
        command(small_shop, out, "--max-restarts", "1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while process.poll() is None and not (out / CHECKPOINT).exists():
        time.sleep(0.02)
    record = json.loads((out / PROGRESS).read_text())
    os.kill(record["workers"][1]["process"], signal.SIGKILL)
    said, err = process.communicate(timeout=500)
    assert process.returncode == 0, err
    assert '"worker_lost"' in said
    one, other = (load_run(folder).weights() for folder in (tmp_path / "whole", out))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_an_error_is_said_once(small_shop: Shop, tmp_path: Path) -> None:
    asked = command(small_shop, tmp_path / "run", sentence="PREDICT COUNT(none.*, 0, 1, days)")
    done = subprocess.run(asked, capture_output=True, text=True)
    assert done.returncode
    assert done.stdout.count('"error"') == 1
    assert not (tmp_path / "run").exists()
