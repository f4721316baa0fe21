"""A training set in arrays and files is the one that dictionaries of texts would make, at any length of the texts."""

import hashlib
import tracemalloc
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from aveyb_ir.config import DataSection
from aveyb_ir.data import TrainingRow, write_jsonl
from aveyb_ir.errors import DataError
from aveyb_ir.training.pairs import RowSource, TrainingSet
from aveyb_ir.training.sources import load_training_set

Entry = tuple[str, str | None]


class Plain:
    """What a `TrainingSet` is, said with dictionaries."""

    def __init__(self, sources: list[RowSource]) -> None:
        rows = [(source, row) for source in sources for row in source.rows]
        texts: defaultdict[str, set[str]] = defaultdict(set)
        for _, row in rows:
            texts[row.anchor].update(row.positives)
        anchors: dict[Entry, int] = {}
        documents: dict[Entry, int] = {}
        for source, row in rows:
            for text in row.positives:
                documents.setdefault((text, source.document_prompt), len(documents))
        self.pairs = []
        for source, row in rows:
            anchor = anchors.setdefault((row.anchor, source.query_prompt), len(anchors))
            usable = [text for text in row.negatives if text not in texts[row.anchor]][: source.max_negatives]
            negatives = tuple(documents.setdefault((t, source.document_prompt), len(documents)) for t in usable)
            self.pairs += [(anchor, documents[text, source.document_prompt], negatives) for text in row.positives]
        self.anchors, self.documents = list(anchors), list(documents)
        self.positives = [
            {number for (text, _), number in documents.items() if text in texts[anchor]} for anchor, _ in anchors
        ]


def crowded_sources(seed: int) -> list[RowSource]:
    """Few texts in many rows of three sets, so that everything collides with everything."""
    generator = np.random.default_rng(seed)
    sources = []
    prompts = [(None, None), ("ask: ", None), ("ask: ", "text: ")]
    for (query, document), limit, size in zip(prompts, (None, 2, 0), generator.integers(1, 60, 3), strict=True):
        rows = []
        for line in range(size):
            positives, negatives = (
                tuple(dict.fromkeys(f"d{n}" for n in generator.integers(0, 40, count)))
                for count in (generator.integers(1, 4), generator.integers(0, 9))
            )
            rows.append(TrainingRow(f"q{generator.integers(0, 20)}", positives, negatives, line))
        sources.append(RowSource(rows, f"set {limit}", limit, query, document))
    return sources


@pytest.mark.parametrize("seed", range(20))
def test_tables_pairs_and_positives_are_those_of_dictionaries(seed: int, tmp_path: Path) -> None:
    sources = crowded_sources(seed)
    made, plain = TrainingSet.from_sources(sources, folder=tmp_path), Plain(sources)
    assert list(zip(made.anchors, made.anchors.prompts, strict=True)) == plain.anchors
    assert list(zip(made.documents, made.documents.prompts, strict=True)) == plain.documents
    assert [(pair.anchor, pair.positive, pair.negatives) for pair in made.pairs] == plain.pairs
    assert [made.documents[n] for n in range(len(made.documents))] == [text for text, _ in plain.documents]
    assert list(map(set, made.positives)) == plain.positives
    assert made.num_negatives == sum(len(negatives) for _, _, negatives in plain.pairs)
    assert made.mixture.sizes == tuple(sum(len(row.positives) for row in source.rows) for source in sources)


def test_the_fingerprint_is_of_texts_and_pairs_as_it_always_was() -> None:
    rows = [TrainingRow("a", ("b", "half \ud83d"), ("c",)), TrainingRow("d", ("c",))]
    digest = hashlib.sha256()
    for text in ("a", "d", "b", "half \ud83d", "c"):
        data = text.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)
    for pair in ((0, 0, (2,)), (0, 1, (2,)), (1, 2, ())):
        digest.update(repr(pair).encode())
    assert TrainingSet.from_rows(rows).fingerprint == digest.hexdigest()
    prompted = TrainingSet.from_sources([RowSource(rows, query_prompt="ask: ")])
    digest.update(repr((prompted.mixture, ("ask: ", "ask: "), (None,) * 3)).encode())
    assert prompted.fingerprint == digest.hexdigest()


def test_blocks_of_rows_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = crowded_sources(5)
    whole = TrainingSet.from_sources(sources).fingerprint
    monkeypatch.setattr("aveyb_ir.data.blocks._CHARACTERS_AT_ONCE", 7)
    monkeypatch.setattr("aveyb_ir.training.pair_rows._ROWS_AT_ONCE", 3)
    monkeypatch.setattr("aveyb_ir.training.prompted_texts._AT_ONCE", 2)
    assert TrainingSet.from_sources(sources).fingerprint == whole


def test_negatives_that_other_rows_call_positives_are_dropped_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    rows = [TrainingRow("a", ("b",), ("c", "d"), 3), TrainingRow("a", ("c",), (), 5), TrainingRow("e", ("f",), (), 6)]
    made = TrainingSet.from_rows(rows, source="x.jsonl")
    assert [made.documents[n] for n in made.pairs[0].negatives] == ["d"]
    assert caplog.messages == ["x.jsonl: dropped negatives that are positives of their anchor, lines 3"]


def test_the_first_row_that_all_documents_answer_is_named_in_its_set() -> None:
    fine = RowSource([TrainingRow("a", ("b",), line=1)], "fine")
    bad = RowSource([TrainingRow("a", ("b",), line=7), TrainingRow("a", ("c",), line=9)], "bad")
    with pytest.raises(DataError, match="fine line 1: got no negative for 'a', whose positives are all 2 documents"):
        TrainingSet.from_sources([fine, bad])
    made = TrainingSet.from_sources([fine, bad, RowSource([TrainingRow("z", ("y",))])])
    assert len(made) == 4


def rows_of(size: int, words: int) -> Iterator[TrainingRow]:
    """Rows of distinct texts of so many words, none of which outlives its row."""
    for row in range(size):
        yield TrainingRow(f"q{row}", (f"p{row} " + "word " * words,), tuple(f"n{row}-{n} " * words for n in range(3)))


def peak_memory(size: int, words: int, folder: Path) -> int:
    tracemalloc.start()
    try:
        made = TrainingSet.from_sources([RowSource(rows_of(size, words))], folder=folder)
        assert len(made.documents) == 4 * size
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_follows_the_number_of_texts_and_not_their_length(tmp_path: Path) -> None:
    short, long, many = (peak_memory(*shape, tmp_path) for shape in ((600, 200), (600, 400), (1800, 200)))
    assert long < 1.1 * short + 100_000
    assert (many - short) / (1200 * 5) < 100  # bytes for a text
    texts = sum(len(text) for row in rows_of(1200, 200) for text in (*row.positives, *row.negatives))
    assert many - short < texts / 10


def test_ids_beside_a_corpus_make_the_same_set_as_passages_in_the_rows(tmp_path: Path) -> None:
    passages = {str(n): {"docid": str(n), "title": f"T{n}", "text": f"text {n}"} for n in range(8)}
    named = [(["0", "1"], ["2", "3"]), (["4"], []), (["5"], ["0", "7"])]
    write_jsonl(tmp_path / "corpus.jsonl", passages.values())
    write_jsonl(
        tmp_path / "ids.jsonl",
        [
            {"query_id": n, "query": f"q{n}", "positive_document_ids": positives, "negative_document_ids": negatives}
            for n, (positives, negatives) in enumerate(named)
        ],
    )
    write_jsonl(
        tmp_path / "passages.jsonl",
        [
            {
                "query": f"q{n}",
                "positive_passages": [passages[id_] for id_ in positives],
                "negative_passages": [passages[id_] for id_ in negatives],
            }
            for n, (positives, negatives) in enumerate(named)
        ],
    )
    ids = DataSection(pairs=str(tmp_path / "ids.jsonl"), corpus=str(tmp_path / "corpus.jsonl"))
    made = load_training_set(ids, tmp_path)
    assert made.fingerprint == load_training_set(DataSection(pairs=str(tmp_path / "passages.jsonl"))).fingerprint
    assert made.num_negatives == 6
