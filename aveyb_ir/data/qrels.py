"""Relevance judgements: which document answers which query, and how well."""

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, TypeAlias

from aveyb_ir.data.documents import as_id, check_id
from aveyb_ir.data.lines import read_lines, write_lines
from aveyb_ir.data.records import place, read_records
from aveyb_ir.data.wording import listed
from aveyb_ir.errors import DataError

Qrels: TypeAlias = dict[str, dict[str, int]]
"""`{query_id: {document_id: grade}}`; a grade of 1 or more means relevant."""

_MAX_GRADE = 999_999  # trec_eval allocates memory in proportion to the highest grade
_GRADE = re.compile(r"([+-]?[0-9]{1,6})(?:\.0*)?")
_FIELDS = ("query-id", "corpus-id", "score")
_RECORD_ENDINGS = (".parquet", ".jsonl", ".jsonl.gz")
_HEADER_ENDS = ("score", "relevance", "rel", "label", "grade")


def checked_qrels(qrels: Mapping[str, Mapping[str, int]]) -> Qrels:
    """Copy judgements with plain Python integers as grades, after checking every id and grade.

    Raises:
        DataError: a grade is not a whole number of up to six digits, or an id is not usable as one; the message names
            query and document.
    """
    try:
        return {check_id(query_id): _checked_judgements(query_id, judged) for query_id, judged in qrels.items()}
    except ValueError as problem:
        raise DataError(f"query of the judgements: {problem}") from problem


def read_qrels(path: str | Path) -> Qrels:
    """Read judgements: `query document grade` (BEIR) or `query iteration document grade` (TREC), a line each.

    Columns are split at tabs where a line has them (then ids may hold spaces, and quotes are CSV's), else at
    whitespace. A first line that ends in a word such as `score` is a header. Files named `.parquet` or `.jsonl` have
    fields `query-id`, `corpus-id` and `score`, as on the Hugging Face Hub. Grades are whole numbers of up to six
    digits, `1.0` being 1; zero and negative ones are kept, since a judged query counts even if nothing answers it.

    Raises:
        DataError: a line is not a judgement, a pair has two different grades, or there is no judgement at all.
    """
    return read_qrels_files([Path(path)])


def read_qrels_files(files: Sequence[Path]) -> Qrels:
    """Read the judgements of several files as one, as `read_qrels` reads one."""
    qrels: Qrels = {}
    for file in files:
        is_record_file = file.name.endswith(_RECORD_ENDINGS)
        for number, row in read_records(file) if is_record_file else _rows(file):
            try:
                query_id, document_id, grade = _judgement(_columns_of(row) if isinstance(row, dict) else row)
                if qrels.setdefault(query_id, {}).setdefault(document_id, grade) != grade:
                    earlier = qrels[query_id][document_id]
                    raise ValueError(f"{query_id} {document_id} has grade {grade} after {earlier}; keep one of the two")
            except ValueError as problem:
                raise DataError(f"{place(file, number)}: {problem}") from problem
    if not qrels:
        shown = ", ".join(map(str, files))
        raise DataError(f"{shown} holds no judgement; expected lines of query, document, grade; check the file")
    return qrels


def write_qrels(path: str | Path, qrels: Mapping[str, Mapping[str, int]]) -> None:
    """Write judgements as BEIR does: tab-separated with a header. Queries without any judgement leave no trace.

    Raises:
        DataError: as `checked_qrels`; nothing is written then.
    """
    write_lines(path, _tsv_lines(checked_qrels(qrels)))


def _rows(file: Path) -> Iterator[tuple[int, list[str]]]:
    for index, (line, text) in enumerate(read_lines(file)):
        columns = _columns(text)
        if index > 0 or columns[-1].strip().lower() not in _HEADER_ENDS:
            yield line, columns


def _columns_of(record: dict[str, Any]) -> list[str]:
    if missing := [name for name in _FIELDS if name not in record]:
        raise ValueError(f"no field {' or '.join(missing)} among {listed(record) or 'none'}; add or rename it")
    query_id, document_id, grade = (record[name] for name in _FIELDS)
    return [as_id(query_id), as_id(document_id), str(grade)]


def _tsv_lines(qrels: Qrels) -> Iterator[str]:
    yield "query-id\tcorpus-id\tscore"
    for query_id, judged in qrels.items():
        for document_id, grade in judged.items():
            row = io.StringIO()
            csv.writer(row, delimiter="\t", lineterminator="").writerow((query_id, document_id, grade))
            yield row.getvalue()


def _checked_judgements(query_id: str, judged: Mapping[str, int]) -> dict[str, int]:
    checked = {}
    for document_id, grade in judged.items():
        try:
            checked[check_id(document_id)] = _checked_grade(grade)
        except ValueError as problem:
            raise DataError(f"query {query_id!r}, document {document_id!r}: {problem}") from problem
    return checked


def _checked_grade(grade: object) -> int:
    if not isinstance(grade, Integral) or abs(int(grade)) > _MAX_GRADE:
        raise ValueError(f"grade {grade!r}; expected a whole number of up to six digits; round or rescale it")
    return int(grade)


def _columns(text: str) -> list[str]:
    if "\t" not in text:
        return text.split()
    return next(csv.reader([text], delimiter="\t")) if '"' in text else text.split("\t")


def _judgement(columns: list[str]) -> tuple[str, str, int]:
    if len(columns) not in (3, 4):
        raise ValueError(
            f"{len(columns)} columns; expected 3 (query, document, grade) or 4 (query, iteration, document, grade); "
            "mend the line"
        )
    match = _GRADE.fullmatch(columns[-1].strip())
    if match is None:
        raise ValueError(
            f"grade {columns[-1]!r:.40}; expected a whole number of up to six digits; "
            f"round it, or end a header in {' or '.join(_HEADER_ENDS)}"
        )
    return check_id(columns[0]), check_id(columns[-2]), int(match[1])
