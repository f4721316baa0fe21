"""Chunks and whole documents in an index, conditions on metadata, specifications, and the encoder put to the test."""

import numpy as np
import pytest

from aveyb_ir import Encoder, Index, Retriever
from aveyb_ir.data import Document, write_jsonl
from aveyb_ir.errors import IndexDamagedError, IndexMismatchError
from aveyb_ir.index import EncoderIdentity, IndexDir, IndexWriter

LONG = " ".join(["the small garden has a wooden table"] * 20)
DOCUMENTS = [
    Document("garden", LONG + " penicillin was discovered by Alexander Fleming", metadata={"year": 1999}),
    Document("keeper", "a lighthouse keeper paints the stairs blue", metadata={"year": 2021}),
    Document("empty", ""),
]


RED, OTHER = [1, 0, 0], [0, 0, 1]


@pytest.fixture(scope="module")
def encoder(avey_dir):
    return Encoder(avey_dir)


@pytest.fixture
def words(tmp_path):
    """An index of both: `pure` is all red, `mixed` is red and green, `late` has its red word last."""
    documents = [Document("pure", "red red"), Document("mixed", "red green"), Document("late", "blue grey red")]
    with IndexWriter.create(tmp_path / "words", EncoderIdentity("words", "f", 3), granularity="both") as writer:
        vectors = [[2, 0, 0], RED, RED, [1, 1, 0], RED, [0, 1, 0], [1, 0, 2], OTHER, OTHER, RED]
        spans = [[None, (0, 3), (4, 7)], [None, (0, 3), (4, 9)], [None, (0, 4), (5, 9), (10, 13)]]
        writer.add(documents, np.array(vectors, np.float32), spans)
    return IndexDir.open(tmp_path / "words")


@pytest.mark.parametrize(
    ("weight", "scores"),
    [
        (0, {"pure": 1, "mixed": 1, "late": 1}),
        (1, {"pure": 1, "mixed": 0.5**0.5, "late": 0.2**0.5}),
        (0.5, {"pure": 1, "mixed": (1 + 0.5**0.5) / 2, "late": (1 + 0.2**0.5) / 2}),
    ],
)
def test_a_score_blends_the_best_chunk_and_the_whole_document(words, weight, scores):
    for top_k in (1, 2, 3):
        (hits,) = words.search([[1, 0, 0]], top_k, document_weight=weight)
        expected = list(scores.items())[:top_k]
        assert [hit.id for hit in hits] == [id for id, _ in expected]
        assert [hit.score for hit in hits] == pytest.approx([score for _, score in expected])
        assert [hit.span for hit in hits] == [(0, 3), (0, 3), (10, 13)][:top_k]


@pytest.mark.parametrize("weight", [2, -0.1, float("nan"), True, np.True_, "1", None])
def test_what_is_no_weight_is_refused(words, weight):
    with pytest.raises(ValueError, match=r"document_weight is .*, expected 0 to 1"):
        words.search([[1, 0, 0]], 1, document_weight=weight)


@pytest.mark.parametrize("granularity", ["chunk", "both"])
def test_hits_name_the_chunk_that_matched_best(tmp_path, encoder, granularity):
    index = Index.build(tmp_path / "index", DOCUMENTS, encoder=encoder, granularity=granularity)
    assert index.info()["vectors"] > len(DOCUMENTS) + 3
    query = "who discovered penicillin"
    hits = Retriever(index).search(query, top_k=3, document_weight=0)
    assert {hit.id for hit in hits} == {"garden", "keeper", "empty"}
    texts = [document.full_text for document in DOCUMENTS]
    chunks = dict(zip((d.id for d in DOCUMENTS), encoder.encode_chunks(texts), strict=True))
    for hit in hits:
        if hit.id != "empty":
            cosines = chunks[hit.id].chunk_vectors @ encoder.encode_queries(query)
            assert hit.span == chunks[hit.id].spans[int(np.argmax(cosines))]
            assert hit.score == pytest.approx(float(cosines.max()), abs=1e-5)
            assert hit.passage == hit.document.full_text[slice(*hit.span)]


def test_what_is_added_later_has_the_granularity_of_the_index(tmp_path, encoder):
    index = Index.build(tmp_path / "index", DOCUMENTS[1:], encoder=encoder, granularity="chunk")
    index.add(DOCUMENTS[:1])
    hit = next(hit for hit in Retriever(index).search("garden", top_k=3) if hit.id == "garden")
    assert hit.span is not None


def test_a_condition_leaves_only_documents_that_meet_it(tmp_path, encoder):
    retriever = Retriever(Index.build(tmp_path / "index", DOCUMENTS, encoder=encoder))
    assert {hit.id for hit in retriever.search("garden", where="year >= 1999")} == {"garden", "keeper"}
    assert [hit.id for hit in retriever.search("garden", where="year > 2000")] == ["keeper"]
    assert set(retriever.run({"q": "garden"}, where="year is null")["q"]) == {"empty"}
    with pytest.raises(ValueError, match=r"condition 'year >' at character 7: got the end"):
        retriever.search("garden", where="year >")


@pytest.mark.parametrize("given", ["collection", "iterator", "file"])
@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("PQ4", "at least 256 vectors.*3 documents"),
        ("OPQ8,PQ4", "at least 256 vectors"),
        ("PQ7", "'PQ7' with"),
    ],
)
def test_a_spec_that_cannot_be_is_refused_before_anything_is_encoded(tmp_path, encoder, spec, message, given):
    before = encoder.counts.texts
    write_jsonl(tmp_path / "corpus.jsonl", [{"_id": d.id, "text": d.text} for d in DOCUMENTS])
    documents = {"collection": DOCUMENTS, "iterator": iter(DOCUMENTS), "file": tmp_path / "corpus.jsonl"}[given]
    with pytest.raises(ValueError, match=message):
        Index.build(tmp_path / "index", documents, encoder=encoder, spec=spec)
    assert encoder.counts.texts == before
    assert not (tmp_path / "index").exists()


def test_verify_encodes_a_sample_again(tmp_path, encoder):
    index = Index.build(tmp_path / "index", DOCUMENTS, encoder=encoder, granularity="both")
    assert index.verify() == pytest.approx(1, abs=1e-4)


def test_verify_tells_of_vectors_that_the_encoder_does_not_make(tmp_path, encoder):
    vectors = np.random.default_rng(0).standard_normal((2, encoder.dimension))
    right = Index.build(tmp_path / "right", DOCUMENTS[:2], encoder=encoder)
    with IndexWriter.create(tmp_path / "wrong", right.directory.encoder) as writer:
        writer.add(DOCUMENTS[:2], vectors)
    with pytest.raises(IndexMismatchError, match=r"its stored vector has cosine .* expected at least 0\.99"):
        Index.open(tmp_path / "wrong", encoder=encoder).verify()
    assert Index.open(tmp_path / "wrong", encoder=encoder).verify(sample=0) == 1


def test_verify_tells_of_documents_that_were_exchanged(tmp_path, encoder):
    index = Index.build(tmp_path / "index", DOCUMENTS, encoder=encoder)
    (file,) = (tmp_path / "index").glob("segment-*/documents.sqlite")
    content = bytearray(file.read_bytes())
    content[content.index(b"lighthouse")] ^= 1
    file.write_bytes(content)
    with pytest.raises(IndexDamagedError, match="SHA-256"):
        index.verify()
