"""One cell of a study: one model of one system, trained once and evaluated once on each collection.

Work is done when its files say that they were made from what they would be made from now: a model by its recipe and the
fingerprint of the training data, a report by the files of the model and of the collection.
"""

import json
import logging
import shutil
from dataclasses import dataclass
from pathlib import Path

from aveyb_ir.config import Recipe, load_recipe
from aveyb_ir.data import write_lines
from aveyb_ir.evaluation import Protocol, evaluate
from aveyb_ir.study.content import files_hash
from aveyb_ir.study.recipe import EvaluationSet
from aveyb_ir.training import can_resume, train

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
        data_fingerprint: Of the pairs it is trained on.
    """

    label: str
    recipe: Recipe
    folder: Path
    data_fingerprint: str

    @property
    def model(self) -> Path:
        """The model folder."""
        return self.folder / "model"

    def is_trained(self) -> bool:
        """Whether the model is there, trained by this recipe on this data."""
        if not (self.model / "training.json").is_file():
            return False
        record = json.loads((self.model / "training.json").read_text(encoding="utf-8"))
        made_by = load_recipe(self.model / "recipe.yaml")
        return record["data_fingerprint"] == self.data_fingerprint and _bare(made_by) == _bare(self.recipe)

    def train(self) -> None:
        """Train, from the last checkpoint of an interrupted run where there is one. Raises like `train`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        train(self.recipe, output=self.model, overwrite=True, resume=can_resume(self.recipe, output=self.model))

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
        model: A model folder, or "bm25".
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
    ledger = folder / _LEDGER
    known = json.loads(ledger.read_text(encoding="utf-8")) if ledger.is_file() else {}
    content = files_hash(Path(collection.data))
    source = f"{files_hash(Path(model), leave_out=_NOT_THE_MODEL)} {content}"
    if report.is_file() and known.get(report.name) == source:
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
    write_lines(ledger, json.dumps({**known, report.name: source}, indent=1).split("\n"))
    return report


def _bare(recipe: Recipe) -> Recipe:
    """The recipe without where its result goes, so that a study can be moved."""
    return recipe.model_copy(update={"train": recipe.train.model_copy(update={"output": None})})
