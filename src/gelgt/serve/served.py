"""`Served`: a run on one state of its source. A refresh makes another one and swaps it in whole, so
that no answer is from two states."""

import threading
import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gelgt.errors import GelgtError
from gelgt.inference import Opened, Predictor, bounds_of
from gelgt.inference.bounds import Bounds
from gelgt.runs.folder import Run
from gelgt.scoring.table import key_table
from gelgt.serve.overview import Overview
from gelgt.serve.search import Entities

if TYPE_CHECKING:
    from gelgt.explain import Explainer

LEVELS = 64  # of intervals whose bounds are kept


@dataclass(frozen=True)
class Served:
    """A run and its source at one moment.

    Attributes:
        number: Counts the states of this server, from 1.
        predictor: Answers predictions, in one thread alone.
        background: A second one for what takes longer: explanations, lists, vectors; whoever uses
            it holds `lock`.
        since: When it began to answer, in seconds since 1970.
    """

    number: int
    predictor: Predictor
    background: Predictor
    lock: threading.Lock = field(default_factory=threading.Lock)
    since: float = field(default_factory=time.time)

    @classmethod
    def of(cls, run: Run, opened: Opened, device: str, number: int) -> "Served":
        """A state that has predicted once, so that the first question finds all of it loaded.

        Raises:
            GelgtError: the source does not fit the run.
        """
        predictor, background = (Predictor(run, opened, device=device) for _ in range(2))
        for one in (predictor, background):
            one.db.hold_keys(one.task.entity_table)
        served = cls(number, predictor, background)
        served.example  # noqa: B018  (computes)
        return served

    @property
    def run(self) -> Run:
        return self.predictor.run

    @property
    def recommends(self) -> bool:
        return self.predictor.task.dst_entity_table is not None

    @cached_property
    def example(self) -> dict[str, Any]:
        """Keys and a time that can be asked for; also shows that predictions work."""
        predictor = self.background
        with self.lock:
            try:
                chosen = predictor.seeds()
            except GelgtError:  # nobody is there to predict for
                return {"keys": [], "at": None}
            rows, times = chosen.rows[:2], chosen.times[:2]
            keys = key_table(predictor.db, predictor.task.entity_table, rows).to_pylist()
            next(iter(predictor.predict_table(rows, times)))
        plain = [next(iter(k.values())) if len(k) == 1 else list(k.values()) for k in keys]
        second, _ = predictor.default_time()
        import pandas as pd

        at = None if second is None else pd.Timestamp(second, unit="s").isoformat()
        return {"keys": plain, "at": at}

    @cached_property
    def data(self) -> dict[str, Any]:
        """What the answers rest on, for every answer."""
        newest = self.predictor.newest_event
        return {
            "number": self.number,
            "newest_row": None if newest is None else newest.isoformat(),
            "loaded_at": utc(self.since),
        }

    def default_time(self) -> tuple[int | None, tuple[str, ...]]:
        """As of `Predictor`; it changes once a second at most, and is asked for more often."""
        now = int(time.time())
        kept: tuple[int, Any] | None = self.__dict__.get("_default_time")
        if kept is None or kept[0] != now:
            kept = (now, self.predictor.default_time())
            self.__dict__["_default_time"] = kept
        return kept[1]

    @property
    def newest_second(self) -> float | None:
        newest = self.predictor.newest_event
        return None if newest is None else float(newest.timestamp())

    @cached_property
    def _bounds(self) -> dict[float, Bounds]:
        return {}

    def bounds(self, level: float) -> Bounds:
        """The intervals of a level.

        Raises:
            GelgtError: the run has none.
        """
        if level not in self._bounds:
            if len(self._bounds) >= LEVELS:
                self._bounds.clear()
            self._bounds[level] = bounds_of(self.run, level)
        return self._bounds[level]

    @cached_property
    def entities(self) -> Entities:
        return Entities(self.predictor.db, self.predictor.task)

    @cached_property
    def overview(self) -> Overview:
        return Overview(self.background, self.lock)

    @cached_property
    def explainer(self) -> "Explainer":
        from gelgt.explain import Explainer

        return Explainer(self.background)

    def explain(self, entity: Any, at: int | None, is_counterfactual: bool) -> Any:
        """Why the model predicts what it does for an entity: an `Explanation`, or an
        `ItemsExplanation` of a model that recommends."""
        import pandas as pd

        when = None if at is None else pd.Timestamp(at, unit="s")
        with self.lock:
            if self.recommends:
                from gelgt.explain.item_reasons import explain_list

                return explain_list(self.background, entity, when)
            return self.explainer.explain(entity, when, is_counterfactual=is_counterfactual)


def utc(second: float) -> str:
    """Seconds since 1970 as text."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second))
