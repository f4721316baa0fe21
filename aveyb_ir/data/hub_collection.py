"""Collections in the Hub's layout: `BeIR/nq` with its judgements in `BeIR/nq-qrels`, or all in one as MTEB has them."""

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from aveyb_ir.data.collection import Collection
from aveyb_ir.data.corpus import CORPUS, QUERIES, documents_in, queries_in
from aveyb_ir.data.documents import Document
from aveyb_ir.data.hub import HubDataset, dataset_files
from aveyb_ir.data.qrels import Qrels, read_qrels_files
from aveyb_ir.errors import DataError

_QRELS_CONFIGS = ("qrels", "default")
_SAME_SPLIT = {"dev": "validation", "validation": "dev"}


class HubCollection(Collection):
    """Read a retrieval data set from the Hugging Face Hub by its `owner/name`, or from a folder with a copy of it.

    Configs `corpus` and `queries` hold texts, with columns as in `read_documents` and `read_queries`. Judgements, with
    columns `query-id`, `corpus-id` and `score`, are the config `qrels` or `default`, or else a data set whose name
    ends in `-qrels`, on the Hub or beside the folder. Its splits `dev` and `validation` go by either name.

    Making one finds and downloads the judgements; texts are downloaded when they are first read, and streamed.

    Raises:
        DataError: a data set cannot be fetched, or lacks a corpus, queries or judgements.
    """

    def __init__(self, location: str | Path) -> None:
        self.location = str(Path(location))
        self._texts = HubDataset(self.location)

    def __repr__(self) -> str:
        return f"HubCollection({self.location!r})"

    def __str__(self) -> str:
        return self.location

    @property
    def name(self) -> str:
        """The data set's name without its owner or folder."""
        return Path(self.location).name

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits that have judgements, sorted."""
        return tuple(sorted(self._qrels_files))

    def documents(self) -> Iterator[Document]:
        """Stream the corpus; see `read_documents`."""
        return documents_in(dataset_files(f"{self.location}:{CORPUS}", splits=(CORPUS, "train")))

    def queries(self) -> dict[str, str]:
        """Texts of all queries by id, judged or not, in file order."""
        files = dataset_files(f"{self.location}:{QUERIES}", splits=(QUERIES, "train"))
        return {query.id: query.text for query in queries_in(files)}

    def qrels(self, split: str) -> Qrels:
        """Judgements of a split; see `read_qrels`.

        Raises:
            DataError: there is no such split, or a file is malformed.
        """
        files = self._qrels_files.get(split) or self._qrels_files.get(_SAME_SPLIT.get(split, split))
        if files is None:
            raise DataError(f"{self} has no split {split!r}; expected one of its splits: {', '.join(self.splits)}")
        return read_qrels_files(files)

    @cached_property
    def _qrels_files(self) -> dict[str, list[Path]]:
        apart = f"{self.location}-qrels"
        if found := _qrels_in(self._texts):
            return found
        if Path(self.location).is_dir() and not Path(apart).is_dir():
            raise self._no_qrels(apart)
        dataset = HubDataset(apart)
        found = _qrels_in(dataset) if dataset.configs else dataset.splits()
        if not found:
            raise self._no_qrels(apart)
        return found

    def _no_qrels(self, apart: str) -> DataError:
        return DataError(
            f"{self} has no judgements; expected a config {' or '.join(_QRELS_CONFIGS)}, or {apart} with files such as "
            "test.tsv; fetch them, or read the texts alone as a corpus"
        )


def _qrels_in(dataset: HubDataset) -> dict[str, list[Path]]:
    config = next((config for config in _QRELS_CONFIGS if config in dataset.configs), None)
    return {} if config is None else dataset.splits(config)
