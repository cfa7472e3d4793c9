"""What the process of a peer runs: features by the peer, then LightGBM, then two files.

    python script.py featuretools|getml FOLDER

It imports nothing of gelgt, so that another Python can run it. FOLDER is as `exchange.py` writes
it; `val.parquet` and `test.parquet` come beside its files. LightGBM has the parameters of gelgt's
baseline. It stops early by validation and is then trained again on `known`, where that is given.
"""

import json
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

ROW, TIME = "__row__", "__time__"
Frames = dict[str, Any]  # pandas frames, by table or by split
# Featuretools' own choice, and what tells how recent things are
AGGREGATES = ["sum", "std", "max", "skew", "min", "mean", "count", "percent_true", "num_unique"]
AGGREGATES += ["mode", "time_since_last"]


def main(peer: str, folder: Path) -> None:
    """Read the folder, learn, write the predictions."""
    import pandas as pd

    warnings.simplefilter("ignore")
    spec = json.loads((folder / "spec.json").read_text(encoding="utf-8"))
    tables = {
        name: pd.read_parquet(folder / "tables" / f"{name}.parquet") for name in spec["tables"]
    }
    for name, frame in tables.items():
        for column, kind in spec["tables"][name]["kinds"].items():
            if kind == "categorical":
                frame[column] = frame[column].astype("category")
            elif kind == "numerical":
                frame[column] = frame[column].astype("float64")
    seeds = {path.stem: pd.read_parquet(path) for path in sorted((folder / "seeds").glob("*"))}
    make = {"featuretools": featuretools_features, "getml": getml_features}[peer]
    features = make(spec, tables, seeds, folder)
    for split, values in predictions(spec, features, seeds).items():
        pd.DataFrame({"prediction": values}).to_parquet(folder / f"{split}.parquet")


def featuretools_features(
    spec: dict[str, Any], tables: Frames, seeds: Frames, folder: Path
) -> Frames:
    """Deep feature synthesis, at most as many columns as LightGBM gets from gelgt."""
    import featuretools
    import pandas as pd

    entities = featuretools.EntitySet("database")
    types = {"numerical": "Double", "categorical": "Categorical", "timestamp": "Datetime"}
    for name, frame in tables.items():
        about = spec["tables"][name]
        for column in about["keys"]:
            frame[column] = frame[column].fillna(-1).astype("int64")  # -1 names no row
        entities.add_dataframe(
            frame,
            name,
            index=ROW,
            time_index=TIME if about["has_time"] else None,
            logical_types={column: types[kind] for column, kind in about["kinds"].items()}
            | dict.fromkeys(about["keys"], "Integer"),
        )
    for name, about in spec["tables"].items():
        for column, parent in about["keys"].items():
            entities.add_relationship(parent, ROW, name, column)
    # each pair of entity and time once, whatever the splits that have it
    asked = pd.concat([frame[["row", "time"]] for frame in seeds.values()]).drop_duplicates()
    asked = asked.reset_index(drop=True).rename(columns={"row": ROW})
    matrix, _ = featuretools.dfs(
        entityset=entities,
        target_dataframe_name=spec["entity_table"],
        cutoff_time=asked,
        include_cutoff_time=spec["is_inclusive"],
        cutoff_time_in_index=True,
        agg_primitives=AGGREGATES,
        max_depth=2,
        max_features=spec["most_columns"],
        n_jobs=1,
    )
    matrix = matrix.reset_index().rename(columns={ROW: "row"})
    for column in matrix.columns[2:]:
        if matrix[column].dtype.name not in ("category", "bool"):
            matrix[column] = pd.to_numeric(matrix[column], errors="coerce").astype("float64")
    return {
        split: frame[["row", "time"]].merge(matrix, on=["row", "time"], how="left").iloc[:, 2:]
        for split, frame in seeds.items()
    }


def getml_features(spec: dict[str, Any], tables: Frames, seeds: Frames, folder: Path) -> Frames:
    """FastProp over the tables that name the entity, each with the rows that it names; and the
    entity's own columns.

    Tables that name those again are left out: getML would compare their times with the rows that
    they name, not with the seed time.
    """
    import getml
    import pandas as pd

    getml.engine.launch(launch_browser=False, home_directory=str(folder / "getml"), quiet=True)
    getml.set_project("suite")
    try:
        roles = {name: _getml_roles(about) for name, about in spec["tables"].items()}
        frames = {
            name: getml.DataFrame.from_pandas(
                _plain(frame, spec["tables"][name]), name, roles[name]
            )
            for name, frame in tables.items()
            if len(frame)
        }
        population = {
            split: getml.DataFrame.from_pandas(
                frame.assign(label=frame.get("label", 0.0)),
                f"seeds_{split}",
                {"join_key": ["row"], "time_stamp": ["time"], "target": ["label"]},
            )
            for split, frame in seeds.items()
        }
        model, used = _getml_model(spec, frames, population["train"])
        container = getml.data.Container(**population)
        container.add(**{name: frames[name] for name in used})
        container.freeze()
        is_binary = spec["task_type"] == "binary_classification"
        pipeline = getml.Pipeline(
            data_model=model,
            feature_learners=[
                getml.feature_learning.FastProp(
                    loss_function="CrossEntropyLoss" if is_binary else "SquareLoss",
                    num_features=spec["most_columns"],
                    num_threads=2,
                )
            ],
        )
        pipeline.fit(container.train, check=False)
        made = {split: pd.DataFrame(pipeline.transform(container[split])) for split in seeds}
    finally:
        getml.engine.shutdown()
    own = tables[spec["entity_table"]].set_index(ROW)[list(_kinds(spec))]
    return {
        split: pd.concat([own.reindex(frame["row"]).reset_index(drop=True), made[split]], axis=1)
        for split, frame in seeds.items()
    }


def _kinds(spec: dict[str, Any]) -> list[str]:
    kinds = spec["tables"][spec["entity_table"]]["kinds"]
    return [column for column, kind in kinds.items() if kind != "timestamp"]


def _plain(frame: Any, about: dict[str, Any]) -> Any:
    """A frame in the types that getML reads: keys and categories as text."""
    frame = frame.copy()
    for column in about["keys"]:
        frame[column] = frame[column].astype("Int64").astype("string")
    for column, kind in about["kinds"].items():
        if kind == "categorical":
            frame[column] = frame[column].astype("string")
    return frame


def _getml_roles(about: dict[str, Any]) -> dict[str, list[str]]:
    kinds = about["kinds"]
    roles = {
        "join_key": [ROW, *about["keys"]],
        "numerical": [column for column, kind in kinds.items() if kind == "numerical"],
        "categorical": [column for column, kind in kinds.items() if kind == "categorical"],
    }
    return roles | ({"time_stamp": [TIME]} if about["has_time"] else {})


def _getml_model(spec: dict[str, Any], frames: Frames, population: Any) -> tuple[Any, list[str]]:
    """The data model: seeds → tables with a key of the entity → what these name."""
    import getml

    tables, entity = spec["tables"], spec["entity_table"]
    model = getml.data.DataModel(population.to_placeholder("population"))
    strictly = 0.0 if spec["is_inclusive"] else getml.data.time.seconds(1)
    joins = [
        (name, column)
        for name in frames
        for column, parent in tables[name]["keys"].items()
        if parent == entity
    ]
    # what is joined: (child, its key, the table that the key names), a placeholder for each
    parents = [
        (name, column, key, parent)
        for name, column in joins
        for key, parent in tables[name]["keys"].items()
        if _follows(spec, frames, name, key, column)
    ]
    counts = Counter([name for name, _ in joins] + [parent for *_, parent in parents])
    model.add(getml.data.to_placeholder(**{name: [frames[name]] * n for name, n in counts.items()}))
    left = {
        name: [getattr(model, name)] if n == 1 else list(getattr(model, name))
        for name, n in counts.items()
    }
    many_to_one = getml.data.relationship.many_to_one
    for name, column in joins:
        child, is_timed = left[name].pop(), tables[name]["has_time"]
        timed = {"time_stamps": ("time", TIME), "horizon": strictly} if is_timed else {}
        model.population.join(child, on=("row", column), **timed)
        for key, parent in [each[2:] for each in parents if each[:2] == (name, column)]:
            timed = {"time_stamps": TIME} if tables[parent]["has_time"] else {}
            child.join(left[parent].pop(), on=(key, ROW), relationship=many_to_one, **timed)
    return model, sorted(counts)


def _follows(spec: dict[str, Any], frames: Frames, name: str, key: str, column: str) -> bool:
    """Whether what a key of a child names is joined to it: not the entity itself, and never a row
    that may come after the seed time."""
    tables, parent = spec["tables"], spec["tables"][name]["keys"][key]
    is_dated = tables[name]["has_time"] or not tables[parent]["has_time"]
    return key != column and parent in frames and is_dated


def predictions(spec: dict[str, Any], features: Frames, seeds: Frames) -> dict[str, Any]:
    """LightGBM on the features: stopped by validation, and for test trained again on every known
    label, where there are some."""
    import lightgbm
    import numpy as np

    is_binary = spec["task_type"] == "binary_classification"
    objective = (
        {"objective": "binary", "metric": "auc"}
        if is_binary
        else {"objective": "l1", "metric": "l1"}
    )
    parameters = spec["parameters"] | objective

    def dataset(split: str, reference: Any = None) -> Any:
        frame = features[split].copy()
        frame.columns = [f"f{place}" for place in range(frame.shape[1])]
        return lightgbm.Dataset(
            frame, seeds[split]["label"], reference=reference, params={"verbosity": -1}
        )

    def predict(model: Any, split: str) -> Any:
        frame = features[split].copy()
        frame.columns = [f"f{place}" for place in range(frame.shape[1])]
        values = model.predict(frame, num_iteration=model.best_iteration or None)
        labels = seeds["train"]["label"]
        return values if is_binary else np.clip(values, labels.min(), labels.max())

    train = dataset("train")
    stop = lightgbm.early_stopping(spec["patience"], verbose=False)
    first = lightgbm.train(
        parameters, train, spec["rounds"], valid_sets=[dataset("val", train)], callbacks=[stop]
    )
    last = first
    if "known" in seeds:
        last = lightgbm.train(parameters, dataset("known"), first.best_iteration or spec["rounds"])
    return {"val": predict(first, "val"), "test": predict(last, "test")}


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
