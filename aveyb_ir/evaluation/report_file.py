"""Evaluations as files, checked when they are read: a report whose means are not those of its queries is refused.

JSON: `{"format": "aveyb-ir evaluation 1", ...}` and then the attributes of `Evaluation` under their names.
"""

import dataclasses
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from aveyb_ir.data import write_lines
from aveyb_ir.errors import DataError

if TYPE_CHECKING:
    from aveyb_ir.evaluation.result import Evaluation

FORMAT = "aveyb-ir evaluation 1"

_TOLERANCE = 1e-9  # what adding up in another order can change
_MEND = "give a report that `aveyb-ir evaluate --output` wrote, or make this one again"


def write_report(path: str | os.PathLike[str], content: Mapping[str, Any]) -> None:
    """Write the attributes of an evaluation; the file appears whole or not at all. Raises DataError."""
    text = json.dumps({"format": FORMAT, **content}, ensure_ascii=False, allow_nan=False, indent=1)
    write_lines(os.fspath(path), text.split("\n"))


def read_report(path: str | os.PathLike[str], cls: "type[Evaluation]") -> "Evaluation":
    """Read an evaluation and check it. Raises DataError."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _broken(path, f"cannot be read as JSON ({error})") from error
    found = content.pop("format", None) if isinstance(content, dict) else content
    if found != FORMAT:
        raise _broken(path, f"has format {found!r:.60}")
    if unknown := content.keys() - {field.name for field in dataclasses.fields(cls) if field.compare}:
        raise _broken(path, f"has the unknown field {min(unknown)!r}")
    try:
        evaluation: Evaluation = TypeAdapter(cls).validate_json(json.dumps(content), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        raise _broken(path, f"field {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    if problem := _contradiction(evaluation):
        raise _broken(path, problem)
    return evaluation


def _broken(path: str | os.PathLike[str], what: str) -> DataError:
    return DataError(f"{os.fspath(path)}: {what}; expected {FORMAT!r}; {_MEND}")


def _contradiction(evaluation: "Evaluation") -> str | None:
    """Say what in an evaluation contradicts itself."""
    if not evaluation.metrics or not evaluation.per_query:
        return "holds no metric or no query"
    if len(evaluation.per_query) != evaluation.num_queries:
        return f"holds the values of {len(evaluation.per_query)} queries, but num_queries is {evaluation.num_queries}"
    for query_id, values in evaluation.per_query.items():
        if values.keys() != evaluation.metrics.keys():
            return (
                f"query {query_id!r} has the metrics {', '.join(values) or 'none'}, not {', '.join(evaluation.metrics)}"
            )
        if not all(map(math.isfinite, values.values())):
            return f"query {query_id!r} has a value that is not finite"
        if not all(-_TOLERANCE <= value <= 1 + _TOLERANCE for value in values.values()):
            return f"query {query_id!r} has a value outside 0 to 1"
    for name in ("unanswered", "without_relevant"):
        if foreign := set(getattr(evaluation, name)) - evaluation.per_query.keys():
            return f"{name} has {min(foreign)!r}, which is no judged query"
    for part, means in evaluation.parts.items():
        of_part = {id_: values for id_, values in evaluation.per_query.items() if id_.startswith(f"{part}/")}
        if problem := _other_means(means, list(of_part.values())):
            return f"part {part!r}: {problem}"
    return _other_means(evaluation.metrics, list((evaluation.parts or evaluation.per_query).values()))


def _other_means(means: Mapping[str, float], values: list[Mapping[str, float]]) -> str | None:
    for name, mean in means.items():
        again = fmean(of_one[name] for of_one in values) if values else math.nan
        if not math.isclose(mean, again, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE):
            return f"{name} is {mean}, but the mean of its values is {again}"
    return None
