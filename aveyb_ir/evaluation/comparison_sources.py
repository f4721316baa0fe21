"""From what a user names to evaluations: reports, folders of them, runs, models and BM25."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from aveyb_ir.data import listed, read_run
from aveyb_ir.errors import DataError
from aveyb_ir.evaluation.comparison_data import ComparedData
from aveyb_ir.evaluation.comparison_seeds import Given, check_seeds, without_repeated_bm25
from aveyb_ir.evaluation.protocols import Protocol, usual_split
from aveyb_ir.evaluation.result import Evaluation, check_label
from aveyb_ir.evaluation.runs import evaluate_run

_RUN_ENDINGS = (".trec", ".run", ".trec.gz", ".run.gz", ".run.json")
_MODEL_FILES = ("modules.json", "config.json", "config_sentence_transformers.json")
_FILE_ENDINGS = (".json", ".jsonl", ".trec", ".run", ".tsv", ".csv", ".txt", ".gz")  # no model on the Hub has these
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
        model, which like the word `bm25` is evaluated on every set, once all that is read fits together.

        Raises:
            DataError: nothing is there, it is none of these, or a report is of another protocol or split than what is
                to be evaluated beside it.
            ValueError: a run or model without a set to judge it by, an empty path, the same system twice under one
                label, or different ones that are called alike without a label.
        """
        given = without_repeated_bm25(
            [one for number, system in enumerate(systems) for one in self._given(number, system)]
        )
        check_seeds(given)
        if any(one.evaluation is None for one in given):
            self._check_fits(given)
        found: list[Evaluation] = []
        for one in given:
            found += self._model(one) if one.evaluation is None else [one.measured()]
        return found

    def _given(self, number: int, system: str | os.PathLike[str] | Evaluation) -> list[Given]:
        if isinstance(system, Evaluation):
            return [Given(system.name, f"systems[{number}]", True, system)]
        label, path = _label_and_path(os.fspath(system))
        file = Path(path)
        if file.is_file() and not _is_report(file):
            run = self._run(file)
            return [Given(label or run.name, path, bool(label), run, described=False)]
        if file.is_file() or (file.is_dir() and not any((file / name).is_file() for name in _MODEL_FILES)):
            reports = {str(one): self._report(one) for one in ([file] if file.is_file() else _reports_in(file))}
            return [Given(label or one.name, place, bool(label), one) for place, one in reports.items()]
        if path == "bm25" or file.is_dir() or (path.count("/") == 1 and not path.endswith(_FILE_ENDINGS)):
            if not self.data:
                raise ValueError(f"{path} is to be evaluated without data; expected at least one set; give its folder")
            return [Given(label or (file.resolve().name if file.is_dir() else path), path, bool(label))]
        raise DataError(
            f"{path} does not exist; expected a report, a folder of reports, a run, a model or bm25; check the path"
        )

    def _check_fits(self, given: Sequence[Given]) -> None:
        """Find before models are evaluated what would keep them from one table with what was read."""
        for one in given:
            if (found := one.evaluation) is None:
                continue
            split = self._split(found.data) if found.data in self.data else found.split
            for what, theirs, ours in (("protocol", found.protocol, self.protocol), ("split", found.split, split)):
                if theirs != ours:
                    raise DataError(
                        f"{one.place}: {what} is {theirs!r}, and models would be evaluated with {ours!r}; expected one "
                        f"{what}, since the numbers mean different things; choose {what} {theirs!r}"
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

    def _model(self, model: Given) -> list[Evaluation]:
        from aveyb_ir.encoding import Encoder  # here, for reports and runs are compared without torch
        from aveyb_ir.evaluation.retrieval_quality import evaluate

        found = []
        system = "bm25" if model.place == "bm25" else Encoder(model.place)
        for name, data in self.data.items():
            if self.progress is not None:
                self.progress(f"evaluating {model.name} on {name}")
            split = self._split(name)
            found.append(evaluate(system, data.source, split=split, protocol=self.protocol, name=model.name))
        return found

    def _split(self, data: str) -> str:
        return self.split or usual_split(data)


def _label_and_path(argument: str) -> tuple[str, str]:
    label, equals, path = argument.partition("=")
    if not equals or Path(argument).exists():
        label, path = "", argument
    elif not label.strip():
        raise ValueError(f"system {argument!r} has an empty label; expected LABEL=PATH or PATH; name it")
    if not path:
        raise ValueError(f"system {argument!r} has no path; expected PATH or LABEL=PATH; give one")
    check_label("label", label)
    return label.strip(), path


def _is_report(file: Path) -> bool:
    if file.suffix != ".json":
        return False
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
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
