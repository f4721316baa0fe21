"""A condition holds for exactly the documents for which it should."""

import json
import random
import sqlite3

import pytest

from aveyb_ir.index.where import Where

ROWS = [
    {"year": year, "lang": lang, "tags": tags, "place": {"name": lang}}
    for year in (1999, 2000, 2001.5, "2000", None)
    for lang in ("en", "de", "it's")
    for tags in ([], ["a"], ["a", "b"])
] + [{}]


def holding(condition, rows=ROWS):
    where = Where.parse(condition)
    table = sqlite3.connect(":memory:")
    table.execute("CREATE TABLE documents (metadata TEXT)")
    table.executemany("INSERT INTO documents VALUES (?)", [(json.dumps(row),) for row in rows])
    found = table.execute(f"SELECT rowid - 1 FROM documents WHERE {where.sql} ORDER BY rowid", where.parameters)
    return [rows[i] for (i,) in found.fetchall()]


def is_number(value):
    return isinstance(value, (int, float))


COMPARISONS = {
    "year = 2000": lambda row: row.get("year") == 2000,
    "year != 2000": lambda row: row.get("year") != 2000,
    "year < 2001.5": lambda row: is_number(row.get("year")) and row["year"] < 2001.5,
    "year >= 2000": lambda row: is_number(row.get("year")) and row["year"] >= 2000,
    "year = '2000'": lambda row: row.get("year") == "2000",
    "year IN (1999, 2001.5)": lambda row: row.get("year") in (1999, 2001.5),
    "year not in (1999, '2000')": lambda row: row.get("year") not in (1999, "2000"),
    "year is null": lambda row: row.get("year") is None,
    "year is not null": lambda row: row.get("year") is not None,
    "lang = 'it''s'": lambda row: row.get("lang") == "it's",
    "tags contains 'b'": lambda row: "b" in row.get("tags", []),
    "place.name = 'de'": lambda row: row.get("place", {}).get("name") == "de",
    "\"lang\" > 'de'": lambda row: row.get("lang", "") > "de",
}


@pytest.mark.parametrize("text", COMPARISONS)
def test_comparisons(text):
    assert holding(text) == [row for row in ROWS if COMPARISONS[text](row)]


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("not (year = 2000)", lambda row: row.get("year") != 2000),
        ("not (year = 2000 or lang = 'de')", lambda row: row.get("year") != 2000 and row.get("lang") != "de"),
        ("not not (lang = 'de')", lambda row: row.get("lang") == "de"),
        ("not year = 2000 and lang = 'de'", lambda row: row.get("year") != 2000 and row.get("lang") == "de"),
        ("(not (lang = 'de'))", lambda row: row.get("lang") != "de"),
    ],
)
def test_not_turns_the_whole_of_what_follows_around(text, holds):
    assert holding(text) == [row for row in ROWS if holds(row)]


def some_condition(choose, depth):
    """A random condition, and the function that it should be."""
    kind = choose.choice(["and", "or", "not", "comparison"]) if depth else "comparison"
    if kind == "comparison":
        return choose.choice(list(COMPARISONS.items()))
    left, is_left = some_condition(choose, depth - 1)
    if kind == "not":
        return f"not ({left})", lambda row: not is_left(row)
    right, is_right = some_condition(choose, depth - 1)
    both = all if kind == "and" else any
    return f"({left}) {kind} ({right})", lambda row: both((is_left(row), is_right(row)))


def test_any_nesting_means_what_it_says():
    choose = random.Random(0)
    for _ in range(300):
        text, holds = some_condition(choose, 3)
        assert holding(text) == [row for row in ROWS if holds(row)], text


def test_and_binds_more_closely_than_or():
    expected = [row for row in ROWS if row.get("lang") == "de" or (row.get("lang") == "en" and row["year"] == 2000)]
    assert holding("lang = 'de' or lang = 'en' and year = 2000") == expected
    assert holding("year = 2000 and lang = 'en' or lang = 'de'") == expected


@pytest.mark.parametrize(
    "text", ["", "not", "not ()", "(year = 1", "year = 1)", "year = 1 and", "not (year)", "year = year"]
)
def test_what_is_no_condition_is_refused(text):
    with pytest.raises(ValueError, match="condition"):
        Where.parse(text)


@pytest.mark.parametrize(
    "level", ["(", "not ", "year = 1 or lang = 'de' and (", "not year = 1 or lang = 'x' and not ("]
)
def test_as_deep_as_is_allowed_sqlite_can_read(level):
    def nested(levels):
        return level * levels + "year = 2000" + ")" * level.count("(") * levels

    deepest = max(levels for levels in range(1, 11) if parses(nested(levels)))
    assert holding(nested(deepest))
    with pytest.raises(ValueError, match="at most 10 levels of parentheses and 'not'"):
        Where.parse(nested(deepest + 1))


def parses(text):
    try:
        Where.parse(text)
    except ValueError:
        return False
    return True


def test_what_is_wrong_with_a_long_condition_is_said_in_a_short_line():
    with pytest.raises(ValueError, match="at character 40010: got 'lik'") as caught:
        Where.parse(" " * 40_000 + "language lik 'e'")
    assert len(str(caught.value)) < 400
