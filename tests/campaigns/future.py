"""Future: random databases, cut at a time t, and with everything after t garbled. Up to t every
tensor (samples, features, history) and every prediction is the same, bit for bit, whatever the
sampling, the history, the model and its settings.

`PER_DATABASE` cases share a database, each with options of its own.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import gelgt
from campaigns.frame import Campaign
from campaigns.shop_rows import KEYS, PARENTS, START, TIMES, TYPES, WORDS, Row, Rows, random_rows
from campaigns.world import cached_in
from gelgt.config import SamplingConfig
from gelgt.features import Features, open_features
from gelgt.graph import Graph
from gelgt.history.seed_history import HistoryPlan
from gelgt.inference.drift import restrict
from gelgt.inference.source import stated
from gelgt.nn import ModelContext
from gelgt.registry import find_model
from gelgt.sampling import Seeds, make_seeds
from gelgt.sampling.batch import from_sample
from gelgt.scoring.seed_data import SeedData
from gelgt.tasks.task import Definition

PER_DATABASE = 8
MODELS = ("gelgt",) * 6 + (
    "rdl",
    "hgt",
    "hgt-pe",
    "griffin",
    "relgt",
    "relgnn",
    "rgp",
    "nodeformer",
)
EVENTS = ("orders", "items", "notes")  # that nobody predicts for at their own time
Random = np.random.Generator


@dataclass(frozen=True)
class Side:
    """One of the two databases, with what is derived from it."""

    db: gelgt.Database
    graph: Graph
    features: Features


@dataclass(frozen=True)
class Pair:
    """The database that ends at t, and the one that goes on with anything."""

    at: datetime
    cut: Side
    garbled: Side
    is_strict: bool  # rows at t itself differ too


@dataclass
class World:
    folder: Path
    pairs: dict[tuple[int, int], Pair] = field(default_factory=dict)


def case(world: World, number: int, random: Random) -> str:
    seed = int(random.bit_generator.seed_seq.entropy[0])  # type: ignore[attr-defined, index]
    name = (seed, number // PER_DATABASE)
    if name not in world.pairs:
        world.pairs.clear()
        with cached_in(world.folder / "cache"):
            world.pairs[name] = _pair(np.random.default_rng([*name, 3]))
    pair = world.pairs[name]
    _same_features(pair)
    table = str(random.choice(["users", "users", "shops", "orders"]))
    sampling = _sampling(random, pair.is_strict)
    plan = HistoryPlan(int(random.integers(3)), *(bool(random.integers(2)) for _ in range(2)))
    model: Any = None
    found = []
    name_of_model = str(random.choice(MODELS))
    settings = _settings(name_of_model, random)
    rows, times = _seeds(pair, table, random)
    if not len(rows):
        return "no seeds"
    for side in (pair.cut, pair.garbled):
        task = Definition(
            "t", "forecast", table, KEYS[table], "y", "t", timedelta=pd.Timedelta("7D")
        )
        untyped: Any = None  # no prediction is decoded
        data = SeedData(side.db, task, untyped, sampling, {}, side.graph, side.features, plan)
        seeds = make_seeds(side.db, side.graph, table, rows, times)
        sample, history = (
            data.sampler.sample(seeds.node, seeds.time, seeds.key),
            data.history(seeds),
        )
        batch = from_sample(sample, side.graph, seeds.time, seeds.key, np.arange(len(rows)))
        inputs = data.with_features(batch, history)
        if model is None:
            width = 0 if history is None else history.shape[1]
            context = ModelContext(side.graph, side.features, history=width)
            torch.manual_seed(number)
            kind = find_model(name_of_model)
            model = kind(kind.config_type(**settings), context).eval()
        with torch.no_grad():
            found.append(_tensors(side.graph, seeds, sample, history, model(inputs)))
    for what, mine in found[0].items():
        assert mine == found[1][what], (
            f"{what} knows the future: {name_of_model}, {sampling}, {plan}"
        )
    return f"{name_of_model}: the same"


def _tensors(graph: Graph, seeds: Seeds, sample: Any, history: Any, out: Any) -> dict[str, bytes]:
    """What is compared, as bytes; nodes by table and row, because the tables differ in length."""
    rows = sample.node - graph.offsets[sample.table]
    arrays = {
        "rows": rows,
        "seed keys": seeds.key,
        **{name: getattr(sample, name) for name in sample._fields if name != "node"},
        "predictions": out.numpy(),
    }
    if history is not None:
        arrays["history"] = history.numpy()
    return {name: np.ascontiguousarray(array).tobytes() for name, array in arrays.items()}


def _same_features(pair: Pair) -> None:
    mine, other = pair.cut.features, pair.garbled.features
    assert mine.statistics.to_json() == other.statistics.to_json(), "statistics know the future"
    limit = int(np.datetime64(pair.at, "s").astype(np.int64))
    for table in pair.cut.graph.tables:
        times = pair.cut.graph.node_time[pair.cut.graph.nodes(table, range(mine.rows[table]))]
        rows = np.flatnonzero(times < limit)
        assert mine.frame(table, rows) == other.frame(table, rows), f"features of {table}"


def _seeds(pair: Pair, table: str, random: Random) -> tuple[Any, Any]:
    """Rows that exist at the time, and times up to it."""
    graph, limit = pair.cut.graph, int(np.datetime64(pair.at, "s").astype(np.int64))
    times = graph.node_time[graph.nodes(table, range(pair.cut.features.rows[table]))]
    rows = np.flatnonzero(times < limit)
    if not len(rows):
        return rows, rows
    rows = random.choice(rows, 12)
    back = random.integers(0, 20, len(rows)) * 86_400 * random.integers(0, 2, len(rows))
    return rows, np.maximum(limit - back, times[rows])  # at its own time a row exists


def _sampling(random: Random, is_strict: bool) -> SamplingConfig:
    pick = random.choice
    frozen = bool(random.integers(2))
    horizon = int((START + timedelta(days=int(random.integers(10, 50)))).timestamp())
    return SamplingConfig(
        strategy=str(pick(["bfs", "bfs", "random", "recent", "full"])),
        hops=int(pick([1, 2, 3])),
        budget=int(pick([1, 4, 9, 30, 300])),
        fanout=None if random.random() < 0.3 else int(pick([1, 2, 64])),
        causality="strict" if is_strict or random.random() < 0.7 else "inclusive",
        order=str(pick(["recent", "random"])),
        seed=int(random.integers(1000)),
        visibility="frozen" if frozen else "seed-time",
        horizon=horizon if frozen or random.random() < 0.3 else None,
    )


def _settings(model: str, random: Random) -> dict[str, Any]:
    """Settings that reach the model: its own where it has them."""
    pick = random.choice
    wanted: dict[str, Any] = {
        "width": 16,
        "heads": 2,
        "row_width": 8,
        "keep": int(pick([1, 5, 20])),
        "row_names": bool(random.integers(2)),
        "row_times": bool(random.integers(2)),
        "bias": str(pick(["gaussian", "linear-decay", "time-bins", "none"])),
        "kernel": str(pick(["bounded", "published"])),
        "time_scale": str(pick(["linear", "log"])),
        "wiring": str(pick(["parallel", "stacked"])),
        "gnn_mean": str(pick(["all", "relation"])),
        "norm": str(pick(["layer", "batch"])),
        "centroids": int(pick([0, 0, 8])),
    }
    if model == "gelgt":
        layers = ((1, 1), (2, 0), (0, 2))[random.integers(3)]
        wanted |= {"layers": layers[0], "gnn_layers": layers[1]}
        names = np.array(["table", "hop", "age", "row", "structure", "recency"])
        wanted["encoders"] = tuple(names[random.permutation(6)[: random.integers(1, 7)]].tolist())
    if model == "griffin":
        del wanted["bias"]  # it attends over cells, which have no ages
    known = find_model(model).config_type.model_fields
    return {name: value for name, value in wanted.items() if name in known}


# Databases.
def _pair(random: Random) -> Pair:
    rows = random_rows(random)
    at = START + timedelta(days=int(random.integers(20, 58)), hours=int(random.choice([0, 7])))
    is_strict = bool(random.integers(2))
    cut = _cut(rows, at, is_strict)
    garbled = _garbled(rows, cut, at, is_strict, random)
    val = at - timedelta(days=int(random.integers(1 if is_strict else 0, 15)))
    trained = gelgt.open(_typed(cut), schema=_statement(cut, val))
    # A run keeps the schema that it was trained with.
    later = gelgt.open(_typed(garbled), schema=stated(trained.schema))
    return Pair(at, _side(trained), _side(restrict(trained.schema, later).db), is_strict)


def _side(db: gelgt.Database) -> Side:
    return Side(db, db.graph(), open_features(db))


def _statement(rows: Rows, val: datetime) -> dict[str, Any]:
    kinds = {"number": "numerical", "text": "categorical", "boolean": "categorical"}
    schema = rows.schema()
    for table, types in TYPES.items():
        schema[table]["kinds"] = {c: kinds.get(kind, "timestamp") for c, kind in types.items()}
    schema["orders"]["kinds"]["channel"] = "text"
    return {
        "val_timestamp": str(val),
        "test_timestamp": str(val + timedelta(1)),
        "tables": schema,
    }


def _typed(rows: Rows) -> dict[str, pd.DataFrame]:
    """Frames whose types do not depend on which rows there are."""
    numpy = {"number": "float64", "boolean": "boolean", "time": "datetime64[us]", "text": "string"}
    frames = {}
    for name, table in rows.tables.items():
        types = {c: numpy[kind] for c, kind in TYPES[name].items()}
        types |= {TIMES[name]: "datetime64[us]"} if name in TIMES else {}
        keys = {**PARENTS.get(name, {}), KEYS[name]: name}
        types |= {c: "string" if parent == "users" else "Int64" for c, parent in keys.items()}
        frame = pd.DataFrame(list(table.values()), columns=list(types))
        frames[name] = frame.astype(types)
    return frames


def _is_after(rows: Rows, table: str, row: Row, at: datetime, is_strict: bool) -> bool:
    """Whether a row may not be known at t: it comes later, or never."""
    if table not in (*TIMES, "items"):
        return False
    time = rows.time(table, row)
    return time is None or time > at or (is_strict and table in EVENTS and time == at)


def _cut(rows: Rows, at: datetime, is_strict: bool) -> Rows:
    return Rows(
        {
            name: {k: r for k, r in table.items() if not _is_after(rows, name, r, at, is_strict)}
            for name, table in rows.tables.items()
        }
    )


def _garbled(rows: Rows, cut: Rows, at: datetime, is_strict: bool, random: Random) -> Rows:
    """The rows up to t, and behind them others with values that were never there."""
    tables: dict[str, dict[Any, Row]] = {name: dict(table) for name, table in cut.tables.items()}

    def later() -> datetime | None:
        if random.random() < 0.1:
            return None
        return at + timedelta(seconds=int(random.choice([1, 3600, 86_400, 10**8])))

    for name in ("users", "orders", "items", "notes"):
        number = {"users": None, "orders": 10_000, "items": 10_000, "notes": 10_000}[name]
        for i in range(int(random.integers(0, 40))):
            row: Row = {c: _wild(kind, random) for c, kind in TYPES[name].items()}
            key = f"~{i}" if number is None else number + i
            row[KEYS[name]] = key
            for column, parent in PARENTS[name].items():
                # lines of an order that is known would be known with it
                known = list(tables[parent] if name != "items" else _new(tables, cut, parent))
                row[column] = known[random.integers(len(known))] if known else None
            if name in TIMES:
                row[TIMES[name]] = at if is_strict and name in EVENTS else later()
            tables[name][key] = row
    return Rows(tables)


def _new(tables: dict[str, dict[Any, Row]], cut: Rows, name: str) -> list[Any]:
    return [key for key in tables[name] if key not in cut.tables[name]]


def _wild(kind: str, random: Random) -> Any:
    if random.random() < 0.2:
        return None
    match kind:
        case "number":
            return float(random.choice([1e300, -1e300, 1e-300, np.inf, 7.5, 0.0]))
        case "text":
            return str(random.choice(["new", "newer", "x" * 300, *WORDS]))
        case "boolean":
            return bool(random.integers(2))
    return datetime(int(random.integers(1700, 2200)), 1, 1)


CAMPAIGN = Campaign("future", World, case, long=10_000, short=24)
