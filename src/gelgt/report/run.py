"""Reads a run folder for the report, checked once here and trusted everywhere else.

    metrics.json                 required: task, data, scores, baselines, epochs, timings, versions,
                                 configuration
    predictions/val.parquet      optional: keys, time, prediction, probability…, label,
                                 baseline:NAME
    predictions/test.parquet     optional
    profile.json                 optional: the learned bias against age, the share of attention by
                                 table and hop

The classes of `gelgt.runs.record` are the format: a field without a default must be there,
any other may be missing, unknown ones are ignored.
"""

import re
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from gelgt.errors import GelgtError
from gelgt.report.predictions import Predictions, read_predictions
from gelgt.report.scoring import Bootstrap, bootstrap
from gelgt.runs.record import FORMAT, Profile, RunRecord, read_record

_SECRET = re.compile(
    r"(?P<user>//[^/@:]*):.*@|(?<=[?&])[^=&]*(?:password|passwd|pwd|secret|token|sslkey)[^=&]*=[^&]*&?",
    re.IGNORECASE,
)


class Run:
    """A run folder as the sections read it.

    Attributes:
        folder: Where it is.
        facts: metrics.json.
        profile: profile.json, or None where there is none.
    """

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise GelgtError(
                "no_run",
                f"There is no folder {folder}.",
                hint="Give the folder that `gelgt train --out` wrote.",
            )
        if not (folder / "metrics.json").is_file():
            message = f"This is no run folder: {folder} holds no metrics.json."
            raise GelgtError(
                "no_run",
                message,
                hint="Give the folder that `gelgt train --out` wrote; an unfinished run has none "
                "yet.",
            )
        self.folder = folder
        self.facts = read_record(folder / "metrics.json", RunRecord)
        if self.facts.format > FORMAT:
            message = (
                f"{folder / 'metrics.json'} has format {self.facts.format}; this gelgt "
                f"reads up to {FORMAT}."
            )
            raise GelgtError(
                "newer_run", message, hint="Upgrade gelgt to the version that wrote the run."
            )
        self.profile = (
            read_record(folder / "profile.json", Profile)
            if (folder / "profile.json").is_file()
            else None
        )

    @cached_property
    def val(self) -> Predictions | None:
        return self._predictions("val")

    @cached_property
    def test(self) -> Predictions | None:
        return self._predictions("test")

    @cached_property
    def intervals(self) -> Bootstrap | None:
        """Of the main metric on test; None where the predictions are missing or too few."""
        return bootstrap(self.facts.metric, self.test) if self.test is not None else None

    @property
    def models(self) -> list[str]:
        """The run's own model, then its baselines: the order of every table, and the colours of
        every chart."""
        return [self.facts.model, *(b for b in self.facts.baselines if b != self.facts.model)]

    def colour(self, model: str) -> int:
        """0 for the run's own model, then the baselines; what is not named in metrics.json shares
        the last colour."""
        return min(self.models.index(model), 7) if model in self.models else 7

    def score(self, model: str, split: str, metric: str | None = None) -> float | None:
        """A stored score, the run's main metric unless another is named."""
        others = (
            self.facts.parts.get(model, {})
            if model in self.parts
            else self.facts.baselines.get(model, {})
        )
        scores = self.facts.metrics if model == self.facts.model else others
        return scores.get(split, {}).get(metric or self.facts.metric)

    @property
    def parts(self) -> dict[str, str]:
        """What the parts of the run's model are called, where trees were grown beside its
        network."""
        if "trees" not in self.facts.parts:
            return {}
        return {
            "network": "network alone",
            "trees": f"trees alone (share {100 * self.facts.tree_share:.0f} %)",
        }

    @property
    def source(self) -> str:
        """The address of the data. The run holds it without a password; a report must not be the
        one file that trusts that."""
        return without_secrets(self.facts.data.source)

    def _predictions(self, split: str) -> Predictions | None:
        path = self.folder / "predictions" / f"{split}.parquet"
        if not path.is_file():
            return None
        found = read_predictions(
            path,
            self.facts.task.task_type,
            self.facts.model,
            [str(c) for c in self.facts.task.classes],
        )
        if found is None:
            return None
        order = [
            *(m for m in self.models if m in found.scores),
            *(m for m in found.scores if m not in self.models),
        ]
        return replace(found, scores={model: found.scores[model] for model in order})


def without_secrets(text: str) -> str:
    """An address, or a command that holds one, without password.

    >>> without_secrets("postgresql://ann:p@ss@host/shop?sslmode=require&sslpassword=x")
    'postgresql://ann@host/shop?sslmode=require&'
    """
    return _SECRET.sub(lambda found: f"{found['user']}@" if found["user"] else "", text)
