"""`PartScorer`: a process that makes parts of a population, on any machine.

What is predicted travels as a `Question` of plain values; each process opens the run and the source
for itself, and its plan (`gelgt.inference.plan`) tells whether it has the same model, rows and
version as the others.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from gelgt.errors import GelgtError
from gelgt.inference.bounds import bounds_of
from gelgt.inference.plan import Commit, Place, Plan, read_commit
from gelgt.inference.predictor import Predictor
from gelgt.inference.recommend import Recommend
from gelgt.inference.shards import Division, make_plan, write_part
from gelgt.inference.source import open_for
from gelgt.runs.folder import load_run
from gelgt.scoring.table import key_table
from gelgt.sources.address import absolute_source
from gelgt.sources.cache import text_key


@dataclass(frozen=True)
class Question:
    """What is predicted for everyone, in plain values.

    Attributes:
        run: The run folder.
        source: Where the rows are; None is where the run was trained.
        namespace: The schema of a SQL database.
        at: The seed time; None is that of each row (autocomplete), or what `Predictor.seeds` takes.
        device: ``auto``, ``cpu``, ``cuda``, …
        interval: The level of prediction intervals.
        recommend: What may be recommended.
    """

    run: str
    source: str | None = None
    namespace: str | None = None
    at: str | None = None
    device: str = "auto"
    interval: float | None = None
    recommend: Recommend = field(default_factory=Recommend)

    def anywhere(self) -> "Question":
        """The same question from every working folder."""
        source = None if self.source is None else str(absolute_source(self.source))
        return replace(self, run=str(Path(self.run).expanduser().absolute()), source=source)


class PartScorer:
    """Opens a run and a source, and predicts parts of the population.

    Attributes:
        at: The seed time of the population; None where each row has its own.
        notices: What there is to say about the source and the time.

    Raises:
        GelgtError: the source lacks what the model knows, an option does not fit the task, …
    """

    def __init__(self, question: Question, fresh: bool = False, must_have_time: bool = False):
        self.question = question
        run = load_run(question.run)
        if question.interval is not None:
            bounds_of(run, question.interval)
        opened = open_for(run, question.source, namespace=question.namespace, fresh=fresh)
        self.predictor = Predictor(run, opened, device=question.device)
        db, task = self.predictor.db, self.predictor.task
        if not question.recommend.is_plain:
            question.recommend.wish(db, task)
        has_own_times = question.at is None and task.kind == "autocomplete"
        if must_have_time and question.at is None and not has_own_times:
            raise GelgtError(
                "bad_option",
                "A single shard needs --at: all shards have to predict for the same time.",
                hint="Give each of them the same --at, such as --at 2026-11-01.",
            )
        seeds = self.predictor.seeds(at=question.at)
        self.notices = seeds.notices
        self.at = None if has_own_times else str(np.datetime64(int(seeds.times[0]), "s"))
        self.division = Division(db, task.entity_table, seeds)
        self._tables = partial(
            self.predictor.predict_table,
            recommend=question.recommend,
            interval=question.interval,
        )

    def plan(self, shards: int, device: str | None = None) -> Plan:
        """What all parts share; `device` is the kind that predicts, where it is not this one."""
        recommend = self.question.recommend
        allowed = None if recommend.allowed is None else sorted(map(str, recommend.allowed))
        options = {
            "interval": self.question.interval,
            "k": recommend.k,
            "new_only": recommend.new_only,
            "allowed": None if allowed is None else text_key(repr(allowed)),
            # a GPU computes in bf16: its predictions differ from those of a CPU
            "device": device or self.predictor.scorer.device.type,
        }
        return make_plan(self.predictor, len(self.division), self.at, shards, options)

    def write(self, folder: Place, plan: Plan, number: int) -> Commit:
        """Make a part, unless it is there."""
        commit = read_commit(folder, plan, number)
        if commit is not None:
            return commit
        entities = len(self.division.part(number, plan.shards))
        tables = self._predicted(number, plan.shards, entities)
        return write_part(folder, plan, number, entities, tables)

    def _predicted(self, number: int, shards: int, entities: int) -> Iterator[pa.Table]:
        """The predictions of a part, out of those of all batches that it has a share in."""
        size = self.predictor.batch_size
        seeds, before = self.division.batches(number, shards, size)
        tables = self._tables(seeds.rows, seeds.times)
        task = self.predictor.task
        if task.dst_entity_table is None:
            yield from _rows_between(tables, before, before + entities)
            return
        others = np.r_[seeds.rows[:before], seeds.rows[before + entities :]]
        keys = key_table(self.predictor.db, task.entity_table, others)
        yield from (_without(table, keys) for table in tables)


def _rows_between(tables: Iterable[pa.Table], start: int, stop: int) -> Iterator[pa.Table]:
    """The rows of tables behind each other from `start` to `stop`; one table for each."""
    for table in tables:
        first, last = max(0, start), max(0, min(stop, table.num_rows))
        yield table.slice(first, max(0, last - first))
        start, stop = start - table.num_rows, stop - table.num_rows


def _without(table: pa.Table, keys: pa.Table) -> pa.Table:
    """A table without the rows of some entities, of which each may have several, or none."""
    names = keys.column_names
    others = set(zip(*(column.to_pylist() for column in keys.columns)))
    if not others:
        return table
    rows = zip(*(table.column(name).to_pylist() for name in names))
    return table.filter(pa.array([key not in others for key in rows], pa.bool_()))
