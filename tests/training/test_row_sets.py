"""Rows in arrays and files teach what lists of texts would, at any length of the texts."""

import hashlib
import tracemalloc
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import Dataset
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.sentence_transformer.data_collator import SentenceTransformerDataCollator

from aveyb_ir.data import TrainingRow, read_training_rows, write_jsonl
from aveyb_ir.errors import DataError
from aveyb_ir.tasks import RowsSection, TeacherSection
from aveyb_ir.training import distillation_teacher as teachers
from aveyb_ir.training.cross_encoder import _examples as reranker_examples
from aveyb_ir.training.distillation import _examples as distillation_examples
from aveyb_ir.training.distillation_candidates import Candidates, candidates_of
from aveyb_ir.training.row_trainer import _TextCollator
from aveyb_ir.training.rows import RowSet, check_scored, fingerprint_of, read_rows

Lists = list[tuple[str, tuple[str, ...], tuple[float, ...]]]


def crowded(path: Path, seed: int) -> Path:
    """Few texts in many rows, repeated within and across lists, with as many negatives as it happens."""
    generator = np.random.default_rng(seed)
    rows = []
    for _ in range(generator.integers(2, 60)):
        positives, negatives = (
            [f"d{n} \ud83d" for n in generator.integers(0, 40, size)] for size in generator.integers((1, 0), (4, 9))
        )
        row = {"query": f"q{generator.integers(0, 20)}", "pos": positives, "neg": negatives}
        if generator.random() < 0.8:
            scores = generator.normal(size=9).tolist()
            row |= {"pos_scores": scores[: len(positives)], "neg_scores": scores[1 : 1 + len(negatives)]}
        rows.append(row)
    write_jsonl(path, [{"query": "all", "pos": ["yes"], "neg": ["no", "never", "nowhere"]}, *rows])
    return path


def plain_lists(rows: Iterable[TrainingRow], num_negatives: int) -> Lists:
    """What `Candidates` are, said with texts."""
    lists: Lists = []
    for row in rows:
        if len(row.negatives) < num_negatives:
            continue
        for place, positive in enumerate(row.positives):
            scored = row.positive_scores and (row.negative_scores or not row.negatives)
            scores = (row.positive_scores[place], *row.negative_scores[:num_negatives]) if scored else ()
            lists.append((row.anchor, (positive, *row.negatives[:num_negatives]), scores))
    return lists


def lists_of(candidates: Candidates) -> Lists:
    lists: Lists = []
    for query, documents, scores in zip(candidates.queries, candidates.documents, candidates.scores, strict=True):
        found = () if np.isnan(scores).any() else tuple(scores.tolist())
        texts = tuple(candidates.document_texts[document] for document in documents)
        lists.append((candidates.query_texts[query], texts, found))
    return lists


def distinct(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))


@pytest.mark.parametrize("num_negatives", [0, 3])
@pytest.mark.parametrize("seed", range(8))
def test_rows_and_candidates_are_those_of_lists_of_texts(tmp_path: Path, seed: int, num_negatives: int) -> None:
    file = crowded(tmp_path / "rows.jsonl", seed)
    rows, plain = read_rows(RowsSection(pairs=str(file)), tmp_path), read_training_rows(file)
    assert list(rows) == plain
    assert fingerprint_of(rows) == fingerprint_of(plain) != fingerprint_of(plain[1:])
    assert list(rows.where(rows.rows.lines % 2 == 0)) == [row for row in plain if row.line % 2 == 0]

    candidates, lists = candidates_of(rows, num_negatives), plain_lists(plain, num_negatives)
    exact = [(query, texts, tuple(np.float32(scores).tolist())) for query, texts, scores in lists]
    assert lists_of(candidates) == exact
    assert list(candidates.query_texts) == distinct(query for query, _, _ in lists)
    assert list(candidates.document_texts) == distinct(text for _, texts, _ in lists for text in texts)
    assert list(candidates.texts()) == [text for query, texts, _ in lists for text in (query, *texts)]
    assert list(candidates.pairs()) == [(query, text) for query, texts, _ in lists for text in texts]


@pytest.mark.parametrize("limit", [None, 2])
@pytest.mark.parametrize("seed", range(4))
def test_a_reranker_is_given_positives_and_the_first_negatives(tmp_path: Path, seed: int, limit: int | None) -> None:
    file = crowded(tmp_path / "rows.jsonl", seed)
    rows = read_rows(RowsSection(pairs=str(file)), tmp_path)
    lists = [(row.anchor, row.positives, row.negatives[:limit]) for row in read_training_rows(file)]
    in_lists = reranker_examples(rows, limit, in_lists=True)
    assert [in_lists.with_texts(example) for example in in_lists.columns] == [
        {"query": query, "documents": [*good, *bad], "label": [1.0] * len(good) + [0.0] * len(bad)}
        for query, good, bad in lists
    ]
    alone = reranker_examples(rows, limit, in_lists=False)
    assert [tuple(alone.with_texts(example).values()) for example in alone.columns] == [
        (query, text, label)
        for query, good, bad in lists
        for text, label in (*((text, 1.0) for text in good), *((text, 0.0) for text in bad))
    ]


def test_a_batch_of_numbers_is_that_of_their_texts(tmp_path: Path, avey_dir: Path) -> None:
    plain = [TrainingRow(f"q{n % 3}", (f"p{n} a",), (f"n{n}", "x y"), n, (1.0,), (0.5, float(n))) for n in range(6)]
    candidates = candidates_of(RowSet.of(plain, "rows", tmp_path), 2)
    model = SentenceTransformer(str(avey_dir), device="cpu")
    prompts = {"query": "ask: ", "positive": "text: ", "negative_1": "text: ", "negative_2": "text: "}
    collator = SentenceTransformerDataCollator(model.preprocess, prompts=prompts)
    examples = distillation_examples(candidates, candidates.scores)
    found = _TextCollator(collator, examples)(examples.columns.to_list())
    texts = [(row.anchor, row.positives[0], *row.negatives) for row in plain]
    columns = dict(zip(prompts, map(list, zip(*texts, strict=True)), strict=True))
    labels = [[*row.positive_scores, *row.negative_scores] for row in plain]
    exact = collator(Dataset.from_dict({**columns, "label": labels}).to_list())
    assert list(found) == list(exact)
    assert all(torch.equal(found[name], value) for name, value in exact.items() if torch.is_tensor(value))
    other = _TextCollator(collator, examples)(examples.columns.to_list()[::-1])
    assert not torch.equal(found["query_input_ids"], other["query_input_ids"])


def test_rows_with_too_few_negatives_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    rows = RowSet.of(
        [
            TrainingRow("q", ("p1", "p2"), ("n1", "n2", "n3"), 1, (5.0, 4.0), (3.0, 2.0, 1.0)),
            TrainingRow("r", ("p3",), ("n1",), 2),
        ],
        "rows",
    )
    assert lists_of(candidates_of(rows, 2)) == [
        ("q", ("p1", "n1", "n2"), (5.0, 3.0, 2.0)),
        ("q", ("p2", "n1", "n2"), (4.0, 3.0, 2.0)),
    ]
    assert caplog.messages == ["rows: left out rows with fewer than 2 negatives, lines 2"]
    assert lists_of(candidates_of(rows, 1))[2] == ("r", ("p3", "n1"), ())
    with pytest.raises(DataError, match=r"rows: got at most 3 negatives in a row, expected data.negatives 4"):
        candidates_of(rows, 4)


def test_negatives_that_other_rows_call_positives_are_dropped_with_their_scores(
    caplog: pytest.LogCaptureFixture,
) -> None:
    dropped = TrainingRow("a", ("b",), ("c", "d"), 3, (1.0,), (7.0, 8.0))
    rows = RowSet.of([dropped, TrainingRow("a", ("c",), ("e",), 5), TrainingRow("f", ("g",), ("c",), 6)], "x.jsonl")
    assert next(iter(rows)) == TrainingRow("a", ("b",), ("d",), 3, (1.0,), (8.0,))
    assert [row.negatives for row in rows] == [("d",), ("e",), ("c",)]
    assert caplog.messages == ["x.jsonl: dropped negatives that are positives of their anchor, lines 3"]


def test_the_first_row_without_scores_is_named() -> None:
    scored = TrainingRow("a", ("b", "c"), ("d",), 3, (1.0, 2.0), (0.0,))
    check_scored(RowSet.of([scored], "x.jsonl"))
    lacking = [
        TrainingRow("e", ("f",), ("g",), 7, (1.0,)),
        TrainingRow("e", ("f",), ("g",), 7, (), (1.0,)),
        TrainingRow("e", ("f",), (), 7, (1.0,)),
    ]
    for row in lacking:
        with pytest.raises(DataError, match=r"x.jsonl line 7: got no scores, expected pos_scores and neg_scores"):
            check_scored(RowSet.of([scored, row, TrainingRow("h", ("i",), ("j",), 9)], "x.jsonl"))


def digest_of(parts: Iterable[str]) -> str:
    """The name under which a teacher's answers to these texts are found again."""
    digest = hashlib.blake2b(digest_size=12)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def test_what_a_teacher_said_is_kept_by_its_texts(
    tmp_path: Path, avey_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = RowSet.of([TrainingRow(f"q{n % 3}", (f"p {n}",), (f"n {n % 2}", f"o {n}")) for n in range(8)], "rows")
    candidates = candidates_of(rows, 2)
    lists = plain_lists(rows, 2)
    kept = tmp_path / digest_of(distinct(text for _, texts, _ in lists for text in texts))
    vectors = teachers.teacher_vectors(TeacherSection(model=str(avey_dir)), candidates, tmp_path, "cpu")
    assert (kept / vectors.fingerprint).is_dir()
    assert all(isinstance(block, np.memmap) for block in vectors.blocks[1:])

    CrossEncoder(str(avey_dir), num_labels=1, device="cpu").save_pretrained(str(tmp_path / "cross"))
    section = TeacherSection(model=str(tmp_path / "cross"), kind="cross_encoder")
    whole, fingerprint = teachers.cross_encoder_scores(section, candidates, tmp_path, "cpu")
    pairs = [(query, text) for query, texts, _ in lists for text in texts]
    key = digest_of([fingerprint, "None", *(part for pair in pairs for part in pair)])
    (tmp_path / f"scores-{key}.npy").unlink()
    monkeypatch.setattr("aveyb_ir.data.blocks._CHARACTERS_AT_ONCE", 40)
    in_blocks, _ = teachers.cross_encoder_scores(section, candidates, tmp_path, "cpu")
    assert np.allclose(in_blocks, whole, atol=1e-5)
    assert np.ptp(whole) > 1e-3


def rows_of(size: int, words: int) -> Iterator[TrainingRow]:
    """Rows of distinct texts of so many words, none of which outlives its row."""
    for row in range(size):
        negatives = tuple(f"n{row}-{n} " * words for n in range(3))
        yield TrainingRow(f"q{row}", (f"p{row} " + "word " * words,), negatives, row, (1.0,), (0.0, 0.5, 0.2))


def peak_memory(size: int, words: int, folder: Path) -> int:
    tracemalloc.start()
    try:
        rows = RowSet.of(rows_of(size, words), "rows", folder)
        candidates = candidates_of(rows, 3)
        examples = distillation_examples(candidates, candidates.scores)
        reranker = reranker_examples(rows, None, in_lists=True)
        fingerprint_of(rows)
        assert sum(1 for _ in candidates.texts()) == 5 * len(examples.columns) == 5 * len(reranker.columns)
        assert examples.with_texts(examples.columns[size - 1])["query"] == f"q{size - 1}"
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_follows_the_number_of_texts_and_not_their_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aveyb_ir.data.blocks._CHARACTERS_AT_ONCE", 1 << 16)
    peak_memory(10, 10, tmp_path)  # what libraries import at their first call
    short, long, many = (peak_memory(*shape, tmp_path) for shape in ((300, 200), (300, 400), (900, 200)))
    assert long < 1.1 * short + 100_000
    assert (many - short) / (600 * 5) < 250  # bytes for a text
    texts = sum(len(text) for row in rows_of(600, 200) for text in (*row.positives, *row.negatives))
    assert many - short < texts / 4
