"""`gelgt.GelGT` and `gelgt.load`: the whole way in a few lines.

model = gelgt.GelGT(preset="cpu").fit(db, task)
model.evaluate(db, task, split="test")
df = model.predict(db, entities=[42, 57], at="2026-11-01")
model.save("runs/churn")
model = gelgt.load("runs/churn")
"""

import shutil
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gelgt.config import Visibility
from gelgt.errors import GelgtError
from gelgt.files import whole_folder
from gelgt.inference import Prediction, Predictor, Recommend, evaluate_run
from gelgt.presets import PRESETS, RunConfig
from gelgt.runs.folder import read_json
from gelgt.runs.words import doubts
from gelgt.schema.finding_text import told
from gelgt.sources import Database, open
from gelgt.tasks import Task
from gelgt.tasks.task_findings import check_answered, task_findings
from gelgt.tasks.times import timestamp
from gelgt.training import Options, Progress, Run, load_run, train_run

if TYPE_CHECKING:
    import pandas as pd

    from gelgt.explain import Explanation
    from gelgt.explain.items import ItemsExplanation


class GelGT:
    """A model that is trained on a database and a task, and predicts.

    Args:
        preset: ``cpu``, ``gpu`` or ``paper``.
        model: ``gelgt``, or another model of `gelgt.registry` to compare with.
        seed: Of initial weights, order and dropout; the same seed gives the same weights on a CPU.
        visibility: ``frozen`` or ``seed-time``; None is ``frozen`` for a RelBench folder and
            ``seed-time`` for everything else.
        as_of: Under ``seed-time``, the time from which ages are measured at the latest, as
            ``--as-of`` of the command line.
        settings: Single values, such as ``{"model.width": 64, "train.epochs": 5}``.
        device: ``auto``, ``cpu``, ``cuda``, …
        time_limit: Seconds of the whole training, divided over its phases; five minutes if None.

    Example:
        >>> import gelgt
        >>> db = gelgt.open("sqlite:///shop.db")  # doctest: +SKIP
        >>> churn = "PREDICT COUNT(orders.*, 0, 30, days) = 0 FOR EACH customers.id"
        >>> task = db.task(churn)  # doctest: +SKIP
        >>> model = gelgt.GelGT(preset="cpu").fit(db, task)  # doctest: +SKIP
        >>> model.predict(db, entities=[42, 57], at="2026-11-01")  # doctest: +SKIP
           id       time  prediction  probability
        0  42 2026-11-01           1     0.731059
        1  57 2026-11-01           0     0.268941
    """

    def __init__(
        self,
        preset: str = "cpu",
        *,
        model: str = "gelgt",
        seed: int = 0,
        visibility: Visibility | None = None,
        as_of: Any = None,
        settings: Mapping[str, Any] | None = None,
        device: str = "auto",
        time_limit: float | None = None,
    ) -> None:
        self.preset, self.kind, self.seed, self.visibility = preset, model, seed, visibility
        self.settings, self.device, self.time_limit = dict(settings or {}), device, time_limit
        self.as_of = None if as_of is None else int(timestamp(as_of, "time as_of").timestamp())
        # a wrong name is told now, not when training begins
        RunConfig.of(preset, None, self._changes(), model)
        self._run: Run | None = None
        self._home: tempfile.TemporaryDirectory[str] | None = None
        self._database: Database | None = None
        self._predictor: Predictor | None = None
        self._predictor_source: Any = None

    def __repr__(self) -> str:
        state = (
            "not fitted"
            if self._run is None
            else f"{self._run.task.get('name')}, {self._run.folder}"
        )
        kind = "" if self.kind == "gelgt" else f"model={self.kind!r}, "
        return f"GelGT({kind}preset={self.preset!r}, seed={self.seed}: {state})"

    def fit(
        self,
        db: Any,
        task: Task | str,
        out: str | Path | None = None,
        *,
        resume: bool = False,
        retrain_all: bool = False,
        accept: Sequence[str] = (),
        progress: Progress | None = None,
    ) -> "GelGT":
        """Train on a task, with early stopping, baselines beside it.

        Findings about the tables that the task uses are warnings, notices aside; an error among
        them stops the training.

        Args:
            db: A `Database`, or anything that `gelgt.open` takes.
            task: A `Task`, a PREDICT sentence, or the name of a task of the database.
            out: The run folder; by default a temporary one that lives as long as this object (keep
                it with `save`).
            resume: Go on where a run in `out` was cut off.
            retrain_all: After the test score is known, retrain on all labels, those of test too.
            accept: Findings of severity ``error`` that may stay unanswered, each as
                ``CODE:TABLE.COLUMN`` or ``CODE:TABLE``.
            progress: Is told of phases, steps and epochs.

        Raises:
            GelgtError: the task cannot be trained, `out` is taken, or ``unanswered_findings``.
        """
        if resume and out is None:
            raise GelgtError(
                "bad_option",
                "resume needs the folder of the run that was cut off.",
                hint="Give out=….",
            )
        chosen = task if isinstance(task, Task) else None
        database = db if isinstance(db, Database) else open(db)
        chosen = chosen or database.task(task)
        home = None
        if out is None:
            home = tempfile.TemporaryDirectory(prefix="gelgt-run-")
            out = Path(home.name) / "run"
        options = Options(
            visibility=self.visibility,
            as_of=self.as_of,
            resume=resume,
            retrain_all=retrain_all,
            device=self.device,
            accept=tuple(accept),
        )
        config = RunConfig.of(self.preset, chosen.task_type, self._changes(), self.kind)
        findings = task_findings(database, chosen, config.sampling.hops)
        check_answered(findings, options.accept)
        _tell(told([f for f in findings if f.severity != "notice"], database.source))
        self._run = train_run(
            database, chosen, Path(out).expanduser(), config, options, progress=progress
        )
        self._home, self._database, self._predictor = home, database, None
        _tell(doubts(self._run.record))
        return self

    def evaluate(
        self, db: Any = None, task: Task | str | None = None, split: str = "test"
    ) -> dict[str, Any]:
        """Scores beside baselines, in the regime of training: what ``gelgt evaluate --json``
        prints.

        Args:
            db: By default the database that the model was trained on.
            task: By default the model's own.
            split: ``train``, ``val`` or ``test``.
        """
        source = task.database if db is None and isinstance(task, Task) else self._source(db)
        scored = evaluate_run(self.run, source, split, task=task, device=self.device)
        _tell(scored["notices"])
        return scored

    def predict(
        self,
        db: Any = None,
        entities: Any = None,
        at: Any = None,
        *,
        frame: Any = None,
        k: int | None = None,
        new_only: bool = False,
        allowed: Any = None,
        interval: float | None = None,
    ) -> "pd.DataFrame":
        """Predict for entities at a time, from every row before it.

        Args:
            db: A `Database`, or anything that `gelgt.open` takes; it may have grown since training.
            entities: Keys of the entity table; None means everyone whom the task is about at that
                time.
            at: The time; by default now, or just after the newest row where that lies more than one
                window back.
            frame: A frame of (key, time) instead.
            k: How many rows are recommended, where the task recommends; by default as many as it
                evaluates.
            new_only: Recommend nothing that the entity has had before.
            allowed: Keys that may be recommended; None for all.
            interval: The level of prediction intervals, such as 0.9, where a number is predicted.

        Returns:
            The key, ``time``, ``prediction``, and ``probability`` (binary),
            ``probability_<class>``, or ``lower`` and ``upper`` with an interval; for
            recommendations the key, ``time``, ``rank``, the key of the recommended row, and
            ``score``, one line each. What there is to say about them is a
            warning, and stands in ``attrs["notices"]``.

        Raises:
            GelgtError: unknown keys, entities that do not exist yet, a source without what the
                model knows, an interval that cannot be had.
        """
        wishes = Recommend(k, new_only, allowed)
        prediction: Prediction = self.predictor(db).predict(entities, at, frame, wishes, interval)
        _tell(prediction.notices)
        return prediction.to_pandas()

    def explain(
        self,
        db: Any = None,
        entity: Any = None,
        at: Any = None,
        *,
        counterfactual: bool = False,
        new_only: bool = False,
    ) -> "Explanation | ItemsExplanation":
        """Why the model predicts what it does for one entity at a time: which rows, columns, paths
        and ages move the prediction away from what it is when nothing is known, measured by
        deletion (docs/explanations.md). Of a model that recommends: why the first five rows.

        Args:
            db: As in `predict`.
            entity: A key of the entity table.
            at: As in `predict`.
            counterfactual: Also look for the fewest rows whose absence turns the decision.
            new_only: Of a model that recommends: explain rows that the entity has not had before.

        Raises:
            GelgtError: as in `predict`; ``no_rows`` where no row is linked to the entity.

        Example:
            >>> model.explain(db, entity=42, at="2026-11-01").save("why.html")  # doctest: +SKIP
        """
        from gelgt.explain import Explainer

        if entity is None:
            raise GelgtError(
                "bad_option",
                "An explanation is of one entity.",
                hint="Give entity=…, a key of the entity table.",
            )
        predictor = self.predictor(db)
        if predictor.run.target.task_type == "recommendation":
            from gelgt.explain.item_reasons import explain_list

            listed = explain_list(predictor, entity, at, new_only=new_only)
            _tell(listed.notices)
            return listed
        if new_only:
            raise GelgtError(
                "bad_option",
                "new_only is about recommendations, and the model predicts a value.",
                hint="Leave new_only out.",
            )
        explained = Explainer(predictor).explain(entity, at, is_counterfactual=counterfactual)
        _tell(explained.notices)
        return explained

    def embed(
        self, db: Any = None, entities: Any = None, at: Any = None, *, frame: Any = None
    ) -> "pd.DataFrame":
        """The model's vectors of entities at a time, as columns ``vector_0``, ``vector_1``, …;
        arguments as in `predict`."""
        prediction: Prediction = self.predictor(db).embed(entities, at, frame)
        _tell(prediction.notices)
        return prediction.to_pandas()

    def predictor(self, db: Any = None) -> Predictor:
        """The `Predictor` behind `predict`, for millions of rows: its `predict_table` gives them
        chunk by chunk."""
        source = self._source(db)
        if (
            self._predictor is None
            or source is not self._predictor_source
            or not isinstance(source, Database)
        ):
            self._predictor, self._predictor_source = (
                Predictor(self.run, source, self.device),
                source,
            )
        return self._predictor

    def save(self, path: str | Path) -> Path:
        """Copy the run folder, whole or not at all.

        Raises:
            GelgtError: `path` is taken.
        """
        target = Path(path).expanduser()
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise GelgtError("run_exists", f"{target} is not empty.", hint="Choose another folder.")
        try:
            with whole_folder(target) as temporary:
                left_out = shutil.ignore_patterns("checkpoint*.safetensors", ".*")
                shutil.copytree(self.run.folder, temporary, ignore=left_out, dirs_exist_ok=True)
                load_run(temporary)  # what is put in place can be loaded
        except OSError as error:
            raise GelgtError(
                "cannot_write",
                f"{target} cannot be written: {error.strerror or error}.",
                hint="Choose another.",
            ) from None
        return target

    def report(self, path: str | Path | None = None) -> Path:
        """Write the HTML report of the run; ``report.html`` in its folder by default."""
        from gelgt.report import write_report

        return write_report(self.run.folder, None if path is None else Path(path).expanduser())

    @property
    def run(self) -> Run:
        """The run folder and what it holds."""
        if self._run is None:
            raise GelgtError(
                "not_fitted",
                "The model is not trained.",
                hint="Call fit(db, task), or gelgt.load a run folder.",
            )
        return self._run

    @property
    def metrics(self) -> dict[str, Any]:
        """What ``metrics.json`` holds: scores, baselines, every epoch, versions, seed, regime."""
        return self.run.record.to_json()

    def temporal_profile(self) -> list[list[dict[str, Any]]]:
        """For each set of Gaussian kernels, its centres and widths as durations, with a sentence
        for people."""
        content = read_json(self.run.folder / "profile.json")
        return [curve["kernels"] for curve in content.get("bias") or []]

    def _changes(self) -> dict[str, Any]:
        limit = {} if self.time_limit is None else {"train.time_limit": self.time_limit}
        return {"train.seed": self.seed, **limit, **self.settings}

    def _source(self, db: Any) -> Any:
        return self._database if db is None else db


def load(path: str | Path) -> GelGT:
    """A trained model from its run folder; nothing in the folder is executed. Its `fit` trains the
    same kind of model, with the same preset, seed, regime and settings.

    Raises:
        GelgtError: it is no run, incomplete, damaged, changed, or of a newer gelgt.

    Example:
        >>> import gelgt
        >>> model = gelgt.load("runs/churn")  # doctest: +SKIP
        >>> model.metrics["metrics"]["test"]["roc_auc"]  # doctest: +SKIP
        0.81
    """
    run = load_run(path)
    config, sampling = run.config, run.config.sampling
    settings = {}
    for name, origin in config.origins.items():
        if origin == "set" and name != "train.seed":
            section, key = name.split(".")
            settings[name] = getattr(getattr(config, section), key)
    model = GelGT(
        config.preset if config.preset in PRESETS else "cpu",
        model=config.kind,
        seed=config.train.seed,
        visibility=sampling.visibility,
        settings=settings,
    )
    model.as_of = sampling.horizon if sampling.visibility == "seed-time" else None
    model._run = run
    return model


def _tell(notices: Any) -> None:
    for text in notices:
        warnings.warn(text, UserWarning, stacklevel=3)
