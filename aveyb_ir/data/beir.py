"""A folder in BEIR's layout: a corpus, queries, and judgements for each split."""

import logging
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from aveyb_ir.data.corpus import CORPUS_FILE, QUERIES_FILE, file_in_folder, read_documents, read_queries
from aveyb_ir.data.documents import Document, Query
from aveyb_ir.data.jsonl import write_jsonl
from aveyb_ir.data.qrels import Qrels, read_qrels, write_qrels
from aveyb_ir.data.wording import listed
from aveyb_ir.errors import DataError

_logger = logging.getLogger(__name__)


class BeirFolder:
    """Read a retrieval data set: `corpus.jsonl`, `queries.jsonl` (either may be `.gz`) and `qrels/<split>.tsv`.

    Making one checks that the files are there and reads none of them.

    Raises:
        DataError: the folder, its corpus or its queries are missing.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.is_dir():
            raise DataError(f"{self.path} is not a folder; expected one in BEIR's layout; check the path")
        self._corpus_file = file_in_folder(self.path, CORPUS_FILE)
        self._queries_file = file_in_folder(self.path, QUERIES_FILE)

    def __repr__(self) -> str:
        return f"BeirFolder({str(self.path)!r})"

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits that have judgements, sorted."""
        return tuple(sorted(file.stem for file in (self.path / "qrels").glob("*.tsv")))

    def documents(self) -> Iterator[Document]:
        """Stream the corpus; see `read_documents`."""
        return read_documents(self._corpus_file)

    def queries(self) -> dict[str, str]:
        """Texts of all queries by id, judged or not, in file order."""
        return {query.id: query.text for query in read_queries(self._queries_file)}

    def judged_queries(self, split: str) -> dict[str, str]:
        """Texts of the queries to search for when evaluating a split, by id, in file order.

        Judged queries whose text is missing are named in a logged warning; evaluation counts them as unanswered.

        Raises:
            DataError: there is no such split, or none of its queries has a text.
        """
        qrels = self.qrels(split)
        queries = {id_: text for id_, text in self.queries().items() if id_ in qrels}
        if not queries:
            raise DataError(
                f"{self._queries_file} has none of the {len(qrels)} queries judged in split {split!r}, "
                f"such as {next(iter(qrels))!r}; expected the same ids in both; check that they belong together"
            )
        if missing := [id_ for id_ in qrels if id_ not in queries]:
            _logger.warning("%s lacks these judged queries: %s", self._queries_file, listed(missing))
        return queries

    def qrels(self, split: str) -> Qrels:
        """Judgements of a split; see `read_qrels`.

        Raises:
            DataError: there is no such split, or its file is malformed.
        """
        if split not in self.splits:
            found = ", ".join(self.splits) or "none"
            raise DataError(f"{self.path} has no split {split!r}; expected one of its splits: {found}; choose one")
        return read_qrels(self.path / "qrels" / f"{split}.tsv")


def write_beir_folder(
    path: str | Path,
    documents: Iterable[Document],
    queries: Iterable[Query],
    qrels: Mapping[str, Mapping[str, Mapping[str, int]]],
) -> None:
    """Write a data set that `BeirFolder` reads back equal; documents and queries are streamed.

    `qrels` maps each split to its judgements. The folder appears only when it is complete.

    Raises:
        DataError: `path` exists and is not an empty folder, or the judgements cannot be written.
    """
    path = Path(path)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise DataError(f"{path} exists and is not empty; expected a new folder; remove it or choose another name")
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as scratch:
        # A folder inside the scratch folder, because scratch folders are private to their user.
        folder = Path(scratch) / path.name
        folder.mkdir()
        write_jsonl(folder / CORPUS_FILE, (_as_record(document) for document in documents))
        write_jsonl(folder / QUERIES_FILE, (_as_record(query) for query in queries))
        for split, judgements in qrels.items():
            write_qrels(folder / "qrels" / f"{split}.tsv", judgements)
        folder.replace(path)


def _as_record(item: Document | Query) -> dict[str, object]:
    title = {"title": item.title} if isinstance(item, Document) else {}
    metadata = {"metadata": dict(item.metadata)} if item.metadata else {}
    return {"_id": item.id, **title, "text": item.text, **metadata}
