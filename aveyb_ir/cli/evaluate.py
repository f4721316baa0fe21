"""`aveyb-ir evaluate`."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aveyb_ir.cli.options import K1, B, Device, Dtype, FaissDevice, Json, MaxLength, TruncateDim, given
from aveyb_ir.cli.output import counting, print_json, print_rows

if TYPE_CHECKING:
    from aveyb_ir.evaluation import Evaluation


def evaluate(
    model: Annotated[str | None, typer.Option(help="Model folder or Hub name, or bm25; with --data.")] = None,
    index: Annotated[Path | None, typer.Option(help="Index directory to measure as it is, with --data.")] = None,
    mode: Annotated[str | None, typer.Option(help="With --index: dense, bm25 or hybrid; dense if not said.")] = None,
    fusion: Annotated[str | None, typer.Option(help="With --mode hybrid: rrf or weighted; rrf if not said.")] = None,
    rerank: Annotated[str | None, typer.Option(help="With --index: model that scores hits again.")] = None,
    run: Annotated[Path | None, typer.Option(help="File of answers: a TREC run, or .json.")] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(help="BEIR folder, folder of them, or public name such as BeIR/nq; may be repeated."),
    ] = None,
    qrels: Annotated[Path | None, typer.Option(help="File of judgements for --run, instead of --data.")] = None,
    split: Annotated[str | None, typer.Option(help="Whose judgements: test, or dev for msmarco, if not said.")] = None,
    protocol: Annotated[
        str, typer.Option(help="full: as trec_eval; paper: to stand beside Avey-B's paper, never beside full.")
    ] = "full",
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="ndcg@K, recall@K, precision@K, success@K, map, mrr@K, or with the paper's protocol paper-ndcg@K; "
            "may be repeated."
        ),
    ] = None,
    top_k: Annotated[
        int | None,
        typer.Option(min=1, help="Hits per query that are scored: 1000, 100 with --rerank, or all of a run's."),
    ] = None,
    own_document: Annotated[
        str, typer.Option(help="Whether the document with the query's id may be a hit: auto, ignore or keep.")
    ] = "auto",
    bm25: Annotated[bool, typer.Option(help="Measure BM25 beside the model.")] = True,
    k1: K1 = None,
    b: B = None,
    name: Annotated[str | None, typer.Option(help="What tables and reports call the system.")] = None,
    vectors: Annotated[
        Path | None, typer.Option(file_okay=False, help="Folder that keeps document vectors for the next time.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Report for `aveyb-ir compare`: a .json file, or a folder for one of each.")
    ] = None,
    write_run: Annotated[Path | None, typer.Option(help="Write the hits as a TREC run (one --data only).")] = None,
    per_query: Annotated[bool, typer.Option("--per-query", help="Add the values of single queries (with --json).")] = (
        False
    ),
    device: Device = None,
    dtype: Dtype = None,
    max_length: MaxLength = None,
    truncate_dim: TruncateDim = None,
    faiss_device: FaissDevice = None,
    json: Json = False,
) -> None:
    """Measure a model (--model), an index (--index) or answers (--run) on collections (--data), with BM25 beside."""
    sources = data or []
    encoder = {"device": device, "dtype": dtype, "max_length": max_length, "truncate_dim": truncate_dim}
    search: dict[str, Any] = {"mode": mode, "fusion": fusion, "rerank": rerank, "faiss_device": faiss_device}
    words = given(k1=k1, b=b)
    _check_usage(model, index, run, sources, qrels, write_run, output)
    _check_unused(model, index, run, {"vectors": vectors, **encoder, **search})
    if fusion is not None and mode != "hybrid":
        raise typer.BadParameter("--fusion needs --mode hybrid")
    if faiss_device is not None and mode == "bm25":
        raise typer.BadParameter("--faiss-device with --mode bm25, which searches no vectors; leave it out")
    if words and (run is not None or not (bm25 or model == "bm25" or mode in ("bm25", "hybrid"))):
        raise typer.BadParameter("--k1 and --b where BM25 is not measured, which alone has a use for them; leave them")
    _check_outputs(output, write_run, [Path(one) for one in (run, qrels, index, model, *sources) if one is not None])
    if name == "bm25" and bm25 and model != "bm25":
        raise typer.BadParameter("the name bm25 is taken by what stands beside; choose another, or give --no-bm25")
    options: dict[str, Any] = {"metrics": metric or None, "own_document": own_document, "protocol": protocol}
    if run is not None or top_k is not None:
        options["top_k"] = top_k
    elif rerank is not None:
        options["top_k"] = 100
    sets: Iterable[list[Evaluation]]
    if run is not None:
        sets = [[_of_run(run, sources, qrels, split, name, options)]]
    else:
        options |= {"split": split, "vectors": vectors}
        sets = _of_system(model, index, sources, name, bm25, write_run, encoder, search, words, options)
    found = []
    for evaluations in sets:
        found.append(evaluations)
        if output is not None:  # at once: a later set may fail
            _write(output, evaluations)
    if json:
        print_json(_as_json(found, per_query))
    else:
        _print(found)


def _check_usage(
    model: str | None,
    index: Path | None,
    run: Path | None,
    data: Sequence[str],
    qrels: Path | None,
    write_run: Path | None,
    output: Path | None,
) -> None:
    if sum(one is not None for one in (model, index, run)) != 1:
        raise typer.BadParameter("give one of --model, --index and --run")
    if run is None and (not data or qrels is not None):
        raise typer.BadParameter("give --data, and --qrels only with --run")
    if run is not None and (len(data) + (qrels is not None) != 1 or write_run is not None):
        raise typer.BadParameter("give --qrels or one --data with --run, and no --write-run")
    if len({Path(source).name for source in data}) != len(data):
        raise typer.BadParameter("two --data have the same name; give each once, or rename a folder")
    if len(data) > 1 and (write_run is not None or (output is not None and output.suffix == ".json")):
        raise typer.BadParameter("with several --data give --output a folder, and no --write-run")


def _check_unused(model: str | None, index: Path | None, run: Path | None, given: dict[str, Any]) -> None:
    """Refuse options that what is measured has no use for."""
    if run is not None or model == "bm25":
        what, unused = ("--run" if run is not None else "bm25"), set(given)
    elif index is not None:
        what, unused = "--index", {"vectors", "max_length", "truncate_dim"}
    else:
        what, unused = "--model", {"mode", "fusion", "rerank", "faiss_device"}
    if found := [
        f"--{name.replace('_', '-')}" for name, value in given.items() if name in unused and value is not None
    ]:
        raise typer.BadParameter(f"{', '.join(found)} with {what}, which has no use for it; leave it out")


def _check_outputs(output: Path | None, write_run: Path | None, inputs: Sequence[Path]) -> None:
    """Refuse before anything is measured to write where nothing can be, or over what is read."""
    from aveyb_ir.data import check_replaceable

    report = output if output is not None and output.suffix == ".json" else None
    if output is not None and report is None and output.exists() and not output.is_dir():
        raise typer.BadParameter(f"--output {output} is no folder; give one, or a name that ends in .json")
    if report is not None and write_run is not None and report.resolve() == write_run.resolve():
        raise typer.BadParameter(f"--output and --write-run are both {report}; give each a file of its own")
    for file in (report, write_run):
        if file is None:
            continue
        check_replaceable(file)
        for source in inputs:
            if file.exists() and source.exists() and file.resolve().is_relative_to(source.resolve()):
                raise typer.BadParameter(f"{file} is, or lies in, {source}, which is read; write elsewhere")


def _of_run(
    run: Path, data: Sequence[str], qrels: Path | None, split: str | None, name: str | None, options: dict[str, Any]
) -> "Evaluation":
    from aveyb_ir.data import open_collection, read_qrels, read_run
    from aveyb_ir.evaluation import evaluate_run, usual_split

    if qrels is not None:
        judgements = read_qrels(qrels)
        in_folder = qrels.resolve().parent.name == "qrels"
        labels = (qrels.resolve().parents[1].name, split or qrels.stem) if in_folder else (qrels.stem, split or "")
    else:
        collection = open_collection(data[0])
        labels = (collection.name, split or usual_split(collection.name))
        judgements = collection.qrels(labels[1])
    return evaluate_run(
        judgements, read_run(run), name=name or run.name.split(".")[0], data=labels[0], split=labels[1], **options
    )


def _of_system(
    model: str | None,
    index: Path | None,
    data: Sequence[str],
    name: str | None,
    bm25: bool,
    write_run: Path | None,
    encoder: dict[str, Any],
    search: dict[str, Any],
    words: dict[str, Any],
    options: dict[str, Any],
) -> "Iterator[list[Evaluation]]":
    """Yield for each collection the system's evaluation and BM25's."""
    from aveyb_ir.data import open_collections

    collections = [open_collections(source) for source in data]  # a mistyped path is found before anything is imported
    from aveyb_ir.encoding import Encoder
    from aveyb_ir.evaluation import evaluate, usual_split
    from aveyb_ir.retrieval import Retriever

    for collection in chain.from_iterable(collections):
        collection.qrels(options["split"] or usual_split(collection.name))  # a split missing from the last set too
    system: Any = model
    if index is not None:
        search = {**search, "reranker": search["rerank"], "device": encoder["device"], "dtype": encoder["dtype"]}
        del search["rerank"]
        system = Retriever(index, **given(**search), **words)
    elif model != "bm25":
        system = Encoder(model or "", **encoder)
    for source in data:
        with counting() as tell:
            progress = partial(tell, "documents encoded")
            of_words = words if system == "bm25" else {}
            evaluations = [
                evaluate(system, source, name=name, write_run=write_run, progress=progress, **of_words, **options)
            ]
            if bm25 and system != "bm25":
                progress = partial(tell, "documents read for BM25")
                evaluations.append(evaluate("bm25", source, progress=progress, **words, **{**options, "vectors": None}))
        yield evaluations


def _write(output: Path, evaluations: "list[Evaluation]") -> None:
    if output.suffix == ".json":
        evaluations[0].write(output)
        return
    for evaluation in evaluations:
        label = "-".join((evaluation.name, evaluation.data, evaluation.split, evaluation.protocol))
        evaluation.write(output / f"{label.replace('/', '_')}.json")


def _as_json(found: "list[list[Evaluation]]", per_query: bool) -> dict[str, Any]:
    sets = []
    for first, *beside in found:
        shown = first.to_json(per_query=per_query)
        sets.append({**shown, **{one.name: one.to_json(per_query=per_query) for one in beside}})
    return sets[0] if len(sets) == 1 else {"evaluations": sets, "means": _means(found)}


def _means(found: "list[list[Evaluation]]") -> dict[str, dict[str, float]]:
    from aveyb_ir.evaluation import mean_of

    return {of_system[0].name: mean_of(of_system) for of_system in zip(*found, strict=True)}


def _print(found: "list[list[Evaluation]]") -> None:
    """Print a row for each collection and system, their means, and what a reader must know beside them."""
    evaluations = [evaluation for of_set in found for evaluation in of_set]
    rows = [{"data": one.data, "split": one.split, "system": one.name, **_rounded(one.metrics)} for one in evaluations]
    if len(found) > 1:
        rows += [
            {"data": "mean", "split": "", "system": system, **_rounded(metrics)}
            for system, metrics in _means(found).items()
        ]
    print_rows(rows)
    typer.echo(f"protocol {evaluations[0].protocol}, own document {evaluations[0].own_document}")
    for first, *_ in found:
        searched = "" if first.num_documents is None else f" of {first.num_documents:,} documents"
        typer.echo(f"{first.data}: {first.num_queries:,} judged queries{searched}")
    for one in evaluations:
        for note in one.notes():
            typer.echo(f"{one.data}, {one.name}: {note}")


def _rounded(metrics: Any) -> dict[str, str]:
    return {name: f"{value:.4f}" for name, value in metrics.items()}
