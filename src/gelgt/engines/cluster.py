"""A Ray cluster: one that is there already, or one of processes on this machine; and what is wrong
where neither can be had.

Nothing is sent to anybody: usage reports are switched off, there is no dashboard, and a cluster
that is started here listens on the loopback interface alone.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

from gelgt.errors import GelgtError

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # leaves CUDA_VISIBLE_DEVICES as it is
    "RAY_DISABLE_IMPORT_WARNING": "1",
}
# A node with the address 127.0.0.1 listens on loopback alone, but on Linux Ray replaces it by the
# machine's own address, unless clusters are switched off. It is read when Ray is imported.
ALONE = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
ANSWER_SECONDS = 5.0  # for a port to answer
CONNECT_SECONDS = 60.0  # for a cluster to let a driver in
LANES = 2  # cores that a worker keeps busy; see gelgt.scoring.lanes
# A driver that cannot connect may be aborted by Ray's own code: a process of its own tries first.
TRY = "import sys, ray; ray.init(address=sys.argv[1], logging_level='ERROR', log_to_driver=False)"


def load_ray(is_alone: bool = False) -> Any:
    """The package.

    Args:
        is_alone: Whether the cluster will be this machine alone.

    Raises:
        GelgtError: ``missing_extra``.
    """
    for name, value in (QUIET | (ALONE if is_alone else {})).items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ModuleNotFoundError as error:
        raise GelgtError(
            "missing_extra",
            f"--engine ray needs the package '{error.name}', which is not installed.",
            hint="pip install 'gelgt[ray]'",
        ) from None
    return ray


@contextmanager
def connected(address: str | None, workers: int | None) -> Iterator[Any]:
    """Ray, connected to a cluster while the block runs.

    Args:
        address: HOST:PORT, ``auto`` (the cluster of this machine), or None for a cluster of
            processes on this machine, which ends with the block.
        workers: That a cluster of this machine has room for; as many as there are cores if None.

    Raises:
        GelgtError: ``missing_extra``, ``no_cluster``, ``version_mismatch``.
    """
    ray = load_ray(is_alone=address is None)
    options: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
    if address is None:
        cores = max(os.cpu_count() or 1, LANES * (workers or 1))
        options |= {
            "num_cpus": cores,
            "include_dashboard": False,
            "_node_ip_address": "127.0.0.1",
            "address": "local",
        }
    else:
        _check_answer(address)
        options["address"] = address
    with redirect_stdout(sys.stderr):  # Ray prints what happens to nodes; stdout is the result's
        try:
            ray.init(**options)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise _refused(address, str(error)) from None
        try:
            yield ray
        finally:
            ray.shutdown()


def resources(ray: Any, device: str) -> tuple[int, dict[str, int], str]:
    """How many workers a cluster has room for, what each of them asks for, and the kind of device
    that they predict on."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    gpus = sum(int(node.get("GPU", 0)) for node in nodes)
    is_cuda = device.startswith("cuda") or (device == "auto" and gpus > 0)
    cores = [int(node.get("CPU", 0)) for node in nodes]
    each = max(1, min([LANES, *(count for count in cores if count)]))
    if is_cuda:
        return gpus, {"num_cpus": 1, "num_gpus": 1}, "cuda"
    return max(1, sum(count // each for count in cores)), {"num_cpus": each}, "cpu"


def _check_answer(address: str) -> None:
    """Whether somebody answers at an address, and is a cluster; in bounded time."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if address != "auto":
        if not host or not port.isdigit():
            raise GelgtError(
                "bad_option",
                f"--address must be HOST:PORT or auto, got '{address}'.",
                hint="ray start --head prints the address; 6379 is its usual port.",
            )
        try:
            socket.create_connection((host, int(port)), ANSWER_SECONDS).close()
        except (OSError, OverflowError) as error:
            raise _refused(address, str(error)) from None
    try:
        tried = subprocess.run(
            [sys.executable, "-c", TRY, address],
            capture_output=True,
            text=True,
            timeout=CONNECT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _refused(address, f"no answer within {CONNECT_SECONDS:.0f} s") from None
    if tried.returncode:
        last = (tried.stderr.strip().splitlines() or ["it ended without a word"])[-1]
        raise _refused(address, tried.stderr if "ersion mismatch" in tried.stderr else last)


def _refused(address: str | None, reason: str) -> GelgtError:
    if "ersion mismatch" in reason:
        lines = [line.strip() for line in reason.splitlines() if ":" in line]
        return GelgtError(
            "version_mismatch",
            f"The Ray cluster at {address} has another version of Ray or Python. "
            f"{' '.join(lines[-4:])}",
            hint="Install the same versions of Ray and Python on every node and here.",
        )
    where = "on this machine" if address in (None, "auto") else f"at {address}"
    return GelgtError(
        "no_cluster",
        f"No Ray cluster answers {where}: {reason.strip()}",
        hint="Start one with: ray start --head; or leave --address out to use this machine alone.",
    )
