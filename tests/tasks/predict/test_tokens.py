import pytest

from gelgt.errors import TaskError
from gelgt.tasks.predict.tokens import Span, sentence_error, tokenize


def test_kinds_and_texts() -> None:
    tokens = tokenize(
        """COUNT("my table"."a""b" WHERE x >= -1.5e3 AND s <> 'it''s' """
        "OR d < 2024-01-31T10:00, -INF)"
    )
    assert [(t.kind, t.text) for t in tokens if t.kind not in ("name", "symbol", "end")] == [
        ("quoted", "my table"),
        ("quoted", 'a"b'),
        ("number", "-1.5e3"),
        ("text", "it's"),
        ("date", "2024-01-31T10:00"),
        ("number", "-INF"),
    ]
    assert [t.text for t in tokens if t.kind == "symbol"] == ["(", ".", ">=", "<>", "<", ",", ")"]


def test_spans_point_into_the_sentence() -> None:
    text = "PREDICT  COUNT"
    assert [text[t.span.start : t.span.end] for t in tokenize(text)[:-1]] == ["PREDICT", "COUNT"]


@pytest.mark.parametrize(
    ("text", "caret", "message"),
    [
        (
            "PREDICT my-table.x",
            "          ^",
            "'-' cannot be read here. Put names with other signs",
        ),
        ("PREDICT 'open", "        ^^^^^", "The text that starts here has no closing '."),
        ('PREDICT "open', "        ^^^^^", 'The name that starts here has no closing ".'),
        ("PREDICT 2fast.x", "        ^^^^^", "'2fast' cannot be read here."),
    ],
)
def test_unreadable(text: str, caret: str, message: str) -> None:
    with pytest.raises(TaskError) as caught:
        tokenize(text)
    lines = str(caught.value).splitlines()
    assert lines[1] == "  " + text
    assert lines[2] == "  " + caret
    assert lines[3].startswith(message)


def test_the_line_of_the_error_is_shown() -> None:
    error = sentence_error("x", "Cause.", "PREDICT\nCOUNT(a)", Span(14, 15))
    assert error.message.splitlines() == ["At character 15:", "  COUNT(a)", "        ^", "Cause."]
