"""Conditions on the metadata of documents, such as `year >= 2020 and lang = 'en'`, as SQL that can do nothing else.

    condition   = and-part { "or" and-part }
    and-part    = not-part { "and" not-part }
    not-part    = "not" not-part | "(" condition ")" | comparison
    comparison  = field ( "=" | "!=" | "<" | "<=" | ">" | ">=" ) value
                | field [ "not" ] "in" "(" value { "," value } ")"
                | field "contains" value
                | field "is" [ "not" ] "null"
    field       = name { "." name }        a name is letters, digits, _ and -, or anything in double quotes
    value       = number | 'text' | true | false        a quote inside text is written twice

A comparison holds only for a value of the same kind: a number is never less than a text or greater, nor equal to it.
It does not hold for a document without the field; `!=` and `not in` are `not` of the opposite, so they do. `contains`
is for lists. Texts compare by code point. Keywords may be in capitals.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

Value = str | int | float | bool

_TOKEN = re.compile(
    r"""\s*(?:(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]))|(?P<text>'(?:[^']|'')*')
    |(?P<quoted>"[^"\0]+")|(?P<word>[^\W\d][\w-]*)|(?P<sign><=|>=|!=|[=<>(),.]))""",
    re.VERBOSE,
)
_KEYWORDS = {"and", "or", "not", "in", "is", "null", "contains", "true", "false"}
_COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
_KINDS = {bool: ("true", "false"), str: ("text",), int: ("integer", "real"), float: ("integer", "real")}
_MAX_DEPTH = 10  # SQLite's parser, with a stack of 100, takes 12 where each level has an "or" and an "and"
_MAX_VALUES = 300  # well below what SQLite takes in one expression


@dataclass(frozen=True, slots=True)
class Where:
    """A condition as an SQL expression over a column `metadata`; every name and value in it is a bound parameter."""

    sql: str
    parameters: tuple[str | int | float, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "Where":
        """Read a condition. Raises ValueError that shows where it stops being one."""
        return _Parser(text).whole()


class _Token(NamedTuple):
    kind: str
    text: str
    position: int


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._next = 0
        self._depth = 0
        self._values = 0

    def whole(self) -> Where:
        condition = self._joined("or", lambda: self._joined("and", self._negation))
        if self._peek().kind != "end":
            self._fail("'and', 'or' or the end")
        return condition

    def _joined(self, word: str, part: Callable[[], Where]) -> Where:
        parts = [part()]
        while self._took(word):
            parts.append(part())
        if len(parts) == 1:
            return parts[0]
        sql = f" {word.upper()} ".join(f"({part.sql})" for part in parts)
        return Where(sql, tuple(parameter for part in parts for parameter in part.parameters))

    def _negation(self) -> Where:
        negated = self._took("not")
        if not (negated or self._took("(")):
            return self._comparison()
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            self._fail(f"at most {_MAX_DEPTH} levels of parentheses and 'not'")
        if negated:
            inner = _not(self._negation())
        else:
            inner = self._joined("or", lambda: self._joined("and", self._negation))
            self._take(")")
        self._depth -= 1
        return inner

    def _comparison(self) -> Where:
        path = self._field()
        if self._took("is"):
            negated = self._took("not")
            self._take("null")
            absent = Where("coalesce(json_type(metadata, ?), 'null') = 'null'", (path,))
            return _not(absent) if negated else absent
        if self._took("contains"):
            return _contains(path, self._value())
        if self._took("not"):
            self._take("in")
            return _not(self._among(path))
        if self._took("in"):
            return self._among(path)
        for sign in _COMPARISONS:
            if self._took(sign):
                value = self._value()
                return _not(_compare(path, "=", value)) if sign == "!=" else _compare(path, sign, value)
        self._fail(f"one of {', '.join(_COMPARISONS)}, in, not in, contains, is null")

    def _among(self, path: str) -> Where:
        self._take("(")
        alternatives = [_compare(path, "=", self._value())]
        while self._took(","):
            alternatives.append(_compare(path, "=", self._value()))
        self._take(")")
        sql = " OR ".join(f"({part.sql})" for part in alternatives)
        return Where(sql, tuple(parameter for part in alternatives for parameter in part.parameters))

    def _field(self) -> str:
        names = [self._name()]
        while self._took("."):
            names.append(self._name())
        return "$" + "".join(f'."{name}"' for name in names)

    def _name(self) -> str:
        token = self._peek()
        if token.kind == "quoted" or (token.kind == "word" and token.text.lower() not in _KEYWORDS):
            self._next += 1
            return token.text.strip('"')
        self._fail("the name of a metadata field")

    def _value(self) -> Value:
        self._values += 1
        if self._values > _MAX_VALUES:
            self._fail(f"at most {_MAX_VALUES} values")
        token = self._peek()
        self._next += 1
        if token.kind == "text":
            return token.text[1:-1].replace("''", "'")
        if token.kind == "number":
            return _number(token.text)
        if token.text.lower() in ("true", "false"):
            return token.text.lower() == "true"
        self._next -= 1
        self._fail("a number, 'text', true or false")

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _took(self, expected: str) -> bool:
        token = self._peek()
        took = token.kind in ("word", "sign") and token.text.lower() == expected
        self._next += took
        return took

    def _take(self, expected: str) -> None:
        if not self._took(expected):
            self._fail(repr(expected))

    def _fail(self, expected: str) -> NoReturn:
        token = self._peek()
        got = "the end" if token.kind == "end" else repr(token.text[:40])
        raise _error(self._text, token.position, got, expected)


def _tokens(text: str) -> list[_Token]:
    tokens, position, end = [], 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            start = position + len(text[position:]) - len(text[position:].lstrip())
            raise _error(text, start, repr(text[start : start + 10]), "a field, a value, a comparison or a parenthesis")
        tokens.append(_Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup)))
        position = match.end()
    return [*tokens, _Token("end", "", end)]


def _compare(path: str, sign: str, value: Value) -> Where:
    sql, parameters = _same_kind("json_type(metadata, ?)", "json_extract(metadata, ?)", sign, value)
    return Where(sql, (path, path, *parameters) if parameters else (path,))


def _contains(path: str, value: Value) -> Where:
    sql, parameters = _same_kind("item.type", "item.value", "=", value)
    array = "json_type(metadata, ?) = 'array' AND "
    return Where(f"{array}EXISTS (SELECT 1 FROM json_each(metadata, ?) AS item WHERE {sql})", (path, path, *parameters))


def _same_kind(kind: str, item: str, sign: str, value: Value) -> tuple[str, tuple[str | int | float, ...]]:
    if isinstance(value, bool):
        if sign != "=":
            raise ValueError(f"{sign} {str(value).lower()}: expected = or != before true and false; write it with =")
        return f"{kind} IS '{str(value).lower()}'", ()
    kinds = ", ".join(f"'{name}'" for name in _KINDS[type(value)])
    # Not NULL but false for what is not there, so that NOT turns it into true.
    return f"coalesce({kind} IN ({kinds}), 0) AND {item} {sign} ?", (value,)


def _not(condition: Where) -> Where:
    return Where(f"NOT ({condition.sql})", condition.parameters)


def _number(text: str) -> int | float:
    if re.fullmatch(r"[-+]?\d{1,18}", text):
        return int(text)
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"number {text[:40]} is too large; expected one within what a float can hold")
    return value


def _error(text: str, position: int, got: str, expected: str) -> ValueError:
    return ValueError(
        f"condition {text!r:.80} at character {position + 1}: got {got}, expected {expected}; "
        f"write it like: year >= 2020 and lang = 'en'"
    )
