"""`aveyb-ir bench`."""

from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from aveyb_ir.cli.options import K1, B, Device, Dtype, FaissDevice, Json, count, given, several
from aveyb_ir.cli.output import print_json


def bench(
    models: Annotated[
        list[str] | None,
        typer.Argument(help="avey-b, avey-b-reference, modernbert, neobert or model folders; by default the four."),
    ] = None,
    lengths: Annotated[str, typer.Option(help="Tokens per text, separated by commas.")] = "16,128,512,2048,8192",
    batch_size: Annotated[
        int | None,
        typer.Option(min=1, help="Texts per batch, 1; rows with --training, 64; queries with --search, 32."),
    ] = None,
    size: Annotated[
        str | None, typer.Option(help="base or small, by default base; with --training by default small.")
    ] = None,
    tail: Annotated[str, typer.Option(help="How Avey-B ends a text: mask or zero.")] = "mask",
    repeats: Annotated[int, typer.Option(min=1, help="Rounds; medians are reported.")] = 5,
    max_seconds: Annotated[float, typer.Option(help="Skip batches that would take longer.")] = 60.0,
    mixed: Annotated[bool, typer.Option("--mixed", help="Also a corpus of mixed lengths.")] = False,
    memory: Annotated[str, typer.Option(help="Lengths whose peak memory is measured, separated by commas.")] = "",
    ranker: Annotated[str, typer.Option(help="Lengths at which the ranker is timed against the plain loop.")] = "",
    training: Annotated[
        bool, typer.Option("--training", help="Measure training steps instead, also against a bare loop.")
    ] = False,
    search: Annotated[
        Path | None, typer.Option(help="Measure searches of this index instead: dense, bm25, hybrid and reranked.")
    ] = None,
    queries: Annotated[Path | None, typer.Option(help="With --search: file of queries, .jsonl or .tsv.")] = None,
    max_queries: Annotated[int, typer.Option(min=1, help="With --search: queries taken from the file.")] = 200,
    rerank: Annotated[str | None, typer.Option(help="With --search: model that scores hybrid hits again.")] = None,
    query_encoder: Annotated[
        Path | None, typer.Option(help="With --search: folder written by export onnx, for one more dense search.")
    ] = None,
    k1: K1 = None,
    b: B = None,
    faiss_device: FaissDevice = None,
    output: Annotated[Path | None, typer.Option(help="Folder for bench.* or search.*: .json, .csv, .md, .png.")] = None,
    device: Device = None,
    dtype: Dtype = None,
    json: Json = False,
) -> None:
    """Measure encoders side by side: tokens per second, share of the machine's rate, memory, decay with length."""
    if (search is None) != (queries is None) or (search is None and rerank is not None):
        raise typer.BadParameter("--search and --queries need each other, and --rerank needs both")
    of_search = {"k1": k1, "b": b}
    if search is None and given(**of_search, query_encoder=query_encoder, faiss_device=faiss_device):
        raise typer.BadParameter("--k1, --b, --query-encoder and --faiss-device need --search")
    if search is not None and queries is not None:
        if models or training:
            raise typer.BadParameter("--search measures an index; give no models and no --training")
        options = {"batch_size": batch_size or 32, "repeats": repeats, "max_seconds": max_seconds, **given(**of_search)}
        opened = given(device=device, dtype=dtype, faiss_device=faiss_device)
        _search(search, queries, max_queries, rerank, query_encoder, opened, options, output, json)
        return
    if training:
        _training(models, batch_size or 64, size or "small", repeats, device, dtype, json)
        return
    texts = {"lengths": lengths, "memory": memory, "ranker": ranker}
    counts = {name: several(text, count) for name, text in texts.items()}
    from aveyb_ir.bench import bench as run
    from aveyb_ir.bench import save, table
    from aveyb_ir.bench.subjects import NAMES

    report = run(
        models or NAMES,
        batch_size=batch_size or 1,
        size=size or "base",
        tail=tail,
        device=device,
        dtype=dtype,
        repeats=repeats,
        max_seconds=max_seconds,
        mixed=mixed,
        progress=lambda line: typer.echo(line, err=True),
        **counts,
    )
    if output is not None:
        typer.echo(", ".join(str(path) for path in save(report, output)), err=True)
    if json:
        print_json(report.to_json())
    else:
        typer.echo(table(report))


def _search(
    index: Path,
    queries: Path,
    max_queries: int,
    rerank: str | None,
    query_encoder: Path | None,
    opened: dict[str, Any],
    options: dict[str, Any],
    output: Path | None,
    json: bool,
) -> None:
    from aveyb_ir.data import read_queries

    texts = [query.text for query in islice(read_queries(queries), max_queries)]
    from aveyb_ir.bench import bench_search
    from aveyb_ir.encoding import OnnxQueryEncoder
    from aveyb_ir.retrieval import Index, load_reranker

    model = {name: value for name, value in opened.items() if name != "faiss_device"}
    reranker = None if rerank is None else load_reranker(rerank, **model)
    opened_index = Index.open(index, **opened)
    report = bench_search(
        opened_index,
        texts,
        reranker=reranker,
        query_encoder=None if query_encoder is None else OnnxQueryEncoder(query_encoder, encoder=opened_index.encoder),
        progress=lambda line: typer.echo(line, err=True),
        **options,
    )
    if output is not None:
        typer.echo(", ".join(str(path) for path in report.save(output)), err=True)
    if json:
        print_json(report.to_json())
    else:
        typer.echo(report.table())


def _training(
    models: list[str] | None,
    batch_size: int,
    size: str,
    repeats: int,
    device: str | None,
    dtype: str | None,
    json: bool,
) -> None:
    from aveyb_ir.bench.training import bench_training, training_table

    timings = bench_training(
        models or ("avey-b", "modernbert"),
        batch_size=batch_size,
        size=size,
        repeats=repeats,
        device=device or "auto",
        dtype=dtype or "float32",
        progress=lambda line: typer.echo(line, err=True),
    )
    if json:
        print_json([asdict(timing) for timing in timings])
    else:
        typer.echo(training_table(timings))
