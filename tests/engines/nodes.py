"""Nodes of a Ray cluster that are processes of this machine."""

from typing import Any

import psutil


def kill_node(node: Any) -> None:
    """Kill a node and everything that runs on it, as if its machine had lost its power."""
    raylet = next(p for p in node.live_processes() if p[0] == "raylet")[1]
    processes = psutil.Process(raylet.pid)
    for process in [*processes.children(recursive=True), processes]:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
