"""One cell of a study: one model of one system, trained once and evaluated once on each collection.

Work is done when the ledger beside it says that it was made from what it would be made from now: a model from its
recipe and the files that this names, a report from the files of the model and of the collection.
"""

import hashlib
import json
import logging
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from aveyb_ir.data import write_lines
from aveyb_ir.encoding.loading import locate
from aveyb_ir.evaluation import Protocol, evaluate
from aveyb_ir.study.content import files_hash
from aveyb_ir.study.recipe import EvaluationSet, RetrieverRecipe
from aveyb_ir.tasks import DistillRecipe
from aveyb_ir.training import can_resume, train_task

logger = logging.getLogger(__name__)

_LEDGER = "made-from.json"
_NOT_THE_MODEL = ("training.json", "loss.jsonl", "recipe.yaml", "README.md")


@dataclass(frozen=True)
class Cell:
    """A system's model of one seed and learning rate.

    Attributes:
        label: The system.
        recipe: Its training recipe, seed and learning rate included.
        folder: Holds `model/` and the reports.
    """

    label: str
    recipe: RetrieverRecipe
    folder: Path

    @property
    def model(self) -> Path:
        """The model folder."""
        return self.folder / "model"

    def is_trained(self) -> bool:
        """Whether the model is there, trained by this recipe on this data, wherever the data lay."""
        return (self.model / "training.json").is_file() and _ledger(self.folder).get(self.model.name) == self._made_from

    def train(self) -> None:
        """Train, from the last checkpoint of an interrupted run where there is one. Raises like `train_task`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        train_task(self.recipe, output=self.model, overwrite=True, resume=can_resume(self.recipe, output=self.model))
        _note(self.folder, self.model.name, self._made_from)

    @property
    def _made_from(self) -> str:
        values = self.recipe.model_dump(mode="json")
        del values["train"]["output"]
        if isinstance(self.recipe, DistillRecipe) and self.recipe.teacher is not None:
            del values["teacher"]["kept"]  # only spares the teacher's work
        return hashlib.blake2b(json.dumps(_by_content(values)).encode(), digest_size=16).hexdigest()

    def evaluate(self, collection: EvaluationSet, protocol: Protocol) -> Path:
        """Evaluate the trained model unless that was done, and give the path of the report. Raises like `evaluate`.

        Vectors of documents are kept for the next evaluation, until `forget_vectors`.
        """
        return report_of(str(self.model), self.label, collection, protocol, self.folder, vectors=self._vectors)

    def forget_vectors(self) -> None:
        """Remove what only further evaluations would need."""
        shutil.rmtree(self._vectors, ignore_errors=True)

    @property
    def _vectors(self) -> Path:
        return self.folder / "vectors"


def report_of(
    model: str,
    name: str,
    collection: EvaluationSet,
    protocol: Protocol,
    folder: Path,
    *,
    vectors: Path | None = None,
) -> Path:
    """Evaluate a model, or find the report of an earlier time that was made from the same files.

    Args:
        model: A model folder or name, or "bm25".
        name: What reports call it.
        collection: What it is evaluated on.
        protocol: As in `evaluate`.
        folder: Where the report is written, and the run beside it.
        vectors: Keeps vectors of documents for the next evaluation; not for BM25.

    Returns:
        The path of the report.

    Raises like `evaluate`.
    """
    report = folder / f"{Path(collection.data).name}-{collection.split}-{protocol}.json"
    content = files_hash(Path(collection.data))
    source = f"{files_hash(Path(locate(model)), leave_out=_NOT_THE_MODEL)} {content}"
    if report.is_file() and _ledger(folder).get(report.name) == source:
        return report
    logger.info("%s on %s %s, protocol %s", name, collection.data, collection.split, protocol)
    folder.mkdir(parents=True, exist_ok=True)
    evaluation = evaluate(
        model,
        collection.data,
        split=collection.split,
        protocol=protocol,
        name=name,
        vectors=None if vectors is None else vectors / content,
        write_run=report.with_suffix(".trec"),
    )
    evaluation.write(report)
    _note(folder, report.name, source)
    return report


def _by_content(value: Any) -> Any:
    """The values of a recipe with what is at each path in place of the path, so that a study can be moved."""
    if isinstance(value, dict):
        return {name: _by_content(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_by_content(item) for item in value]
    return files_hash(Path(value)) if isinstance(value, str) and "/" in value else value


def _ledger(folder: Path) -> dict[str, str]:
    """What the things in a folder were made from; what cannot be read vouches for nothing."""
    file = folder / _LEDGER
    try:
        return TypeAdapter(dict[str, str]).validate_json(file.read_bytes(), strict=True)
    except FileNotFoundError:
        return {}
    except ValidationError:
        logger.warning("%s cannot be read; what it vouched for is made again", file)
        return {}


def _note(folder: Path, name: str, made_from: str) -> None:
    entries = {**_ledger(folder), name: made_from}
    write_lines(folder / _LEDGER, json.dumps(entries, indent=1).split("\n"))
