"""Runs: what a retrieval system answered, and the one order in which its hits count."""

import json
import logging
import math
from collections.abc import Iterator, Mapping
from numbers import Real
from pathlib import Path
from typing import TypeAlias

import numpy as np

from aveyb_ir.data.documents import check_id
from aveyb_ir.data.jsonl import parse_object
from aveyb_ir.data.lines import read_lines, write_lines
from aveyb_ir.errors import DataError

Run: TypeAlias = dict[str, dict[str, float]]
"""`{query_id: {document_id: score}}`; a higher score is better."""

_logger = logging.getLogger(__name__)
_MAX_SCORE = float(np.finfo(np.float32).max)


def trec_order(hits: Mapping[str, float]) -> list[str]:
    """Rank document ids as trec_eval does: by score, highest first, equal scores by id, last in the alphabet first.

    Scores are compared as 32-bit floats, which is how trec_eval keeps them.
    """
    scores = np.fromiter(hits.values(), dtype=np.float32, count=len(hits)).tolist()
    return [document_id for _, document_id in sorted(zip(scores, hits, strict=True), reverse=True)]


def checked_run(run: Mapping[str, Mapping[str, float]]) -> Run:
    """Copy a run with plain Python floats as scores, after checking every id and score.

    Raises:
        DataError: a score is not a finite number in the range of 32-bit floats, or an id is not usable as one; the
            message names query and document.
    """
    try:
        return {check_id(query_id): _checked_hits(query_id, hits) for query_id, hits in run.items()}
    except ValueError as problem:
        raise DataError(f"query of the run: {problem}") from problem


def read_run(path: str | Path) -> Run:
    """Read a run: JSON `{query: {document: score}}` if the name ends in `.json`, else TREC's six columns.

    TREC lines are `query Q0 document rank score tag`; the rank is ignored, as trec_eval does. A document given more
    than once for a query counts once, with its best score, and a warning is logged. In JSON no query, and no document
    of one query, may come twice. Either form may be gzipped.

    Raises:
        DataError: the file is missing or malformed, or a score is not finite.
    """
    return _read_json(path) if _is_json(path) else _read_trec(path)


def write_run(path: str | Path, run: Mapping[str, Mapping[str, float]], tag: str = "aveyb_ir") -> None:
    """Write a run in the form its name asks for (see `read_run`); scores read back exactly as they were.

    TREC lines come in `trec_order` with ranks from 1. They cannot express a query without hits, which JSON keeps.

    Raises:
        DataError: a score is not finite, or an id holds whitespace and the form is TREC; nothing is written then.
        ValueError: the tag is empty or holds whitespace.
    """
    if len(tag.split()) != 1 or tag != tag.strip():
        raise ValueError(f"tag {tag!r}; expected one word; replace the whitespace")
    run = checked_run(run)
    write_lines(path, [json.dumps(run, ensure_ascii=False)] if _is_json(path) else _trec_lines(run, tag))


def _is_json(path: str | Path) -> bool:
    return Path(path).name.removesuffix(".gz").endswith(".json")


def _checked_hits(query_id: str, hits: Mapping[str, float]) -> dict[str, float]:
    checked = {}
    for document_id, score in hits.items():
        try:
            checked[check_id(document_id)] = _checked_score(score)
        except (ValueError, OverflowError) as problem:
            raise DataError(f"query {query_id!r}, document {document_id!r}: {problem}") from problem
    return checked


def _checked_score(score: object) -> float:
    if isinstance(score, bool) or not isinstance(score, Real):
        raise ValueError(f"score {score!r} is {type(score).__name__}; expected a number; convert it")
    value = float(score)
    if not math.isfinite(value) or abs(value) > _MAX_SCORE:
        raise ValueError(f"score {value}; expected a finite 32-bit number; mend the system that made the run")
    return value


def _read_json(path: str | Path) -> Run:
    text = "\n".join(line for _, line in read_lines(path))
    try:
        run = parse_object(text, unique=True)
        for query_id, hits in run.items():
            if not isinstance(hits, dict):
                raise ValueError(f"query {query_id!r} has {hits!r:.40}; expected {{document: score}}; mend it")
        return checked_run(run)
    except (ValueError, DataError) as problem:
        raise DataError(f"{path}: {problem}") from problem


def _read_trec(path: str | Path) -> Run:
    run: Run = {}
    repeated: list[int] = []
    for line, text in read_lines(path):
        query_id, document_id, score = _trec_hit(path, line, text)
        hits = run.setdefault(query_id, {})
        if document_id in hits:
            repeated.append(line)
        hits[document_id] = max(score, hits.get(document_id, -math.inf))
    if repeated:
        _logger.warning(
            "%s: %d lines repeat a document of their query, the first is line %d; the best score counts, once",
            path,
            len(repeated),
            repeated[0],
        )
    return run


def _trec_hit(path: str | Path, line: int, text: str) -> tuple[str, str, float]:
    columns = text.split()
    if len(columns) != 6:
        found = f"{len(columns)} columns"
        raise DataError(
            f"{path} line {line}: {found}; expected 6 (query Q0 document rank score tag); name JSON runs *.json"
        )
    try:
        return check_id(columns[0]), check_id(columns[2]), _checked_score(float(columns[4]))
    except ValueError as problem:
        raise DataError(f"{path} line {line}: {problem}; mend or remove the line") from problem


def _trec_lines(run: Run, tag: str) -> Iterator[str]:
    for query_id, hits in run.items():
        for rank, document_id in enumerate(trec_order(hits), start=1):
            score = hits[document_id]
            yield f"{_one_word(query_id)} Q0 {_one_word(document_id)} {rank} {score!r} {tag}"


def _one_word(id_: str) -> str:
    if len(id_.split()) != 1 or id_ != id_.strip():
        raise DataError(f"id {id_!r} holds whitespace; TREC columns cannot; write to a name ending in .json instead")
    return id_
