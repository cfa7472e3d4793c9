"""What a model is, for `GET /v1/model` and the page: task, scores beside baselines, data."""

import html
import re
from dataclasses import asdict
from typing import Any

from gelgt import __version__
from gelgt.calibration import ProbabilityMap
from gelgt.errors import GelgtError
from gelgt.report.html import code
from gelgt.report.run import Run
from gelgt.report.sections import (
    calibration,
    coverage,
    explanation,
    outcome,
    recommendation,
    scores,
)
from gelgt.report.sections.explanation import FILE
from gelgt.report.sections.headline import task_words, verdict
from gelgt.runs.folder import read_json
from gelgt.serve.served import Served
from gelgt.serve.settings import ServeSettings
from gelgt.tasks.keys import key_names

SHOWN = 20  # history columns and paths


def model_card(served: Served, settings: ServeSettings) -> dict[str, Any]:
    """The card of a run on its source; without addresses and paths."""
    record, predictor = served.run.record, served.predictor
    task = predictor.task
    return {
        "gelgt": __version__,
        "run": served.run.folder.name,
        "model": record.model,
        "preset": record.preset,
        "seed": record.seed,
        "regime": record.regime,
        "task": {
            "name": task.name,
            "type": record.task.task_type,
            "words": _text(task_words(Run(served.run.folder))),
            "sentence": task.sentence,
            "sql": task.sql,
            "entity_table": task.entity_table,
            "key": key_names(predictor.db, task.entity_table),
            "window": None if task.timedelta is None else str(task.timedelta),
            "classes": record.task.classes,
            "recommends": task.dst_entity_table,
            "k": task.eval_k,
            "has_own_times": task.kind == "autocomplete",
        },
        "metric": record.metric,
        "metrics": record.metrics,
        "baselines": record.baselines,
        "parts": record.parts,
        "tree_share": record.tree_share,
        "rows": record.task.rows,
        "calibration": _calibration(record.probabilities),
        "intervals": {level: c.to_dict() for level, c in record.intervals.items()},
        "looks_at": _looks_at(served),
        "schema": _schema(served),
        "data": served.data,
        "example": served.example,
        "limits": {
            "entities": settings.rows,
            "body_bytes": settings.body_bytes,
            "seconds": settings.time_limit,
        },
    }


def _calibration(probabilities: ProbabilityMap | None) -> dict[str, Any] | None:
    return None if probabilities is None else asdict(probabilities)


def card_html(served: Served) -> str:
    """The sections of the report that say what the model does, and how well."""
    run = Run(served.run.folder)
    sentence = code(run.record.task.sentence) if run.record.task.sentence else ""
    head = f'<p class="lead">{task_words(run)}</p>{sentence}<p class="lead">{verdict(run)}</p>'
    modules = (scores, recommendation, outcome, calibration, coverage, explanation)
    made = [module.section(run) for module in modules]
    return head + "".join(section.html() for section in made if section is not None)


def _text(markup: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", markup))


def _looks_at(served: Served) -> dict[str, Any]:
    """What the model reads: the strongest history columns, and what an explanation of the whole
    model found, where there is one."""
    history = served.run.record.history
    columns = [] if history is None else sorted(history.columns, key=lambda c: -c.gain)[:SHOWN]
    path, paths = served.run.folder / FILE, []
    if path.is_file():
        try:
            paths = read_json(path).get("paths", [])[:SHOWN]
        except GelgtError:  # it is no part of the run, and was changed by others
            paths = []
    return {"columns": [{"name": c.name, "gain": c.gain} for c in columns], "paths": paths}


def _schema(served: Served) -> dict[str, Any]:
    db = served.predictor.db
    return {
        name: {
            "rows": db.num_rows(name),
            "key": key_names(db, name),
            "time": table.time_col,
            "foreign_keys": {key.column: key.table for key in table.foreign_keys},
            "columns": {c: kind.kind for c, kind in table.kinds.items()},
        }
        for name, table in db.schema.tables.items()
    }
