"""`aveyb-ir index …`."""

from pathlib import Path
from typing import Annotated

import typer

from aveyb_ir.cli.options import Device, Dtype, Json, MaxLength, Overwrite
from aveyb_ir.cli.output import counting, print_fields, print_json

app = typer.Typer(help="Build an index directory, look at it, change it.", no_args_is_help=True)

Directory = Annotated[Path, typer.Argument(help="Index directory.")]
Model = Annotated[str | None, typer.Option("--encoder", help="The index's encoder, if it has moved.")]
Corpus = Annotated[Path, typer.Option(help="BEIR folder, or a .jsonl or .tsv file of documents.")]


@app.command()
def build(
    directory: Annotated[Path, typer.Argument(help="Index directory to make.")],
    corpus: Corpus,
    encoder: Annotated[str, typer.Option(help="Model folder or Hub name.")],
    spec: Annotated[str, typer.Option(help="How vectors are stored and searched.")] = "flat",
    overwrite: Overwrite = False,
    device: Device = None,
    dtype: Dtype = None,
    max_length: MaxLength = None,
    json: Json = False,
) -> None:
    """Encode a corpus and write an index directory; nothing is there before all is."""
    from aveyb_ir.encoding import Encoder
    from aveyb_ir.retrieval import Index

    model = Encoder(encoder, device=device, dtype=dtype, max_length=max_length)
    with counting("Encoded") as progress:
        index = Index.build(directory, corpus, encoder=model, spec=spec, overwrite=overwrite, progress=progress)
    _report({"index": str(directory), "documents": len(index), **vars(model.counts)}, json)


@app.command()
def add(
    directory: Directory,
    corpus: Corpus,
    replace: Annotated[bool, typer.Option("--replace", help="Replace documents whose ids are there already.")] = False,
    encoder: Model = None,
    json: Json = False,
) -> None:
    """Add documents to an index: all of them, or none if one is broken."""
    from aveyb_ir.retrieval import Index

    index = Index.open(directory, encoder=encoder)
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
    _report({"deleted": len(ids), "documents": len(IndexDir.open(directory))}, json)


@app.command()
def compact(directory: Directory, json: Json = False) -> None:
    """Rewrite an index without what was deleted."""
    from aveyb_ir.index import IndexDir, IndexWriter

    with IndexWriter.open(directory) as writer:
        writer.compact()
    _report(IndexDir.open(directory).info(), json)


@app.command()
def info(directory: Directory, json: Json = False) -> None:
    """Show what an index holds and what made it."""
    from aveyb_ir.index import IndexDir

    _report(IndexDir.open(directory).info(), json)


@app.command()
def verify(directory: Directory, json: Json = False) -> None:
    """Read every byte of an index and compare it with its checksums."""
    from aveyb_ir.index import IndexDir

    index = IndexDir.open(directory)
    index.verify()
    _report({"index": str(directory), "documents": len(index), "verified": True}, json)


def _report(fields: dict[str, object], json: bool) -> None:
    (print_json if json else print_fields)(fields)
