"""`Service`: the state that answers now, and how a refresh replaces it.

A refresh reads the source again, builds a new state beside the old one and swaps it in whole. One
that fails leaves the old one answering, and is remembered.
"""

import asyncio
import atexit
import gc
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gelgt.errors import GelgtError
from gelgt.inference import Opened, open_for
from gelgt.runs.folder import Run
from gelgt.serve.answering import Answered, answer
from gelgt.serve.batching import Batcher
from gelgt.serve.meters import Meters
from gelgt.serve.questions import Question
from gelgt.serve.served import Served, utc
from gelgt.serve.settings import ServeSettings
from gelgt.sources.cache import remove_unused

log = logging.getLogger("gelgt.serve")
SLOW = 16  # explanations and lists that may wait
SEARCHES = 64  # that may wait: whoever types waits for no explanation


@dataclass(frozen=True)
class Origin:
    """Where rows come from: as for `open_for`."""

    source: Any = None
    namespace: str | None = None

    def open(self, run: Run) -> Opened:
        return open_for(run, self.source, namespace=self.namespace)


@dataclass(frozen=True)
class Refreshed:
    """How the last refresh went; its error is for the log and not for clients."""

    at: float
    is_changed: bool = False
    error: GelgtError | None = None

    def to_dict(self) -> dict[str, Any]:
        code = None if self.error is None else self.error.code
        return {"at": utc(self.at), "ok": code is None, "changed": self.is_changed, "error": code}


@dataclass(frozen=True)
class Job:
    """Something that takes longer than a prediction."""

    work: Callable[[], Any]
    size: int = 1


class Service:
    """A run that answers questions.

    Args:
        run: The run.
        origin: Where its rows come from.
        settings: The limits.
        device: ``auto``, ``cpu``, ``cuda``, …

    Raises:
        GelgtError: the source cannot be read, or does not fit the run.
    """

    def __init__(
        self, run: Run, origin: Origin, settings: ServeSettings, device: str = "auto"
    ) -> None:
        self.run, self.origin, self.settings, self.device = run, origin, settings, device
        self.meters = Meters(self)
        self.served = Served.of(run, origin.open(run), device, 1)
        _settle()
        self.last_refresh: Refreshed | None = None
        self._made: list[Path] = []  # folders of graphs and features, oldest first
        self._refreshing = threading.Lock()
        self._ending = threading.Event()
        self.predictions: Batcher[Question, Answered] = Batcher(
            self._answer,
            limit=settings.queue,
            seeds=settings.batch_seeds,
            seconds=settings.batch_seconds,
            told=self.meters.batch,
        )
        self.slow: Batcher[Job, Any] = Batcher(
            _work, limit=SLOW, seeds=1, seconds=0.0, name="gelgt-slow"
        )
        self.searches: Batcher[Job, Any] = Batcher(
            _work, limit=SEARCHES, seeds=1, seconds=0.0, name="gelgt-search"
        )
        if settings.refresh is not None:
            threading.Thread(target=self._refresh_often, name="gelgt-refresh", daemon=True).start()

    def _answer(self, questions: Sequence[Question]) -> list[Answered | Exception]:
        return answer(self.served, questions)

    def later(self, work: Callable[[], Any]) -> "asyncio.Future[Any]":
        """The result of something that takes longer, one after the other."""
        return self.slow.ask(Job(work))

    def search(self, work: Callable[[], Any]) -> "asyncio.Future[Any]":
        """The result of a look into the entity table, which no model is needed for."""
        return self.searches.ask(Job(work))

    def close(self) -> None:
        """Answer what was accepted, and end."""
        self._ending.set()
        self.predictions.close()
        self.slow.close()
        self.searches.close()

    # New rows.
    def refresh(self) -> Refreshed:
        """Look at the source, and swap in a new state where it has changed; never raises for a
        source that cannot be read. Where another refresh goes on, its result."""
        with self._refreshing:
            began = time.time()
            try:
                done = self._refresh(began)
            except Exception as error:
                known = error if isinstance(error, GelgtError) else GelgtError("bug", repr(error))
                if isinstance(error, GelgtError):
                    log.warning("refresh failed (%s): %s", error.code, error)
                else:
                    log.exception("refresh failed")
                done = Refreshed(began, error=known)
            self.last_refresh = done
            self.meters.refreshed(done.error is None)
            return done

    def _refresh(self, began: float) -> Refreshed:
        old = self.served
        opened = self.origin.open(self.run)
        if opened.db.folder == old.predictor.db.folder and self._is_same(opened, old):
            return Refreshed(began)
        derived = opened.db.cache_dir
        is_ours = not derived.exists()
        new = Served.of(self.run, opened, self.device, old.number + 1)
        self.served = replace(new, since=time.time())
        _settle()
        self._clear()
        if is_ours:
            self._made.append(derived)
        log.info("new rows answer now (state %d, read in %.1f s)", new.number, time.time() - began)
        return Refreshed(began, is_changed=True)

    def _clear(self) -> None:
        """Remove graphs and features of states before the last one, where this server made them:
        each refresh leaves some. The last one may still be asked."""
        while len(self._made) > 1:
            remove_unused(self._made.pop(0))

    def _is_same(self, opened: Opened, old: Served) -> bool:
        """Whether the files of the database are those that the old state has open."""
        return opened.db.cache_dir == old.predictor.db.cache_dir

    def _refresh_often(self) -> None:
        assert self.settings.refresh is not None
        while not self._ending.wait(self.settings.refresh):
            self.refresh()


def _settle() -> None:
    """What is loaded stays: nobody needs to look through it for garbage at every request."""
    gc.collect()
    gc.freeze()
    # DuckDB reports objects that are not freed at the end as leaks
    atexit.unregister(gc.unfreeze)
    atexit.register(gc.unfreeze)


def _work(jobs: Sequence[Job]) -> list[Any]:
    done: list[Any] = []
    for job in jobs:
        try:
            done.append(job.work())
        except GelgtError as error:
            done.append(error)
    return done
