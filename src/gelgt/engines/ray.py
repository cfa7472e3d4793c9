"""Parts of a population on Ray: one actor a worker, each with the model and the mapped graph.

The driver hands out one part at a time to whoever is free. A worker that dies, with its node or
alone, is replaced, and its part is handed out again; that it may have been finished, or be finished
twice, does not matter, because a part counts by its commit record and predictions are
deterministic. Plain actors rather than Ray Data: a part is described by its number, so there are
no blocks to move, no second place that decides what is done, and nothing but Ray's core to install.
"""

import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from gelgt.engines.worker import PartWorker, probe_name
from gelgt.errors import GelgtError
from gelgt.inference.part_folder import part_folder
from gelgt.inference.part_scorer import Question
from gelgt.inference.plan import Commit, Place, Plan

LOSSES = 10  # workers that one part may lose, or that may be lost in a row while they open
WAIT_SECONDS = 30.0  # after which it is said that nobody works
# Errors of one node: its parts go to others, as long as there are some.
OF_A_NODE = (
    "cannot_write",
    "cannot_use_file",
    "too_little_memory",
    "storage_failed",
    "unreachable",
)


@dataclass(frozen=True)
class Reports:
    """What the driver tells while it works.

    Attributes:
        done: Called with each part that is committed.
        note: Called with a line for the user.
    """

    done: Callable[[Commit], None]
    note: Callable[[str], None]


@dataclass
class _Slot:
    """A place for a worker: the one that has it now, and what it does."""

    actor: Any
    part: int | None = None  # None while it opens


@dataclass
class RayScoring:
    """Makes parts on a cluster.

    Args:
        ray: The package, connected.
        question: What is predicted; the same from every working folder.
        plan: What all parts share.
        folder: Where they go; all nodes see it under this path or address.
        asks: Resources of a worker.
        reports: Who hears of it.
    """

    ray: Any
    question: Question
    plan: Plan
    folder: Place
    asks: dict[str, int]
    reports: Reports
    _slots: dict[Any, _Slot] = field(default_factory=dict)  # by what they are waited for
    _losses: Counter[int | None] = field(default_factory=Counter)

    def write(self, parts: Sequence[int], workers: int) -> None:
        """Make these parts.

        Raises:
            GelgtError: of a worker: ``version_mismatch``, ``data_mismatch``, ``not_shared``,
                ``cannot_write``, …; ``worker_lost``: a part has lost its worker again and again.
        """
        token, queue = uuid.uuid4().hex, deque(parts)
        folder, probe = part_folder(self.folder), probe_name(token)
        folder.write(probe, "")
        try:
            for _ in range(min(workers, len(queue))):
                self._start(token)
            self._work(queue, token)
        finally:
            for slot in self._slots.values():
                self._end(slot)
            folder.remove(probe)

    def _work(self, queue: deque[int], token: str) -> None:
        left = set(queue)
        heard = time.monotonic()
        while left:
            ready, _ = self.ray.wait(list(self._slots), num_returns=1, timeout=WAIT_SECONDS)
            if not ready and all(slot.part is None for slot in self._slots.values()):
                waited = time.monotonic() - heard
                self.reports.note(f"waiting for workers to start, {waited:.0f} s so far")
            for reference in ready:
                heard = time.monotonic()
                slot = self._slots.pop(reference)
                commit = self._answer(reference, slot, queue, token)
                if commit is not None:
                    left.discard(commit.part)
                    self.reports.done(commit)
                    slot.part = None
                    self._next(slot, queue)

    def _answer(self, reference: Any, slot: _Slot, queue: deque[int], token: str) -> Commit | None:
        """Take what a worker answers; its commit record, if it made a part."""
        errors = self.ray.exceptions
        lost = (errors.RayActorError, errors.NodeDiedError, errors.WorkerCrashedError)
        try:
            answer = self.ray.get(reference)
        except (*lost, errors.ObjectLostError, errors.OutOfMemoryError) as error:
            self._lost(slot, queue, str(error))
            self._start(token)
            return None
        if "error" in answer:
            self._failed(answer, slot, queue)
            return None
        self._losses[slot.part] = 0
        if slot.part is None:  # it has opened
            self._next(slot, queue)
            return None
        return Commit(**answer["value"])

    def _start(self, token: str) -> None:
        """A new worker, wherever there is room; it opens first."""
        actor = self.ray.remote(PartWorker).options(max_restarts=0, **self.asks).remote()
        opening = actor.open.remote(self.question, self.plan.model_dump(), str(self.folder), token)
        self._slots[opening] = _Slot(actor)

    def _next(self, slot: _Slot, queue: deque[int]) -> None:
        """Give a worker its next part; without one it ends."""
        if not queue:
            self._end(slot)
            return
        slot.part = queue.popleft()
        self._slots[slot.actor.write.remote(slot.part)] = slot

    def _lost(self, slot: _Slot, queue: deque[int], reason: str) -> None:
        self._end(slot)  # if it is only cut off, another makes its part meanwhile
        if slot.part is None and "ModuleNotFoundError" in reason:
            raise GelgtError(
                "version_mismatch",
                f"A node cannot load gelgt: {reason.strip().splitlines()[-1]}",
                hint="Install the same version of gelgt on every node.",
            )
        self._losses[slot.part] += 1
        if slot.part is not None:
            queue.appendleft(slot.part)
        if self._losses[slot.part] >= LOSSES:
            what = "while it opened the source" if slot.part is None else f"at part {slot.part}"
            raise GelgtError(
                "worker_lost",
                f"{LOSSES} workers died {what}; the last: {_first_line(reason)}",
                hint="The logs of Ray say why, most often too little memory. What is committed "
                "stays; start again to go on.",
            )
        self.reports.note(f"a worker was lost and is replaced: {_first_line(reason)}")

    def _failed(self, answer: dict[str, Any], slot: _Slot, queue: deque[int]) -> None:
        """A worker that tells of an error: raised, unless it is its node's and others go on."""
        error, host = answer["error"], answer["host"]
        self._end(slot)
        if error["code"] not in OF_A_NODE or not self._slots:
            message = f"On the node {host}: {error['message']}"
            raise GelgtError(error["code"], message, hint=error["hint"])
        if slot.part is not None:
            queue.appendleft(slot.part)
        self.reports.note(f"the node {host} does no more: {error['message']}")

    def _end(self, slot: _Slot) -> None:
        with suppress(Exception):  # it may be gone already
            self.ray.kill(slot.actor)


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else "no reason given"
