"""Cuts a PREDICT sentence into tokens with their positions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from gelgt.errors import TaskError

TokenKind = Literal["name", "quoted", "text", "number", "date", "symbol", "end"]


@dataclass(frozen=True)
class Span:
    """A stretch of the sentence: its first character and the one after its last."""

    start: int
    end: int

    def to(self, other: Span) -> Span:
        return Span(self.start, other.end)


@dataclass(frozen=True)
class Token:
    """One word, value or sign; `text` is without quotes."""

    kind: TokenKind
    text: str
    span: Span


_PATTERN = re.compile(
    r"""(?P<space>\s+)
    |(?P<quoted>"(?:[^"]|"")*")
    |(?P<text>'(?:[^']|'')*')
    |(?P<date>\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:\d{2})?)?(?!\w))
    |(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?!\w)|[+-]?(?i:inf)(?!\w))
    |(?P<name>[^\W\d]\w*)
    |(?P<symbol><=|>=|<>|!=|[(),.*=<>;])""",
    re.VERBOSE,
)


def tokenize(sentence: str) -> list[Token]:
    """The tokens of a sentence, closed by one of the kind `end`.

    Example:
        >>> [t.text for t in tokenize("COUNT(orders.*, 0, 30, days) >= 2")][:6]
        ['COUNT', '(', 'orders', '.', '*', ',']
    """
    tokens: list[Token] = []
    place = 0
    while place < len(sentence):
        match = _PATTERN.match(sentence, place)
        if match is None:
            raise _unreadable(sentence, place)
        place = match.end()
        kind, text = match.lastgroup, match.group()
        if kind == "space":
            continue
        if kind in ("quoted", "text"):
            text = text[1:-1].replace(text[0] * 2, text[0])
        tokens.append(Token(kind, text, Span(*match.span())))  # type: ignore[arg-type]
    end = len(sentence.rstrip())
    return [*tokens, Token("end", "", Span(end, end + 1))]


def _unreadable(sentence: str, place: int) -> TaskError:
    sign = sentence[place]
    if sign in "\"'":
        what = "name" if sign == '"' else "text"
        return sentence_error(
            "bad_sentence",
            f"The {what} that starts here has no closing {sign}.",
            sentence,
            Span(place, len(sentence.rstrip())),
        )
    end = place + 1
    if sign.isdigit():
        end = re.compile(r"\w+").match(sentence, place).end()  # type: ignore[union-attr]
    hint = 'Put names with other signs than letters, digits and _ in double quotes: "my-table".'
    return sentence_error(
        "bad_sentence",
        f"'{sentence[place:end]}' cannot be read here.",
        sentence,
        Span(place, end),
        hint,
    )


def sentence_error(code: str, cause: str, sentence: str, span: Span, hint: str = "") -> TaskError:
    """An error that shows the place in the sentence.

    Example:
        >>> text, span = "PREDICT COUNT(oders.*)", Span(14, 19)
        >>> print(sentence_error("unknown_table", "There is no table 'oders'.", text, span))
        At character 15:
          PREDICT COUNT(oders.*)
                        ^^^^^
        There is no table 'oders'.
    """
    start = sentence.rfind("\n", 0, span.start) + 1
    stop = sentence.find("\n", span.start)
    line = sentence[start : len(sentence) if stop < 0 else stop].replace("\t", " ")
    width = max(1, min(span.end, start + max(len(line), span.start - start + 1)) - span.start)
    return TaskError(
        code,
        f"At character {span.start + 1}:\n  {line}\n  "
        f"{' ' * (span.start - start)}{'^' * width}\n{cause}",
        hint,
    )
