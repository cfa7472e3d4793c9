from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gelgt.errors import TaskError
from gelgt.tasks.predict.parser import parse
from gelgt.tasks.predict.syntax import (
    Aggregate,
    Between,
    Column,
    Comparison,
    IsNull,
    Junction,
    Literal,
    Membership,
    Not,
    aggregates,
    conjuncts,
)

COUNT = Aggregate("COUNT", Column("orders", "*"), 0, 30, "days")


def test_comparison_of_an_aggregate() -> None:
    parsed = parse("predict Count(orders.*, 0, 30, Day) = 0 for each customers.id;")
    assert parsed.target == Comparison(COUNT, "=", Literal(0))
    assert parsed.entity == Column("customers", "id")
    assert parsed.where is None


def test_quoted_names_and_names_that_are_keywords() -> None:
    parsed = parse('PREDICT SUM("my orders"."the ""sum""", 0, 2, weeks) FOR EACH orders.each')
    assert parsed.target == Aggregate("SUM", Column("my orders", 'the "sum"'), 0, 2, "weeks")
    assert parsed.entity == Column("orders", "each")


def test_all_conditions() -> None:
    where = (
        "a = 1 AND b <> 'x' OR NOT (c IN (1, 2) AND d NOT IN ('y')) AND e BETWEEN 1 AND 2.5 "
        "AND f NOT LIKE 'z%' AND g IS NOT NULL AND h = TRUE"
    )
    parsed = parse(f"PREDICT COUNT(orders.*, 0, 30, days) FOR EACH customers.id WHERE {where}")
    first, second = parsed.where.parts  # type: ignore[union-attr]
    assert parsed.where.operator == "OR"  # type: ignore[union-attr]
    assert first == Junction(
        "AND",
        (
            Comparison(Column(None, "a"), "=", Literal(1)),
            Comparison(Column(None, "b"), "!=", Literal("x")),
        ),
    )
    assert second == Junction(
        "AND",
        (
            Not(
                Junction(
                    "AND",
                    (
                        Membership(Column(None, "c"), (Literal(1), Literal(2))),
                        Membership(Column(None, "d"), (Literal("y"),), True),
                    ),
                )
            ),
            Between(Column(None, "e"), Literal(1), Literal(2.5)),
            Comparison(Column(None, "f"), "NOT LIKE", Literal("z%")),
            IsNull(Column(None, "g"), True),
            Comparison(Column(None, "h"), "=", Literal(True)),
        ),
    )


def test_dates_become_utc() -> None:
    parsed = parse(
        "PREDICT COUNT(o.*, 0, 1, day) FOR EACH c.id WHERE x > 2024-01-31 AND y < TIMESTAMP "
        "'2024-01-31T02:00:00+02:00'"
    )
    values = [part.right.value for part in conjuncts(parsed.where)]  # type: ignore[union-attr]
    assert values == [datetime(2024, 1, 31), datetime(2024, 1, 31)]


def test_aggregate_with_condition_and_link() -> None:
    parsed = parse(
        "PREDICT AVG(o.x VIA k WHERE o.y > 1, 5, 10, hours) FOR EACH c.id WHERE MAX(o.x, -INF, "
        "-1, months) < 3"
    )
    assert parsed.target == Aggregate(
        "AVG",
        Column("o", "x"),
        5,
        10,
        "hours",
        Column(None, "k"),
        Comparison(Column("o", "y"), ">", Literal(1)),
    )
    assert aggregates(parsed.where) == [Aggregate("MAX", Column("o", "x"), None, -1, "months")]


def test_the_same_aggregate_twice_is_one() -> None:
    parsed = parse(
        "PREDICT COUNT(orders.*, 0, 30, days) > 0 FOR EACH customers.id WHERE  "
        "COUNT(orders.*,0,30,days) < 9"
    )
    assert aggregates(parsed.target, parsed.where) == [COUNT]


SENTENCE = "PREDICT COUNT(orders.*, 0, 30, days) FOR EACH customers.id"


@pytest.mark.parametrize(
    ("text", "place", "message", "code"),
    [
        (
            "PREDCT x",
            1,
            "Expected PREDICT, but there is 'PREDCT'. Did you mean 'PREDICT'?",
            "bad_sentence",
        ),
        ("PREDICT 5 FOR EACH c.id", 9, "A fixed value cannot be predicted.", "bad_sentence"),
        (
            "PREDICT COUNTS(o.*, 0, 1, day) FOR EACH c.id",
            9,
            "There is no aggregate 'COUNTS'. Did you mean 'COUNT'?",
            "unknown_aggregate",
        ),
        (
            "PREDICT COUNT(o, 0, 1, day) FOR EACH c.id",
            15,
            "'o' is no column of a table. Write 'o.*' or 'o.column'.",
            "bad_sentence",
        ),
        (
            "PREDICT COUNT(o.*, 0, 1, dayz) FOR EACH c.id",
            26,
            "There is no unit 'dayz'. Did you mean 'days'?",
            "unknown_unit",
        ),
        (
            "PREDICT COUNT(o.*, 0, 1.5, days) FOR EACH c.id",
            23,
            "'1.5' is no whole number. Use a smaller unit.",
            "bad_window",
        ),
        (
            "PREDICT COUNT(o.*, 30, 0, days) FOR EACH c.id",
            20,
            "The window from 30 to 0 is empty.",
            "bad_window",
        ),
        (
            "PREDICT COUNT(o.*, -INF, 5, days) FOR EACH c.id",
            20,
            "A window from -INF must end at 0 or before.",
            "bad_window",
        ),
        (
            "PREDICT COUNT(o.*, 0, INF, days) FOR EACH c.id",
            23,
            "Only the start of a window may be infinite, as -INF.",
            "bad_window",
        ),
        (
            "PREDICT COUNT(o.*, zero, 1, days) FOR EACH c.id",
            20,
            "A whole number is expected here, not 'zero'.",
            "bad_window",
        ),
        (
            "PREDICT COUNT(o.* WHER o.x = 1, 0, 1, day) FOR EACH c.id",
            19,
            "Expected ',', but there is 'WHER'. Did you mean 'WHERE'?",
            "bad_sentence",
        ),
        (
            "PREDICT COUNT(o.*, 0, 1, day) FOR EVERY c.id",
            35,
            "Expected EACH, but there is 'EVERY'.",
            "bad_sentence",
        ),
        (
            "PREDICT COUNT(o.*, 0, 1, day) > FOR EACH c.id",
            33,
            "Expected a column, an aggregate or a value, but there is 'FOR'.",
            "bad_sentence",
        ),
        (
            SENTENCE + " WHER x = 1",
            60,
            "Expected the end of the sentence, but there is 'WHER'. Did you mean 'WHERE'?",
            "bad_sentence",
        ),
        (
            SENTENCE + " WHERE x",
            67,
            "Expected a comparison such as '> 0', 'IN (…)' or 'IS NULL', but the sentence ends.",
            "bad_sentence",
        ),
        (
            SENTENCE + " WHERE x = NULL",
            70,
            "Nothing is ever = NULL. Write IS NULL or IS NOT NULL.",
            "bad_sentence",
        ),
        (SENTENCE + " WHERE x IN (1, NULL)", 75, "Nothing is ever IN NULL.", "bad_sentence"),
        (
            SENTENCE + " WHERE x NOT 5",
            72,
            "Expected IN, BETWEEN or LIKE after NOT, but there is '5'.",
            "bad_sentence",
        ),
        (SENTENCE + " WHERE x > 2024-02-31", 70, "'2024-02-31' is no date.", "bad_sentence"),
        (SENTENCE + " WHERE (x > 1", 72, "Expected ')', but the sentence ends.", "bad_sentence"),
        (
            "PREDICT COUNT(o.*, 0, 1, day) AND COUNT(o.*, 0, 1, day) > 1 FOR EACH c.id",
            9,
            "A comparison is missing here.",
            "bad_sentence",
        ),
    ],
)
def test_errors(text: str, place: int, message: str, code: str) -> None:
    with pytest.raises(TaskError) as caught:
        parse(text)
    assert caught.value.code == code
    assert message in str(caught.value)
    lines = str(caught.value).splitlines()
    assert lines[0] == f"At character {place}:"
    assert lines[2].index("^") == place + 1


WORDS = (
    "PREDICT COUNT SUM LIST_DISTINCT orders customers days month FOR EACH WHERE VIA AND OR "
    "NOT IN BETWEEN LIKE IS NULL TRUE DATE"
)
SIGNS = """( ) , . * "my col" 'text' 0 30 -INF 1.5 2024-01-31 = != <= ; ä - " ' """


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from([*WORDS.split(), *SIGNS.split(" ")]), max_size=25), st.booleans())
def test_any_text_is_read_or_refused_with_its_place(pieces: list[str], is_opened: bool) -> None:
    text = " ".join(
        (["PREDICT", "COUNT", "(", "orders", ".", "*", ","] if is_opened else []) + pieces
    )
    refusal = None
    try:
        parse(text)
    except TaskError as error:
        refusal = error.message
    if refusal is not None:
        place = int(refusal.split(":")[0].removeprefix("At character "))
        assert 1 <= place <= len(text) + 1
        assert "^" in refusal
