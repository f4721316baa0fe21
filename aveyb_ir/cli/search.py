"""`aveyb-ir search`."""

import os
from pathlib import Path
from typing import Annotated

import typer

from aveyb_ir.cli.options import Device, Dtype, Json
from aveyb_ir.cli.output import print_hits, print_json


def search(
    directory: Annotated[Path, typer.Argument(help="Index directory.")],
    query: Annotated[str | None, typer.Argument(help="What to look for.")] = None,
    top_k: Annotated[int | None, typer.Option(min=1, help="Hits per query; 10, or 100 for a run.")] = None,
    where: Annotated[str | None, typer.Option(help="Condition on metadata, as: year >= 2020 and lang = 'en'.")] = None,
    document_weight: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the whole document's vector, beside its best chunk's.")
    ] = 0.5,
    queries: Annotated[Path | None, typer.Option(help="File of queries: .jsonl, or .tsv of id and text.")] = None,
    run: Annotated[Path | None, typer.Option(help="Write the hits of --queries as a TREC run.")] = None,
    encoder: Annotated[str | None, typer.Option(help="The index's encoder, if it has moved.")] = None,
    device: Device = None,
    dtype: Dtype = None,
    json: Json = False,
) -> None:
    """Search an index for one query, or for a file of queries."""
    if (query is None) == (queries is None):
        raise typer.BadParameter("give either a query or --queries FILE")
    if run is not None and queries is None:
        raise typer.BadParameter("--run needs --queries")
    if queries is not None and run is None and not json:
        raise typer.BadParameter("--queries needs --run OUT.trec or --json")
    from aveyb_ir.data import read_queries, write_run
    from aveyb_ir.index import IndexDir

    IndexDir.open(directory)  # a mistyped path shows before anything heavy is imported
    texts = {item.id: item.text for item in read_queries(queries)} if queries is not None else {}
    from aveyb_ir.retrieval import Retriever

    retriever = Retriever(directory, encoder=encoder, device=device, dtype=dtype)
    if run is not None:
        write_run(run, retriever.run(texts, top_k=top_k or 100, where=where, document_weight=document_weight))
        typer.echo(f"{len(texts)} queries, run written to {run}", err=True)
    if queries is not None and json:
        found = retriever.search(list(texts.values()), top_k=top_k or 10, where=where, document_weight=document_weight)
        for id, hits in zip(texts, found, strict=True):
            print_json({"query_id": id, "query": texts[id], "hits": [hit.to_json() for hit in hits]})
    if query is not None:
        query = os.fsencode(query).decode("utf-8", "replace")  # what was typed, also where the locale is not UTF-8
        hits = retriever.search(query, top_k=top_k or 10, where=where, document_weight=document_weight)
        if json:
            print_json({"query": query, "hits": [hit.to_json() for hit in hits]})
        else:
            print_hits(hits)
