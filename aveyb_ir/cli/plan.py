"""`aveyb-ir plan`."""

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from aveyb_ir.cli.options import Device, Dtype, Json, MaxLength
from aveyb_ir.cli.output import print_fields, print_json

if TYPE_CHECKING:
    from aveyb_ir.encoding import Estimate
    from aveyb_ir.retrieval import Plan
    from aveyb_ir.training import TrainingPlan


def plan(
    model: Annotated[str | None, typer.Option(help="Model folder or Hub name, with --corpus.")] = None,
    corpus: Annotated[Path | None, typer.Option(help="BEIR folder, or a .jsonl or .tsv file of documents.")] = None,
    recipe: Annotated[Path | None, typer.Option(help="Training recipe, instead of --model and --corpus.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Replace a value of the recipe; may be repeated."),
    ] = None,
    spec: Annotated[str, typer.Option(help="As for index build.")] = "flat",
    granularity: Annotated[
        Literal["document", "chunk", "both"], typer.Option(help="What has a vector; chunks take an Avey-B.")
    ] = "document",
    sample: Annotated[int, typer.Option(min=1, help="Documents that are tokenized at the most.")] = 5000,
    max_seconds: Annotated[float, typer.Option(min=1, help="Time for measuring speed, roughly.")] = 60.0,
    device: Device = None,
    dtype: Dtype = None,
    max_length: MaxLength = None,
    json: Json = False,
) -> None:
    """Say what a long job will take here before it is begun: tokens, cuts, time, memory and disk."""
    if (model is None) != (corpus is None) or (corpus is None) == (recipe is None):
        raise typer.BadParameter("give --model and --corpus, or --recipe")
    if set_ and recipe is None:
        raise typer.BadParameter("--set needs --recipe")
    found: Plan | TrainingPlan
    if recipe is not None:
        from aveyb_ir.config import load_recipe

        checked = load_recipe(recipe, set_ or [])
        from aveyb_ir.training import plan_training

        found = plan_training(checked)
        fields = _training_fields(found)
    else:
        assert model is not None
        assert corpus is not None
        from aveyb_ir.data import read_documents

        next(read_documents(corpus), None)  # a mistyped corpus shows before anything heavy is imported
        from aveyb_ir.encoding import Encoder
        from aveyb_ir.retrieval import plan as run

        encoder = Encoder(model, device=device, dtype=dtype, max_length=max_length)
        found = run(encoder, corpus, spec=spec, granularity=granularity, sample=sample, max_seconds=max_seconds)
        fields = _index_fields(found)
    if json:
        print_json(found.to_json())
    else:
        print_fields(fields)


def _index_fields(plan: "Plan") -> dict[str, object]:
    counted = plan.sampled_documents == plan.documents
    how = "all tokenized" if counted else f"{plan.sampled_documents:,} of them tokenized, the rest estimated (95 %)"
    limit = "no length limit" if plan.max_length is None else f"at {plan.max_length:,} tokens"
    timed = "" if plan.longest_tokens <= plan.longest_timed else f"; over {plan.longest_timed:,} tokens extrapolated"
    disk = ", ".join(f"{name} {_bytes(size)}" for name, size in plan.disk_bytes.items() if size)
    return {
        "documents": f"{plan.documents:,}, {how}; the longest has {plan.longest_tokens:,} tokens",
        "tokens": f"{_count(plan.tokens)}, of which {_count(plan.tokens_used)} are used",
        "cut": f"{_count(plan.documents_cut)} documents ({limit})",
        "vectors": f"{_count(plan.vectors)} of {plan.dimension} numbers",
        "encoding": f"{_time(plan.seconds)}, measured in 3 rounds{timed}",
        "speed": ", ".join(f"up to {up_to:,} tokens {rate:,.0f}/s" for up_to, rate in plan.tokens_per_second.items()),
        "memory": f"{_bytes(plan.peak_memory_bytes)} at the peak",
        "disk": f"{_bytes(sum(plan.disk_bytes.values()))} ({disk}); {_bytes(plan.disk_peak_bytes)} while it is built",
    }


def _training_fields(plan: "TrainingPlan") -> dict[str, object]:
    return {
        "rows": f"{plan.rows:,} in {plan.batches:,} batches of up to {plan.batch_size:,}",
        "steps": f"{plan.steps:,}",
        "tokens": f"about {plan.tokens_per_epoch:,.0f} an epoch, {plan.tokens:,.0f} in all",
        "speed": f"{plan.tokens_per_second:,.0f} tokens/s, by {plan.measured_steps} steps trained here",
        "training": f"{_time(plan.seconds)}, without loading, evaluating and saving",
    }


def _count(estimate: "Estimate") -> str:
    if estimate.low == estimate.high:
        return f"{estimate.value:,.0f}"
    return f"about {estimate.value:,.0f} ({estimate.low:,.0f} to {estimate.high:,.0f})"


def _time(estimate: "Estimate") -> str:
    value, low, high = (timedelta(seconds=round(s)) for s in (estimate.value, estimate.low, estimate.high))
    return f"about {value} ({low} to {high})"


def _bytes(size: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
