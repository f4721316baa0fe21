"""`aveyb-ir mine`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aveyb_ir.cli.options import Device, Dtype, FaissDevice, Json, MaxLength, Overwrite, given
from aveyb_ir.cli.output import counting, print_fields, print_json, print_rows

if TYPE_CHECKING:
    from aveyb_ir.training import MiningResult


def mine(
    data: Annotated[str, typer.Option(help="BEIR folder or public name such as BeIR/nq, or a file of training rows.")],
    output: Annotated[Path, typer.Option(help="Training file to write: .jsonl or .jsonl.gz; its record goes beside.")],
    model: Annotated[str | None, typer.Option(help="Model folder or Hub name, or bm25.")] = None,
    index: Annotated[Path | None, typer.Option(help="Index directory to search, instead of a model.")] = None,
    pairs: Annotated[
        bool, typer.Option("--pairs", help="--data is training rows, though it is a folder or public name.")
    ] = False,
    corpus: Annotated[
        str | None, typer.Option(help="Documents to search for training rows; by default the rows' own texts.")
    ] = None,
    split: Annotated[str, typer.Option(help="Whose judgements, of a BEIR folder or public name.")] = "train",
    num_negatives: Annotated[int, typer.Option(min=1, help="Negatives wanted for each query.")] = 7,
    depth: Annotated[int, typer.Option(min=1, help="Hits looked at for each query, positives among them.")] = 100,
    skip_top: Annotated[int, typer.Option(min=0, help="Best ranked possible negatives that are left out.")] = 0,
    absolute_margin: Annotated[
        float | None, typer.Option(min=0, help="Negatives score at least this much less than the worst positive.")
    ] = None,
    relative_margin: Annotated[
        float | None, typer.Option(min=0, help="The same as a share of the positive's score; 0.05 is a good start.")
    ] = None,
    min_score: Annotated[float | None, typer.Option(help="Negatives score at least this.")] = None,
    max_score: Annotated[float | None, typer.Option(help="Negatives score at most this.")] = None,
    strategy: Annotated[str, typer.Option(help="top: the best ranked; sample: at random among all possible.")] = "top",
    seed: Annotated[int, typer.Option(help="For --strategy sample.")] = 42,
    cross_encoder: Annotated[
        str | None, typer.Option(help="CrossEncoder folder or Hub name: margins are about its scores, which are kept.")
    ] = None,
    bm25: Annotated[bool, typer.Option("--bm25", help="Look at BM25's hits too, in turns with the model's.")] = False,
    vectors: Annotated[Path | None, typer.Option(help="Folder that keeps vectors, also for `evaluate`.")] = None,
    device: Device = None,
    dtype: Dtype = None,
    faiss_device: FaissDevice = None,
    max_length: MaxLength = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Find hard negatives with a model (--model) or an index (--index), and write a file to train from."""
    if (model is None) == (index is None):
        raise typer.BadParameter("give one of --model and --index")
    if faiss_device is not None and index is None:
        raise typer.BadParameter("--faiss-device needs --index")
    with counting() as progress:
        result = _mined(
            model,
            index,
            device,
            dtype,
            faiss_device,
            max_length,
            data=data,
            output=output,
            split=split,
            pairs=pairs,
            corpus=corpus,
            num_negatives=num_negatives,
            depth=depth,
            skip_top=skip_top,
            absolute_margin=absolute_margin,
            relative_margin=relative_margin,
            min_score=min_score,
            max_score=max_score,
            strategy=strategy,
            seed=seed,
            cross_encoder=cross_encoder,
            bm25=bm25,
            vectors=vectors,
            overwrite=overwrite,
            progress=progress,
        )
    if json:
        print_json(result.to_json())
    else:
        _print(result)


def _mined(
    model: str | None,
    index: Path | None,
    device: str | None,
    dtype: str | None,
    faiss_device: FaissDevice,
    max_length: int | None,
    **options: Any,
) -> "MiningResult":
    from aveyb_ir.data import open_collection

    if not options["pairs"] and not Path(options["data"]).is_file():
        open_collection(options["data"])  # a mistyped path is found before anything heavy is imported
    from aveyb_ir.encoding import Encoder
    from aveyb_ir.retrieval import Retriever
    from aveyb_ir.training import mine as run

    if index is not None:
        return run(Retriever(index, device=device, dtype=dtype, **given(faiss_device=faiss_device)), **options)
    if model == "bm25":
        return run(model, **options)
    return run(Encoder(str(model), device=device, dtype=dtype, max_length=max_length), **options)


def _print(result: "MiningResult") -> None:
    print_fields(
        {
            "queries": result.num_queries,
            "negatives": result.num_negatives,
            "rows with fewer": sum(result.short.values()),
            **{f"not taken: {reason}": count for reason, count in result.dropped.items()},
        }
    )
    if result.scored_by is not None:
        print_rows(
            [
                {f"scores by {result.scored_by}": "positives", **result.positive_scores},
                {f"scores by {result.scored_by}": "negatives", **result.negative_scores},
            ]
        )
    typer.echo(f"written to {result.output}, record in {result.record}")
