"""Needles in haystacks: where they lie, that only they differ, and that a model which can find them scores 1."""

import csv
import json

import numpy as np
import pytest

from aveyb_ir import Encoder
from aveyb_ir.data import Document, Query, write_beir_folder
from aveyb_ir.encoding import token_counts
from aveyb_ir.evaluation import needle, needle_table, save_needle
from aveyb_ir.evaluation.haystack import HaystackMaker, split_sentences
from aveyb_ir.evaluation.needle_facts import fact_needles, passage_needles

FILLER = [
    Document(str(i), f"The cat number {i} sleeps in the garden. Ships return at night with salt! A river.")
    for i in range(40)
]


@pytest.fixture(scope="module")
def encoder(avey_dir):
    return Encoder(avey_dir)


@pytest.fixture(scope="module")
def maker(encoder):
    return HaystackMaker(encoder, split_sentences(FILLER))


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "filler.jsonl"
    path.write_text("".join(json.dumps({"_id": d.id, "text": d.text}) + "\n" for d in FILLER), encoding="utf-8")
    return path


def test_facts_differ_in_name_and_key_only_and_follow_the_seed():
    facts = fact_needles(48, seed=3)
    assert facts == fact_needles(48, seed=3) != fact_needles(48, seed=4)
    names = [fact.question.removeprefix("What is the pass key of ").removesuffix("?").split() for fact in facts]
    keys = [fact.text.rpartition(" ")[2].rstrip(".") for fact in facts]
    assert all(len({name[part] for name in names}) == 48 for part in (0, 1))
    assert len(set(keys)) == 48
    for fact, (first, last), key in zip(facts, names, keys, strict=True):
        assert fact.text == f"The pass key of {first} {last} is {key}."
        assert key not in fact.question


def test_all_names_can_be_used_once_and_no_more():
    assert len({fact.question for fact in fact_needles(48 * 48)}) == 48 * 48
    with pytest.raises(ValueError, match="2,304"):
        fact_needles(48 * 48 + 1)


def test_passages_bring_the_question_that_they_answer(tmp_path):
    documents = [Document(f"d{i}", f"passage {i}", title="t") for i in range(4)]
    queries = [Query(f"q{i}", f"question {i}") for i in range(4)]
    qrels = {"test": {"q0": {"d3": 0, "d0": 2}, "q1": {"d1": 1}, "q2": {"d1": 1}, "q3": {"d2": 0}}}
    write_beir_folder(tmp_path / "set", documents, queries, qrels)
    found = {(item.question, item.text) for item in passage_needles(tmp_path / "set", 2)}
    assert found == {("question 0", "t passage 0"), ("question 1", "t passage 1")}
    with pytest.raises(ValueError, match="has 2 passages"):
        passage_needles(tmp_path / "set", 3)


def test_filler_is_cut_at_sentences_and_long_ones_into_pieces():
    found = split_sentences(
        [Document("a", "One. Two! 3 three?\nfour " + "word " * 50), Document("b", "gone")], without=["gone"]
    )
    assert found[:3] == ["One.", "Two!", "3 three?"]
    assert [len(piece.split()) for piece in found[3:]] == [40, 11]


@pytest.mark.parametrize("length", [64, 200, 1500])
def test_a_haystack_has_its_length_and_its_needle_at_its_depth_between_sentences(encoder, maker, length):
    needle_text = "The pass key of Greta Jessop is 48213."
    fillers = set()
    for depth in (0, 0.25, 0.5, 1):
        found = maker.make(needle_text, length, depth, start=7)
        start, end = found.span
        assert found.text[start:end] == needle_text
        assert found.num_tokens == token_counts(encoder, [found.text])[0]
        assert length - 30 < found.num_tokens <= length
        assert start / (len(found.text) - len(needle_text)) == pytest.approx(depth, abs=30 / length)
        before, after = found.text[:start].strip(), found.text[end:].strip()
        assert not before or before[-1] in ".!"
        fillers.add(f"{before} {after}".strip())
    assert len(fillers) == 1  # only the place changes
    assert maker.make(needle_text, length, 0, start=8).text not in fillers


def test_impossible_haystacks_are_refused(encoder, maker):
    with pytest.raises(ValueError, match="length is 5 tokens"):
        maker.make("The pass key of Greta Jessop is 48213.", 5, 0, start=0)
    with pytest.raises(ValueError, match="depth is 2"):
        maker.make("a", 100, 2, start=0)
    with pytest.raises(ValueError, match="no sentences"):
        HaystackMaker(encoder, [])


class Finder(Encoder):
    """Reads pass keys only: the vector of a text is that of the name in it, if the name is among what it reads."""

    reach = None

    def encode(self, texts, kind, **options):
        if isinstance(texts, str):
            return self.encode([texts], kind)[0]
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            name = text[: self.reach].partition("pass key of ")[2].replace("?", "").split(" is ")[0]
            vectors[row, sum(map(ord, name)) % self.dimension if name else 0] = 1
        return vectors


def test_what_finds_the_name_scores_1_and_what_reads_the_beginning_only_fails_below(avey_dir, corpus):
    finder = Finder(avey_dir)
    options = {"lengths": [100], "depths": [0, 100], "needles": 2, "distractors": 1, "granularity": "document"}
    whole = needle([finder], corpus=corpus, seed=1, **options)
    assert [cell.success_at_1 for cell in whole.cells] == [1, 1]
    finder.reach = 60
    cut = needle([finder], corpus=corpus, seed=1, **options)
    assert [cell.success_at_1 for cell in cut.cells] == [1, 0]
    assert cut.cells[1].ranks == (3, 3)  # equal scores are no success
    assert cut.cells[1].mrr == pytest.approx(1 / 3)


def test_both_views_of_a_model_with_chunks_and_the_documents_of_one_without(encoder, bert_dir, corpus, tmp_path):
    said = []
    report = needle(
        [encoder, bert_dir], lengths=[60, 150], depths=[0, 50], needles=2, distractors=2, corpus=corpus, say=said.append
    )
    again = needle([encoder], lengths=[60, 150], depths=[0, 50], needles=2, distractors=2, corpus=corpus)
    assert again.cells == report.cells[: len(again.cells)]
    views = [(cell.view, cell.length, cell.depth) for cell in again.cells]
    assert sorted(views) == sorted((v, n, d) for v in ("document", "chunk") for n in (60, 150) for d in (0, 50))
    assert {cell.view for cell in report.cells[len(again.cells) :]} == {"document"}
    assert all(0 <= cell.found_in_place <= 1 for cell in report.cells if cell.view == "chunk")
    avey, bert = report.costs
    assert avey.documents == bert.documents == 2 * (2 * 2 + 2)
    assert avey.tokens == avey.tokens_used
    assert bert.tokens_used < bert.tokens  # it reads 64 tokens
    assert f"{avey.documents} documents" in said[0]

    paths = save_needle(report, tmp_path / "out")
    assert [path.name for path in paths] == ["needle.json", "needle.csv", "needle.md", "needle.png"]
    assert paths[3].read_bytes().startswith(b"\x89PNG")
    assert json.loads(paths[0].read_text(encoding="utf-8")) == json.loads(json.dumps(report.to_json()))
    with paths[1].open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["success_at_1"]) for row in rows] == [cell.success_at_1 for cell in report.cells]
    assert needle_table(report).count("| 50 % |") == 3


def test_impossible_tests_are_refused(encoder, bert_dir, corpus):
    with pytest.raises(ValueError, match="depth is 101"):
        needle([encoder], depths=[101])
    with pytest.raises(ValueError, match="2 documents"):
        needle([encoder], needles=1, distractors=0)
    with pytest.raises(ValueError, match="no chunks"):
        needle([bert_dir], lengths=[60], granularity="chunk", corpus=corpus)
