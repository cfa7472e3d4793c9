"""gelgt runs in MLflow (extra ``mlflow``): logged to a tracking store, and as models.

    from gelgt.integrations.mlflow import log_model, log_run, save_model

    log_run("runs/churn", experiment="churn")       parameters, scores, curves, report, run folder
    log_model("runs/churn", registered_model_name="churn")
    save_model("runs/churn", "models/churn")        then: mlflow models serve -m models/churn

This module is also the model's loader: MLflow calls `_load_pyfunc` with the run folder, and no
object is ever unpickled.
"""

import json
import math
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gelgt import __version__
from gelgt.errors import GelgtError
from gelgt.estimator import load
from gelgt.integrations.extras import require
from gelgt.integrations.held import REFRESH
from gelgt.integrations.mlflow_model import EXTRA, SOURCE_ENV, RunModel, example, signature
from gelgt.runs.folder import Run, load_run
from gelgt.runs.record import RunRecord

LOADER = "gelgt.integrations.mlflow"
_PER_BATCH = 100  # parameters that a store takes at a time; of metrics it takes a thousand
_VALIDATE = "validate_serving_input"
_LONGEST = 500  # characters of a parameter that every store keeps


def log_run(
    run_folder: str | Path,
    *,
    experiment: str | None = None,
    run_name: str | None = None,
    tags: Mapping[str, str] | None = None,
) -> str:
    """Log a trained run to MLflow: into the active MLflow run, or a new one.

    Parameters are the settings, each under its name, such as ``model.width``; the tag
    ``gelgt.settings`` tells those that do not come from the preset, with their origin. Metrics are
    ``val/…`` and ``test/…`` of the whole model, ``parts/PART/…``, ``baselines/NAME/…``, and the
    training curves ``training/…`` of the first network, step by step. Artifacts are
    ``report.html`` and the run folder under ``run``.

    Args:
        run_folder: As ``gelgt train --out`` writes it.
        experiment: The MLflow experiment of a new run.
        run_name: Of a new run; the name of the run folder by default.
        tags: Further tags.

    Returns:
        The id of the MLflow run.

    Raises:
        GelgtError: ``missing_extra``; it is no run, incomplete, damaged, or of another gelgt.

    Example:
        >>> log_run("runs/churn", experiment="churn")  # doctest: +SKIP
        '4c1f0d…'
    """
    mlflow = require("mlflow", EXTRA)
    run = load_run(run_folder)
    active = mlflow.active_run()
    if active is not None:
        _log(mlflow, run, tags)
        return str(active.info.run_id)
    if experiment is not None:
        mlflow.set_experiment(experiment)
    with mlflow.start_run(run_name=run_name or run.record.run or run.folder.name) as started:
        _log(mlflow, run, tags)
    return str(started.info.run_id)


def save_model(run_folder: str | Path, path: str | Path, **options: Any) -> Path:
    """Write an MLflow model over a run folder, for ``mlflow models serve -m PATH``.

    Args:
        run_folder: As ``gelgt train --out`` writes it.
        path: A new folder.
        options: ``source_env``, ``refresh`` and ``device``, what the model does unless
            ``model_config`` says otherwise when it is loaded (docs/integrations.md); further ones
            go to `mlflow.pyfunc.save_model`, such as ``pip_requirements``.

    Returns:
        The folder.

    Raises:
        GelgtError: ``missing_extra``; `path` is taken; it is no run.
    """
    pyfunc = require("mlflow.pyfunc", EXTRA)
    target = Path(path).expanduser()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise GelgtError("model_exists", f"{target} is not empty.", hint="Choose another folder.")
    options.pop(_VALIDATE, None)
    with _model(run_folder, options) as arguments:
        pyfunc.save_model(path=str(target), **arguments)
    return target


def log_model(run_folder: str | Path, name: str = "model", **options: Any) -> Any:
    """Log an MLflow model over a run folder to the active MLflow run, or a new one.

    Args:
        run_folder: As ``gelgt train --out`` writes it.
        name: Of the model.
        options: As in `save_model`; further ones go to MLflow's `Model.log`, such as
            ``registered_model_name``.

    Returns:
        MLflow's `ModelInfo`; ``mlflow.pyfunc.load_model(info.model_uri)`` predicts what
        `Predictor.predict(frame=…)` does.
    """
    models = require("mlflow.models", EXTRA)
    load_run(run_folder)  # raises before anything is logged
    # This module is the flavor, as MLflow wants it: it calls `save_model` above. Its keys are made
    # up, so MLflow must not try the example, which would read the source besides.
    return models.Model.log(
        artifact_path=None,
        name=name,
        flavor=sys.modules[__name__],
        run_folder=run_folder,
        **{_VALIDATE: False},
        **options,
    )


def _load_pyfunc(path: str, model_config: Mapping[str, Any] | None = None) -> RunModel:
    """What MLflow calls to load the model."""
    return RunModel(path, model_config)


@contextmanager
def _model(run_folder: str | Path, options: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The arguments of MLflow's functions that write a model, while its data is at hand."""
    rest = dict(options)
    # Every key stands here, else MLflow would not let one be set when the model is loaded. A source
    # is never kept: its address may hold a password.
    config = {
        "source": None,
        "source_env": rest.pop("source_env", SOURCE_ENV),
        "refresh": rest.pop("refresh", REFRESH),
        "device": rest.pop("device", "auto"),
    }
    run = load_run(run_folder)
    needed = [_requirement(run.record.data.source)]
    with _copy(run) as copied:
        yield {
            "loader_module": LOADER,
            "data_path": str(copied),
            "signature": signature(run),
            "input_example": example(run),
            "pip_requirements": needed,
            "model_config": config,
            "metadata": {"task": _task_words(run.record), "regime": run.record.regime},
            **rest,
        }


def _requirement(address: str) -> str:
    """gelgt with what serving needs, and the driver of the source."""
    drivers = [name for name in ("postgres", "mysql") if address.startswith(name)]
    return f"gelgt[{','.join([EXTRA, *drivers])}]=={__version__}"


@contextmanager
def _copy(run: Run) -> Iterator[Path]:
    """A checked copy of a run folder, without what only a resumed training needs."""
    with tempfile.TemporaryDirectory(prefix="gelgt-mlflow-") as home:
        yield load(run.folder).save(Path(home) / "run")


def _log(mlflow: Any, run: Run, tags: Mapping[str, str] | None) -> None:
    from gelgt.report import write_report

    mlflow.set_tags({**_tags(run), **(tags or {})})
    parameters = list(_parameters(run).items())
    for start in range(0, len(parameters), _PER_BATCH):
        mlflow.log_params(dict(parameters[start : start + _PER_BATCH]))
    for step, metrics in _curves(run.record):
        mlflow.log_metrics(metrics, step=step)
    mlflow.log_metrics(_scores(run.record))
    with _copy(run) as copied:
        mlflow.log_artifact(str(write_report(copied, copied.parent / "report.html")))
        mlflow.log_artifacts(str(copied), "run")


def _parameters(run: Run) -> dict[str, Any]:
    config = run.config.model_dump(mode="json")
    settings = {
        f"{section}.{name}": _short(value)
        for section in ("model", "sampling", "train")
        for name, value in config[section].items()
    }
    return {"preset": run.config.preset, "model": run.config.kind, **settings}


def _short(value: Any) -> Any:
    return json.dumps(value)[:_LONGEST] if isinstance(value, (list, dict)) else value


def _tags(run: Run) -> dict[str, str]:
    record, config = run.record, run.config.model_dump(mode="json")
    changed = []
    for name, origin in run.config.origins.items():
        section, key = name.split(".")
        if origin in ("set", "derived"):
            changed.append(f"{name}={config[section][key]} ({origin})")
    facts = {
        "task": _task_words(record),
        "task_type": record.task.task_type,
        "entity_table": record.task.entity_table,
        "regime": record.regime,
        "seed": record.seed,
        "source": record.data.source,
        "data_hash": record.data.hash,
        "val_timestamp": record.task.val_timestamp,
        "test_timestamp": record.task.test_timestamp,
        "settings": ", ".join(changed),
        **{f"version.{name}": text for name, text in record.versions.items()},
    }
    return {f"gelgt.{name}": str(value) for name, value in facts.items() if value is not None}


def _task_words(record: RunRecord) -> str:
    return record.task.sentence or record.task.name


def _scores(record: RunRecord) -> dict[str, float]:
    metrics: dict[str, float] = {}
    groups = {
        "": record.metrics,
        **{f"parts/{name}/": splits for name, splits in record.parts.items()},
        **{f"baselines/{name}/": splits for name, splits in record.baselines.items()},
    }
    for prefix, splits in groups.items():
        for split, scores in splits.items():
            metrics |= {f"{prefix}{split}/{name}": value for name, value in _known(scores).items()}
    for level, found in record.intervals.items():
        facts = {"coverage": found.coverage, "mean_width": found.mean_width}
        metrics |= {f"intervals/{level}/{name}": value for name, value in _known(facts).items()}
    return metrics | _known({"seconds": record.seconds, "tree_share": record.tree_share})


def _curves(record: RunRecord) -> Iterator[tuple[int, dict[str, float]]]:
    """What each epoch of the first network scored, by training step."""
    for epoch in record.epochs:
        values = _known({"loss": epoch.loss, "rate": epoch.rate, "seconds": epoch.seconds})
        values |= {f"val/{name}": value for name, value in _known(epoch.val).items()}
        step = epoch.epoch if epoch.step is None else epoch.step
        yield step, {f"training/{name}": value for name, value in values.items()}


def _known(scores: Mapping[str, float | None]) -> dict[str, float]:
    return {
        name: value for name, value in scores.items() if value is not None and math.isfinite(value)
    }
