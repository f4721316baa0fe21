"""Haystack's filters as conditions of an index."""

from collections.abc import Mapping
from typing import Any

_COMPARISONS = {"==": "=", "!=": "!=", ">": ">", ">=": ">=", "<": "<", "<=": "<="}
_LOGICAL = ("AND", "OR", "NOT")


def as_where(filters: Mapping[str, Any]) -> str:
    """Write a filter as a condition, see `aveyb_ir.index.where`; fields may go without Haystack's "meta.".

    Values are texts, numbers, truth values, lists of them after "in" and "not in", and None for a field that is not
    there. Texts, dates as well, compare by code point, where Haystack's own stores know time zones.

    Raises:
        ValueError: It is no filter, or one that an index cannot answer.
    """
    operator = filters.get("operator")
    if "field" in filters:
        if "value" not in filters:
            raise ValueError(f"the filter {filters!r} has no value; expected field, operator and value; add it")
        return _comparison(_field(filters["field"]), operator, filters["value"])
    conditions = filters.get("conditions")
    if operator not in _LOGICAL or not isinstance(conditions, list) or not conditions:
        raise ValueError(
            f"the filter is {filters!r}; expected a field, an operator and a value, or one of {', '.join(_LOGICAL)} as "
            "operator and a list of at least one of conditions; write it so"
        )
    joined = (" or " if operator == "OR" else " and ").join(as_where(condition) for condition in conditions)
    return f"not ({joined})" if operator == "NOT" else f"({joined})"


def _comparison(field: str, operator: object, value: object) -> str:
    if operator in ("in", "not in"):
        if not isinstance(value, list):
            raise ValueError(f"the filter of {field} has the value {value!r}; expected a list after {operator!r}")
        any_of = " or ".join(_equal(field, one) for one in value) or f"{field} is null and {field} is not null"
        return f"({any_of})" if operator == "in" else f"not ({any_of})"
    if operator not in _COMPARISONS:
        choices = ", ".join([*_COMPARISONS, "in", "not in"])
        raise ValueError(f"the filter of {field} has the operator {operator!r}; expected one of {choices}")
    if value is None and operator in ("==", "!="):
        return f"{field} is null" if operator == "==" else f"{field} is not null"
    return f"{field} {_COMPARISONS[operator]} {_value(field, value)}"


def _equal(field: str, value: object) -> str:
    return f"{field} is null" if value is None else f"{field} = {_value(field, value)}"


def _field(name: object) -> str:
    if not isinstance(name, str) or '"' in name or not all(name.split(".")):
        raise ValueError(f"the filter's field is {name!r}; expected the name of a metadata field without quotes")
    return ".".join(f'"{part}"' for part in name.removeprefix("meta.").split("."))


def _value(field: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    raise ValueError(f"the filter of {field} has the value {value!r}; expected a text, a number or a truth value")
