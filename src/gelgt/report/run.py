"""A run folder as the report reads it: checked once here, trusted by every section.

    metrics.json                 required: task, data, scores, baselines, epochs, timings, versions,
                                 configuration
    predictions/val.parquet      optional: keys, time, prediction, probability…, label,
                                 baseline:NAME; lists of keys where the run recommends
    predictions/test.parquet     optional
    profile.json                 optional: the learned bias against age, the share of attention by
                                 table and hop

`gelgt.runs.record` has the format: a field without a default is required, any other may be missing,
unknown ones are ignored.
"""

import re
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from gelgt.errors import GelgtError
from gelgt.runs.intervals import Bootstrap, bootstrap
from gelgt.runs.predictions import Predictions, read_predictions
from gelgt.runs.rankings import RECOMMENDATION, Rankings, read_rankings
from gelgt.runs.record import FORMAT, Profile, RunRecord, read_record

_SECRET = re.compile(
    r"(?P<user>//[^/@:]*):.*@"
    r"|(?<=[?&])[^=&]*(?:password|passwd|pwd|secret|token|sslkey)[^=&]*=[^&]*&?",
    re.IGNORECASE,
)


class Run:
    """A run folder as the sections read it.

    Attributes:
        folder: Where it is.
        record: metrics.json.
        profile: profile.json, or None where there is none.
    """

    def __init__(self, folder: Path) -> None:
        hint = "Give the folder that `gelgt train --out` wrote"
        if not folder.is_dir():
            raise GelgtError("no_run", f"There is no folder {folder}.", hint=f"{hint}.")
        path = folder / "metrics.json"
        if not path.is_file():
            raise GelgtError(
                "no_run",
                f"{folder} is not a run folder: it holds no metrics.json.",
                hint=f"{hint}; an unfinished run has no metrics.json yet.",
            )
        self.folder = folder
        self.record = read_record(path, RunRecord)
        if self.record.format > FORMAT:
            raise GelgtError(
                "newer_run",
                f"{path} has format {self.record.format}; this gelgt reads up to {FORMAT}.",
                hint="Upgrade gelgt to the version that wrote the run.",
            )
        profile = folder / "profile.json"
        self.profile = read_record(profile, Profile) if profile.is_file() else None

    @cached_property
    def val(self) -> Predictions | None:
        return self._predictions("val")

    @cached_property
    def test(self) -> Predictions | None:
        return self._predictions("test")

    @cached_property
    def rankings(self) -> dict[str, Rankings]:
        """What a run recommends, by split; empty for other tasks and for splits without labels."""
        if not self.is_recommendation:
            return {}
        facts = self.record.ranking
        paths = {split: self._path(split) for split in ("val", "test")}
        found = {
            split: read_rankings(path, self.record.model, facts.k if facts else None)
            for split, path in paths.items()
            if path.is_file()
        }
        return {split: rankings for split, rankings in found.items() if rankings is not None}

    @property
    def is_recommendation(self) -> bool:
        return self.record.task.task_type == RECOMMENDATION

    @cached_property
    def intervals(self) -> Bootstrap | None:
        """Intervals of the main metric on test; None where predictions are missing or too few."""
        return bootstrap(self.record.metric, self.test) if self.test is not None else None

    @property
    def models(self) -> list[str]:
        """The run's model, then its baselines: the order of tables and of colours in charts."""
        return [self.record.model, *(b for b in self.record.baselines if b != self.record.model)]

    def colour(self, model: str) -> int:
        """0 for the run's model, then the baselines; models that metrics.json does not name share
        the last colour."""
        return min(self.models.index(model), 7) if model in self.models else 7

    def score(self, model: str, split: str, metric: str | None = None) -> float | None:
        """A stored score of a model, of one of its parts or of a baseline; of the main metric
        unless another is named."""
        record = self.record
        if model == record.model:
            scores = record.metrics
        else:
            scores = (record.parts if model in self.parts else record.baselines).get(model, {})
        return scores.get(split, {}).get(metric or record.metric)

    @property
    def parts(self) -> dict[str, str]:
        """Names of the parts of the run's model, where it has several."""
        names = {
            "network": "network alone",
            "columns": "the network's columns alone",
            "trees": f"trees alone (share {100 * self.record.tree_share:.0f} %)",
        }
        parts = self.record.parts
        if len(parts) < 2:
            return {}
        return {part: name for part, name in names.items() if part in parts}

    @property
    def source(self) -> str:
        """The address of the data. metrics.json has it without a password; a report, which people
        pass on, checks again."""
        return without_secrets(self.record.data.source)

    def _path(self, split: str) -> Path:
        return self.folder / "predictions" / f"{split}.parquet"

    def _predictions(self, split: str) -> Predictions | None:
        path, record = self._path(split), self.record
        if not path.is_file():
            return None
        if self.is_recommendation:
            rankings = self.rankings.get(split)
            predictions = None if rankings is None else rankings.predictions
        else:
            classes = [str(c) for c in record.task.classes]
            predictions = read_predictions(path, record.task.task_type, record.model, classes)
        if predictions is None:
            return None
        scores = predictions.scores
        order = [
            *(model for model in self.models if model in scores),
            *(model for model in scores if model not in self.models),
        ]
        return replace(predictions, scores={model: scores[model] for model in order})


def without_secrets(text: str) -> str:
    """An address, or a command that holds one, without its password.

    >>> without_secrets("postgresql://ann:p@ss@host/shop?sslmode=require&sslpassword=x")
    'postgresql://ann@host/shop?sslmode=require&'
    """
    return _SECRET.sub(lambda match: f"{match['user']}@" if match["user"] else "", text)
