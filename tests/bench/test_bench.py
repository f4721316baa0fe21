"""The benchmark measures what it says, and its picture and tables come out. Nothing here depends on speed."""

import csv
import json

import pytest
import torch
from sentence_transformers import SentenceTransformer

from aveyb_ir.bench import bench, save, table
from aveyb_ir.bench.measure import decay_exponent
from aveyb_ir.bench.ranker import time_ranker
from aveyb_ir.bench.subjects import NAMES, build_subject
from aveyb_ir.bench.texts import mixed_lengths, sample_text
from aveyb_ir.bench.training import bench_training, training_table


@pytest.fixture(scope="module")
def report():
    return bench(size="small", lengths=(16, 64), repeats=1, device="cpu")


def test_every_model_is_on_every_length(report):
    assert {(cell.model, cell.tokens) for cell in report.cells} == {(name, n) for name in NAMES for n in (16, 64)}
    assert all(cell.seconds > 0 and cell.share_of_rate > 0 for cell in report.cells)
    assert report.decay == {}


def test_files_are_written(report, tmp_path):
    paths = save(report, tmp_path / "out")
    assert json.loads(paths[0].read_text(encoding="utf-8"))["setting"]["size"] == "small"
    assert len(list(csv.DictReader(paths[1].read_text(encoding="utf-8").splitlines()))) == 8
    assert paths[3].read_bytes().startswith(b"\x89PNG")
    assert all(name in table(report) for name in NAMES)


def test_the_reference_and_the_packed_model_agree():
    ids = sample_text(333, 30522)
    packed, reference = (build_subject(name, size="small") for name in ("avey-b", "avey-b-reference"))
    torch.testing.assert_close(packed.encode([ids]), reference.encode([ids]), atol=1e-4, rtol=0)


def test_padded_models_do_not_count_padding():
    subject = build_subject("modernbert", size="small")
    texts = [sample_text(9, 30522), sample_text(40, 30522)]
    together = subject.encode(texts)
    for text, vector in zip(texts, together, strict=True):
        torch.testing.assert_close(vector, subject.encode([text])[0], atol=1e-4, rtol=0)


def test_a_folder_is_measured_too(avey_dir):
    report = bench([str(avey_dir)], lengths=(16,), repeats=1, device="cpu")
    assert report.cells[0].tokens_per_second > 0


def test_what_would_take_too_long_is_listed():
    report = bench(["avey-b"], size="small", lengths=(16, 64), repeats=1, max_seconds=1e-9, device="cpu")
    assert [cell.tokens for cell in report.cells] == [16]
    assert report.skipped == ["avey-b at 64 tokens: over 1e-09 s a batch"]
    assert "Not measured: avey-b at 64 tokens" in table(report)


def test_decay_of_linear_and_quadratic_cost():
    lengths = [2048, 4096, 8192]
    assert decay_exponent(lengths, [1000.0] * 3) == pytest.approx(0)
    assert decay_exponent(lengths, [1e6 / n for n in lengths]) == pytest.approx(1)


def test_both_rankers_agree():
    assert time_ranker(700, width=32, chunk_size=16, repeats=1).largest_difference < 1e-4


def test_texts_are_real_in_their_share_of_distinct_tokens():
    distinct = [int(sample_text(n, 10**6).unique().numel()) for n in (1000, 16000)]
    assert 300 < distinct[0] < 700
    assert distinct[1] < 16 * distinct[0] * 0.6
    assert mixed_lengths() == mixed_lengths()


@pytest.mark.parametrize("arguments", [{"models": ["bert"]}, {"size": "huge"}])
def test_unknown_names_are_refused(arguments):
    with pytest.raises(ValueError, match="expected one of"):
        bench(**{"models": ["avey-b"], **arguments})


def test_labels_stand_for_folders_and_no_model_is_measured_beyond_its_limit(avey_dir, tmp_path):
    limited = SentenceTransformer(str(avey_dir), device="cpu")
    limited.max_seq_length = 32
    limited.save_pretrained(str(tmp_path))
    models = {"whole": str(avey_dir), "cut": str(tmp_path)}
    report = bench(models, lengths=(16, 64), repeats=1, device="cpu")
    assert [(cell.model, cell.tokens) for cell in report.cells] == [("whole", 16), ("cut", 16), ("whole", 64)]
    assert report.skipped == ["cut at 64 tokens: reads 32 at most"]


def test_training_is_timed_beside_a_bare_loop_over_the_same_batches():
    timings = bench_training(("avey-b", "modernbert"), batch_size=4, steps=1, repeats=1, device="cpu")
    avey, modernbert = timings
    assert avey.tokens == modernbert.tokens
    assert abs(avey.parameters / modernbert.parameters - 1) < 0.1
    assert all(one.share_of_bare == one.tokens_per_second / one.bare_tokens_per_second > 0 for one in timings)
    assert "| modernbert |" in training_table(timings)
    with pytest.raises(ValueError, match="expected one of avey-b"):
        bench_training(("bert",))
