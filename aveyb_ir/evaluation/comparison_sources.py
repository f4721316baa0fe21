"""From what a user names to what was measured: reports, folders of them, runs, models and BM25."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from aveyb_ir.data import BeirFolder, Run, listed, read_run
from aveyb_ir.errors import DataError
from aveyb_ir.evaluation.comparison_scores import Measured
from aveyb_ir.evaluation.protocols import Protocol
from aveyb_ir.evaluation.result import Evaluation
from aveyb_ir.evaluation.retrieval_quality import evaluate_with_run
from aveyb_ir.evaluation.runs import evaluate_run

System: TypeAlias = str | os.PathLike[str] | Evaluation | Measured
"""An evaluation in memory, or `[label=]path` of one of the things that `measured_systems` understands."""

_RUN_ENDINGS = (".trec", ".run", ".trec.gz", ".run.gz", ".run.json")
_MODEL_FILES = ("modules.json", "config.json", "config_sentence_transformers.json")
_FORMAT = "aveyb-ir evaluation "


def measured_systems(
    systems: Sequence[System],
    folders: Mapping[str, BeirFolder],
    *,
    split: str,
    protocol: Protocol,
    progress: Callable[[str], None] | None = None,
) -> list[Measured]:
    """Read or measure each system, in order.

    A path is a report of `aveyb-ir evaluate` (with the run of the same name beside it, where there is one), a folder of
    reports, a run (judged by the set in `folders` that its file is named for, or else the only one it answers), or a
    model, which like the word `bm25` is evaluated on every set in `folders`.

    Raises:
        DataError: nothing is there, or it is none of these.
        ValueError: a run or model without a set to judge it.
    """
    measured: list[Measured] = []
    for system in systems:
        if isinstance(system, Measured):
            measured.append(system)
        elif isinstance(system, Evaluation):
            measured.append(Measured(system))
        else:
            label, path = _label_and_path(os.fspath(system))
            measured += _of_path(label, path, folders, split, protocol, progress or (lambda _: None))
    return measured


def _label_and_path(argument: str) -> tuple[str, str]:
    label, equals, path = argument.partition("=")
    return ("", argument) if not equals or Path(argument).exists() else (label.strip(), path)


def _of_path(
    label: str,
    path: str,
    folders: Mapping[str, BeirFolder],
    split: str,
    protocol: Protocol,
    progress: Callable[[str], None],
) -> list[Measured]:
    file = Path(path)
    if file.is_file() and _is_report(file):
        return [_of_report(label, file, folders)]
    if file.is_file():
        return [_of_run(label, file, folders, split, protocol)]
    if file.is_dir() and not any((file / name).is_file() for name in _MODEL_FILES):
        return [_of_report(label, report, folders) for report in _reports_in(file)]
    if path != "bm25" and not file.is_dir() and path.count("/") != 1:
        raise DataError(
            f"{path} does not exist; expected a report, folder of reports, run, model or bm25; check the path"
        )
    return _of_model(label, path, folders, split, protocol, progress)


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


def _of_report(label: str, file: Path, folders: Mapping[str, BeirFolder]) -> Measured:
    evaluation = Evaluation.read(file)
    run: Run | None = None
    if evaluation.data in folders:  # without texts a run shows nothing, and some have millions of lines
        beside = [file.with_name(file.stem + ending) for ending in _RUN_ENDINGS]
        run = next((read_run(path) for path in beside if path.is_file()), None)
    return Measured(evaluation, run, label)


def _of_run(label: str, file: Path, folders: Mapping[str, BeirFolder], split: str, protocol: Protocol) -> Measured:
    run = read_run(file)
    stem = file.name.split(".")[0]
    fitting = (
        [stem] if stem in folders else [name for name in folders if folders[name].qrels(split).keys() & run.keys()]
    )
    if len(fitting) != 1:
        found = f"answers queries of {listed(fitting)}" if fitting else "answers no query of any set given"
        raise ValueError(
            f"run {file} {found}; expected one set (of {listed(list(folders)) or 'none'}) to judge it by; give its "
            "folder as data, or evaluate it first and compare the reports"
        )
    evaluation = evaluate_run(
        folders[fitting[0]].qrels(split), run, name=label or stem, data=fitting[0], split=split, protocol=protocol
    )
    return Measured(evaluation, run, label)


def _of_model(
    label: str,
    model: str,
    folders: Mapping[str, BeirFolder],
    split: str,
    protocol: Protocol,
    progress: Callable[[str], None],
) -> list[Measured]:
    if not folders:
        raise ValueError(
            f"{model} is to be evaluated, but no data is given; expected at least one set; give its folder"
        )
    measured = []
    for name, folder in folders.items():
        progress(f"evaluating {label or model} on {name}")
        evaluation, run = evaluate_with_run(model, folder, split=split)
        measured.append(Measured(evaluation, run, label))
    return measured
