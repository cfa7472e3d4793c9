"""Runs a peer in a process of its own, within its time."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from gelgt.bench.peers.exchange import write_exchange
from gelgt.errors import GelgtError
from gelgt.presets import RunConfig
from gelgt.training.baselines import Predictions, for_everyone
from gelgt.training.data import TrainingData

SCRIPT = Path(__file__).with_name("script.py")
POLL = 0.2  # seconds between two looks at the process


@dataclass(frozen=True)
class Peer:
    """A peer and where it runs.

    Attributes:
        name: ``featuretools`` or ``getml``.
        python: The interpreter that has it.
        limit: Seconds from its start to its predictions; None for no limit.
    """

    name: str
    python: str
    limit: float | None = None


def check_peer(name: str, python: str) -> None:
    """Raises unless a Python has the peer and LightGBM."""
    needed = (name, "lightgbm", "pandas", "pyarrow")
    if python == sys.executable:
        missing = [module for module in needed if find_spec(module) is None]
    else:
        code = f"import importlib.util as u; print(*(m for m in {needed} if not u.find_spec(m)))"
        try:
            done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise GelgtError(
                "no_peer",
                f"{python} cannot be run as a Python: {error}.",
                hint="Give the interpreter that has the peers: --peer-python ENV/bin/python.",
            ) from None
        missing = done.stdout.split()
    if missing:
        raise GelgtError(
            "no_peer",
            f"The peer {name} cannot be used: {python} has no {' and no '.join(missing)}.",
            hint=f"Install it in an environment of its own (pip install {' '.join(needed)}) and "
            "give --peer-python ENV/bin/python.",
        )


def peer_predictions(
    peer: Peer, data: TrainingData, config: RunConfig, stop: Callable[[], bool] = lambda: False
) -> Predictions | None:
    """What a peer predicts for every row of `val` and `test`; None where `stop` ended it.

    Raises:
        GelgtError: it failed, or was not done in time.
    """
    there = {split: np.flatnonzero(data.exists(data.seeds[split])) for split in ("val", "test")}
    scored = {split: data.seeds[split].take(places) for split, places in there.items()}
    with tempfile.TemporaryDirectory(prefix="gelgt-peer-") as name:
        folder = Path(name)
        write_exchange(folder, data, config, scored)
        if not _run(peer, folder, stop):
            return None
        predictions = {}
        for split, places in there.items():
            table = pq.read_table(folder / f"{split}.parquet")
            values = table.column("prediction").to_numpy().astype(np.float64)
            if len(values) != len(places) or not np.isfinite(values).all():
                raise GelgtError(
                    "peer_failed",
                    f"{peer.name} left out predictions of {split}.",
                    hint="Leave the peer out.",
                )
            predictions[split] = for_everyone(data, split, places, values)
        return predictions


@contextmanager
def _turn(peer: Peer, stop: Callable[[], bool]) -> Iterator[None]:
    """Wait until no other getML runs on this machine: its engine has fixed ports."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    path = Path(tempfile.gettempdir()) / f"gelgt-{peer.name}.lock"
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        while peer.name == "getml" and not stop():
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(POLL)
        yield
    finally:
        os.close(handle)


def _run(peer: Peer, folder: Path, stop: Callable[[], bool]) -> bool:
    """Run the script to its end; false where it was stopped."""
    log = folder / "log.txt"
    with log.open("w") as output, _turn(peer, stop):
        began = time.monotonic()
        process = subprocess.Popen(
            # -I: without our PYTHONPATH, which belongs to another Python
            [peer.python, "-I", str(SCRIPT), peer.name, str(folder)],
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # what it starts is ended with it
        )
        try:
            while process.poll() is None:
                if stop():
                    return False
                if peer.limit is not None and time.monotonic() - began > peer.limit:
                    raise GelgtError(
                        "peer_timeout",
                        f"{peer.name} was not done within {peer.limit:g} s.",
                        hint="Give everyone more time (--budget), or leave the peer out.",
                    )
                time.sleep(POLL)
        finally:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode:
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
        reason = next((line for line in reversed(lines) if line), "it said nothing")
        raise GelgtError(
            "peer_failed",
            f"{peer.name} ended with code {process.returncode}: {reason}",
            hint="Leave the peer out.",
        )
    return True
