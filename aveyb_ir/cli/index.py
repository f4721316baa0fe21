"""`aveyb-ir index …`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from aveyb_ir.cli.options import Device, Dtype, FaissBuildDevice, Json, MaxLength, Overwrite, TruncateDim
from aveyb_ir.cli.output import print_fields, print_json, print_rows
from aveyb_ir.cli.progress import encoding_progress
from aveyb_ir.packaged import DEFAULT_MODEL

app = typer.Typer(help="Build an index directory, look at it, change it.", no_args_is_help=True)

Directory = Annotated[Path, typer.Argument(help="Index directory.")]
Model = Annotated[str | None, typer.Option("--encoder", help="The index's encoder, if it has moved.")]
Spec = Annotated[
    str, typer.Option(help="auto, flat, int8, ivf, ivf_pq, hnsw, binary, a .yaml file or a FAISS factory string.")
]
OtherSpec = Annotated[str | None, typer.Option("--spec", help="Store and search the vectors this way from now on.")]
Granularity = Literal["document", "chunk", "both"]
Corpus = Annotated[
    Path, typer.Option(help="BEIR folder, .jsonl, .parquet or .tsv file, folder of them, or Hub data set.")
]


@app.command()
def build(
    directory: Annotated[Path, typer.Argument(help="Index directory to make.")],
    corpus: Corpus,
    encoder: Annotated[str, typer.Option(help="Model folder or Hub name.")] = DEFAULT_MODEL,
    spec: Spec = "flat",
    memory: Annotated[float | None, typer.Option(min=0, help="For --spec auto: gigabytes that FAISS may take.")] = None,
    recall: Annotated[float | None, typer.Option(min=0, max=1, help="For --spec auto: least recall@10.")] = None,
    granularity: Annotated[Granularity, typer.Option(help="What has a vector; chunks take an Avey-B.")] = "document",
    overwrite: Overwrite = False,
    faiss_device: FaissBuildDevice = "auto",
    device: Device = None,
    dtype: Dtype = None,
    max_length: MaxLength = None,
    truncate_dim: TruncateDim = None,
    devices: Annotated[
        str | None, typer.Option(help="Encode in a process for each, separated by commas: cuda:0,cuda:1 or cpu,cpu.")
    ] = None,
    json: Json = False,
) -> None:
    """Encode a corpus and write an index directory; nothing is there before all is.

    A build that was killed goes on where it stopped when the same command is given again.
    """
    if (memory is not None or recall is not None) and spec != "auto":
        raise typer.BadParameter("--memory and --recall need --spec auto")
    from aveyb_ir.data import count_documents, read_documents

    next(read_documents(corpus), None)  # a mistyped corpus shows before anything heavy is imported
    from aveyb_ir.encoding import Encoder
    from aveyb_ir.index import AutoSpec
    from aveyb_ir.retrieval import Index

    wanted = {key: value for key, value in {"memory_gb": memory, "recall": recall}.items() if value is not None}
    chosen = AutoSpec.model_validate(wanted) if wanted else spec
    model = Encoder(encoder, device=device, dtype=dtype, max_length=max_length, truncate_dim=truncate_dim)
    with encoding_progress() as progress:
        index = Index.build(
            directory,
            corpus,
            encoder=model,
            spec=chosen,
            granularity=granularity,
            overwrite=overwrite,
            faiss_device=faiss_device,
            devices=devices.split(",") if devices else None,
            progress=progress,
            total_documents=count_documents(corpus) if progress else None,
        )
    facts = {key: index.info()[key] for key in ("documents", "vectors", "spec")}
    _report({"index": str(directory), **facts, **vars(model.counts)}, json)


@app.command()
def add(
    directory: Directory,
    corpus: Corpus,
    replace: Annotated[bool, typer.Option("--replace", help="Replace documents whose ids are there already.")] = False,
    encoder: Model = None,
    device: Device = None,
    dtype: Dtype = None,
    json: Json = False,
) -> None:
    """Add documents to an index: all of them, or none if one is broken."""
    from aveyb_ir.retrieval import Index

    index = Index.open(directory, encoder=encoder, device=device, dtype=dtype)
    _report({"added": index.add(corpus, replace=replace), "documents": len(index)}, json)


@app.command()
def delete(
    directory: Directory,
    ids: Annotated[list[str], typer.Argument(help="Ids of documents.")],
    json: Json = False,
) -> None:
    """Delete documents by id: all of them, or none if one is not there."""
    from aveyb_ir.index import IndexDir, IndexWriter

    with IndexWriter.open(directory) as writer:
        writer.delete(ids)
    _report({"deleted": len(set(ids)), "documents": len(IndexDir.open(directory))}, json)


@app.command()
def compact(
    directory: Directory, spec: OtherSpec = None, faiss_device: FaissBuildDevice = "auto", json: Json = False
) -> None:
    """Rewrite an index without what was deleted; the vectors are kept, whatever the spec."""
    from aveyb_ir.index import IndexDir, IndexWriter

    with IndexWriter.open(directory, faiss_device=faiss_device) as writer:
        writer.compact(spec=spec)
    _report(IndexDir.open(directory).info(), json)


@app.command()
def info(directory: Directory, json: Json = False) -> None:
    """Show what an index holds and what made it."""
    from aveyb_ir.index import IndexDir

    _report(IndexDir.open(directory).info(), json)


@app.command()
def verify(
    directory: Directory,
    sample: Annotated[int, typer.Option(min=0, help="Documents to encode again; 0 loads no encoder.")] = 32,
    encoder: Model = None,
    device: Device = None,
    dtype: Dtype = None,
    json: Json = False,
) -> None:
    """Read every byte of an index, check its ids, and encode a sample of its documents again."""
    from aveyb_ir.index import IndexDir
    from aveyb_ir.retrieval import Index

    if sample:
        index = Index.open(directory, encoder=encoder, device=device, dtype=dtype)
        least = index.verify(sample=sample)
        _report({"index": str(directory), "documents": len(index), "verified": True, "least_cosine": least}, json)
    else:
        state = IndexDir.open(directory)
        state.verify()
        _report({"index": str(directory), "documents": len(state), "verified": True}, json)


@app.command()
def recall(
    directory: Directory,
    specs: Annotated[
        list[str] | None, typer.Argument(help="Specs to compare; by default all that are built in.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="BEIR folder with queries for it and their judgements.")] = None,
    split: Annotated[str, typer.Option(help="Which judgements of --data.")] = "test",
    top_k: Annotated[int, typer.Option(min=1, help="Hits per query.")] = 10,
    plot: Annotated[Path | None, typer.Option(help="Draw the table into this .png file.")] = None,
    encoder: Model = None,
    json: Json = False,
) -> None:
    """Compare specs with exact search on the vectors of an index: recall, NDCG@10, speed and size."""
    from aveyb_ir.evaluation import index_recall

    rows = index_recall(directory, specs=specs, data=data, split=split, top_k=top_k, plot=plot, encoder=encoder)
    if json:
        print_json([row.to_json() for row in rows])
    else:
        print_rows([row.to_json() for row in rows])


def _report(fields: dict[str, object], json: bool) -> None:
    (print_json if json else print_fields)(fields)
