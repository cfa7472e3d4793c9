"""A study: variants × tasks × seeds → run folders → one table. Every table of the paper that needs
training is one.

OUT/TASK/VARIANT/seed-N     a run each; VARIANT says what was changed, so that studies in one folder
                            share their runs
OUT/STUDY.json              what was run, on what, with which scores, and what failed
OUT/STUDY.md                the same as tables
OUT/STUDY-TASK.svg          the same as charts
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gelgt.config import Visibility
from gelgt.presets import RunConfig

Settings = Callable[[RunConfig], Mapping[str, Any]]


def fixed(changes: Mapping[str, Any]) -> Settings:
    """Settings that do not depend on the preset's."""
    return lambda base: changes


@dataclass(frozen=True)
class Variant:
    """One column of a table.

    Attributes:
        name: As the table calls it.
        kind: A registered model, or a baseline.
        settings: What differs from the preset, given the preset's own values.
        tasks: The types of task it is for; empty for all.
        against: The variant that it is compared with, if not the study's reference.
    """

    name: str
    kind: str = "gelgt"
    settings: Settings = lambda base: {}
    tasks: tuple[str, ...] = ()
    against: str = ""


@dataclass(frozen=True)
class Study:
    """What is compared, and with what.

    Attributes:
        name: Of the command and its files.
        title: What it asks.
        variants: The columns.
        reference: The variant that the others are compared with.
        axis: What numbers the variants stand for, where they are points of a curve.
        points: Those numbers, one for each variant.
    """

    name: str
    title: str
    variants: tuple[Variant, ...]
    reference: str
    axis: str = ""
    points: tuple[float, ...] = ()

    @property
    def against(self) -> dict[str, str]:
        """For each variant, the one that it is compared with."""
        return {variant.name: variant.against or self.reference for variant in self.variants}


@dataclass(frozen=True)
class StudyConfig:
    """How a study is run; the same options for all of them.

    Attributes:
        out: Folder of the runs and tables.
        preset: Of every run.
        seeds: Random seeds, a run each.
        settings: Changes to the preset, by path.
        budget: Seconds for each run, at most; None for no limit.
        visibility: The regime; None for the database's default.
        device: ``auto``, ``cpu``, ``cuda``, …
        jobs: Runs at once.
        command: What the user typed.
        limits_all: Whether the budget is also that of baselines.
        peer_python: The Python that peers run in.
    """

    out: Path
    preset: str = "cpu"
    seeds: Sequence[int] = (0, 1, 2)
    settings: Mapping[str, Any] = field(default_factory=dict)
    budget: float | None = None
    visibility: Visibility | None = None
    device: str = "auto"
    jobs: int = 1
    command: str = ""
    limits_all: bool = False
    peer_python: str = sys.executable
