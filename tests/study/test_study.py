"""A study trains, evaluates and compares; it does nothing twice, and again exactly what its inputs changed."""

import json
import logging
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from aveyb_ir.errors import DataError, ModelError, RecipeError
from aveyb_ir.study import Study, load_study, study

SMOKE = Path(__file__).parents[2] / "recipes" / "smoke" / "study.yaml"
MINED = Path(__file__).parents[1] / "training" / "cases" / "mined.jsonl"
TINY = Path(__file__).parent / "cases" / "tiny"
CELLS = {f"{label}-lr{rate}-seed1" for label in ("avey-b", "bert") for rate in ("0.0001", "0.01")}


def run(folder: Path, caplog: pytest.LogCaptureFixture, overrides: Sequence[str] = ()) -> tuple[Study, list[str]]:
    """Run the smoke study; gives the result and what was logged as work."""
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="aveyb_ir.study"):
        result = study(load_study(SMOKE, overrides), output=folder)
    return result, [
        record.getMessage()
        for record in caplog.records
        if record.name in ("aveyb_ir.study.run", "aveyb_ir.study.cells")
    ]


def trained(messages: Sequence[str]) -> set[str]:
    return {message.split()[1].rstrip(",") for message in messages if message.startswith("training ")}


def evaluations(messages: Sequence[str]) -> int:
    return sum(", protocol " in message for message in messages)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study") / "smoke"
    study(load_study(SMOKE), output=folder)
    return folder


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "moved"))


def test_every_seed_of_every_system_is_compared_by_both_protocols(finished: Path) -> None:
    for protocol, metric in (("full", "ndcg@10"), ("paper", "paper-ndcg@10")):
        report = json.loads((finished / f"report-{protocol}" / "report.json").read_text(encoding="utf-8"))
        assert report["systems"] == ["avey-b", "bert", "packaged", "bm25"]
        assert (report["protocol"], report["metric"]) == (protocol, metric)
        seeds = {row["system"]: len(row["seeds"]) for row in report["scores"] if row["data"] == "tiny"}
        assert seeds == {"avey-b": 2, "bert": 2, "packaged": 1, "bm25": 1}
        assert "tokens/s at 16" in report["extras"]["avey-b"]
        assert report["extras"]["packaged"]["parameters (M)"] == pytest.approx(9.679364)
        assert "tokens/s at 16" in report["extras"]["packaged"]
        assert report["extras"]["bert"]["query ms p95"] >= report["extras"]["bert"]["query ms p50"] > 0
        assert (finished / f"report-{protocol}" / "report.html").is_file()


def test_a_length_that_a_model_cannot_read_is_not_timed(finished: Path) -> None:
    columns = json.loads((finished / "speed.json").read_text(encoding="utf-8"))["columns"]
    assert "tokens/s at 512" in columns["avey-b"]
    assert "tokens/s at 512" not in columns["bert"]


def test_a_finished_study_that_was_moved_does_no_work(copied: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = {file: file.stat().st_mtime_ns for file in (copied / "cells").rglob("*")}
    _, messages = run(copied, caplog)
    assert trained(messages) == set()
    assert evaluations(messages) == 0
    assert {file: file.stat().st_mtime_ns for file in (copied / "cells").rglob("*")} == before


def test_training_data_count_by_what_they_are_not_by_where(
    copied: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = Path(shutil.copytree(TINY, tmp_path / "elsewhere"))
    there = [f"training.data.beir={other}"]
    assert trained(run(copied, caplog, there)[1]) == set()
    with (other / "corpus.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"_id": "new", "title": "", "text": "one more document, which the tokenizer learns from"}\n')
    assert trained(run(copied, caplog, [*there, "seeds=[1]"])[1]) == CELLS


@pytest.mark.parametrize("content", ["[]", "{", '{"model": 3}'])
def test_a_damaged_ledger_vouches_for_nothing(copied: Path, caplog: pytest.LogCaptureFixture, content: str) -> None:
    cell = copied / "cells" / "bert-lr0.0001-seed1"
    (cell / "made-from.json").write_text(content, encoding="utf-8")
    (copied / "speed.json").write_text(content, encoding="utf-8")
    _, messages = run(copied, caplog)
    assert trained(messages) == {cell.name}
    assert sum("cannot be read" in message for message in messages) >= 1


def test_a_lost_model_is_trained_again_to_the_same_weights(copied: Path, caplog: pytest.LogCaptureFixture) -> None:
    weights = copied / "cells" / "bert-lr0.01-seed1" / "model" / "model.safetensors"
    before = weights.read_bytes()
    shutil.rmtree(weights.parent)
    _, messages = run(copied, caplog)
    assert trained(messages) == {"bert-lr0.01-seed1"}
    assert evaluations(messages) == 0
    assert weights.read_bytes() == before


def test_another_training_recipe_trains_and_evaluates_again(copied: Path, caplog: pytest.LogCaptureFixture) -> None:
    _, messages = run(copied, caplog, ["training.train.max_steps=3", "seeds=[1]"])
    assert trained(messages) == CELLS
    assert evaluations(messages) > 0


def test_a_changed_collection_is_evaluated_again(
    copied: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = Path(shutil.copytree(TINY, tmp_path / "tiny"))
    there = [f"evaluation=[{{data: {other}}}]"]
    _, messages = run(copied, caplog, there)
    assert evaluations(messages) == 0  # the same files in another place
    with (other / "qrels" / "test.tsv").open("a", encoding="utf-8") as file:
        line = (TINY / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()[1].split("\t")
        file.write(f"{line[0]}\tnot-a-document\t1\n")
    _, messages = run(copied, caplog, there)
    assert trained(messages) == set()
    assert evaluations(messages) == 2 * (2 * 2 + 2)


def test_the_learning_rate_is_the_better_on_the_selection_set(copied: Path, caplog: pytest.LogCaptureFixture) -> None:
    result, messages = run(copied, caplog)
    for label, rate in result.learning_rates.items():
        quality = {}
        for tried in (1e-4, 1e-2):
            report = copied / "cells" / f"{label}-lr{tried:g}-seed1" / "tiny-dev-full.json"
            quality[tried] = json.loads(report.read_text(encoding="utf-8"))["metrics"]["ndcg@10"]
        assert quality[rate] == max(quality.values())
    assert sum("at the edge" in message for message in messages) == 2


def test_systems_of_other_size_are_refused_before_training(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="parameters beside embeddings, expected a difference of at most 10%"):
        study(load_study(SMOKE, ["parameter_tolerance=0.1"]), output=tmp_path / "new")
    assert not (tmp_path / "new" / "cells").exists()


def test_students_of_a_teacher_are_compared_too(tmp_path: Path) -> None:
    distilled = [
        "training={task: distill, model: {train_tokenizer: {vocab_size: 400}}, distill: {loss: kl}, "
        f"data: {{pairs: {MINED}, negatives: 3}}, train: {{max_steps: 2, batch_size: 4, learning_rate: 1e-3}}}}",
        "selection=null",
        "seeds=[1]",
        "references={}",
        "speed=null",
    ]
    result = study(load_study(SMOKE, distilled), output=tmp_path / "new")
    assert set(result.learning_rates.values()) == {1e-3}
    for label in ("avey-b", "bert"):
        recipe = (tmp_path / "new" / "cells" / f"{label}-lr0.001-seed1" / "model" / "recipe.yaml").read_text("utf-8")
        assert "task: distill" in recipe
        assert result.parameters[label].total > 0
    assert result.comparisons["full"].to_json()["systems"] == ["avey-b", "bert", "bm25"]


def test_a_reference_that_is_not_there_is_refused_before_training(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="nowhere"):
        study(load_study(SMOKE, ["references={lost: /nowhere}"]), output=tmp_path / "new")
    assert not (tmp_path / "new" / "cells").exists()


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work", encoding="utf-8")
    with pytest.raises(DataError, match="holds something else"):
        study(load_study(SMOKE), output=tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


def test_vectors_are_kept_for_no_longer_than_evaluations_need_them(finished: Path) -> None:
    assert list(finished.rglob("vectors")) == []
