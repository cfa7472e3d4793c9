"""Dates inside rows through the whole way of the data: what a seed sees does not depend on whether
later dates, and what is filled along with them, have been written yet.

The coin shop is imported as it is at the end, and as it was at a time t: with the rows before t, in
which the dates before t are filled.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import gelgt
from coin_shop import (
    DATES,
    SPLITS,
    VAL,
    Frames,
    as_of,
    coin_shop,
    leaving_shop,
    where,
    write_csv,
    write_sqlite,
)
from gelgt import Database
from gelgt.candidates.columns import PairReader
from gelgt.candidates.find import CandidateFinder
from gelgt.config import SamplingConfig
from gelgt.features import Features, open_features
from gelgt.history import TaskData, aggregates
from gelgt.inference.drift import restrict
from gelgt.inference.source import stated
from gelgt.metrics import roc_auc
from gelgt.sampling import make_seeds

AT = pd.Timestamp(VAL) + pd.Timedelta(days=20, hours=7)
LEAVES = "PREDICT COUNT(orders.*, 0, 30, days) > 0 FOR EACH customers.id"
BUYS = "PREDICT LIST_DISTINCT(orders.product_id, 0, 30, days) FOR EACH customers.id"
SPENDS = "PREDICT SUM(orders.amount, 0, 30, days) FOR EACH customers.id"


@dataclass(frozen=True)
class Twins:
    """The shop at the end and at `AT`, with the features of both by the same statistics."""

    whole: Database
    cut: Database

    @property
    def features(self) -> tuple[Features, Features]:
        whole = self.whole.features()
        return whole, open_features(self.cut, statistics=whole.statistics)

    def seeds(self, table: str) -> tuple[Any, Any]:
        """Rows of a table that exist at `AT`, and the time."""
        rows = np.arange(self.cut.num_rows(table))
        return rows, np.full(len(rows), int(AT.timestamp()))


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Twins:
    folder, frames = tmp_path_factory.mktemp("dates"), coin_shop()
    source = write_sqlite(frames, folder / "whole.db")
    whole = gelgt.open(source, schema=SPLITS, out=folder / "whole")
    return Twins(whole, cut_at(frames, AT, whole, folder / "cut"))


def cut_at(frames: Frames, at: pd.Timestamp, whole: Database, out: Path) -> Database:
    """The shop at a time, as a model reads it that knows the whole shop."""
    source = write_sqlite(as_of(frames, at), out.with_suffix(".db"))
    return restrict(whole.schema, gelgt.open(source, schema=stated(whole.schema), out=out)).db


def test_rows_are_those_of_the_time(twins: Twins) -> None:
    whole, cut = twins.features
    limit = int(AT.timestamp())
    for table in twins.cut.table_names:
        rows = np.arange(twins.cut.num_rows(table))
        seen, there = (f.rows_at(table, rows, limit) for f in (whole, cut))
        assert (seen >= whole.rows[table]).any()  # some dates lie ahead
        np.testing.assert_array_equal(there, rows)  # and are not written yet
        assert whole.frame(table, seen) == cut.frame(table, rows)
        assert whole.frame(table, rows) != cut.frame(table, rows)


def test_statistics_are_those_of_the_time(twins: Twins, tmp_path: Path) -> None:
    """What was unknown at the end of the training period does not count."""
    until = AT - pd.Timedelta(microseconds=1)
    cut = cut_at(coin_shop(), AT, twins.whole, tmp_path / "cut")
    made = [db.features(until).statistics.to_json() for db in (twins.whole, cut)]
    assert made[0] == made[1]


@pytest.mark.parametrize("sentence", [LEAVES, SPENDS])
@pytest.mark.parametrize("entity", ["customers", "orders"])
def test_history_columns_are_those_of_the_time(twins: Twins, sentence: str, entity: str) -> None:
    rows, times = twins.seeds(entity)
    task = replace(twins.whole.task(sentence), entity_table=entity)
    made = [
        aggregates(TaskData(db, db.graph(), features, task, SamplingConfig()), rows, times, hops=2)
        for db, features in zip((twins.whole, twins.cut), twins.features)
    ]
    assert made[0].names == made[1].names
    np.testing.assert_array_equal(made[0].values, made[1].values)
    dated = [f"{table}.customer_id @{date}:" for table, date in DATES if table == "orders"]
    assert all(any(name.find(each) > 0 for name in made[0].names) for each in dated)
    assert not any("orders.customer_id: rating" in name for name in made[0].names)


def test_a_date_is_an_event_of_its_own(twins: Twins) -> None:
    frames = coin_shop()
    rows, times = twins.seeds("customers")
    db, task = twins.whole, twins.whole.task(LEAVES)
    data = TaskData(db, db.graph(), db.features(), task, SamplingConfig())
    found = aggregates(data, rows, times, hops=1)
    values = dict(zip(found.names, found.values.T))
    people, orders = frames["customers"], frames["orders"]
    for date in ("shipped_at", "delivered_at", "cancelled_at"):
        seen = orders[(orders["placed_at"] < AT) & (orders[date] < AT)].sort_values(date)
        of_each = seen.groupby("customer_id")
        counts = of_each.size().reindex(people["id"][: len(rows)], fill_value=0)
        path = f"< orders.customer_id @{date}"
        np.testing.assert_array_equal(values[f"{path}: count"], counts)
        ages = (AT - of_each[date].max()).reindex(people["id"][: len(rows)])
        expected = ages.dt.total_seconds() / 86_400
        np.testing.assert_allclose(values[f"{path}: days since"], expected, rtol=1e-4, atol=1e-4)
        if date == "delivered_at":
            means = of_each["rating"].mean().reindex(people["id"][: len(rows)])
            np.testing.assert_allclose(values[f"{path}: rating mean"], means, rtol=1e-5)
    is_active = people["is_active"] | (people["left_at"] >= AT)
    np.testing.assert_array_equal(values["is_active is 1"], is_active[: len(rows)].astype(float))


@pytest.mark.parametrize("strategy", ["bfs", "recent"])
def test_networks_see_the_rows_of_the_time(twins: Twins, strategy: Any) -> None:
    import torch

    from gelgt.nn import GelGTConfig, GelGTModel, ModelContext, ModelInput
    from gelgt.sampling import Sampler, make_seeds
    from gelgt.sampling.batch import from_sample

    torch.manual_seed(0)
    model, out, raw = None, [], []
    rows, times = twins.seeds("customers")
    for db, features in zip((twins.whole, twins.cut), twins.features):
        graph = db.graph()
        seeds = make_seeds(db, graph, "customers", rows, times)
        sample = Sampler(graph, SamplingConfig(budget=50, strategy=strategy)).sample(
            seeds.node, seeds.time, seeds.key
        )
        batch = from_sample(sample, graph, seeds.time, seeds.key, rows)
        model = (
            model
            or GelGTModel(
                GelGTConfig(width=32, keep=20, row_width=16, history=0),
                ModelContext(graph, features),
            ).eval()
        )
        with torch.no_grad():
            out.append(model(ModelInput.of(batch, features)))
            late = torch.full_like(batch.limit, 2**40)
            seeing = type(batch)(**(vars(batch) | {"limit": late}))
            raw.append(model(ModelInput.of(seeing, features)))
    assert torch.equal(*out)
    assert not torch.equal(*raw)  # it is the masks that make them equal


@pytest.mark.parametrize(
    "sentence",
    [
        f"{LEAVES} WHERE customers.left_at IS NULL",
        f"{LEAVES} WHERE customers.is_active = 1",
        f"{LEAVES} WHERE customers.refund = 0 AND customers.leave_reason IS NULL",
        f"{LEAVES} WHERE COUNT(orders.* WHERE cancelled_at IS NULL, -60, 0, days) > 1",
        f"{LEAVES} WHERE AVG(orders.rating, -90, 0, days) > 2",
        f"{LEAVES} WHERE COUNT(orders.* WHERE tracking = 'T3', -400, 0, days) = 0 AND "
        "MAX(orders.amount, -90, 0, days) > customers.refund",
    ],
)
def test_conditions_see_the_rows_of_the_time(twins: Twins, sentence: str) -> None:
    eligible = []
    for db in (twins.whole, twins.cut):
        task = db.task(sentence, val=pd.Timestamp("2023-10-01"), test=pd.Timestamp("2023-11-15"))
        eligible.append(task.population(task.database, AT))
    everyone = twins.cut.num_rows("customers")
    assert 0 < len(eligible[0]) < everyone
    np.testing.assert_array_equal(eligible[0], eligible[1])


def test_labels_are_not_masked(twins: Twins) -> None:
    """What is counted in the window of a label is what happened, whenever that was written."""
    sentence = "PREDICT COUNT(orders.* WHERE rating > 3, 0, 30, days) FOR EACH customers.id"
    labels = twins.whole.task(sentence).table("test").to_pandas()
    orders = coin_shop()["orders"]
    start = labels["timestamp"].iloc[0]
    window = orders[
        (orders["placed_at"] > start) & (orders["placed_at"] <= start + pd.Timedelta("30D"))
    ]
    assert (window["delivered_at"] > start).any()
    assert labels[labels["timestamp"] == start].iloc[:, -1].sum() == (window["rating"] > 3).sum()


CHURN = (
    "PREDICT COUNT(orders.*, 20, 40, days) = 0 FOR EACH customers.id "
    "WHERE customers.left_at IS NULL"
)


def chance(labels: Any) -> tuple[float, float]:
    """The interval of 99 % in which the AUC of a coin lies (Mann and Whitney)."""
    positive = int(np.sum(labels))
    negative = len(labels) - positive
    spread = np.sqrt((len(labels) + 1) / (12 * positive * negative))
    return 0.5 - 2.58 * spread, 0.5 + 2.58 * spread


def auc_of_trees(db: Database, features: Features) -> tuple[float, tuple[float, float]]:
    """The test AUC of LightGBM over history columns of two hops, and that of a coin."""
    import lightgbm

    task, graph = db.task(CHURN), db.graph()
    data, tables = TaskData(db, graph, features, task, SamplingConfig()), {}
    for split in ("train", "test"):
        labels = task.table(split)
        times = labels.column(task.time_col).cast("int64").to_numpy() // 1_000_000
        rows, target = (labels.column(c).to_numpy() for c in (task.entity_col, task.label_col))
        tables[split] = aggregates(data, rows, times, hops=2).values, target
    options = {"objective": "binary", "num_leaves": 7, "verbosity": -1, "num_threads": 1}
    model = lightgbm.train(options, lightgbm.Dataset(*tables["train"]), 40)
    values, target = tables["test"]
    area = roc_auc(target, np.asarray(model.predict(values)))
    assert area is not None
    return area, chance(target)


@pytest.mark.parametrize("write", [write_sqlite, write_csv])
@pytest.mark.parametrize("seed", [0, 1])
def test_trees_cannot_tell_who_leaves(
    write: Callable[[Frames, Path], str], seed: int, tmp_path: Path
) -> None:
    source = write(leaving_shop(seed=seed), tmp_path / "shop")
    db = gelgt.open(source, schema=SPLITS, out=tmp_path / "db")
    assert db.table("customers").kinds["state"].kind == "ignored"
    area, (low, high) = auc_of_trees(db, db.features())
    assert low < area < high
    plain = replace(db.features().statistics, event_dates={})
    told = open_features(db, statistics=plain)
    assert auc_of_trees(db, told)[0] > 0.9  # it is the masks that hide them


def test_a_run_cannot_tell_who_leaves(tmp_path: Path) -> None:
    """Network, columns network, trees and their mix."""
    from gelgt.presets import RunConfig
    from gelgt.training import Options, train_run

    source = write_sqlite(leaving_shop(seed=2), tmp_path / "shop.db")
    db = gelgt.open(source, schema=SPLITS, out=tmp_path / "db")
    task = db.task(CHURN)
    changes = {
        "train.epochs": 2,
        "train.ensemble": 1,
        "train.windows": 1,
        "train.best_epochs": 1,
        "model.width": 16,
        "model.heads": 2,
        "model.row_width": 8,
        "model.history_columns": 60,
        "sampling.budget": 40,
    }
    config = RunConfig.of("cpu", task.task_type, changes)
    run = train_run(db, task, tmp_path / "run", config, Options(device="cpu"))
    low, high = chance(task.table("test").column(task.label_col).to_numpy())
    area = run.record.metrics["test"]["roc_auc"]
    assert area is not None
    assert low < area < high


def test_candidates_are_read_as_they_were(tmp_path: Path) -> None:
    """What is recommended has dates too: one row stands for all seeds, so that nothing that a date
    changes is read of it; its history reads what was known."""
    rng, frames = np.random.default_rng(0), coin_shop()
    listed = pd.Series(pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 300, 40), "D"))
    withdrawn = (listed + pd.Timedelta(days=200)).where(rng.random(40) < 0.6)
    products = pd.DataFrame(
        {
            "id": np.arange(40) + 1,
            "listed_at": listed,
            "brand": rng.choice(["a", "b"], 40),
            "withdrawn_at": withdrawn,
            "why": where(withdrawn.notna(), rng.choice(["old", "bad"], 40), None),
        }
    )
    cut = products.copy()
    ahead = cut["withdrawn_at"] >= AT
    cut.loc[ahead, "withdrawn_at"], cut.loc[ahead, "why"] = pd.NaT, None
    assert ahead.sum() > 3
    made: list[PairReader] = []
    orders = frames["orders"].assign(product_id=rng.integers(1, 41, 2_400))
    for name, shown in (("whole", products), ("cut", cut)):
        tables = {"customers": frames["customers"], "orders": orders, "products": shown}
        schema = SPLITS if not made else stated(made[0].db.schema)
        db = gelgt.open(tables, schema=schema, out=tmp_path / name)
        task = db.task(BUYS)
        features = made[0].features if made else db.features()
        if made:
            db = restrict(made[0].db.schema, db).db
            features = open_features(db, statistics=features.statistics)
        finder = CandidateFinder(db.graph(), task, SamplingConfig())
        made.append(PairReader(db, features, finder, ("why", "withdrawn_at age", "brand is a")))
    assert {each.name for each in made[0].attributes} >= {"brand"}
    assert not {each.name for each in made[0].attributes} & {"why"}
    rows, parts = np.arange(0, 200, 5), []
    for reader in made:
        seeds = make_seeds(
            reader.db, reader.finder.graph, "customers", rows, np.full(40, int(AT.timestamp()))
        )
        parts.append(reader.read(seeds, reader.finder.find(seeds)))
    np.testing.assert_array_equal(parts[0].ties, parts[1].ties)
    np.testing.assert_array_equal(parts[0].items, parts[1].items)
    assert np.isfinite(parts[0].items[:, -2]).any()  # some were withdrawn before
