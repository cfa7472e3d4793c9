"""The MLflow model over a run folder: what it takes, what it gives, and how it predicts.

The model's data is the run folder: safetensors, Parquet, JSON and YAML, no pickle. Nothing of the
source is kept but the address that the run has, which holds no password.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from gelgt.errors import GelgtError
from gelgt.inference import Recommend
from gelgt.integrations.extras import require
from gelgt.integrations.held import REFRESH, HeldPredictor
from gelgt.runs.folder import Run, load_run

if TYPE_CHECKING:
    import pandas as pd

EXTRA = "mlflow"
TIME = "time"
SOURCE_ENV = "GELGT_SOURCE"  # names the source of a served model, unless another name is chosen
# What stands in a run's table of scored rows beside the columns of a prediction.
_SCORED = ("label", "part:", "baseline:")


@dataclass(frozen=True)
class Columns:
    """The columns of a model's frames, by name, with their Arrow types.

    Attributes:
        keys: Of the entity; to predict for.
        time: Of the prediction.
        predicted: What the model adds.
    """

    keys: dict[str, pa.DataType]
    time: pa.DataType
    predicted: dict[str, pa.DataType]

    @classmethod
    def of(cls, run: Run) -> "Columns":
        """Read off the rows that the run was scored on, whose keys have the user's types.

        Raises:
            GelgtError: ``bad_run``: the run kept no scored rows.
        """
        path = run.folder / "predictions" / "val.parquet"
        if not path.is_file():
            raise GelgtError(
                "bad_run", f"The run {run.folder} has no {path.name}.", hint="Train again."
            )
        schema = pq.read_schema(path)
        place = schema.names.index("prediction")
        types = dict(zip(schema.names, schema.types))
        given, names = schema.names[: place - 1], _key_names(run, run.record.task.entity_table)
        keys = {
            name: types[column]
            for column, name in zip(given, names if len(names) == len(given) else given)
        }
        if run.target.task_type == "recommendation":
            return cls(keys, types[TIME], _recommended(run, keys, types["prediction"].value_type))
        rest = schema.names[place:]
        predicted = {name: types[name] for name in rest if not name.startswith(_SCORED)}
        return cls(keys, types[TIME], predicted)


def _key_names(run: Run, table: str) -> list[str]:
    key = run.schema.tables[table].primary_key
    return list(key.columns) if key else []


def _recommended(run: Run, keys: Mapping[str, Any], kind: pa.DataType) -> dict[str, pa.DataType]:
    """The columns of a recommendation, named as `inference/recommend.py` names them."""
    table = str(run.task["dst_entity_table"])
    parts = {f.name: f.type for f in kind} if pa.types.is_struct(kind) else {}
    names, columns = _key_names(run, table), {"rank": pa.int64()}
    for name in names or parts:
        shown = name
        while shown in (*keys, TIME, "rank", "score"):
            shown = f"{table}_{shown}"
        columns[shown] = parts.get(name, kind)
    return columns | {"score": pa.float32()}


def signature(run: Run) -> Any:
    """The signature: key, and time where it is not the default; the columns of a prediction; and
    the parameters that the task takes."""
    schema, models = require("mlflow.types.schema", EXTRA), require("mlflow.models", EXTRA)
    columns, spec = Columns.of(run), schema.ColSpec
    inputs = [spec(_type(kind), name) for name, kind in columns.keys.items()]
    inputs.append(spec(_type(columns.time), TIME, required=False))
    given = {**columns.keys, TIME: columns.time, **columns.predicted}
    outputs = [spec(_type(kind), name) for name, kind in given.items()]
    if run.target.task_type == "regression":  # where an interval is asked for
        outputs += [spec("double", name, required=False) for name in ("lower", "upper")]
    params = [schema.ParamSpec(name, kind, None) for name, kind in _parameters(run).items()]
    return models.ModelSignature(
        schema.Schema(inputs), schema.Schema(outputs), schema.ParamSchema(params)
    )


def _parameters(run: Run) -> dict[str, str]:
    kind = run.target.task_type
    of_kind = {
        "recommendation": {"k": "long", "new_only": "boolean"},
        "regression": {"interval": "double"},
    }
    return {"at": "string", **of_kind.get(kind, {})}


def _type(kind: pa.DataType) -> Any:
    """The MLflow type of an Arrow type."""
    if pa.types.is_list(kind):
        return require("mlflow.types.schema", EXTRA).Array(_type(kind.value_type))
    tests = {
        "boolean": pa.types.is_boolean,
        "long": pa.types.is_integer,
        "float": pa.types.is_float32,
        "double": pa.types.is_floating,
        "datetime": pa.types.is_timestamp,
    }
    name = next((name for name, test in tests.items() if test(kind)), "string")
    return require("mlflow.types", EXTRA).DataType[name]


def example(run: Run) -> "pd.DataFrame":
    """An input of the right form: made-up keys, at the test time of the task. A real key may name
    a person, and whoever may see a model may not see the data."""
    import pandas as pd

    columns = Columns.of(run)
    at = run.record.task.test_timestamp or "2026-01-01"
    made_up = {name: pa.scalar(1).cast(kind).as_py() for name, kind in columns.keys.items()}
    return pd.DataFrame([{**made_up, TIME: pd.Timestamp(at)}])


class RunModel:
    """What `mlflow.pyfunc.load_model` gives: a run on its source.

    Args:
        folder: The run folder.
        config: ``source``: its address; ``source_env``: the name of an environment variable that
            holds it; ``refresh``: seconds after which it is looked at again; ``device``. Without
            a source, the one that the run was trained on.
    """

    def __init__(self, folder: str | Path, config: Mapping[str, Any] | None = None) -> None:
        options = dict(config or {})
        source = options.get("source") or os.environ.get(options.get("source_env") or SOURCE_ENV)
        refresh = options.get("refresh")
        self.held = HeldPredictor(
            load_run(folder),
            source or None,
            device=options.get("device") or "auto",
            refresh=REFRESH if refresh is None else float(refresh),
        )

    def predict(self, frame: Any, params: Mapping[str, Any] | None = None) -> "pd.DataFrame":
        """What `Predictor.predict` gives for a frame of (key, time), or of keys alone at ``at``,
        by default now.

        Args:
            frame: A pandas frame; further columns are ignored.
            params: ``at``; ``interval`` where a number is predicted; ``k`` and ``new_only`` where
                rows are recommended.

        Raises:
            MlflowException: with the message of the `GelgtError` that is its cause, so that a
                server answers 400 with the reason, not with a traceback.
        """
        try:
            return self._predict(frame, dict(params or {}))
        except GelgtError as error:
            raise require("mlflow.exceptions", EXTRA).MlflowException.invalid_parameter_value(
                f"{error.code}: {error}"
            ) from error

    def _predict(self, frame: Any, params: dict[str, Any]) -> "pd.DataFrame":
        recommend = Recommend(params.get("k"), bool(params.get("new_only")))
        with self.held.use() as predictor:
            asked = (recommend, params.get("interval"))
            if TIME in frame:
                if params.get("at") is not None:
                    raise GelgtError(
                        "bad_option",
                        "The frame has a column 'time' and the parameter 'at' names another.",
                        hint="Give one of them.",
                    )
                return predictor.predict(None, None, frame, *asked).to_pandas()
            keys = list(Columns.of(self.held.run).keys)
            missing = [name for name in keys if name not in frame]
            if missing:
                raise GelgtError(
                    "unknown_column",
                    f"The frame has no column '{missing[0]}', the key of "
                    f"'{predictor.task.entity_table}'.",
                    hint=f"Give the columns {', '.join([*keys, TIME])}.",
                )
            entities = [
                key[0] if len(keys) == 1 else key
                for key in frame[keys].itertuples(index=False, name=None)
            ]
            return predictor.predict(entities, params.get("at"), None, *asked).to_pandas()
