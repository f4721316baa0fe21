"""The picture of a run: its loss, and how good the model was."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from aveyb_ir.data import replacing
from aveyb_ir.training.development import SELECTED_BY

CURVE_FILE = "curve.png"


def plot_curve(path: Path, log: Sequence[Mapping[str, float]], best_step: int | None) -> None:
    """Draw loss and, where there were evaluations, NDCG@10 against steps; a dot marks the weights that were kept.

    Args:
        path: a PNG file.
        log: lines of `loss.jsonl`.
        best_step: of the best evaluation; None without one.
    """
    losses = [(line["step"], line["loss"]) for line in log if "loss" in line]
    scores = [(line["step"], line[f"eval_{SELECTED_BY}"]) for line in log if f"eval_{SELECTED_BY}" in line]
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    axes.plot(*zip(*losses, strict=True), color="tab:gray", label="training loss")
    axes.set_xlabel("step")
    axes.set_ylabel("training loss, mean since the last point")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    if scores:
        right = axes.twinx()
        right.plot(*zip(*scores, strict=True), color="tab:blue", marker=".", label="NDCG@10")
        right.set_ylabel("NDCG@10 of the development set", color="tab:blue")
        right.set_ylim(0, 1.15 * max(score for _, score in scores) or 1)  # room for the label
        kept = next((score for score in scores if score[0] == best_step), None)
        if kept is not None:
            right.plot(*kept, "o", color="tab:blue")
            right.annotate(
                f"{kept[1]:.4f} at step {kept[0]}", kept, xytext=(0, 8), textcoords="offset points", ha="center"
            )
    with replacing(path) as partial:
        figure.savefig(partial, format="png", dpi=150)
