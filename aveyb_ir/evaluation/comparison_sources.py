"""From what a user names to evaluations: reports, folders of them, runs, models and BM25."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from aveyb_ir.data import listed, read_run
from aveyb_ir.encoding import Encoder
from aveyb_ir.errors import DataError
from aveyb_ir.evaluation.comparison_data import ComparedData
from aveyb_ir.evaluation.protocols import Protocol
from aveyb_ir.evaluation.result import Evaluation
from aveyb_ir.evaluation.retrieval_quality import evaluate, usual_split
from aveyb_ir.evaluation.runs import evaluate_run

_RUN_ENDINGS = (".trec", ".run", ".trec.gz", ".run.gz", ".run.json")
_MODEL_FILES = ("modules.json", "config.json", "config_sentence_transformers.json")
_FORMAT = "aveyb-ir evaluation "


@dataclass(frozen=True, slots=True)
class Judge:
    """How runs and models become evaluations.

    Attributes:
        data: The sets that they are judged by, by name; runs beside reports are read for these sets only.
        split: Whose judgements; None for the usual ones of each set.
        protocol: See `aveyb_ir.evaluation.protocols`.
        progress: Called with a line before each evaluation of a model.
    """

    data: Mapping[str, ComparedData]
    split: str | None = None
    protocol: Protocol = "full"
    progress: Callable[[str], None] | None = None

    def evaluations(self, systems: Sequence[str | os.PathLike[str] | Evaluation]) -> list[Evaluation]:
        """Read or measure each system, in order; labels become names.

        A path is a report of `aveyb-ir evaluate` (with the run of the same name beside it, where there is one), a
        folder of reports, a run (judged by the set that its file is named for, or else the only one it answers), or a
        model, which like the word `bm25` is evaluated on every set.

        Raises:
            DataError: nothing is there, or it is none of these.
            ValueError: a run or model without a set to judge it by.
        """
        found: list[Evaluation] = []
        for system in systems:
            if isinstance(system, Evaluation):
                found.append(system)
            else:
                label, path = _label_and_path(os.fspath(system))
                found += [replace(one, name=label or one.name) for one in self._of_path(path, label)]
        return found

    def _of_path(self, path: str, label: str) -> list[Evaluation]:
        file = Path(path)
        if file.is_file():
            return [self._report(file) if _is_report(file) else self._run(file)]
        if file.is_dir() and not any((file / name).is_file() for name in _MODEL_FILES):
            return [self._report(report) for report in _reports_in(file)]
        if path == "bm25" or file.is_dir() or path.count("/") == 1:
            return self._model(path, label or path)
        raise DataError(
            f"{path} does not exist; expected a report, a folder of reports, a run, a model or bm25; check the path"
        )

    def _report(self, file: Path) -> Evaluation:
        evaluation = Evaluation.read(file)
        beside = [file.with_name(file.stem + ending) for ending in _RUN_ENDINGS]
        runs = [path for path in beside if path.is_file() and evaluation.data in self.data]
        return replace(evaluation, run=read_run(runs[0])) if runs else evaluation

    def _run(self, file: Path) -> Evaluation:
        run, stem = read_run(file), file.name.split(".")[0]
        qrels = {name: data.qrels(self._split(name)) for name, data in self.data.items() if len(data.collections) == 1}
        fitting = [stem] if stem in qrels else [name for name in qrels if qrels[name].keys() & run.keys()]
        if len(fitting) != 1:
            found = f"answers queries of {listed(fitting)}" if fitting else "answers no query of any set given"
            raise ValueError(
                f"run {file} {found}; expected one set (of {listed(list(qrels)) or 'none'}) to judge it by; give its "
                "folder as data, or evaluate it first and compare the reports"
            )
        (data,) = fitting
        return evaluate_run(qrels[data], run, name=stem, data=data, split=self._split(data), protocol=self.protocol)

    def _model(self, model: str, label: str) -> list[Evaluation]:
        if not self.data:
            raise ValueError(f"{model} is to be evaluated without data; expected at least one set; give its folder")
        found = []
        system = model if model == "bm25" else Encoder(model)
        for name, data in self.data.items():
            if self.progress is not None:
                self.progress(f"evaluating {label} on {name}")
            found.append(evaluate(system, data.source, split=self._split(name), protocol=self.protocol))
        return found

    def _split(self, data: str) -> str:
        return self.split or usual_split(data)


def _label_and_path(argument: str) -> tuple[str, str]:
    label, equals, path = argument.partition("=")
    return ("", argument) if not equals or Path(argument).exists() else (label.strip(), path)


def _is_report(file: Path) -> bool:
    if file.suffix != ".json":
        return False
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        return False  # whoever reads it as a run says what is wrong with it
    return isinstance(content, dict) and str(content.get("format", "")).startswith(_FORMAT)


def _reports_in(folder: Path) -> list[Path]:
    reports = [file for file in sorted(folder.glob("*.json")) if _is_report(file)]
    if not reports:
        raise DataError(
            f"{folder} holds no report and is no model; expected files that `aveyb-ir evaluate --output` wrote; "
            "check the path"
        )
    return reports
