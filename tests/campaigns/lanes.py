"""Divides the time of a long run among campaigns, as many at once as there are cores, up to two.

Each gets a share of what is left when its turn comes; what one that is done leaves goes to those
behind it, of which the last would take any time there is.
"""

import os
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa

from campaigns import frame

AT_ONCE = 2
# Seconds of a core, of 7,200: what the cases that docs/reliability.md asks for take on a machine
# without other work. The order is that of their turns. To prepare its world costs a campaign none.
SHARES = {
    "texts": 300,
    "queries": 300,
    "future": 900,
    "messy": 400,
    "files": 1200,
    "databases": 950,
    "sentences": 1000,
    "together": 450,
    "servers": 600,
    "kill": 1100,
}


class Clock:
    """What is left of the time, in seconds of all lanes.

    Attributes:
        lanes: Until when each is taken.
        waiting: Campaigns whose turn has not come, in their order.
    """

    def __init__(self, names: list[str], end: float, lanes: int, now: float) -> None:
        self.waiting, self.end, self.lanes = list(names), end, [now] * lanes

    def take(self, lane: int, now: float) -> tuple[str, float] | None:
        """The next campaign for a lane, and its seconds."""
        if not self.waiting:
            return None
        self.lanes[lane] = now
        left = sum(max(0.0, self.end - max(now, taken)) for taken in self.lanes)
        name, all_ = self.waiting[0], sum(SHARES.get(n, 1) for n in self.waiting)
        share = left * SHARES.get(name, 1) / all_
        if len(self.waiting) <= len(self.lanes):  # nobody comes behind it in its lane
            share = left
        seconds = max(0.0, min(share, self.end - now))
        self.lanes[lane] = now + seconds
        self.waiting.pop(0)
        return name, seconds


def run(cases: Mapping[str, int], seed: int, out: Path, seconds: float) -> list[frame.Record]:
    """Run campaigns, and say how far each came."""
    order = sorted(cases, key=lambda name: list(SHARES).index(name) if name in SHARES else -1)
    lanes = max(1, min(AT_ONCE, len(os.sched_getaffinity(0)), len(order)))
    now, lock = time.time(), threading.Lock()
    clock = Clock(order, now + seconds, lanes, now)

    def work(lane: int) -> list[frame.Record]:
        records = []
        while True:
            with lock:
                turn = clock.take(lane, time.time())
            if turn is None:
                return records
            try:
                records.append(frame.supervise(turn[0], cases[turn[0]], seed, out, turn[1]))
                _say(turn[0], records[-1])
            except RuntimeError as error:  # the others go on
                print(error, flush=True)
                unstarted.append(error)

    unstarted: list[RuntimeError] = []
    with ThreadPoolExecutor(lanes) as pool:
        found = [record for records in pool.map(work, range(lanes)) for record in records]
    if unstarted:
        raise unstarted[0]
    return found


def _say(name: str, record: frame.Record) -> None:
    counts = f"{record.cases:,} cases, {record.seconds:,.0f} s, {len(record.failed)} broken"
    print(f"{name}: {counts}, {dict(record.outcomes)}", flush=True)


def one_core() -> None:
    """One thread for whatever asks how many cores there are: another campaign has the others, and
    the rows of a case are few."""
    os.cpu_count = lambda: 1
    pa.set_cpu_count(1)
