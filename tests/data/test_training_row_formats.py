"""Training rows as other toolkits write them, from every kind of file, and as a stream."""

import gzip
import json
import logging
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aveyb_ir.data import Document, TrainingRow, iter_training_rows, read_training_rows, write_jsonl
from aveyb_ir.errors import DataError

PASSAGES = {"query_id": "1", "query": "q", "answers": ["short"], "positive_passages": [], "negative_passages": []}
IDS = {"query_id": "1", "query_text": "q", "query_image": None, "source": "x"}


def one(tmp_path: Path, record: dict[str, object], **options: object) -> TrainingRow:
    write_jsonl(tmp_path / "x.jsonl", [record])
    (row,) = read_training_rows(tmp_path / "x.jsonl", **options)
    return row


def problem_of(tmp_path: Path, record: dict[str, object]) -> str:
    with pytest.raises(DataError, match=r"has 1 unusable rows; mend or remove them: line 1: ") as caught:
        one(tmp_path, record)
    return str(caught.value).partition(" line 1: ")[2]


@pytest.mark.parametrize(
    ("record", "row"),
    [
        # Sentence Transformers: pairs, triplets, n-tuples; the public sets of MS MARCO, Natural Questions and GooAQ.
        ({"anchor": "q", "positive": "p"}, ("q", ("p",))),
        ({"query": "q", "positive": "p"}, ("q", ("p",))),
        ({"query": "q", "answer": "p"}, ("q", ("p",))),
        ({"question": "q", "answer": "p"}, ("q", ("p",))),
        ({"anchor": "q", "positive": "p", "negative": "n"}, ("q", ("p",), ("n",))),
        ({"query": "q", "positive": "p", "negative_1": "n", "negative_2": "m"}, ("q", ("p",), ("n", "m"))),
        # FlagEmbedding
        ({"query": "q", "pos": ["p", "r"], "neg": ["n"]}, ("q", ("p", "r"), ("n",))),
        # Tevatron
        (
            {**PASSAGES, "positive_passages": [{"docid": "1", "title": "T", "text": "p"}]},
            ("q", ("T p",)),
        ),
        (
            {
                **PASSAGES,
                "positive_passages": [{"docid": "1", "title": "", "text": "p"}, {"text": "r"}],
                "negative_passages": [{"docid": "2", "title": None, "text": "n"}],
            },
            ("q", ("p", "r"), ("n",)),
        ),
    ],
)
def test_rows_of_other_toolkits_are_understood(
    tmp_path: Path, record: dict[str, object], row: tuple[object, ...]
) -> None:
    assert one(tmp_path, record) == TrainingRow(*row, line=1)


@pytest.mark.parametrize(
    ("scores", "positive_scores", "negative_scores"),
    [
        ({"pos_scores": [9, 8.5], "neg_scores": [1.0, 2.0]}, (9.0, 8.5), (1.0, 2.0)),
        ({"neg_scores": [1.0, 2.0]}, (), (1.0, 2.0)),
        ({"pos_scores": None, "neg_scores": []}, (), ()),
        ({"score": [9, 8, 1, 2]}, (9.0, 8.0), (1.0, 2.0)),
        ({"labels": None}, (), ()),
    ],
)
def test_scores_of_a_teacher_stay_with_their_texts(tmp_path, scores, positive_scores, negative_scores) -> None:
    row = one(tmp_path, {"query": "q", "pos": ["p", "r"], "neg": ["n", "m"], **scores})
    assert (row.positive_scores, row.negative_scores) == (positive_scores, negative_scores)


def test_margins_become_scores_with_the_same_differences(tmp_path: Path) -> None:
    row = one(tmp_path, {"query": "q", "positive": "p", "negative": "n", "score": 3.5})
    assert (row.positive_scores, row.negative_scores) == ((0.0,), (-3.5,))
    row = one(tmp_path, {"query": "q", "positive": "p", "negative_1": "n", "negative_2": "m", "label": [3.5, -1]})
    assert (row.positive_scores, row.negative_scores) == ((0.0,), (-3.5, 1.0))


def test_dropped_texts_take_their_scores_along(tmp_path: Path) -> None:
    texts = {"pos": ["p", "p", "r"], "neg": ["n", "p", "n", "m", "elsewhere"]}
    record = {"query": "q", **texts, "pos_scores": [9, 7, 8], "neg_scores": [1, 9, 5, 2, 3]}
    write_jsonl(tmp_path / "x.jsonl", [record, {"query": "q", "pos": "elsewhere"}])
    row = read_training_rows(tmp_path / "x.jsonl")[0]
    assert (row.positives, row.positive_scores) == (("p", "r"), (9.0, 8.0))
    assert (row.negatives, row.negative_scores) == (("n", "m"), (1.0, 2.0))
    row = next(iter_training_rows(tmp_path / "x.jsonl"))
    assert (row.negatives, row.negative_scores) == (("n", "m", "elsewhere"), (1.0, 2.0, 3.0))


def test_labelled_pairs_are_used_where_the_label_is_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = [{"sentence1": "a", "sentence2": str(n), "label": label} for n, label in enumerate((1, 0, True, 1.0, 0.0))]
    write_jsonl(tmp_path / "x.jsonl", rows)
    with caplog.at_level(logging.WARNING):
        assert [row.positives for row in read_training_rows(tmp_path / "x.jsonl")] == [("0",), ("2",), ("3",)]
    assert "left out rows whose label 0 says that the texts do not belong together, lines 2, 5" in caplog.text


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"sentence1": "a", "sentence2": "b", "score": 0.8}, "score is 0.8, expected 1 or 0; choose which grades make"),
        ({"query": "a", "pos": "b", "score": "high"}, "score is 'high', expected 1 or 0"),
        ({"query": "a", "pos": "b", "label": 2}, "label is 2, expected 1 or 0"),
        ({"query": "a", "pos": ["b", "c"], "pos_scores": [1]}, r"pos_scores is \[1\], expected a list of 2 numbers"),
        ({"query": "a", "pos": "b", "pos_scores": [None]}, "pos_scores holds null, expected a finite number"),
        ({"query": "a", "pos": "b", "pos_scores": [True]}, "pos_scores holds True, expected a finite number"),
        ({"query": "a", "pos": "b", "neg_scores": [1]}, r"neg_scores is \[1\], expected a list of 0 numbers"),
        (
            {"query": "a", "pos": "b", "neg": "c", "score": [1, 2, 3]},
            "score holds 3 values, expected one for each of 1 ",
        ),
        (
            {"query": "a", "pos": ["b", "d"], "neg": "c", "score": 1},
            "score holds 1 values, expected one for each of 2 ",
        ),
        ({"query": "a", "pos": "b", "score": 1, "label": 1}, "score and label both give scores"),
        ({"query": "a", "pos": "b", "score": [1], "pos_scores": [1]}, "score and pos_scores both give scores"),
        ({**PASSAGES, "positive_passages": [{"docid": "1"}]}, r"positive_passages holds \{'docid': '1'\}"),
        ({**PASSAGES, "positive_passages": [{"text": "a", "title": 3}]}, "positive_passages holds {'text'"),
        ({**PASSAGES, "positive_passages": [{"text": " "}]}, "positive_passages holds {'text'"),
        (PASSAGES, r"positive_passages is \[\], expected a text or a list of texts"),
    ],
)
def test_what_cannot_be_used_is_explained(tmp_path: Path, fields: dict[str, object], problem: str) -> None:
    assert re.match(problem, problem_of(tmp_path, fields))


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    documents = [Document("1", "p", "T"), Document("2", "n"), Document("3", "r"), Document("4", " ")]
    write_jsonl(tmp_path / "corpus.jsonl", [{"_id": d.id, "title": d.title, "text": d.text} for d in documents])
    return tmp_path / "corpus.jsonl"


def test_ids_are_joined_with_their_corpus(tmp_path: Path, corpus: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_jsonl(
        tmp_path / "x.jsonl",
        [
            {**IDS, "positive_document_ids": [1, "3"], "negative_document_ids": ["2", "4", "gone"]},
            {**IDS, "positive_document_ids": ["4", "gone"], "negative_document_ids": None},
            {**IDS, "positive_document_ids": ["3"]},
        ],
    )
    with caplog.at_level(logging.WARNING):
        rows = read_training_rows(tmp_path / "x.jsonl", corpus=corpus)
    assert rows == [TrainingRow("q", ("T p", "r"), ("n",), line=1), TrainingRow("q", ("r",), line=3)]
    lacking = "4 (line 1), gone (line 1), 4 (line 2), gone (line 2)"
    assert f"{corpus} has no text for documents that {tmp_path / 'x.jsonl'} names: {lacking}" in caplog.text
    assert "left out rows without a positive that has a text in the corpus, lines 2" in caplog.text


def test_documents_of_the_wrong_corpus_make_one_short_line(
    tmp_path: Path, corpus: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [{**IDS, "positive_document_ids": ["3"], "negative_document_ids": [f"x{n}"]} for n in range(12)]
    write_jsonl(tmp_path / "x.jsonl", rows)
    assert [row.negatives for row in read_training_rows(tmp_path / "x.jsonl", corpus=corpus)] == [()] * 12
    (message,) = (message for message in caplog.messages if "has no text for" in message)
    assert message.endswith("x9 (line 10) and 2 more")


def test_tevatrons_second_format_is_read_from_parquet_and_folders_as_from_lines(tmp_path: Path) -> None:
    documents = [{"docid": str(n), "title": "", "text": f"text {n}", "image": None} for n in range(9)]
    rows = [
        {"query_id": str(n), "query": f"q{n}", "positive_document_ids": [str(n)], "negative_document_ids": ["7", "8"]}
        for n in range(3)
    ]
    for name, records in (("corpus", documents), ("rows", rows)):
        write_jsonl(tmp_path / f"{name}.jsonl", records)
        (tmp_path / name).mkdir()
        for shard in range(2):
            pq.write_table(pa.Table.from_pylist(records[shard::2]), tmp_path / name / f"train-{shard}.parquet")
    expected = [(f"q{n}", (f"text {n}",), ("text 7", "text 8")) for n in range(3)]
    for names in (("rows.jsonl", "corpus.jsonl"), ("rows", "corpus"), ("rows.jsonl", "corpus")):
        source, corpus = (tmp_path / name for name in names)
        made = [(r.anchor, r.positives, r.negatives) for r in iter_training_rows(source, corpus=corpus)]
        assert sorted(made) == expected


def test_ids_without_their_corpus_are_refused_at_once(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "x.jsonl", [{"query": "q", "pos": "p"}, {**IDS, "positive_document_ids": ["1"]}])
    with pytest.raises(
        DataError, match=r"x\.jsonl line 2: got positive_document_ids, .*; set data\.corpus in the recipe"
    ):
        read_training_rows(tmp_path / "x.jsonl")


def test_ids_of_the_wrong_kind_and_needless_corpora_are_refused(tmp_path: Path, corpus: Path) -> None:
    rows = [{**IDS, "positive_document_ids": ids} for ids in ("1", [1.5], ["3"])]
    write_jsonl(tmp_path / "x.jsonl", rows)
    with pytest.raises(DataError, match=r"line 1: positive_document_ids is '1', .*; line 2: id 1.5 is float"):
        read_training_rows(tmp_path / "x.jsonl", corpus=corpus)
    write_jsonl(tmp_path / "x.jsonl", rows[:1])
    with pytest.raises(DataError, match=r"line 1: positive_document_ids is '1', expected a list of ids"):
        read_training_rows(tmp_path / "x.jsonl", corpus=corpus)
    write_jsonl(tmp_path / "x.jsonl", [{"query": "q", "pos": "p"}])
    with pytest.raises(DataError, match="has no positive_document_ids, expected some, since a corpus was given"):
        read_training_rows(tmp_path / "x.jsonl", corpus=corpus)


def test_every_kind_of_file_gives_the_same_rows(tmp_path: Path) -> None:
    records = [{"query": f"q{n}", "positive": f"p {n}", "negative": f"n\u2028{n}"} for n in range(3)]
    lines = "".join(json.dumps(record) + "\n" for record in records)
    texts = "".join("\t".join(record.values()) + "\n" for record in records)
    (tmp_path / "a.jsonl").write_text(lines, encoding="utf-8")
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    (tmp_path / "a.tsv").write_text(texts, encoding="utf-8")
    (tmp_path / "b.tsv").write_text("\n" + texts, encoding="utf-8")
    pq.write_table(pa.Table.from_pylist(records), tmp_path / "a.parquet")
    expected = [TrainingRow(r["query"], (r["positive"],), (r["negative"],)) for r in records]
    for name, first in (("a.jsonl", 1), ("a.jsonl.gz", 1), ("a.tsv", 1), ("b.tsv", 2), ("a.parquet", 1)):
        numbered = [TrainingRow(r.anchor, r.positives, r.negatives, first + n) for n, r in enumerate(expected)]
        assert read_training_rows(tmp_path / name) == numbered, name


def test_tsv_may_start_with_the_names_of_its_columns(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("positive\tquery\nquery\tanswer\n", encoding="utf-8")
    assert read_training_rows(tmp_path / "a.tsv") == [TrainingRow("answer", ("query",), line=2)]
    (tmp_path / "b.tsv").write_text("positive\tquery\np\tq\textra\nonly\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"line 2: 3 columns, expected the 2 of the first line.*; line 3: 1 columns"):
        read_training_rows(tmp_path / "b.tsv")
    (tmp_path / "c.tsv").write_text("no tab here\n", encoding="utf-8")
    with pytest.raises(DataError, match="line 1: no positive among fields anchor"):
        read_training_rows(tmp_path / "c.tsv")


def test_a_public_set_is_read_by_config_and_its_train_split(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    columns = {"triplet": {"negative": "n"}, "triplet-50": {f"negative_{n}": f"n{n}" for n in range(1, 51)}}
    for config, negatives in columns.items():
        (tmp_path / "ms" / config).mkdir(parents=True)
        for shard in range(2):
            table = pa.Table.from_pylist([{"query": f"q{shard}", "positive": "p", **negatives}])
            pq.write_table(table, tmp_path / "ms" / config / f"train-0000{shard}-of-00002.parquet")
    configs = [{"config_name": c, "data_files": [{"split": "train", "path": f"{c}/train-*"}]} for c in columns]
    (tmp_path / "ms" / "README.md").write_text(f"---\nconfigs: {json.dumps(configs)}\n---\n", encoding="utf-8")
    with pytest.raises(DataError, match="several configs; expected one of triplet, triplet-50; add it as"):
        read_training_rows(tmp_path / "ms")
    assert [row.anchor for row in read_training_rows(f"{tmp_path / 'ms'}:triplet")] == ["q0", "q1"]
    assert [len(row.negatives) for row in read_training_rows(f"{tmp_path / 'ms'}:triplet-50")] == [50, 50]


def test_shards_are_named_where_there_are_several(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist([{"query": "q", "positive": "p"}]), tmp_path / "a.parquet")
    pq.write_table(pa.Table.from_pylist([{"query": "q", "positive": None}]), tmp_path / "b.parquet")
    with pytest.raises(
        DataError, match=r"has 1 unusable rows; mend or remove them: b\.parquet row 1: positive is null"
    ):
        read_training_rows(tmp_path)


def test_rows_are_streamed_and_judged_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"query": "q", "pos": "p"}\nnot JSON\n{"query": "r", "pos": "p"}\n')
    rows = iter_training_rows(tmp_path / "x.jsonl")
    assert [next(rows).anchor, next(rows).anchor] == ["q", "r"]
    with pytest.raises(DataError, match=r"has 1 unusable rows.*line 2: not JSON"):
        next(rows)
