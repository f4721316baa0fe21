"""From a query to a list of hits: by vectors, by words or by both, and through a reranker if there is one."""

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, overload

from aveyb_ir.data import Document, Run
from aveyb_ir.encoding import Encoder, OnnxQueryEncoder
from aveyb_ir.errors import DataError
from aveyb_ir.index import FaissDevice, IndexDir, checked_top_k
from aveyb_ir.retrieval.arguments import (
    check_query_encoder,
    checked_mode,
    checked_queries,
    checked_share,
    refuse_unused,
)
from aveyb_ir.retrieval.bm25 import K1, B, checked_bm25
from aveyb_ir.retrieval.candidates import Candidate
from aveyb_ir.retrieval.explanation import Explanation
from aveyb_ir.retrieval.explanation_numbers import explain
from aveyb_ir.retrieval.fusion import Fusion, check_method, checked_count, checked_depth, checked_weights
from aveyb_ir.retrieval.hits import Hit
from aveyb_ir.retrieval.index import Index
from aveyb_ir.retrieval.late_interaction import LateInteraction
from aveyb_ir.retrieval.query_encoding import query_encoder_for
from aveyb_ir.retrieval.reranker_loading import load_reranker
from aveyb_ir.retrieval.reranking import Reranker
from aveyb_ir.retrieval.stages import Mode, Request, Stages

# Queries searched at a time.
_BLOCK_QUERIES = 1024


class Retriever:
    """Searches an index.

    One query gives the same hits and scores, to the last bit, alone and among others, and in any number of threads:
    models compute for one thread and, unless `batch_size` says otherwise, one query at a time.

    Args:
        index: An open Index, whose changes it follows, or the path of an index directory, of which it shows the state
            that is there now, until `refresh`.
        encoder: For a path: the encoder, when it lies elsewhere than the index says. It must be the same one.
        query_encoder: What encodes the queries in place of the index's encoder, which then is loaded only for what is
            left to it (queries over one chunk, `explain`): an OnnxQueryEncoder, or a folder that
            `aveyb_ir.encoding.export_onnx` wrote. It must have been exported from the index's encoder; an `encoder`
            beside a folder says where that lies.
        allow_int8: Take a query encoder in int8, whose vectors are only near those of the index's encoder.
        mode: How documents are found: "dense", by the vectors of query and documents; "bm25", by the words they share
            (see `Bm25`), for which a path is opened without its encoder; or "hybrid", by both, fused.
        fusion: "rrf", by ranks, or "weighted", by scores; see `aveyb_ir.retrieval.fusion.fused`.
        weights: Of the dense and the BM25 ranking in the fusion.
        reranker: Scores what was found again, from texts: a Reranker, or the folder or Hub name of its model.
        rerank_weight: Share of the reranker's score in that of a hit. Below 1 both scores are scaled within a query's
            candidates as by the fusion "weighted".
        batch_size: Queries encoded at once. More is faster, above all on a GPU, but the last bits of scores then depend
            on which queries come together.
        device: For what is loaded from a path: where it computes, as for `Encoder`.
        dtype: For what is loaded from a path: in which precision.
        faiss_device: For a path: where FAISS searches, "cpu", "cuda" or "auto"; see `IndexDir.open`.
        k1: Of BM25, as in `Bm25.build`.
        b: Of BM25.

    Attributes:
        settings: What decides the hits beside index and encoder, ready for JSON.

    Raises:
        IndexDirError: No index there, a damaged one, or one of another encoder.
        MissingExtraError: A query encoder is given and ONNX Runtime is not installed.
        ModelError: The encoder, query encoder or reranker cannot be loaded.
        ValueError: An unknown mode or fusion, impossible weights, batch size, k1 or b, a `faiss_device` that is unknown
            or not there, an encoder or `faiss_device` for an open Index, any of these or a query encoder for "bm25",
            which has no use for it, or `allow_int8` without a query encoder.
    """

    def __init__(
        self,
        index: Index | str | os.PathLike[str],
        *,
        encoder: Encoder | str | os.PathLike[str] | None = None,
        query_encoder: OnnxQueryEncoder | str | os.PathLike[str] | None = None,
        allow_int8: bool = False,
        mode: Mode = "dense",
        fusion: Fusion = "rrf",
        weights: Sequence[float] = (1.0, 1.0),
        reranker: Reranker | str | os.PathLike[str] | None = None,
        rerank_weight: float = 1.0,
        batch_size: int = 1,
        device: str | None = None,
        dtype: str | None = None,
        faiss_device: FaissDevice = "cpu",
        k1: float = K1,
        b: float = B,
    ) -> None:
        self.mode: Mode = checked_mode(mode)
        check_method(fusion)
        weights, rerank_weight = checked_weights(weights, 2), checked_share(rerank_weight)
        batch_size = checked_count("batch_size", batch_size)
        k1, b = checked_bm25(k1, b)
        if isinstance(index, Index) or mode == "bm25":
            refuse_unused(index, encoder, faiss_device)
        check_query_encoder(mode, query_encoder, allow_int8)
        self._index: Index | None = None
        if isinstance(index, Index):
            self._index = index
        elif mode == "bm25" or query_encoder is not None:
            self._directory = IndexDir.open(index, faiss_device=faiss_device)
        else:
            self._index = Index.open(index, encoder=encoder, device=device, dtype=dtype, faiss_device=faiss_device)
        self._query_encoder: OnnxQueryEncoder | None = None
        if query_encoder is not None:
            if isinstance(index, Index) and not isinstance(query_encoder, OnnxQueryEncoder):
                encoder = index.encoder
            self._query_encoder = query_encoder_for(self.directory, query_encoder, encoder, allow_int8=allow_int8)
        if isinstance(reranker, (str, os.PathLike)):
            reranker = load_reranker(reranker, device=device, dtype=dtype)
        self.reranker = reranker
        self.settings: dict[str, Any] = {"mode": mode}
        if self._query_encoder is not None:
            self.settings["query_encoder"] = self._query_encoder.name
        if mode != "dense":
            self.settings["bm25"] = {"k1": k1, "b": b}
        if mode == "hybrid":
            self.settings |= {"fusion": fusion, "weights": weights}
        if reranker is not None:
            self.settings |= {"reranker": reranker.name, "rerank_weight": rerank_weight}
        self._stages = Stages(
            fusion=fusion,
            weights=weights,
            reranker=reranker,
            rerank_weight=rerank_weight,
            batch_size=batch_size,
            k1=k1,
            b=b,
        )

    @property
    def index(self) -> Index:
        """The index with its encoder, which is loaded now where only a query encoder was.

        Raises:
            ModelError: It cannot be loaded.
            ValueError: The index was opened for mode "bm25", without any.
        """
        if self._index is None and self._query_encoder is not None:
            self._index = Index(self._directory, self._query_encoder.encoder)
        if self._index is None:
            raise ValueError(
                f"the index {self.directory.info()['path']} was opened for mode 'bm25', without an encoder; expected "
                "one that has it: make a Retriever of another mode, which can search by 'bm25' too"
            )
        return self._index

    @property
    def directory(self) -> IndexDir:
        """The state of the index that is searched."""
        return self._directory if self._index is None else self._index.directory

    def refresh(self) -> None:
        """Show what other processes have published since."""
        if self._index is None:
            self._directory = self._directory.latest()
        else:
            self._index.refresh()

    @overload
    def search(  # type: ignore[overload-overlap]  # str first
        self,
        query: str,
        *,
        top_k: int = 10,
        depth: int | None = None,
        where: str | None = None,
        document_weight: float = 0.5,
        mode: Mode | None = None,
    ) -> list[Hit]: ...
    @overload
    def search(
        self,
        query: Sequence[str],
        *,
        top_k: int = 10,
        depth: int | None = None,
        where: str | None = None,
        document_weight: float = 0.5,
        mode: Mode | None = None,
    ) -> list[list[Hit]]: ...
    def search(
        self,
        query: str | Sequence[str],
        *,
        top_k: int = 10,
        depth: int | None = None,
        where: str | None = None,
        document_weight: float = 0.5,
        mode: Mode | None = None,
    ) -> Any:
        """Find the documents that fit a query best, best first.

        Of equal scores the document that came into the index first comes first, and after a reranker the one that was
        ahead before.

        Args:
            query: One query gives a list of hits, a sequence of queries one list for each.
            top_k: Hits per query, or all documents if there are fewer. By words only documents are found that share one
                with the query.
            depth: Hits of each ranking that are fused, and documents that are reranked; at least `top_k`, by default
                100 or `top_k` if that is more. A mode of one ranking without a reranker needs none.
            where: A condition that documents must meet, such as "year >= 2020 and lang = 'en'"; its grammar is that of
                `aveyb_ir.index.where`. It is applied before anything is cut, and changes no score.
            document_weight: Share of the whole document's vector in the score, beside that of its best chunk, in an
                index that has both.
            mode: Another one than the retriever's.

        Raises:
            ValueError: `top_k` is not a whole number from 1 or `depth` not one from `top_k`, the weight not within 0 to
                1, the condition cannot be read, or the mode is unknown or needs an encoder that was not loaded.
            ModelError: The reranker gave a score that is no finite number.
        """
        request = self._request(top_k, depth, where, document_weight, mode)
        directory = self.directory
        found = list(self._found(directory, checked_queries([query] if isinstance(query, str) else query), request))
        rows = sorted({candidate.row for candidates in found for candidate in candidates})
        document_of = dict(zip(rows, directory.documents(rows), strict=True))
        hits = [[Hit(document_of[c.row], c.score, c.span, c.scores, c.ranks) for c in one] for one in found]
        for asked, of_query in zip([query] if isinstance(query, str) else query, hits, strict=True):
            explainer = partial(self.explain, asked)
            for hit in of_query:
                hit.bind(explainer)
        return hits[0] if isinstance(query, str) else hits

    @overload
    async def asearch(self, query: str, **options: Any) -> list[Hit]: ...
    @overload
    async def asearch(self, query: Sequence[str], **options: Any) -> list[list[Hit]]: ...
    async def asearch(self, query: str | Sequence[str], **options: Any) -> Any:
        """Do what `search` does, with its options, in a thread, while the program's event loop goes on.

        Any number may be awaited at once.
        """
        search: Callable[..., Any] = self.search
        return await asyncio.to_thread(search, query, **options)

    def explain(self, query: str, hit: Hit | Document | str, *, tokens: bool = False) -> Explanation:
        """Say why a document matches a query: which of its parts, what was brought to them, and which tokens met.

        Args:
            query: What was searched for.
            hit: A hit for that query; or a document or the id of one in the index, found or not.
            tokens: Compare token by token too: with the reranker where that is a `LateInteraction`, else with the
                encoder's token states.

        Raises:
            ModelError: The encoder cannot tell which characters a token is.
            ValueError: No document has that id, or the index was opened without an encoder.
        """
        checked_queries([query])
        encoder = self.index.encoder
        if not isinstance(hit, (Hit, Document, str)):
            raise ValueError(f"hit is {hit!r:.80}, expected a hit, a document or an id: give one")
        if isinstance(hit, str):
            directory = self.directory
            (hit,) = directory.documents(directory.rows([hit]))
        late = self.reranker if isinstance(self.reranker, LateInteraction) else None
        with self._stages.models:
            return explain(encoder, query, hit, tokens=tokens, late_interaction=late)

    def run(
        self,
        queries: Mapping[str, str],
        *,
        top_k: int = 100,
        depth: int | None = None,
        where: str | None = None,
        document_weight: float = 0.5,
        mode: Mode | None = None,
    ) -> Run:
        """Search for many queries and give only ids and scores, as a run that can be written and evaluated.

        Args:
            queries: Texts by query id.
            top_k: Hits per query.
            depth: As in `search`, like all that follow.
            where: A condition.
            document_weight: Share of the whole document.
            mode: Another one than the retriever's.

        Raises:
            DataError: There are no queries.
            ValueError: As in `search`.
        """
        if not queries:
            raise DataError("There are no queries; expected at least one text to search for.")
        request = self._request(top_k, depth, where, document_weight, mode)
        found = self._found(self.directory, checked_queries(list(queries.values())), request)
        return {id: {hit.id: hit.score for hit in hits} for id, hits in zip(queries, found, strict=True)}

    def _request(
        self, top_k: int, depth: int | None, where: str | None, document_weight: float, mode: Mode | None
    ) -> Request:
        if where is not None and not isinstance(where, str):
            raise ValueError(f'where is {where!r}, expected a condition such as "year >= 2020": give text, or None')
        mode = self.mode if mode is None else checked_mode(mode)
        top_k = checked_top_k(top_k)
        depth = checked_depth(depth, top_k)
        is_cut_later = mode == "hybrid" or self.reranker is not None
        return Request(mode, top_k, depth if is_cut_later else top_k, where, document_weight)

    def _found(self, directory: IndexDir, queries: Sequence[str], request: Request) -> Iterator[list[Candidate]]:
        """Yield the hits of each query."""
        encoder = None if request.mode == "bm25" else self._query_encoder or self.index.encoder
        for start in range(0, len(queries), _BLOCK_QUERIES):
            yield from self._stages.search(directory, encoder, queries[start : start + _BLOCK_QUERIES], request)
