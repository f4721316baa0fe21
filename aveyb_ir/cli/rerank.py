"""`aveyb-ir rerank`."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aveyb_ir.cli.options import Device, Dtype, Json
from aveyb_ir.cli.output import counting, print_json

if TYPE_CHECKING:
    from aveyb_ir.data import Run
    from aveyb_ir.retrieval import Reranker


def rerank(
    run: Annotated[Path, typer.Option(help="Answers of the first stage: a TREC run, or .json.")],
    queries: Annotated[Path, typer.Option(help="Their queries: .jsonl, .tsv of id and text, or a BEIR folder.")],
    model: Annotated[str, typer.Option(help="Cross-encoder or bi-encoder: a folder or Hub name.")],
    output: Annotated[Path, typer.Option(help="Run to write: TREC, or JSON if its name ends in .json.")],
    corpus: Annotated[str | None, typer.Option(help="The documents: whatever `index build` takes.")] = None,
    index: Annotated[Path | None, typer.Option(help="The documents: an index directory, instead of --corpus.")] = None,
    kind: Annotated[
        str, typer.Option(help="cross_encoder, late_interaction (of a bi-encoder), or auto: as the model's files say.")
    ] = "auto",
    depth: Annotated[int, typer.Option(min=1, help="Documents per query that are scored again.")] = 100,
    top_k: Annotated[int | None, typer.Option(min=1, help="Documents per query that are kept; all of the run's.")] = (
        None
    ),
    weight: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the reranker's score; the rest is the first stage's.")
    ] = 1.0,
    qrels: Annotated[Path | None, typer.Option(help="Judgements: shows NDCG@10 before, after and at best.")] = None,
    max_length: Annotated[
        int | None, typer.Option(min=1, help="Tokens read of a pair or text; by default the model's own limit.")
    ] = None,
    device: Device = None,
    dtype: Dtype = None,
    json: Json = False,
) -> None:
    """Put the documents of a run into a better order with a model that reads their texts."""
    if (corpus is None) == (index is None):
        raise typer.BadParameter("give one of --corpus and --index")
    if output.exists() and any(one.exists() and output.samefile(one) for one in (run, queries, qrels or run)):
        raise typer.BadParameter(f"--output {output} is read; write to another file")
    from aveyb_ir.data import check_replaceable, read_documents, read_qrels, read_queries, read_run, write_run

    check_replaceable(output)
    before = read_run(run)
    judgements = None if qrels is None else read_qrels(qrels)
    texts = {query.id: query.text for query in read_queries(queries)}
    from aveyb_ir.index import IndexDir
    from aveyb_ir.retrieval import load_reranker, texts_from
    from aveyb_ir.retrieval import rerank as reranked

    documents = IndexDir.open(index) if index is not None else read_documents(corpus or "")
    reranker = load_reranker(model, kind=kind, device=device, dtype=dtype, max_length=max_length)  # type: ignore[arg-type]
    text_of = texts_from(documents, before, depth=depth)
    with counting() as tell:
        options: dict[str, Any] = {"depth": depth, "top_k": top_k, "weight": weight}
        after = reranked(texts, before, text_of, reranker, progress=partial(tell, "pairs scored"), **options)
    write_run(output, after)
    typer.echo(f"{len(after)} queries, run written to {output}", err=True)
    _print(reranker, before, after, judgements, {**options, "output": str(output)}, json)


def _print(
    reranker: "Reranker",
    before: "Run",
    after: "Run",
    judgements: Mapping[str, Mapping[str, int]] | None,
    facts: dict[str, Any],
    json: bool,
) -> None:
    from dataclasses import asdict

    from aveyb_ir.evaluation import reranking_quality

    quality = None if judgements is None else reranking_quality(judgements, before, after, depth=facts["depth"])
    if json:
        read = {"max_length": reranker.max_length, **asdict(reranker.counts)}
        measured = None if quality is None else quality.to_json()
        print_json({"model": reranker.name, "queries": len(after), **facts, "read": read, "quality": measured})
    elif quality is not None:
        typer.echo(str(quality))
