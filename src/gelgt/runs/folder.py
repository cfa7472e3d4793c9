"""Run folders: everything that a trained model needs, in plain files that cannot run.

    config.json           preset, model, sampling, training, with the origin of every value
    task.yaml             the task's manifest, with its split times
    labels/SPLIT.parquet  its label tables
    target.json           classes and label statistics
    schema.json           tables, columns, keys, times and kinds that the model knows
    features.json         the statistics that rows are encoded with
    model.safetensors     the weights
    metrics.json          every epoch, scores, baselines, versions, seed, regime, source
    profile.json          what the model attends to
    intervals.json        what prediction intervals are made from; of a regression
    predictions/          the scored rows of validation and test
    .gelgt-run            written first: the folder is gelgt's; while a training goes on it is
                          locked and names the process, otherwise it is empty
    _SUCCESS              written last: the format, and a checksum of each file above
    checkpoint.safetensors  while training, and after an interrupted one
    progress.json         where the training stands, or how it ended, for whoever watches it

A folder without `_SUCCESS` is not loaded, nor one whose files do not match it. Files are written
under a temporary name and renamed.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from gelgt.calibration import PredictionIntervals
from gelgt.errors import GelgtError
from gelgt.features import FeatureStatistics
from gelgt.files import whole_file, write_text
from gelgt.history.seed_history import HistoryPlan
from gelgt.nn.target import Target
from gelgt.presets import RunConfig
from gelgt.runs.progress import PROGRESS
from gelgt.runs.record import FORMAT, RunRecord, read_record
from gelgt.runs.tensors import load_tensors
from gelgt.schema.manifest import load_yaml, parse_schema
from gelgt.schema.model import DatabaseSchema
from gelgt.schema.shape import WRONG_SHAPE

MARK = ".gelgt-run"
SUCCESS = "_SUCCESS"
CHECKPOINT = "checkpoint.safetensors"
INTERVALS = "intervals.json"
REQUIRED = (
    "config.json",
    "task.yaml",
    "target.json",
    "schema.json",
    "features.json",
    "model.safetensors",
    "metrics.json",
)


@dataclass(frozen=True)
class Run:
    """A finished run, as its folder holds it."""

    folder: Path
    config: RunConfig
    task: dict[str, Any]
    target: Target
    schema: DatabaseSchema
    statistics: FeatureStatistics
    record: RunRecord

    @property
    def history_plan(self) -> HistoryPlan:
        """The history that the networks and trees of the run read."""
        history = self.record.history
        return HistoryPlan.of(self.config.model, None if history is None else history.read)

    def intervals(self) -> PredictionIntervals | None:
        """What prediction intervals are made from; None where nothing was kept."""
        path = self.folder / INTERVALS
        return PredictionIntervals.from_dict(read_json(path)) if path.is_file() else None

    def weights(self) -> dict[str, Tensor]:
        return load_tensors(self.folder / "model.safetensors")[0]


def load_run(folder: str | Path) -> Run:
    """Read and check a run folder; nothing in it is executed.

    Raises:
        GelgtError: it is no run, incomplete, damaged, changed, or of a newer gelgt.
    """
    path = Path(folder).expanduser()
    check_run(path)
    try:
        config = RunConfig(**read_json(path / "config.json"))
        schema = schema_from_dict(read_json(path / "schema.json"))
        return Run(
            path,
            config,
            load_yaml(path / "task.yaml"),
            Target.from_dict(read_json(path / "target.json")),
            schema,
            FeatureStatistics.from_dict(read_json(path / "features.json")),
            read_record(path / "metrics.json", RunRecord),
        )
    except WRONG_SHAPE as error:
        raise GelgtError(
            "bad_run",
            f"A file of the run {path} does not hold what it should ({error}).",
            hint="Train again.",
        ) from None


def check_run(path: Path) -> None:
    """Whether a folder is a whole run of a format that we read."""
    try:
        is_folder = path.is_dir()
    except OSError as error:
        raise GelgtError(
            "damaged_file",
            f"{path} cannot be looked into: {error.strerror or error}.",
            hint="Get permission to read it, or copy the run folder elsewhere.",
        ) from None
    if not is_folder:
        raise GelgtError(
            "no_run",
            f"There is no run folder {path}.",
            hint="Train one with: gelgt train SOURCE TASK --out RUN",
        )
    if not (path / SUCCESS).is_file():
        is_started = any((path / name).exists() for name in (CHECKPOINT, "config.json", MARK))
        hint = (
            "Finish it with: gelgt train … --resume"
            if is_started
            else "Train one with: gelgt train SOURCE TASK --out RUN"
        )
        raise GelgtError("incomplete_run", f"{path} holds no finished run.", hint=hint)
    content = read_json(path / SUCCESS)
    if (number := content.get("format")) != FORMAT:
        is_older = isinstance(number, int) and number < FORMAT
        raise GelgtError(
            "older_run" if is_older else "newer_run",
            f"{path} has run format {number!r}; this gelgt reads {FORMAT}.",
            hint="Train again, or use the gelgt that wrote it.",
        )
    listed = content.get("files")
    if not isinstance(listed, dict) or not set(REQUIRED) <= set(listed):
        raise GelgtError(
            "bad_run",
            f"{path / SUCCESS} does not list the files of a run.",
            hint="Copy the run folder again.",
        )
    there = set(_files(path))
    for name, expected in listed.items():
        # Names are compared with what is there, so that a listed ../../file is never opened.
        if name not in there:
            raise GelgtError(
                "bad_run", f"The run {path} lacks {name}.", hint="Copy the run folder again."
            )
        if checksum(path / name) != expected:
            raise GelgtError(
                "damaged_file",
                f"{path / name} was changed after it was written.",
                hint="Copy the run folder again.",
            )


def finish_run(path: Path) -> None:
    """Say that a run is whole: checksums of its files, written last."""
    write_json(
        path / SUCCESS,
        {"format": FORMAT, "files": {name: checksum(path / name) for name in sorted(_files(path))}},
    )


def _files(path: Path) -> list[str]:
    """The files that belong to a run; reports, checkpoints and progress come and go."""
    files = [
        *(p for p in path.glob("*.json") if p.name != PROGRESS),
        *path.glob("*.yaml"),
        path / "model.safetensors",
        *path.glob("predictions/*.parquet"),
    ]
    return [
        str(p.relative_to(path))
        for p in [*files, *path.glob("labels/*.parquet")]
        if p.is_file() and not p.name.startswith(".")
    ]


def checksum(path: Path) -> str:
    """A checksum of a file.

    Raises:
        GelgtError: ``damaged_file``: it cannot be read.
    """
    digest = hashlib.blake2b(digest_size=16)
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 22):
                digest.update(block)
    except OSError as error:
        raise GelgtError(
            "damaged_file",
            f"{path} cannot be read: {error.strerror or error}.",
            hint="Get permission to read it, or copy its folder again.",
        ) from None
    return digest.hexdigest()


def read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise GelgtError(
            "damaged_file",
            f"{path} is not readable: {error}.",
            hint="Copy the run folder again, or train again.",
        ) from None
    if not isinstance(content, dict):
        raise GelgtError(
            "damaged_file",
            f"{path} holds no mapping.",
            hint="Copy the run folder again, or train again.",
        )
    return content


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    text = json.dumps(content, ensure_ascii=False, indent=1, default=str)
    write_text(path, text)


def write_file(path: Path, write: Callable[[Path], Any]) -> None:
    """Write a file, whole or not at all."""
    with whole_file(path) as temporary:
        write(temporary)


def schema_to_json(schema: DatabaseSchema) -> dict[str, Any]:
    """A schema with its columns' types, which a manifest leaves to the files."""
    from gelgt.schema.manifest import schema_to_dict

    return schema_to_dict(schema) | {
        "columns": {name: dict(table.columns) for name, table in schema.tables.items()}
    }


def schema_from_dict(content: Mapping[str, Any]) -> DatabaseSchema:
    return parse_schema(content, content["columns"], "schema.json")
