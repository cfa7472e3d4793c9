"""Which cells a study consists of: a configuration and a folder for each variant, task and seed."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from gelgt.bench.cells import LABEL_SETTINGS, NOT_MODELS, SEEDLESS, Cell
from gelgt.bench.study import Study, StudyConfig, Variant
from gelgt.errors import GelgtError
from gelgt.presets import RunConfig
from gelgt.tasks import Task
from gelgt.training.regime import in_regime


def study_cells(study: Study, tasks: Sequence[Task], config: StudyConfig) -> list[Cell]:
    """Every cell of a study, task by task, the seeds of a variant after each other."""
    check_settings(study, config)
    cells: list[Cell] = []
    for task in tasks:
        for variant in study.variants:
            if variant.tasks and task.task_type not in variant.tasks:
                continue
            base, changed = _variant_config(study, variant, task, config)
            for seed in config.seeds if variant.kind not in SEEDLESS else config.seeds[:1]:
                run = in_regime(base.with_values("set", train__seed=seed), task, config.visibility)
                name = _folder_name(variant, changed, run, config)
                folder = config.out / task.name / name / f"seed-{seed}"
                # A variant that removes what this preset does not have is the same run as another:
                # shown twice it would look like a result.
                if all(cell.folder != folder for cell in cells):
                    limit = config.budget if config.limits_all else None
                    cells.append(
                        Cell(task.name, variant.name, variant.kind, seed, run, folder, limit)
                    )
    return cells


def check_settings(study: Study, config: StudyConfig) -> None:
    """Raises for a setting that no variant of the study has."""
    kinds = [
        kind for kind in dict.fromkeys(v.kind for v in study.variants) if kind not in NOT_MODELS
    ] or ["gelgt"]
    for path, value in config.settings.items():
        if not any(path in _settings_of(config.settings, kind) for kind in kinds):
            RunConfig.of(config.preset, None, {path: value}, kinds[0])  # raises with a hint
    if "train.seed" in config.settings:
        raise GelgtError(
            "bad_option",
            "train.seed cannot be set: --seeds N trains with the seeds 0 to N - 1.",
            hint="Leave it out.",
        )


def setting(config: RunConfig, path: str) -> Any:
    """The value of a setting such as ``model.width``; None where the model has none."""
    section, _, key = path.partition(".")
    return getattr(getattr(config, section), key, None)


def _variant_config(
    study: Study, variant: Variant, task: Task, config: StudyConfig
) -> tuple[RunConfig, dict[str, Any]]:
    """The configuration of a variant, and what of it the variant changed. A baseline learns the
    labels that the study's first model learns."""
    is_baseline = variant.kind in NOT_MODELS
    kind = variant.kind
    if is_baseline:
        kind = next((v.kind for v in study.variants if v.kind not in NOT_MODELS), "gelgt")
    settings = _settings_of(config.settings, kind)
    if is_baseline:
        settings = {path: value for path, value in settings.items() if path in LABEL_SETTINGS}
    if config.budget is not None or "train.time_limit" not in settings:
        settings["train.time_limit"] = config.budget  # without one, a figure depends on no clock
    base = RunConfig.of(config.preset, task.task_type, settings, kind)
    # a value that the preset already has is no change: such a run is shared with other studies
    changed = {
        path: value
        for path, value in variant.settings(base).items()
        if setting(base, path) != value
    }
    return RunConfig.of(config.preset, task.task_type, settings | changed, kind), changed


def _settings_of(settings: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Those settings that a kind of model has."""
    origins = RunConfig.of("cpu", None, {}, kind).origins
    return {path: value for path, value in settings.items() if path in origins}


def _folder_name(
    variant: Variant, changed: Mapping[str, Any], run: RunConfig, config: StudyConfig
) -> str:
    """A name that says what the runs in a folder have in common, and no other runs."""
    if variant.kind in NOT_MODELS:
        paths = () if variant.kind == "entity-mean" else LABEL_SETTINGS
        labels = [f"{path.partition('.')[2]}={_word(setting(run, path))}" for path in paths]
        if config.limits_all and config.budget is not None:
            labels.append(f"{config.budget:g}s")
        return "-".join([variant.kind, run.sampling.visibility, *labels])
    parts = [
        variant.kind,
        *(f"{path.partition('.')[2]}={_word(value)}" for path, value in sorted(changed.items())),
        run.preset,
        run.sampling.visibility,
    ]
    if config.budget is not None:
        parts.append(f"{config.budget:g}s")
    if config.settings:
        text = json.dumps(dict(sorted(config.settings.items())), default=str)
        parts.append(hashlib.blake2b(text.encode(), digest_size=4).hexdigest())
    return "-".join(parts)


def _word(value: Any) -> str:
    return re.sub(r"[^\w.]+", "_", "none" if value is None else str(value))
