"""What a model as a whole rests on: over a sample of entities at the validation time, tables,
paths, columns and ages are deleted, and the predictions are made again.

    importance   mean absolute change of the prediction, with a bootstrap interval over entities
    effect       mean change, with its sign: what being there adds

Columns are replaced by draws in all sampled rows of their table. Ages are deleted one group at a
time, for all rows and for the rows of each table around the entity: the curve that comes out is
measured, not read off parameters.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from gelgt.explain.explainer import Explainer
from gelgt.explain.explanation import saved
from gelgt.explain.neighbourhood import AGES, Neighbourhood, age_group
from gelgt.explain.stand_ins import ABSENT, draw_rows
from gelgt.explain.variants import States, Variants, neighbourhood
from gelgt.explain.view import view_sql
from gelgt.sampling import make_seeds

SAMPLE = 100  # entities
BOOTSTRAP = 1000
LEVEL = 0.95


@dataclass(frozen=True)
class Importance:
    """How much predictions rest on something.

    Attributes:
        name: A table, a path, ``table.column``, or days.
        importance: Mean absolute change of the prediction without it.
        low: Lower end of its interval.
        high: Upper end.
        effect: Mean change with its sign: what its presence adds.
        share: Of the sampled entities that have any of it.
        from_days, to_days: Of an age; None elsewhere, and where there is no end.
    """

    name: str
    importance: float
    low: float
    high: float
    effect: float
    share: float
    from_days: float | None = None
    to_days: float | None = None


@dataclass(frozen=True)
class WholeExplanation:
    """What a model rests on, strongest first.

    Attributes:
        what: What is explained, in words.
        entities: Size of the sample.
        at: The time of the predictions, ISO 8601.
        tables: Each table, wherever its rows are.
        paths: Each path from the entity.
        columns: Each column of each table.
        ages: For each table around the entity, and for all rows (``""``), importance by age.
        sql: A view that selects what the model uses.
        notices: What the user should know.
    """

    what: str
    entities: int
    at: str
    tables: tuple[Importance, ...]
    paths: tuple[Importance, ...]
    columns: tuple[Importance, ...]
    ages: dict[str, tuple[Importance, ...]]
    sql: str = ""
    notices: tuple[str, ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        """What ``gelgt explain RUN --json`` prints."""
        content = asdict(self)
        lists = {name: list(content[name]) for name in ("tables", "paths", "columns", "notices")}
        return content | lists | {"ages": {name: list(a) for name, a in content["ages"].items()}}

    def save(self, path: str | Path) -> Path:
        """Write an .html page or a .json file, whole or not at all.

        Raises:
            GelgtError: ``unknown_format``.
        """
        from gelgt.explain.page import document
        from gelgt.report.sections.explanation import whole_section

        content = self.to_dict()
        title = "The whole model · gelgt explanation"
        return saved(path, content, lambda: document(title, whole_section(content).html()))


@dataclass
class _Changes:
    """Changes of predictions: (group, name) → one number for each entity that has it."""

    count: int = 0
    found: dict[tuple[str, str], list[float]] = field(default_factory=dict)

    def add(self, names: Sequence[tuple[str, str]], changes: Sequence[float]) -> None:
        self.count += 1
        for name, change in zip(names, changes):
            self.found.setdefault(name, []).append(float(change))

    def of(self, group: str, rng: np.random.Generator) -> list[Importance]:
        """What was found of a group; entities without it count as unchanged."""
        made = []
        for (kind, name), changes in self.found.items():
            if kind == group:
                padded = np.zeros(self.count)
                padded[: len(changes)] = changes
                drawn = rng.integers(0, self.count, (BOOTSTRAP, self.count))
                means = np.abs(padded)[drawn].mean(1)
                low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
                made.append(
                    Importance(
                        name,
                        float(np.abs(padded).mean()),
                        float(low),
                        float(high),
                        float(padded.mean()),
                        len(changes) / self.count,
                    )
                )
        return sorted(made, key=lambda importance: -importance.importance)


def explain_whole(
    explainer: Explainer,
    at: Any = None,
    sample: int = SAMPLE,
    told: Callable[[int], None] | None = None,
) -> WholeExplanation:
    """Explain a model over a sample of entities.

    Args:
        at: The time of the predictions; by default the validation time of the run.
        sample: How many entities, drawn from those whom the task is about then.
        told: Is told of each entity that is done.
    """
    run, data = explainer.predictor.run, explainer.data
    at = at or run.record.task.val_timestamp
    chosen = explainer.predictor.seeds(None, at)
    rng = np.random.default_rng(0)
    places = np.sort(rng.permutation(len(chosen))[:sample])
    changes = _Changes()
    for place in places:
        seed = make_seeds(
            data.db,
            data.graph,
            data.task.entity_table,
            chosen.rows[place : place + 1],
            chosen.times[place : place + 1],
        )
        hood = neighbourhood(explainer.scorer, seed)
        variants = Variants(explainer.scorer, hood)
        variants.output = explainer.output_of(seed)
        deletions = list(_deletions(explainer, variants, rng))
        states = [variants.full, *(state for _, state in deletions)]
        values = variants.predict(np.stack(states))
        changes.add([name for name, _ in deletions], (values[0] - values[1:]).tolist())
        if told is not None:
            told(1)
    ages = {
        group.removeprefix("age:"): _by_age(changes.of(group, rng))
        for group in sorted({group for group, _ in changes.found if group.startswith("age:")})
    }
    tables, paths, columns = (changes.of(group, rng) for group in ("table", "path", "column"))
    return WholeExplanation(
        what=explainer.what(),
        entities=len(places),
        at=str(np.datetime64(int(chosen.times[0]), "s")),
        tables=tuple(tables),
        paths=tuple(paths),
        columns=tuple(columns),
        ages=ages,
        sql=view_sql(data.db, data.task.entity_table, paths, columns),
        notices=chosen.notices,
    )


def _deletions(
    explainer: Explainer, variants: Variants, rng: np.random.Generator
) -> Iterator[tuple[tuple[str, str], States]]:
    """Everything that is deleted for one entity, with its group and name."""
    hood, full = variants.hood, variants.full
    tables = np.array([path.table for path in hood.paths])
    for path, units in hood.groups.items():
        yield ("path", " → ".join(path.tables)), _without(full, units)
    others = np.arange(1, hood.num_units)
    for table in np.unique(tables[1:]):
        yield ("table", str(table)), _without(full, others[tables[1:] == table])
    group = age_group(hood.ages)
    first = np.array([path.length for path in hood.paths]) == 1
    for age in np.unique(group[1:][group[1:] >= 0]):
        at_age = (group == age) & (np.arange(len(full)) > 0)
        yield ("age:", str(age)), _without(full, np.flatnonzero(at_age))
        for table in np.unique(tables[at_age & first]):
            here = at_age & first & (tables == table)
            yield (f"age:{table}", str(age)), _without(full, np.flatnonzero(here))
    yield from _columns(explainer, variants, hood, rng)


def _columns(
    explainer: Explainer, variants: Variants, hood: Neighbourhood, rng: np.random.Generator
) -> Iterator[tuple[tuple[str, str], States]]:
    for number in np.unique(hood.sample.table):
        table = hood.graph.tables[int(number)]
        units = np.flatnonzero(hood.sample.table == number)
        donors = draw_rows(hood.graph, table, variants.limit, len(units), rng)
        if not len(donors):
            continue
        for column in explainer.columns.get(table, []):
            state = variants.full
            for unit, donor in zip(units, donors):
                row = int(hood.row_numbers[unit])
                state[unit] = variants.stand_ins.state(table, row, int(donor), [column])
            yield ("column", f"{table}.{column}"), state


def _by_age(found: list[Importance]) -> tuple[Importance, ...]:
    """Importances by age group, youngest first, with their borders in days."""
    edges = (0.0, *AGES, None)
    dated = []
    for entry in sorted(found, key=lambda importance: int(importance.name)):
        low, high = edges[int(entry.name)], edges[int(entry.name) + 1]
        name = f"{low:g} to {high:g} days" if high is not None else f"{low:g} days and more"
        dated.append(replace(entry, name=name, from_days=low, to_days=high))
    return tuple(dated)


def _without(state: States, units: "np.ndarray[Any, Any]") -> States:
    made = state.copy()
    made[units] = ABSENT
    return made
