"""Judges what gelgt makes of a messy database whose truth is known.

answered   labels are right, nothing of the future is seen, no column tells a coin flip
left_out   the same, and no row of a doubtful table is seen
refused    a GelgtError, or a finding that stops training, that names a table or column of it
wrong      anything else; crashed: an error that is no GelgtError
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gelgt
from campaigns.messy_world import DAY, Column, Question, Table, World, moment
from gelgt.errors import GelgtError

CHECKED = 120  # seeds of each split whose rows and values are looked at
MOST_SEEDS = 5000  # whose columns are tried on coin flips
# Standard deviations: of one column among hundreds over all splits, and of the forest on
# validation and test. One fair case in a hundred thousand exceeds either.
COLUMN, FOREST = 6.5, 4.5
MISSING = -1


@dataclass
class Verdict:
    """The outcome, what was wrong or lost, and figures."""

    outcome: str
    notes: list[str]
    lost: list[str]


def judge(world: World, source: Any) -> Verdict:
    """The verdict on one world, whatever gelgt raises."""
    assert world.question is not None
    try:
        db = gelgt.open(source)
        task = db.task(world.question.sentence, **world.splits)
    except GelgtError as error:
        return _refusal(world, str(error), error.code)
    stops = _errors(db, task, world)
    if stops:
        return _refusal(world, "; ".join(stops), "finding")
    notes = _label_notes(world, db, task)
    view = _View(world, db, task)
    notes += view.seen_too_early()
    notes += view.flips_told() if world.is_fair else []
    if notes:
        return Verdict("wrong", notes, [])
    hidden = world.doubtful - view.tables_seen
    lost = sorted(world.harmless - view.tables_seen)
    return Verdict("left_out" if hidden else "answered", sorted(hidden), lost)


def _refusal(world: World, text: str, code: str) -> Verdict:
    names = world.doubtful | world.named | world.unclear
    if any(name.lower() in text.lower() for name in names):
        return Verdict("refused", [f"{code}: {text}"], [])
    return Verdict("wrong", [f"refused, but names none of {sorted(names)}: {code}: {text}"], [])


def _errors(db: Any, task: Any, world: World) -> list[str]:
    """Messages of the findings that stop training."""
    try:
        from gelgt.tasks.task_findings import task_findings
    except ImportError:  # findings have no severity yet
        return []
    findings = task_findings(db, task)
    return [f"{f.table}.{f.column} {f.message}" for f in findings if f.severity == "error"]


# Labels.
def labels(world: World, times: list[int]) -> dict[tuple[int, int], float]:
    """(seed time, entity) → label of every entity there may be, by nested loops."""
    question = world.question
    assert question is not None
    events = _events(world, question)
    found: dict[tuple[int, int], float] = {}
    for time in times:
        end = time + question.window * DAY
        for entity in range(world.tables[question.entity].rows):
            inside = [v for t, v in events.get(entity, ()) if time < t <= end]
            count = len(inside)
            found[time, entity] = {
                "exists": float(count > 0),
                "none": float(count == 0),
                "count": float(count),
                "sum": float(sum(inside)),
            }[question.form]
    return found


def _events(world: World, question: Question) -> dict[int, list[tuple[int, float]]]:
    """For each entity, times and values of its events, as the rows say."""
    events: dict[int, list[tuple[int, float]]] = {}
    table = world.tables[question.table]
    for row in range(table.rows):
        owner, _ = _walk(world, table, row, question.owner)
        holder, place = _walk(world, table, row, question.moment)
        if owner < 0 or holder < 0:
            continue
        time = place.columns[question.time].values[holder]
        value = table.columns[question.value].values[row] if question.value else 1.0
        if time is not None and value is not None:
            events.setdefault(owner, []).append((time, value))
    return events


def _walk(world: World, table: Table, row: int, keys: tuple[str, ...]) -> tuple[int, Table]:
    """The row that keys lead to, -1 for none."""
    for key in keys:
        if row < 0:
            return -1, table
        column = table.columns[key]
        row, table = column.values[row], world.tables[column.parent]
    return row, table


def _population(world: World, time: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(entities,) who must have a label at a time, and who may."""
    assert world.question is not None
    table = world.tables[world.question.entity]
    may = table.born <= time
    if table.name not in world.unclear:
        return may, may
    assert world.first_named is not None
    must = may & (world.first_named <= time)
    return must if world.shown is None else must & (world.shown <= time), may


def _label_notes(world: World, db: Any, task: Any) -> list[str]:
    assert world.question is not None
    rows = _found_rows(world, db, world.question.entity)
    notes = []
    for split in ("train", "val", "test"):
        table = task.table(split)
        times = table.column(task.time_col).to_numpy().astype("datetime64[s]").astype(np.int64)
        entities = rows[table.column(task.entity_col).to_numpy()]
        found = dict(
            zip(
                zip(times.tolist(), entities.tolist()),
                np.asarray(table.column(task.label_col).to_numpy(), float).tolist(),
            )
        )
        seeds = sorted(set(times.tolist()))
        truth = labels(world, seeds)
        differ = [
            key for key, value in found.items() if abs(truth[key] - value) > 1e-6 * (1 + abs(value))
        ]
        # Entities that come after the test time have no labels.
        known = _population(world, int(task.test_timestamp.timestamp()))[0]
        population = {t: _population(world, t) for t in seeds}
        must = {(t, e) for t in seeds for e in np.flatnonzero(population[t][0] & known).tolist()}
        may = {(t, e) for t in seeds for e in np.flatnonzero(population[t][1]).tolist()}
        absent, extra = must - found.keys(), found.keys() - may
        if differ:
            key = differ[0]
            notes.append(
                f"{split}: {len(differ):,} of {len(found):,} labels differ, such as {found[key]} "
                f"for {truth[key]} at {moment(key[0])}"
            )
        if absent:
            notes.append(f"{split}: {len(absent):,} of {len(must):,} labels are missing")
        if extra:
            notes.append(
                f"{split}: {len(extra):,} of {len(found):,} labels are of entities not there yet"
            )
        if not found:
            notes.append(f"{split}: no labels")
    return notes


def _found_rows(world: World, db: Any, name: str) -> NDArray[np.int64]:
    """(rows,) which row of the world each row of an imported table is."""
    table = world.tables[name]
    place = {round(value * 8): row for row, value in enumerate(table.columns[table.tag].values)}
    tags = db.read(name, [table.tag]).column(0).to_pylist()
    return np.array([place[round(float(tag) * 8)] for tag in tags], np.int64)


# What a model sees.
class _View:
    """Subgraphs, values and history columns of a task's seeds."""

    def __init__(self, world: World, db: Any, task: Any) -> None:
        from gelgt.presets import RunConfig
        from gelgt.training.data import TrainingData
        from gelgt.training.regime import in_regime

        config = RunConfig.of("cpu", task.task_type, {"sampling.hops": 3, "sampling.budget": 250})
        self.world, self.task = world, task
        self.data = TrainingData.opened(db, task, in_regime(config, task))
        self.rows = {
            name: _found_rows(world, self.data.db, name) for name in self.data.graph.tables
        }
        self.tables_seen: set[str] = set()
        self.notes: list[str] = []

    def _checked(self) -> Any:
        """Some seeds of every split."""
        random = np.random.default_rng(0)
        for split, seeds in self.data.seeds.items():
            there = np.flatnonzero(self.data.exists(seeds))
            some = random.permutation(there)[:CHECKED]
            if len(some):
                yield split, seeds.take(np.sort(some))

    def seen_too_early(self) -> list[str]:
        """Rows and values that a subgraph shows before they were so."""
        from gelgt.sampling.batch import from_sample

        counts: dict[str, int] = {}
        for _, seeds in self._checked():
            sample = self.data.sampler.sample(seeds.node, seeds.time, seeds.key)
            batch = from_sample(
                sample, self.data.graph, seeds.time, seeds.key, np.arange(len(seeds))
            )
            inputs = self.data.with_features(batch, None)
            seed_time = seeds.time[inputs.subgraph.numpy()]
            node, table = batch.node.numpy(), batch.table.numpy()
            for key, count in self._early_edges(batch, seed_time):
                counts[f"keys {key} before they named that row"] = count
            for number, name in enumerate(self.data.graph.tables):
                places = np.flatnonzero(table == number)
                if not len(places):
                    continue
                self.tables_seen.add(name)
                rows = self.rows[name][node[places] - self.data.graph.offsets[number]]
                times, born = seed_time[places], self.world.tables[name].born[rows]
                if late := int(np.sum(born > times)):
                    counts[f"rows of {name} before they came"] = late
                counts |= dict(self._early_values(inputs, name, places, rows, times))
        return [f"{count:,} {what}" for what, count in counts.items()]

    def _early_values(self, inputs: Any, name: str, places: Any, rows: Any, times: Any) -> Any:
        table = self.world.tables[name]
        frame, distinct = inputs.rows.frames[name], inputs.rows.places[name].numpy()
        which = np.searchsorted(distinct, inputs.rows.inverse.numpy()[places])
        for kind, columns in frame.col_names_dict.items():
            for place, column in enumerate(columns):
                described = table.columns.get(column)
                if described is None or described.known is None:
                    continue
                cells = _codes(frame.feat_dict[kind], place)[which]
                before = self._before(name, column, rows)
                is_ahead = described.known[rows] > times
                changes = np.array([_changes(described, r) for r in rows.tolist()], bool)
                early = is_ahead & changes & (cells != MISSING) & (cells != before)
                if early.any():
                    yield f"values of {name}.{column} before they were so", int(early.sum())
                # Hidden where it will change and shown where it will not tells as much.
                hidden, kept = is_ahead & changes & (cells == MISSING), is_ahead & ~changes
                if hidden.sum() >= 5 and np.mean(cells[kept] != MISSING) > 0.5:
                    yield f"values of {name}.{column} hidden only to change", int(hidden.sum())

    def _before(self, name: str, column: str, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """(rows,) the code of the value that stood there before, `MISSING` for none. Times count
        as missing: the year 9999 and nothing are the same."""
        described = self.world.tables[name].columns[column]
        statistics = self.data.features.statistics.tables[name].get(column)
        categories = getattr(statistics, "categories", None)
        if described.before is None or categories is None:
            return np.full(len(rows), MISSING)
        codes: dict[Any, int] = {}
        for code, category in enumerate(categories):
            codes[
                {"1": True, "true": True, "0": False, "false": False}.get(
                    category.lower(), category
                )
                if described.kind == "flag"
                else category
            ] = code
        return np.array([codes.get(described.before[r], MISSING) for r in rows.tolist()], np.int64)

    def _early_edges(self, batch: Any, seed_time: Any) -> Any:
        """Keys that a subgraph follows before they named what they name."""
        graph = self.data.graph
        child, relation = batch.edge_index[0].numpy(), batch.edge_relation.numpy()
        node, times = batch.node.numpy()[child], seed_time[child]
        for number, each in enumerate(graph.relations):
            described = self.world.tables[each.child].columns.get(each.column)
            places = np.flatnonzero(relation == number)
            if described is None or described.known is None or not len(places):
                continue
            rows = self.rows[each.child][
                node[places] - graph.offsets[graph.table_number(each.child)]
            ]
            early = described.known[rows] > times[places]
            if early.any():
                yield f"{each.child}.{each.column}", int(early.sum())

    # Coin flips.
    def flips_told(self) -> list[str]:
        """Columns of the history and of subgraphs that know a label, and whether a forest does."""
        values, names, labels_, groups, split = self._table()
        if len(labels_) == 0:
            return []
        z, auc = told(values, labels_, groups)
        notes = []
        worst = np.argsort(-np.abs(z))[:3]
        if len(worst) and abs(z[worst[0]]) > COLUMN:
            shown = ", ".join(
                f"'{names[i]}' (AUC {auc[i]:.3f})" for i in worst if abs(z[i]) > COLUMN
            )
            notes.append(f"coin flips are told by {shown}")
        score = _forest(values[split == 0], labels_[split == 0], values[split > 0])
        if score is not None and (split > 0).any():
            z, auc = told(score[:, None], labels_[split > 0], groups[split > 0])
            if abs(z[0]) > FOREST:
                notes.append(
                    f"a forest has AUC {auc[0]:.3f} on coin flips ({z[0]:+.1f} deviations)"
                )
        return notes

    def _table(self) -> Any:
        from gelgt.history.aggregates import aggregates
        from gelgt.tasks.label_space import targets

        data, world = self.data, self.world
        assert world.question is not None
        assert world.stratum is not None
        first = data.graph.offsets[data.graph.table_number(self.task.entity_table)]
        parts = []
        for number, split in enumerate(("train", "val", "test")):
            seeds = data.seeds[split]
            there = np.flatnonzero(data.exists(seeds))
            there = np.sort(
                np.random.default_rng(number).permutation(there)[: MOST_SEEDS // (number + 1)]
            )
            seeds, label = seeds.take(there), np.asarray(targets(self.task, split), float)[there]
            rows = self.rows[self.task.entity_table][seeds.node - first]
            strata = {int(t): world.stratum(int(t)) for t in np.unique(seeds.time)}
            stratum = np.array(
                [strata[t][r] for t, r in zip(seeds.time.tolist(), rows.tolist())], np.int64
            )
            fair = np.flatnonzero(stratum >= 0)
            parts.append((seeds.take(fair), label[fair], stratum[fair], np.full(len(fair), number)))
        label, stratum, split_ = (np.concatenate([p[i] for p in parts]) for i in (1, 2, 3))
        node, time = (np.concatenate([getattr(p[0], w) for p in parts]) for w in ("node", "time"))
        key = np.concatenate([p[0].key for p in parts])
        groups = np.unique(time * 8 + stratum, return_inverse=True)[1]
        history = aggregates(data.task_data, node - first, time, hops=2)
        values = np.concatenate([history.values, self._structure(node, time, key)], axis=1)
        names = [*history.names, *(f"subgraph: {what}" for what in self._structure_names())]
        label = (
            (label > np.median(label)).astype(float)
            if world.question.form in ("count", "sum")
            else label
        )
        return values, names, label, groups, split_

    def _structure_names(self) -> list[str]:
        graph = self.data.graph
        tables = [f"rows of {name}" for name in graph.tables]
        return tables + [f"edges of relation {n}" for n in range(len(graph.relations))]

    def _structure(self, node: Any, time: Any, key: Any) -> NDArray[np.float32]:
        """(S, columns) how many rows of each table and edges of each key a subgraph has."""
        graph = self.data.graph
        sample = self.data.sampler.sample(node, time, key)
        seed = np.repeat(np.arange(len(node)), np.diff(sample.offsets))
        tables, relations = len(graph.tables), len(graph.relations)
        out = np.zeros((len(node), tables + relations), np.float32)
        np.add.at(out, (seed, sample.table), 1)
        np.add.at(out, (seed[sample.edge_source], tables + sample.edge_relation), 1)
        return out


def _changes(column: Column, row: int) -> bool:
    """Whether a value of today is another one than before."""
    return bool(column.values[row] != (None if column.before is None else column.before[row]))


def _codes(feature: Any, place: int) -> NDArray[np.int64]:
    """(rows,) what a column holds: the code of a category, 1 for any other value, `MISSING`."""
    import torch

    if isinstance(feature, torch.Tensor):
        if feature.dim() == 3:  # the parts of a time
            return np.where(feature[:, place, 1].numpy() >= 0, 1, MISSING)
        if feature.is_floating_point():
            return np.where(torch.isnan(feature[:, place]).numpy(), MISSING, 1)
        return feature[:, place].numpy().astype(np.int64)
    values = feature[:, place].values
    if values.is_floating_point():  # texts
        is_shown = (values != 0).reshape(feature.size(0), -1).any(1).numpy()
        return np.where(is_shown, 1, MISSING)
    return np.full(feature.size(0), MISSING)


def told(values: Any, labels_: Any, groups: Any) -> tuple[Any, Any]:
    """(columns,) how far each column's ranks of positive labels lie from chance within groups, in
    standard deviations, and as an AUC."""
    from scipy.stats import rankdata

    excess, variance, pairs = np.zeros((3, values.shape[1]))
    for group in np.unique(groups):
        inside = groups == group
        label = labels_[inside] > 0.5
        n, ones = len(label), int(label.sum())
        if ones in (0, n):
            continue
        ranks = rankdata(np.nan_to_num(values[inside], nan=-1e30), axis=0)
        excess += ranks[label].sum(0) - ones * (n + 1) / 2
        variance += ones * (n - ones) / (n - 1) * ranks.var(0)
        pairs += ones * (n - ones)
    z = np.where(variance > 0, excess / np.sqrt(np.maximum(variance, 1e-9)), 0.0)
    return z, 0.5 + excess / np.maximum(pairs, 1)


def _forest(train: Any, labels_: Any, other: Any) -> Any:
    """What a small forest predicts; None where there is nothing to learn."""
    import lightgbm

    if len(np.unique(labels_)) < 2 or len(labels_) < 100:
        return None
    settings = {
        "objective": "binary",
        "num_leaves": 15,
        "learning_rate": 0.1,
        "verbose": -1,
        "num_threads": 1,
        "feature_fraction": 0.5,
        "min_data_in_leaf": 20,
        "seed": 1,
    }
    model = lightgbm.train(settings, lightgbm.Dataset(train, labels_, params={"verbose": -1}), 40)
    return np.asarray(model.predict(other))
