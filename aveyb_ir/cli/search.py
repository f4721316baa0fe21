"""`aveyb-ir search`."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aveyb_ir.cli.options import K1, B, Device, Dtype, FaissDevice, Json, given, several, weight
from aveyb_ir.cli.output import print_hits, print_json

if TYPE_CHECKING:
    from aveyb_ir.retrieval import Retriever


def search(
    directory: Annotated[Path, typer.Argument(help="Index directory.")],
    query: Annotated[str | None, typer.Argument(help="What to look for.")] = None,
    top_k: Annotated[int | None, typer.Option(min=1, help="Hits per query; 10, or 100 for a run.")] = None,
    mode: Annotated[str, typer.Option(help="dense, bm25 (no model is loaded), or hybrid: both, fused.")] = "dense",
    fusion: Annotated[str | None, typer.Option(help="With hybrid: rrf, by ranks, or weighted, by scores.")] = None,
    weights: Annotated[str | None, typer.Option(help="With hybrid: of dense and BM25, such as 2,1; 1,1.")] = None,
    depth: Annotated[
        int | None, typer.Option(min=1, help="Hits that are fused or reranked; 100, or --top-k if that is more.")
    ] = None,
    rerank: Annotated[str | None, typer.Option(help="Model that scores hits again from their texts.")] = None,
    rerank_weight: Annotated[
        float | None, typer.Option(min=0, max=1, help="Share of the reranker's score in a hit's; 1.")
    ] = None,
    where: Annotated[str | None, typer.Option(help="Condition on metadata, as: year >= 2020 and lang = 'en'.")] = None,
    document_weight: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the whole document's vector, beside its best chunk's.")
    ] = 0.5,
    queries: Annotated[Path | None, typer.Option(help="File of queries: .jsonl, or .tsv of id and text.")] = None,
    run: Annotated[Path | None, typer.Option(help="Write the hits of --queries as a TREC run.")] = None,
    batch_size: Annotated[
        int, typer.Option(min=1, help="Queries encoded at once; more is faster, and changes the last bits of scores.")
    ] = 1,
    k1: K1 = None,
    b: B = None,
    encoder: Annotated[str | None, typer.Option(help="The index's encoder, if it has moved.")] = None,
    query_encoder: Annotated[
        Path | None, typer.Option(help="Folder written by export onnx, which encodes short queries faster.")
    ] = None,
    allow_int8: Annotated[
        bool,
        typer.Option(
            "--allow-int8", help="Take a --query-encoder in int8, with vectors near those of the index's encoder."
        ),
    ] = False,
    device: Device = None,
    dtype: Dtype = None,
    faiss_device: FaissDevice = None,
    json: Json = False,
) -> None:
    """Search an index for one query, or for a file of queries."""
    if (query is None) == (queries is None):
        raise typer.BadParameter("give either a query or --queries FILE")
    if run is not None and queries is None:
        raise typer.BadParameter("--run needs --queries")
    if queries is not None and run is None and not json:
        raise typer.BadParameter("--queries needs --run OUT.trec or --json")
    if mode != "hybrid" and (fusion is not None or weights is not None):
        raise typer.BadParameter("--fusion and --weights need --mode hybrid")
    if rerank is None and (rerank_weight is not None or (depth is not None and mode != "hybrid")):
        raise typer.BadParameter("--rerank-weight needs --rerank, and --depth one of --rerank and --mode hybrid")
    if mode == "bm25" and given(encoder=encoder, query_encoder=query_encoder, faiss_device=faiss_device):
        raise typer.BadParameter(
            "--encoder, --query-encoder and --faiss-device with --mode bm25, which searches no vectors; leave them"
        )
    if allow_int8 and query_encoder is None:
        raise typer.BadParameter("--allow-int8 needs --query-encoder")
    if mode == "dense" and (k1 is not None or b is not None):
        raise typer.BadParameter("--k1 and --b need --mode bm25 or hybrid")
    settings = given(
        fusion=fusion,
        weights=None if weights is None else several(weights, weight),
        reranker=rerank,
        rerank_weight=rerank_weight,
        k1=k1,
        b=b,
        encoder=encoder,
        query_encoder=query_encoder,
        allow_int8=allow_int8 or None,
        device=device,
        dtype=dtype,
        faiss_device=faiss_device,
    )
    from aveyb_ir.data import read_queries
    from aveyb_ir.index import IndexDir

    IndexDir.open(directory)  # a mistyped path shows before anything heavy is imported
    texts = {item.id: item.text for item in read_queries(queries)} if queries is not None else {}
    from aveyb_ir.retrieval import Retriever

    retriever = Retriever(directory, mode=mode, batch_size=batch_size, **settings)  # type: ignore[arg-type]
    options: dict[str, Any] = {"depth": depth, "where": where, "document_weight": document_weight}
    if query is not None:
        _one(retriever, query, json, {"top_k": top_k or 10, **options})
    else:
        _many(retriever, texts, run, json, top_k, options)


def _one(retriever: "Retriever", query: str, json: bool, options: dict[str, Any]) -> None:
    query = os.fsencode(query).decode("utf-8", "replace")  # what was typed, also where the locale is not UTF-8
    hits = retriever.search(query, **options)
    if json:
        print_json({"query": query, "hits": [hit.to_json() for hit in hits]})
    else:
        print_hits(hits)


def _many(
    retriever: "Retriever",
    texts: dict[str, str],
    run: Path | None,
    json: bool,
    top_k: int | None,
    options: dict[str, Any],
) -> None:
    from aveyb_ir.data import write_run

    if run is not None:
        write_run(run, retriever.run(texts, top_k=top_k or 100, **options))
        typer.echo(f"{len(texts)} queries, run written to {run}", err=True)
    if json:
        found = retriever.search(list(texts.values()), top_k=top_k or 10, **options)
        for id, hits in zip(texts, found, strict=True):
            print_json({"query_id": id, "query": texts[id], "hits": [hit.to_json() for hit in hits]})
