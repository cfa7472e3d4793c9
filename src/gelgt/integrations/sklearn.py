"""Estimators with scikit-learn's interface, over frames of (key, time).

    from gelgt.integrations.sklearn import RelationalClassifier, TimeSplit

    model = RelationalClassifier("sqlite:///shop.db", "customers")
    cross_validate(model, X, y, cv=TimeSplit(3), scoring="roc_auc")

X names rows of the entity table and times; what is known about them is read from the source. A fit
sees the labels that it is given and, for each, rows before its time. Early stopping is decided on
the last of these labels, never on others; then the model is trained again on all of them.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from gelgt.errors import GelgtError, did_you_mean
from gelgt.estimator import GelGT, load
from gelgt.integrations.sklearn_split import TimeSplit, held_out
from gelgt.presets import RunConfig
from gelgt.sources import Database, open
from gelgt.tasks.keys import key_names
from gelgt.training import Options, train_run

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["RelationalClassifier", "RelationalRegressor", "TimeSplit"]

TARGET = "gelgt target"


class _Relational(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What both estimators share; `RelationalClassifier` describes the parameters."""

    model_: GelGT
    database_: Database
    feature_names_in_: Any
    n_features_in_: int

    def __init__(
        self,
        source: Any = None,
        entity: str | None = None,
        *,
        time_col: str = "time",
        timedelta: Any = None,
        remove_columns: Sequence[str] = (),
        preset: str = "cpu",
        settings: Mapping[str, Any] | None = None,
        random_state: int = 0,
    ) -> None:
        self.source = source
        self.entity = entity
        self.time_col = time_col
        self.timedelta = timedelta
        self.remove_columns = remove_columns
        self.preset = preset
        self.settings = settings
        self.random_state = random_state

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __getstate__(self) -> Any:
        if self.__sklearn_is_fitted__():
            raise GelgtError(
                "not_pickled",
                "A fitted estimator cannot be pickled: its model is a run folder.",
                hint="Keep it with model_.save(folder) and load it with gelgt.load(folder).",
            )
        return super().__getstate__()

    def _fit(self, X: Any, targets: Any, task_type: str) -> Self:
        """Train on (key, time) rows and their targets."""
        if self.entity is None or self.source is None:
            raise GelgtError(
                "missing_option",
                "The estimator needs a source and an entity table.",
                hint="Give source='sqlite:///shop.db' and entity='customers', for example.",
            )
        database = _without_splits(self._opened())
        frame = self._frame(X, database)
        val, test = held_out(frame[self.time_col], self.timedelta)
        task = database.task(
            frame.assign(**{TARGET: targets}),
            name=f"{self.entity}-y",
            entity=self.entity,
            time_col=self.time_col,
            target_col=TARGET,
            timedelta=self.timedelta,
            task_type=task_type,
            val=val,
            test=test,
            remove_columns=self.remove_columns,
        )
        changes = {"train.seed": self.random_state, **(self.settings or {})}
        config = RunConfig.of(self.preset, task.task_type, changes)
        # Baselines are scored for reports; whoever cross-validates compares with estimators.
        options = Options(visibility="seed-time", retrain_all=True, baselines=False)
        home = tempfile.TemporaryDirectory(prefix="gelgt-sklearn-")
        out = Path(home.name) / "run"
        train_run(database, task, out, config, options)
        self.model_, self._home, self.database_ = load(out), home, database
        self.feature_names_in_ = np.asarray(list(frame.columns), dtype=object)
        self.n_features_in_ = len(frame.columns)
        return self

    def _predicted(self, X: Any) -> "pd.DataFrame":
        """The table of predictions, in the order of X, from what the source holds now."""
        check_is_fitted(self)
        opened = self._opened()
        if opened.folder != self.database_.folder:  # it has new rows
            self.database_ = _without_splits(opened)
        frame = self._frame(X, self.database_)
        return self.model_.predict(self.database_, frame=frame)

    def _opened(self) -> Database:
        return self.source if isinstance(self.source, Database) else open(self.source)

    def _frame(self, X: Any, database: Database) -> "pd.DataFrame":
        """X, checked: the key columns and the time, and no other."""
        import pandas as pd

        if not isinstance(X, pd.DataFrame):
            raise GelgtError(
                "bad_frame",
                f"X must be a pandas frame of (key, time), got {type(X).__name__}.",
                hint="In a pipeline, call set_output(transform='pandas').",
            )
        expected = [*key_names(database, database.table(str(self.entity)).name), self.time_col]
        for name in expected:
            if name not in X:
                raise GelgtError(
                    "unknown_column",
                    f"X has no column '{name}'; it needs {', '.join(expected)}.",
                    hint=did_you_mean(name, map(str, X.columns)),
                )
        rest = [str(name) for name in X.columns if name not in expected]
        if rest:
            raise GelgtError(
                "unknown_column",
                f"X has columns that would not be read: {', '.join(rest)}.",
                hint=f"Leave them out: what is known about '{self.entity}' comes from the source.",
            )
        return X[expected].reset_index(drop=True)  # its index may be named like a column


class RelationalClassifier(ClassifierMixin, _Relational):  # type: ignore[misc]
    """A classifier over frames of (key, time), trained with gelgt.

    Args:
        source: What `gelgt.open` takes, or a `Database`.
        entity: The table that the keys in X belong to.
        time_col: The column of X with the times.
        timedelta: How far a label looks ahead, such as ``"30 days"``: labels whose window reaches
            into what is held out for early stopping are then not learned from before that. None:
            a label counts as known at its own time.
        remove_columns: ``"table.column"`` of what the model must not see, such as the column that
            y was made from.
        preset: ``cpu``, ``gpu`` or ``paper``.
        settings: Single values, such as ``{"train.time_limit": 60, "model.width": 64}``.
        random_state: Of initial weights, order and dropout: a whole number.

    Attributes:
        model_: The trained `GelGT`; ``model_.save("runs/churn")`` keeps it.
        classes_: The values of y, sorted.
        feature_names_in_: The columns of X.

    Example:
        >>> from sklearn.base import clone
        >>> model = RelationalClassifier("sqlite:///shop.db", "customers", timedelta="30 days")
        >>> clone(model).set_params(preset="gpu").preset
        'gpu'
        >>> model.fit(X, y).predict_proba(X)  # doctest: +SKIP
    """

    classes_: Any

    def fit(self, X: Any, y: Any) -> Self:
        """Train on (key, time) rows and their classes.

        Raises:
            GelgtError: the source cannot be read, X lacks a column, keys are unknown, or the labels
                are too few.
        """
        y = column_or_1d(y)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise GelgtError(
                "one_class",
                f"y has the single value {self.classes_[0]!r}.",
                hint="Give labels of at least two classes.",
            )
        is_binary = len(self.classes_) == 2
        kind = "binary_classification" if is_binary else "multiclass_classification"
        return self._fit(X, codes, kind)

    def predict_proba(self, X: Any) -> Any:
        """(n, classes) probabilities, in the order of ``classes_``."""
        table = self._predicted(X)
        if len(self.classes_) == 2:
            positive = table["probability"].to_numpy()
            return np.stack([1 - positive, positive], axis=1)
        # A class that came up only in what was held out is not known to the model.
        columns = [f"probability_{code}" for code in range(len(self.classes_))]
        return table.reindex(columns=columns, fill_value=0.0).to_numpy(np.float64)

    def predict(self, X: Any) -> Any:
        """(n,) the most probable class."""
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(1)]


class RelationalRegressor(RegressorMixin, _Relational):  # type: ignore[misc]
    """A regressor over frames of (key, time), trained with gelgt for the mean absolute error.

    Parameters and attributes are those of `RelationalClassifier`, without ``classes_``.

    Example:
        >>> RelationalRegressor("sqlite:///shop.db", "customers").get_params()["preset"]
        'cpu'
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Train on (key, time) rows and their values.

        Raises:
            GelgtError: as in `RelationalClassifier.fit`.
        """
        return self._fit(X, column_or_1d(y).astype(np.float64), "regression")

    def predict(self, X: Any) -> Any:
        """(n,) predicted values."""
        return self._predicted(X)["prediction"].to_numpy()


def _without_splits(database: Database) -> Database:
    """The database without split times of its own. Those are inferred from all rows, and column
    kinds from the rows before them; a fit infers kinds from the rows before its own validation time
    instead, however far the source goes on."""
    schema = replace(
        database.schema, val_timestamp=None, test_timestamp=None, split_origin="inferred"
    )
    view = Database(database.folder, schema, database.source, database.import_findings)
    view.follows_contract = database.follows_contract
    view.unread_tables = database.unread_tables
    return view
