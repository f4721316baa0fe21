"""`aveyb-ir evaluate`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from aveyb_ir.cli.options import Device, Dtype, Json, MaxLength
from aveyb_ir.cli.output import counting, print_evaluation, print_json


def evaluate(
    model: Annotated[str | None, typer.Option(help="Model folder or Hub name, with --data.")] = None,
    data: Annotated[Path | None, typer.Option(help="BEIR folder.")] = None,
    split: Annotated[str, typer.Option(help="Judgements of the folder to use.")] = "test",
    qrels: Annotated[Path | None, typer.Option(help="File of judgements, with --run.")] = None,
    run: Annotated[Path | None, typer.Option(help="File of answers: a TREC run, or .json.")] = None,
    metric: Annotated[
        list[str] | None, typer.Option(help="ndcg@K, recall@K, precision@K, success@K, map, mrr@K; may be repeated.")
    ] = None,
    top_k: Annotated[int, typer.Option(min=1, help="Hits per query that are scored.")] = 1000,
    own_document: Annotated[
        str, typer.Option(help="Whether the document with the query's id may be a hit: auto, ignore or keep.")
    ] = "auto",
    write_run: Annotated[Path | None, typer.Option(help="Write the model's hits as a TREC run.")] = None,
    per_query: Annotated[bool, typer.Option("--per-query", help="Add the values of single queries (with --json).")] = (
        False
    ),
    device: Device = None,
    dtype: Dtype = None,
    max_length: MaxLength = None,
    json: Json = False,
) -> None:
    """Measure a model on a BEIR folder (--model, --data), or answers against judgements (--qrels, --run)."""
    by_model, by_file = (model, data), (qrels, run)
    if None not in by_model and by_file == (None, None):
        evaluation, found = _of_model(model, data, split, metric, top_k, own_document, (device, dtype, max_length))
        if write_run is not None:
            _write(write_run, found)
    elif None not in by_file and by_model == (None, None):
        evaluation = _of_files(qrels, run, metric, own_document)
    else:
        raise typer.BadParameter("give --model and --data, or --qrels and --run")
    if json:
        print_json(evaluation.to_json(per_query=per_query))
    else:
        print_evaluation(evaluation)


def _of_model(
    model: Any, data: Any, split: str, metric: list[str] | None, top_k: int, own_document: Any, where: tuple[Any, ...]
) -> tuple[Any, Any]:
    from aveyb_ir.data import BeirFolder

    folder = BeirFolder(data)
    from aveyb_ir.encoding import Encoder
    from aveyb_ir.evaluation import DEFAULT_METRICS, evaluate_with_run

    device, dtype, max_length = where
    encoder = Encoder(model, device=device, dtype=dtype, max_length=max_length)
    with counting("Encoded") as progress:
        return evaluate_with_run(
            encoder,
            folder,
            split=split,
            metrics=metric or DEFAULT_METRICS,
            top_k=top_k,
            own_document=own_document,
            progress=progress,
        )


def _of_files(qrels: Any, run: Any, metric: list[str] | None, own_document: Any) -> Any:
    from aveyb_ir.data import read_qrels, read_run
    from aveyb_ir.evaluation import DEFAULT_METRICS, evaluate_run

    return evaluate_run(read_qrels(qrels), read_run(run), metrics=metric or DEFAULT_METRICS, own_document=own_document)


def _write(path: Path, run: Any) -> None:
    from aveyb_ir.data import write_run

    write_run(path, run)
