"""`shared_gpu`: several processes work on one GPU at the same time.

Without help a GPU belongs to one process after the other, and a training that leaves most of it
idle keeps the others waiting. NVIDIA's Multi-Process Service takes their work together. It is part
of the driver; where it is missing, or does not work, processes take turns as before. It is started
for one study, with a folder of its own, and ends with it. A fault of one process on the GPU can
then end those beside it: their runs are reported as failed, and trained again next time.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

CONTROL = "nvidia-cuda-mps-control"
PIPES, LOGS = "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"
PATIENCE = 30.0  # seconds for a command that takes a few
TRIAL = "import torch; torch.ones(1, device='cuda').sum().item()"


@contextmanager
def shared_gpu(device: str, processes: int) -> Iterator[Mapping[str, str]]:
    """What the environment of processes says that share a GPU; nothing where they take turns.

    Args:
        device: What they work on; ``auto`` may be a GPU.
        processes: How many there are.
    """
    control = shutil.which(CONTROL)
    is_ours = device != "cpu" and processes > 1 and PIPES not in os.environ
    if control is None or not is_ours:
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="gelgt-mps-", ignore_cleanup_errors=True) as folder:
        places = {name: str(Path(folder, name.lower())) for name in (PIPES, LOGS)}
        for place in places.values():
            Path(place).mkdir()
        is_started = _succeeds([control, "-d"], places)
        try:
            works = is_started and _succeeds([sys.executable, "-c", TRIAL], places)
            yield places if works else {}
        finally:
            if is_started:
                _succeeds([control], places, "quit\n")


def _succeeds(command: list[str], places: Mapping[str, str], text: str = "") -> bool:
    try:
        done = subprocess.run(
            command,
            env=os.environ | places,
            input=text,
            text=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
