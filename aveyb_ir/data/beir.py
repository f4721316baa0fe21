"""A folder in BEIR's layout: a corpus, queries, and judgements for each split."""

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from aveyb_ir.data.collection import Collection
from aveyb_ir.data.corpus import CORPUS, QUERIES, documents_in, find_in_folder, queries_in
from aveyb_ir.data.documents import Document, Query
from aveyb_ir.data.jsonl import write_jsonl
from aveyb_ir.data.qrels import Qrels, read_qrels, write_qrels
from aveyb_ir.errors import DataError

_CORPUS_FILE = f"{CORPUS}.jsonl"
_QUERIES_FILE = f"{QUERIES}.jsonl"


class BeirFolder(Collection):
    """Read a retrieval data set: `corpus.jsonl`, `queries.jsonl` (either may be `.gz`) and `qrels/<split>.tsv`.

    It is named after its folder unless `name` says otherwise. Making one checks that the files are there and reads none
    of them.

    Raises:
        DataError: the folder, its corpus or its queries are missing.
    """

    def __init__(self, path: str | Path, *, name: str | None = None) -> None:
        self.path = Path(path)
        self._name = name
        if not self.path.is_dir():
            raise DataError(f"{self.path} is not a folder; expected one in BEIR's layout; check the path")
        self._corpus_file = _required(self.path, _CORPUS_FILE)
        self._queries_file = _required(self.path, _QUERIES_FILE)

    def __repr__(self) -> str:
        return f"BeirFolder({str(self.path)!r})"

    def __str__(self) -> str:
        return str(self.path)

    @property
    def name(self) -> str:
        """The folder's name, or the one given."""
        return self._name or self.path.resolve().name

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits that have judgements, sorted."""
        return tuple(sorted(file.stem for file in (self.path / "qrels").glob("*.tsv")))

    def documents(self) -> Iterator[Document]:
        """Stream the corpus; see `read_documents`."""
        return documents_in([self._corpus_file])

    def queries(self) -> dict[str, str]:
        """Texts of all queries by id, judged or not, in file order."""
        return {query.id: query.text for query in queries_in([self._queries_file])}

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
        write_jsonl(folder / _CORPUS_FILE, (_as_record(document) for document in documents))
        write_jsonl(folder / _QUERIES_FILE, (_as_record(query) for query in queries))
        for split, judgements in qrels.items():
            write_qrels(folder / "qrels" / f"{split}.tsv", judgements)
        folder.replace(path)


def _required(folder: Path, name: str) -> Path:
    file = find_in_folder(folder, name)
    if file is None:
        raise DataError(f"{folder} holds neither {name} nor {name}.gz; expected a BEIR folder; check the path")
    return file


def _as_record(item: Document | Query) -> dict[str, object]:
    title = {"title": item.title} if isinstance(item, Document) else {}
    metadata = {"metadata": dict(item.metadata)} if item.metadata else {}
    return {"_id": item.id, **title, "text": item.text, **metadata}
