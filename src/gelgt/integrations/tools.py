"""`RunTools`: what a program may ask about some runs, with answers of bounded size.

Whoever asks sees tables, columns, keys and predictions, but not the address of the source.
"""

from collections.abc import Mapping
from typing import Any

from gelgt.errors import GelgtError, did_you_mean
from gelgt.explain import Explainer
from gelgt.inference import Predictor, Recommend
from gelgt.integrations.held import HeldPredictor
from gelgt.runs.record import RunRecord
from gelgt.schema.report import inspect
from gelgt.sources.cached_findings import findings_of

MAX_ENTITIES = 200  # that one call predicts for
MAX_RANKED = 50_000  # entities among which the highest or lowest are looked for
MAX_ROWS = 1_000  # of an answer: entities times recommendations
MAX_LISTED = 100  # tables, columns of a table, findings
MAX_EFFECTS = 20
_TABLE = ("rows", "primary_key", "time_column", "dated_by", "time_range", "foreign_keys")
_EFFECT = ("kind", "table", "path", "key", "column", "value", "time", "rows", "effect", "text")


class RunTools:
    """The tools of `gelgt mcp` over runs by name; nothing is written.

    Args:
        held: The runs, each on its source.
    """

    def __init__(self, held: Mapping[str, HeldPredictor]) -> None:
        self.held = dict(held)

    def inspect(self, run: str | None = None) -> dict[str, Any]:
        """Tables, keys, time columns and column kinds of a run's source, and what looks wrong."""
        with self._of(run).use() as predictor:
            report = inspect(predictor.db, findings_of(predictor.db))
        tables, rest = _cut_mapping(report["tables"])
        return {
            "name": report["name"],
            "tables": {name: _table(table) for name, table in tables.items()},
            "tables_left_out": rest,
            "findings": report["findings"][:MAX_LISTED],
        }

    def task(self, run: str | None = None) -> dict[str, Any]:
        """What runs predict, and how well: of one, or of all where several have no name given."""
        chosen = self.held if run is None else {run: self._of(run)}
        return {"runs": {name: task_facts(held.run.record) for name, held in chosen.items()}}

    def predict(
        self,
        run: str | None = None,
        entities: list[Any] | None = None,
        at: str | None = None,
        *,
        k: int | None = None,
        interval: float | None = None,
        order: str = "highest",
        limit: int = 20,
    ) -> dict[str, Any]:
        """Predictions for some entities at a time, or the highest or lowest among all eligible.

        Raises:
            GelgtError: as in `Predictor.predict`; ``too_many_rows``.
        """
        with self._of(run).use() as predictor:
            _check_size(predictor, entities, k, limit)
            chosen = predictor.seeds(entities, at)
            if entities is None and len(chosen) > MAX_RANKED:
                raise GelgtError(
                    "too_many_rows",
                    f"{len(chosen):,} entities are eligible; {MAX_RANKED:,} can be ranked here.",
                    hint="Name entities, or write all with: gelgt predict RUN --all --out FILE",
                )
            asked = Recommend(k)
            made = predictor.predict(entities, at, None, asked, interval)
        table = made.table
        if entities is None:
            table = _ranked(table, order).slice(0, limit)
        return {
            "eligible": len(chosen) if entities is None else None,
            "predictions": table.to_pylist(),
            "notices": list(made.notices),
        }

    def explain(self, run: str | None = None, entity: Any = None, at: str | None = None) -> Any:
        """Why one entity gets its prediction at a time: the strongest effects, measured by
        deletion; of recommendations the reasons for each."""
        if entity is None:
            raise GelgtError(
                "bad_option",
                "An explanation is of one entity.",
                hint="Give entity, a key of the entity table.",
            )
        with self._of(run).use() as predictor:
            if predictor.run.target.task_type == "recommendation":
                from gelgt.explain.item_reasons import explain_list

                return explain_list(predictor, entity, at).to_dict()
            why = Explainer(predictor).explain(entity, at).to_dict()
        left_out = max(0, len(why["effects"]) - MAX_EFFECTS)
        names = ("entity", "table", "at", "what", "prediction", "base", "base_rate", "sentences")
        return {
            **{name: why[name] for name in names},
            "effects": [
                {name: effect[name] for name in _EFFECT} for effect in why["effects"][:MAX_EFFECTS]
            ],
            "effects_left_out": left_out,
            "check": why["check"],
            "notices": why["notices"],
        }

    def _of(self, run: str | None) -> HeldPredictor:
        if run is None and len(self.held) == 1:
            return next(iter(self.held.values()))
        if run is None:
            names = ", ".join(f"'{name}'" for name in self.held)
            raise GelgtError(
                "missing_option", "Several runs are served.", hint=f"Give run, one of {names}."
            )
        if run not in self.held:
            raise GelgtError(
                "unknown_run", f"There is no run '{run}'.", hint=did_you_mean(run, self.held)
            )
        return self.held[run]


def task_facts(record: RunRecord) -> dict[str, Any]:
    """What a run predicts, its regime, and its scores beside those of its parts and baselines."""
    task = record.task
    return {
        "task": task.sentence or task.name,
        "task_type": task.task_type,
        "entity_table": task.entity_table,
        "timedelta": task.timedelta,
        "classes": task.classes[:MAX_LISTED],
        "val_timestamp": task.val_timestamp,
        "test_timestamp": task.test_timestamp,
        "rows": task.rows,
        "regime": record.regime,
        "metric": record.metric,
        "metrics": record.metrics,
        "parts": record.parts,
        "baselines": record.baselines,
        "tables": dict(list(record.data.tables.items())[:MAX_LISTED]),
        "versions": {"gelgt": record.versions.get("gelgt")},
    }


def _table(table: Mapping[str, Any]) -> dict[str, Any]:
    columns, rest = _cut_mapping(table["columns"])
    kinds = {name: entry["kind"] for name, entry in columns.items()}
    return {**{n: table[n] for n in _TABLE}, "columns": kinds, "columns_left_out": rest}


def _cut_mapping(content: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    kept = dict(list(content.items())[:MAX_LISTED])
    return kept, len(content) - len(kept)


def _check_size(
    predictor: Predictor, entities: list[Any] | None, k: int | None, limit: int
) -> None:
    is_list = predictor.run.target.task_type == "recommendation"
    if entities is None and predictor.run.target.task_type not in (
        "binary_classification",
        "regression",
    ):
        raise GelgtError(
            "missing_option",
            "The predictions of this run have no highest and lowest.",
            hint=f"Give entities, keys of '{predictor.task.entity_table}'.",
        )
    if not 1 <= limit <= MAX_ENTITIES:
        raise GelgtError(
            "bad_option", f"limit is {limit}.", hint=f"Ask for 1 to {MAX_ENTITIES} predictions."
        )
    count = len(entities or ())
    if count > MAX_ENTITIES or (is_list and count * (k or predictor.task.eval_k or 1) > MAX_ROWS):
        most = f"{MAX_ENTITIES} entities" + (f" and {MAX_ROWS:,} rows" if is_list else "")
        raise GelgtError(
            "too_many_rows",
            f"{count:,} entities were asked for; one answer holds {most}.",
            hint="Ask for fewer at a time, or use: gelgt predict RUN --entities @FILE --out FILE",
        )


def _ranked(table: Any, order: str) -> Any:
    """A table of predictions, the highest or lowest first."""
    directions = {"highest": "descending", "lowest": "ascending"}
    if order not in directions:
        raise GelgtError("bad_option", f"order is '{order}'.", hint=did_you_mean(order, directions))
    column = "probability" if "probability" in table.column_names else "prediction"
    return table.sort_by([(column, directions[order])])
