"""The texts of the documents that are to be reranked, from a corpus or an index."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice

from aveyb_ir.data import Document, Run, listed, trec_order
from aveyb_ir.errors import DataError
from aveyb_ir.index import IndexDir


def texts_from(
    documents: Iterable[Document] | IndexDir, run: Run, *, depth: int
) -> Callable[[Sequence[str]], list[str]]:
    """Give what `rerank` asks for the texts of a run's candidates.

    Args:
        documents: An open index, whose texts are looked up when they are asked for, or any iterable, which is read once
            and of which the candidates' texts stay in memory.
        run: The first stage's answers.
        depth: Candidates per query.

    Raises:
        DataError: Candidates are missing; the message names some.
    """
    wanted = {id for hits in run.values() for id in islice(trec_order(hits), depth)}
    if isinstance(documents, IndexDir):
        return partial(_texts_in, documents, _rows(documents, list(wanted)))
    text_of = {document.id: document.full_text for document in documents if document.id in wanted}
    if missing := sorted(wanted - text_of.keys()):
        raise DataError(
            f"{len(missing)} of the run's {len(wanted)} candidates have no text: {listed(missing)}; expected all of "
            "them in the corpus; give the corpus that the run is of"
        )
    return lambda ids: [text_of[id] for id in ids]


def _rows(index: IndexDir, ids: Sequence[str]) -> dict[str, int]:
    try:
        return dict(zip(ids, index.rows(ids), strict=True))
    except ValueError as error:
        raise DataError(f"The run's candidates have no text: {error}; give the index that the run is of") from error


def _texts_in(index: IndexDir, row_of: Mapping[str, int], ids: Sequence[str]) -> list[str]:
    return [document.full_text for document in index.documents([row_of[id] for id in ids])]
