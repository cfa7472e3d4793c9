"""A position among the tokens of a sentence: words, signs and values are read one after the
other."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from gelgt.errors import TaskError, did_you_mean
from gelgt.tasks.predict.syntax import Literal
from gelgt.tasks.predict.tokens import Span, Token, sentence_error, tokenize


class Reader:
    """Reads the tokens of a sentence; every error points at its place in the text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokenize(text)
        self.place = 0

    @property
    def token(self) -> Token:
        return self.tokens[self.place]

    def advance(self) -> Token:
        token = self.tokens[self.place]
        self.place = min(self.place + 1, len(self.tokens) - 1)
        return token

    def accept(self, word: str) -> bool:
        """Pass over a keyword if it comes next."""
        if self.token.kind == "name" and self.token.text.upper() == word:
            self.place += 1
            return True
        return False

    def keyword(self, word: str) -> Token:
        """Pass over a keyword that must come next."""
        token = self.token
        if not self.accept(word):
            raise self.unexpected(word, (word,))
        return token

    def symbol(self, sign: str, words: Iterable[str] = ()) -> Token:
        """Pass over a sign that must come next."""
        token = self.token
        if not self.symbol_if(sign):
            raise self.unexpected(f"'{sign}'", words)
        return token

    def symbol_if(self, sign: str) -> bool:
        """Pass over a sign if it comes next."""
        if self.token.kind == "symbol" and self.token.text == sign:
            self.place += 1
            return True
        return False

    def name(self, what: str) -> Token:
        if self.token.kind not in ("name", "quoted"):
            raise self.unexpected(what, ())
        return self.advance()

    def values(self) -> tuple[Literal, ...]:
        """A list of values in parentheses."""
        self.symbol("(")
        literals = [self.literal()]
        while self.symbol_if(","):
            literals.append(self.literal())
        self.symbol(")")
        return tuple(literals)

    def literal(self) -> Literal:
        """A number, a text, a time, TRUE or FALSE."""
        token = self.advance()
        word = token.text.upper()
        if token.kind == "text":
            return Literal(token.text, token.span)
        if token.kind == "number" and not word.endswith("INF"):
            is_whole = token.text.lstrip("+-").isdigit()
            return Literal(int(token.text) if is_whole else float(token.text), token.span)
        if token.kind == "date":
            return Literal(self.time(token), token.span)
        if token.kind == "name" and word in ("TRUE", "FALSE"):
            return Literal(word == "TRUE", token.span)
        if token.kind == "name" and word in ("DATE", "TIMESTAMP") and self.token.kind == "text":
            text = self.advance()
            return Literal(self.time(text), token.span.to(text.span))
        self.place -= 1
        self.refuse_null("IN")
        raise self.unexpected("a value: a number, a 'text', a date, TRUE or FALSE", ())

    def time(self, token: Token) -> datetime:
        try:
            time = datetime.fromisoformat(token.text.strip())
        except ValueError:
            raise self.error(
                f"'{token.text}' is no date.",
                token.span,
                "Write it like 2025-09-01 or '2025-09-01 12:00:00'.",
            ) from None
        return time.astimezone(UTC).replace(tzinfo=None) if time.tzinfo else time

    def at_literal_word(self) -> bool:
        """Whether the next word is a value: TRUE, FALSE, DATE '…' or TIMESTAMP '…'."""
        following = self.tokens[min(self.place + 1, len(self.tokens) - 1)]
        word = self.token.text.upper() if self.token.kind == "name" else ""
        return (word in ("TRUE", "FALSE") and following.text != ".") or (
            word in ("DATE", "TIMESTAMP") and following.kind == "text"
        )

    def refuse_null(self, operator: str) -> None:
        """A comparison with NULL is never true, so it is an error."""
        if self.token.kind == "name" and self.token.text.upper() == "NULL":
            raise self.error(
                f"Nothing is ever {operator} NULL.",
                self.token.span,
                "Write IS NULL or IS NOT NULL.",
            )

    def unexpected(self, expected: str, words: Iterable[str]) -> TaskError:
        """An error for the next token; a hint names the nearest of some words that may stand
        here."""
        token, possible = self.token, list(words)
        got = f"there is '{self.text[token.span.start : token.span.end]}'"
        if token.kind == "end":
            got = "the sentence ends"
        hint = did_you_mean(token.text, possible) if possible and token.kind == "name" else ""
        return self.error(
            f"Expected {expected}, but {got}.", token.span, hint if hint.startswith("Did") else ""
        )

    def error(
        self, cause: str, span: Span, hint: str = "", code: str = "bad_sentence"
    ) -> TaskError:
        return sentence_error(code, cause, self.text, span, hint)
