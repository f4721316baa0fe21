"""Training rows from files, folders and public data sets."""

import logging
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from aveyb_ir.data.hub import dataset_files, names_dataset
from aveyb_ir.data.pair_fields import LeftOutError, TrainingRow, pick, training_row
from aveyb_ir.data.pair_ids import POSITIVE_IDS, named_texts, with_texts
from aveyb_ir.data.pair_records import pair_records
from aveyb_ir.data.pair_report import RowReport
from aveyb_ir.data.records import place
from aveyb_ir.data.wanted_texts import WantedTexts
from aveyb_ir.data.wording import listed
from aveyb_ir.errors import DataError

_logger = logging.getLogger(__name__)


def read_training_rows(source: str | Path, *, corpus: str | Path | None = None) -> list[TrainingRow]:
    """Read training rows, taking fields by name, whatever their order.

    `source` is a file of JSON Lines, Parquet or TSV, a folder of such files, or the train split of a data set on the
    Hugging Face Hub (`owner/name`, `owner/name:config` or `owner/name:config:split`) or of a folder with a copy.

    | role      | accepted names                                                   | value              |
    |-----------|------------------------------------------------------------------|--------------------|
    | anchor    | anchor, query, question, sentence1, query_text                   | text               |
    | positives | positive, positives, pos, answer, answers, passage, sentence2,   | text or list       |
    |           | positive_passages                                                |                    |
    | negatives | negative, negatives, neg, negative_passages, and any number of   | text, list or null |
    |           | negative_1, negative_2, ...                                      |                    |
    | scores    | pos_scores and neg_scores, or one of score, scores, label,       | see below          |
    |           | labels                                                           |                    |

    So rows made for Sentence Transformers, FlagEmbedding and Tevatron are understood. An item of a list is a text, or
    an object with `text` and perhaps `title`; `answers` beside `positive_passages` are not used. TSV has no field names
    unless its first line consists of them: an anchor, a positive and any number of negatives, as in MS MARCO's triples.

    `pos_scores` and `neg_scores` are lists with a number for each text. `score` is such a list, positives first; or how
    far the only positive is above the negative, or a list of that for each negative; or, of a pair without negatives,
    1, or 0, which leaves the row out with a warning.

    Rows with `positive_document_ids` and `negative_document_ids`, as Tevatron has them since version 2, need `corpus`,
    a source as of `read_documents`. Documents that it lacks are left out with a warning that names them and their rows.

    Other fields are not used; a logged warning names them. Rows with an empty anchor are left out with a warning. A
    negative that is, to the letter, a positive of its own row or of another row with the same anchor is dropped with a
    warning, since training on it would push the right answer away.

    Raises:
        DataError: the source cannot be read, rows are malformed (one error for all of them, with their lines), or no
            row is left.
    """
    rows = list(_rows(source, corpus))
    positives_of: defaultdict[str, set[str]] = defaultdict(set)
    for row in rows:
        positives_of[row.anchor].update(row.positives)
    kept = [_without(row, positives_of[row.anchor]) for row in rows]
    report_dropped(source, [row.line for row, new in zip(rows, kept, strict=True) if row is not new])
    return kept


def iter_training_rows(
    source: str | Path, *, corpus: str | Path | None = None, folder: str | Path | None = None
) -> Iterator[TrainingRow]:
    """Stream the rows of `read_training_rows`, for data larger than memory.

    Warnings, and the error about all malformed rows, come after the last row. Negatives are compared with the positives
    of their own row only; the whole set would have to be known to compare them with those of other rows.

    Of a corpus, the texts that rows name are kept on the disk of `folder` while rows are read; None: that for temporary
    files.

    Raises:
        DataError: as `read_training_rows`.
    """
    dropped: list[int] = []
    for row in _rows(source, corpus, folder):
        kept = _without(row, row.positives)
        if kept is not row:
            dropped.append(row.line)
        yield kept
    report_dropped(source, dropped)


def _rows(source: str | Path, corpus: str | Path | None, folder: str | Path | None = None) -> Iterator[TrainingRow]:
    files = dataset_files(source, splits=("train",)) if names_dataset(source) else [Path(source)]
    documents = None if corpus is None else _documents(source, files, corpus, folder)
    report = RowReport(source, files, corpus)
    for file in files:
        for number, parse in pair_records(file):
            try:
                record = parse()
                if POSITIVE_IDS in record:
                    if documents is None:
                        raise _without_corpus(place(file, number))
                    record = with_texts(record, documents, partial(report.lack, file, number))
                row = training_row(record, number)
            except LeftOutError as reason:
                report.leave_out(file, number, reason)
            except ValueError as problem:
                report.fail(file, number, problem)
            else:
                report.take(record)
                yield row
    report.finish()


def _documents(source: str | Path, files: Sequence[Path], corpus: str | Path, folder: str | Path | None) -> WantedTexts:
    documents = named_texts(files, corpus, folder)
    if documents is None:
        raise DataError(f"{source} has no {POSITIVE_IDS}, expected some, since a corpus was given; leave it away")
    return documents


def _without_corpus(where: str) -> DataError:
    return DataError(
        f"{where}: got {POSITIVE_IDS}, which name documents without their texts, expected the corpus that has them; "
        "set data.corpus in the recipe, or pass corpus"
    )


def _without(row: TrainingRow, positives: Collection[str]) -> TrainingRow:
    """The row itself, or without the negatives that are among these positives."""
    places = [place for place, text in enumerate(row.negatives) if text not in positives]
    if len(places) == len(row.negatives):
        return row
    scores = pick(row.negative_scores, places)
    return replace(row, negatives=pick(row.negatives, places), negative_scores=scores)


def report_dropped(source: str | Path, lines: Sequence[int]) -> None:
    """Warn that rows on these lines, if any, lost negatives which answer their anchor."""
    if lines:
        _logger.warning("%s: dropped negatives that are positives of their anchor, lines %s", source, listed(lines))
