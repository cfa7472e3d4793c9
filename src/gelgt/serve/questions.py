"""What a request asks, checked: JSON bodies, or an Arrow stream of (key, time) rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
)

from gelgt.errors import GelgtError
from gelgt.inference import Recommend
from gelgt.serve.served import Served
from gelgt.tasks.keys import key_names
from gelgt.tasks.times import seconds, timestamp

# A key as the source has it: a number or a text; where keys have several parts, a list of them in
# order, or an object by name.
Part = StrictInt | StrictFloat | StrictStr
Key = Annotated[
    Part | list[Part] | dict[str, Part],
    Field(description="A key of the entity table, as the source holds it."),
]
Time = Annotated[
    str,
    Field(
        max_length=64,
        description="A seed time, such as 2026-11-01 or 2026-11-01T12:00:00Z; rows at or after it "
        "are not seen.",
    ),
]


class Body(BaseModel):
    """A JSON object without other keys."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Row(Body):
    """One entity at a time of its own."""

    entity: Key
    time: Time


class Asking(Body):
    """Whom a request is about."""

    entities: list[Key] | None = Field(None, min_length=1, description="Keys of entities.")
    at: Time | None = Field(None, description="Their seed time; now if it is left out.")
    rows: list[Row] | None = Field(
        None, min_length=1, description="Instead of `entities` and `at`: each with its own time."
    )


class PredictionBody(Asking):
    """Which predictions are asked for."""

    interval: float | None = Field(
        None, description="The level of intervals beside numbers, such as 0.9."
    )


class RecommendationBody(Asking):
    """Which recommendations are asked for."""

    k: int | None = Field(None, ge=1, le=1000, description="How many rows for each entity.")
    new_only: bool = Field(False, description="Nothing that the entity has had before.")
    allowed: list[Key] | None = Field(
        None, min_length=1, description="Only these rows may be recommended."
    )


class ExplanationBody(Body):
    """Which prediction is explained."""

    entity: Key
    at: Time | None = None
    counterfactual: bool = Field(
        False, description="Also look for the fewest rows whose absence turns the decision."
    )


class LookAlikeBody(Body):
    """Who is alike."""

    entity: Key
    at: Time | None = None
    k: int = Field(10, ge=1, le=100)


@dataclass(frozen=True)
class Question:
    """Entities at times, and what is asked about them.

    Attributes:
        entities: The user's keys.
        times: Seconds since 1970; None where the row's own time counts.
        interval: The level of intervals.
        recommend: What may be recommended.
        notices: What there is to say about the times.
    """

    entities: tuple[Any, ...]
    times: tuple[int | None, ...]
    interval: float | None = None
    recommend: Recommend | None = None
    notices: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        return len(self.entities)


def parse(kind: type[BaseModel], body: bytes) -> Any:
    """A JSON body as one of the classes above.

    Raises:
        GelgtError: ``bad_request``, with the first thing that is wrong.
    """
    try:
        return kind.model_validate_json(body or b"{}")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"][:4])
        what = f"{where}: {first['msg']}" if where else str(first["msg"])
        raise GelgtError(
            "bad_request",
            f"The body does not fit: {what}.",
            hint="GET /openapi.json says what does.",
        ) from None


def question_of(served: Served, body: Asking, most: int) -> Question:
    """The question of a body.

    Raises:
        GelgtError: ``bad_request``, ``too_many_rows``, ``bad_time``.
    """
    if (body.rows is None) == (body.entities is None):
        raise GelgtError(
            "bad_request",
            "A request names entities, or rows of entity and time.",
            hint="Give one of 'entities' and 'rows'.",
        )
    if body.rows is not None:
        if body.at is not None:
            raise GelgtError("bad_request", "Rows bring their own times.", hint="Leave 'at' out.")
        check_size(len(body.rows), most)
        entities = tuple(key_of(row.entity) for row in body.rows)
        times: tuple[int | None, ...] = tuple(second_of(row.time) for row in body.rows)
        return Question(entities, times)
    assert body.entities is not None
    check_size(len(body.entities), most)
    second, notices = time_of(served, body.at)
    entities = tuple(key_of(key) for key in body.entities)
    return Question(entities, (second,) * len(entities), notices=notices)


def arrow_question(served: Served, body: bytes, most: int) -> Question:
    """The question of an Arrow stream: key columns, and a column ``time`` or none."""
    from gelgt.serve.arrow import read_stream

    table = read_stream(body, most)
    task = served.predictor.task
    names = key_names(served.predictor.db, task.entity_table)
    missing = [name for name in names if name not in table.column_names]
    if missing or not table.num_rows:
        what = f"The table has no column '{missing[0]}'." if missing else "The table has no rows."
        raise GelgtError(
            "bad_request", what, hint=f"Send the columns {', '.join([*names, 'time'])}."
        )
    parts = [table.column(name).to_pylist() for name in names]
    entities = tuple(parts[0]) if len(parts) == 1 else tuple(zip(*parts))
    if "time" not in table.column_names or "time" in names:
        second, notices = time_of(served, None)
        return Question(entities, (second,) * len(entities), notices=notices)
    times = tuple(second_of(value) for value in table.column("time").to_pylist())
    return Question(entities, times)


def time_of(served: Served, at: str | None) -> tuple[int | None, tuple[str, ...]]:
    """A seed time in seconds since 1970, and what there is to say about it."""
    return served.default_time() if at is None else (second_of(at), ())


def second_of(value: Any) -> int:
    try:
        return seconds(timestamp(value, "prediction time"))
    except (OverflowError, ArithmeticError):
        raise GelgtError(
            "bad_time",
            f"The prediction time {value!r} is outside of what can be computed with.",
            hint="Write it like '2025-09-01' or '2025-09-01T12:00:00'.",
        ) from None


def key_of(key: Any) -> Any:
    """A key as `Predictor` takes it."""
    if isinstance(key, list):
        return tuple(key)
    return dict(key) if isinstance(key, Mapping) else key


def check_size(rows: int, most: int) -> None:
    if rows > most:
        raise GelgtError(
            "too_many_rows",
            f"A request has at most {most:,} entities, got {rows:,}.",
            hint="Ask in several requests, or use gelgt predict for all of them.",
        )
