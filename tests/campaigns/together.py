"""Together: the same command from two to four processes at once, one of which may be killed.

They share a cache, and their task, run or output is the same. All succeed with the same bytes, or
one does and the others are told that it is there or who is at work; nothing is mixed and nothing is
left behind.
"""

import shutil
import time
from pathlib import Path

import numpy as np

from campaigns import commands, kill, running
from campaigns.child import Start
from campaigns.commands import COMMANDS, Command
from campaigns.frame import Campaign
from campaigns.running import Ended, Running

# Of these one succeeds; the codes by which the others are told so.
ONE = {
    "import": ("exists",),
    "train": ("run_busy", "run_exists"),
    "retrain": ("run_busy", "run_exists"),
}


def case(world: kill.World, number: int, random: np.random.Generator) -> str:
    command = COMMANDS[number % len(COMMANDS)]
    is_cold = bool(random.random() < 0.7)
    whole = world.unbroken(command, is_cold)
    folder = running.fresh(world.folder, command.state, is_cold)
    if command.older is not None and random.random() < 0.5:
        command.older(folder)
    before = world.folder / "before"
    shutil.rmtree(before, ignore_errors=True)
    shutil.copytree(folder, before)
    count, is_killed = int(random.integers(2, 5)), bool(random.random() < 0.4)
    crew = _launch(command, folder, np.sort(random.uniform(0, whole.seconds, count) * 0.6))
    if is_killed:
        time.sleep(random.uniform(0, whole.seconds))
        crew[int(random.integers(count))].kill()
    endings = [process.wait() for process in crew]
    what = f"{count} at once, {'one killed' if is_killed else 'none killed'}"
    _check(command, endings, is_killed, what)
    wrong = commands.half_written(command, folder, before)
    assert not wrong, f"half-written by {what}: {wrong}; {endings}"
    winners = [ending for ending in endings if ending.code == 0]
    if is_killed:
        kill.mend(folder)
        if not winners:
            winners = [kill.again(command, Start(command.arguments, folder), what)]
    assert winners, f"none of {what} succeeded: {endings}"
    for winner in winners:
        found = commands.result(command, folder, winner.out)
        other = {name for name, _ in found.items() ^ whole.result.items()}
        assert not other, f"another result of {what}: {sorted(other)}; {endings}"
    unchanged = commands.untouched(command, before)
    assert commands.untouched(command, folder) == unchanged, f"something else changed: {what}"
    if not is_killed:  # what a killed one leaves is the matter of `kill`
        assert not (left := kill.left(command, folder)), f"left behind by {what}: {left}"
    return f"{command.name}: {'one killed' if is_killed else 'whole'}"


def _launch(command: Command, folder: Path, moments: np.ndarray) -> list[Running]:
    """One process at each of these moments."""
    crew, began = [], time.monotonic()
    for number, moment in enumerate(moments):
        time.sleep(max(0.0, moment - (time.monotonic() - began)))
        crew.append(running.launch(Start(command.arguments, folder, said=f"{number}-")))
    return crew


def _check(command: Command, endings: list[Ended], is_killed: bool, what: str) -> None:
    losers = ONE.get(command.name, ())
    for ending in endings:
        if ending.code == 0 or (is_killed and ending.code == -9):
            continue
        assert ending.code == 2, f"exit code {ending.code}, {what}: {ending.err[-3000:]}"
        assert ending.error in losers, f"{what}: {ending.err[-3000:]}"
        if ending.error == "run_busy":
            assert "process" in ending.err, f"not told who is at work: {ending.err}"
    if losers:
        winners = sum(ending.code == 0 for ending in endings)
        assert 1 - is_killed <= winners <= 1, f"{winners} won, {what}: {endings}"


def prepare(folder: Path) -> kill.World:
    return kill.prepare(folder, COMMANDS)


CAMPAIGN = Campaign("together", prepare, case, long=2_200, short=1)
