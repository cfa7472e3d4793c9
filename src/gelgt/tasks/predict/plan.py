"""What a sentence defines: the kind of task, its type, and how far its labels look ahead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gelgt.schema.model import TableSchema
from gelgt.tasks.predict.binding import Binding
from gelgt.tasks.predict.scope import Meaning
from gelgt.tasks.predict.syntax import (
    AGGREGATES,
    UNITS,
    Aggregate,
    Column,
    Sentence,
    aggregates,
    operands,
)
from gelgt.tasks.task import TaskType

if TYPE_CHECKING:
    from gelgt.sources.database import Database


@dataclass(frozen=True)
class Plan:
    """A sentence bound to a schema.

    Attributes:
        binding: The sentence's names and what they mean.
        column: The target column of an autocomplete task, else None.
        task_type: None where the labels have to decide.
        is_category: The target is a number that names a category.
        seconds: How far the label looks ahead; a month counts 30 days.
        months: How many calendar months it looks ahead, where it is in months.
        destination: (column, table) of a recommendation.
        has_future_condition: Whether a condition on the entity looks at a future window.
    """

    binding: Binding
    column: str | None
    task_type: TaskType | None
    is_category: bool = False
    seconds: int = 0
    months: int = 0
    destination: tuple[str, str] | None = None
    has_future_condition: bool = False

    @property
    def entity(self) -> TableSchema:
        return self.binding.entity

    @property
    def sentence(self) -> Sentence:
        return self.binding.sentence

    @property
    def event_tables(self) -> tuple[str, ...]:
        """The tables whose rows its windows ahead aggregate."""
        return self._tables(self._ahead)

    @property
    def counted_tables(self) -> tuple[str, ...]:
        """Those of them where no row in a window is a value too, such as a count of 0."""
        counts = [a for a in self._ahead if AGGREGATES[a.function].empty is not None]
        return self._tables(counts)

    @property
    def _ahead(self) -> list[Aggregate]:
        found = aggregates(self.sentence.target, *self.binding.conditions)
        return [aggregate for aggregate in found if aggregate.is_future]

    def _tables(self, of: list[Aggregate]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.binding.scope.table(a.column).name for a in of))


def plan_sentence(db: Database, sentence: Sentence) -> Plan:
    """Bind a sentence to a schema and check it; every error points into the sentence."""
    binding = Binding(db, sentence)
    if isinstance(sentence.target, Column):
        return _plan_column(binding, sentence.target)
    return _plan_forecast(binding)


def _plan_column(binding: Binding, target: Column) -> Plan:
    if target.name == "*":
        raise binding.scope.error(
            "bad_target", "A whole row cannot be predicted.", target.span, "Name a column."
        )
    column = binding.scope.column(target, binding.entity, "as a target; aggregate other tables")
    meaning = binding.scope.meaning(binding.entity, column, "e")
    if meaning.type in ("key", "time", "list") or column == binding.entity.time_col:
        raise binding.scope.error(
            "bad_target",
            f"'{binding.entity.name}.{column}' is a {meaning.type}.",
            target.span,
            "Predict a number, a text, or true and false.",
        )
    if binding.entity.time_col is None:
        raise binding.scope.error(
            "no_time",
            f"The table '{binding.entity.name}' has no time, so its rows cannot be split.",
            target.span,
        )
    _check_conditions(binding, future=False)
    kind, category = _value_type(binding.entity, column, meaning)
    return Plan(binding, column, kind, category)


def _plan_forecast(binding: Binding) -> Plan:
    target = binding.sentence.target
    for part in operands(target):
        if isinstance(part, Column):
            raise binding.scope.error(
                "bad_target",
                "A column of the entity is known already.",
                part.span,
                "Compare an aggregate, or predict the column alone.",
            )
        if part.start is None or part.start < 0:
            raise binding.scope.error(
                "bad_window",
                "The window of a target must lie after the seed time.",
                part.span,
                "Start it at 0 or later.",
            )
    kind, category, destination = _target_type(binding)
    if not isinstance(target, Aggregate | Column):
        # types are checked here, not when labels are made
        binding.scope.condition(target, binding.lookup_value)
    _check_conditions(binding, future=True)
    ahead = [a for a in aggregates(target, *binding.conditions) if a.is_future]
    seconds = max(a.end * UNITS[a.unit] for a in ahead)
    months = max((a.end for a in ahead if a.unit == "months"), default=0)
    has_future = any(a.is_future for a in aggregates(*binding.conditions))
    return Plan(binding, None, kind, category, seconds, months, destination, has_future)


def _target_type(binding: Binding) -> tuple[TaskType | None, bool, tuple[str, str] | None]:
    target = binding.sentence.target
    if not isinstance(target, Aggregate):
        return "binary_classification", False, None
    meaning, table = binding.lookup_value(target), binding.scope.table(target.column)
    if target.function == "LIST_DISTINCT":
        assert meaning.key_table is not None
        column = binding.scope.column(target.column, table, "here")
        return "recommendation", False, (column, meaning.key_table)
    if meaning.type in ("key", "time", "list"):
        raise binding.scope.error(
            "bad_target",
            f"{target.function} of a {meaning.type} cannot be predicted.",
            target.span,
            "Predict a number, a text, or true and false.",
        )
    if target.function in ("FIRST", "LAST"):
        kind, category = _value_type(
            table, binding.scope.column(target.column, table, "here"), meaning
        )
        return kind, category, None
    if meaning.type == "text":
        raise binding.scope.error(
            "bad_target",
            f"{target.function} of a text cannot be predicted.",
            target.span,
            "Use FIRST or LAST.",
        )
    return "regression", False, None


def _value_type(table: TableSchema, column: str, meaning: Meaning) -> tuple[TaskType | None, bool]:
    if meaning.type == "boolean":
        return "binary_classification", False
    if meaning.type == "text":
        return "multiclass_classification", False
    kind = table.kinds.get(column)
    if kind is not None and kind.kind == "categorical":
        return None, True
    return "regression", False


def _check_conditions(binding: Binding, future: bool) -> None:
    for condition in binding.conditions:
        for aggregate in aggregates(condition):
            if aggregate.is_future and not future:
                raise binding.scope.error(
                    "bad_window",
                    "A column is predicted at the time of its row, so nothing later can be used.",
                    aggregate.span,
                    "Use a window that ends at 0 or before.",
                )
        binding.scope.condition(condition, binding.lookup_entity)
