"""From documents to hits, through a directory on disk."""

import shutil

import numpy as np
import pytest

from aveyb_ir import Encoder, Index, Retriever
from aveyb_ir.data import Document, write_jsonl
from aveyb_ir.errors import DataError, IndexDirError, IndexMismatchError, ModelError
from aveyb_ir.retrieval import index as index_module

DOCUMENTS = [
    Document("garden", "the small garden has a wooden table", title="Garden", metadata={"year": 1999}),
    Document("keeper", "a lighthouse keeper paints the stairs blue"),
    Document("penicillin", "penicillin was discovered by Alexander Fleming", title="Penicillin"),
    Document("empty", ""),
    Document("río", "el río lleva nieve 漢字"),
]


def same_hits(found, expected):
    assert [(hit.document, hit.span) for hit in found] == [(hit.document, hit.span) for hit in expected]
    np.testing.assert_allclose([hit.score for hit in found], [hit.score for hit in expected], atol=1e-5)


@pytest.fixture(scope="module")
def encoder(avey_dir):
    return Encoder(avey_dir)


@pytest.fixture
def built(tmp_path, encoder):
    return Index.build(tmp_path / "index", iter(DOCUMENTS), encoder=encoder)


def test_hits_are_the_nearest_documents(built, encoder):
    query = "who discovered penicillin"
    hits = Retriever(built).search(query, top_k=3)
    scores = encoder.encode_documents([document.full_text for document in DOCUMENTS]) @ encoder.encode_queries(query)
    best = np.argsort(-scores)[:3]
    assert [hit.id for hit in hits] == [DOCUMENTS[i].id for i in best]
    np.testing.assert_allclose([hit.score for hit in hits], scores[best], atol=1e-6)
    assert hits[0].document in DOCUMENTS


def test_hits_carry_their_document(built):
    hit = next(hit for hit in Retriever(built).search("garden", top_k=5) if hit.id == "garden")
    assert (hit.title, hit.text, hit.metadata) == ("Garden", DOCUMENTS[0].text, {"year": 1999})
    assert hit.span is None
    assert hit.passage == hit.text
    assert hit.to_json()["metadata"] == {"year": 1999}


def test_many_queries_give_what_each_gives_alone(built):
    retriever = Retriever(built)
    queries = ["garden table", "", "blue stairs", "漢字"]
    together = retriever.search(queries, top_k=4)
    for query, hits in zip(queries, together, strict=True):
        same_hits(hits, retriever.search(query, top_k=4))
    run = retriever.run(dict(zip("abcd", queries, strict=True)), top_k=4)
    assert run["c"] == {hit.id: hit.score for hit in together[2]}


def test_top_k_beyond_the_corpus_gives_all(built):
    assert len(Retriever(built).search("garden", top_k=50)) == len(DOCUMENTS)
    for top_k in (0, 2.5, True, "3", None):
        with pytest.raises(ValueError, match=r"top_k is .*, expected a whole number from 1"):
            Retriever(built).search("garden", top_k=top_k)


def test_opens_by_path_with_the_encoder_it_names(built, avey_dir, tmp_path, monkeypatch):
    shutil.move(tmp_path / "index", tmp_path / "индекс 漢 (1)")
    monkeypatch.chdir(tmp_path)
    hits = Retriever("индекс 漢 (1)").search("penicillin", top_k=2)
    same_hits(hits, Retriever(tmp_path / "индекс 漢 (1)", encoder=avey_dir).search("penicillin", top_k=2))


def test_blocks_do_not_change_the_index(tmp_path, built, encoder, monkeypatch):
    monkeypatch.setattr(index_module, "BLOCK_DOCUMENTS", 2)
    seen = []
    small = Index.build(tmp_path / "small", DOCUMENTS, encoder=encoder, progress=seen.append)
    assert sorted({progress.documents for progress in seen}) == [2, 4, 5]
    assert seen[-1].total_documents == 5
    same_hits(Retriever(small).search("garden"), Retriever(built).search("garden"))


def test_ids_are_checked_before_a_block_is_encoded(tmp_path, encoder, monkeypatch):
    def again():
        yield from DOCUMENTS[:3]
        yield DOCUMENTS[1]

    index = Index.build(tmp_path / "index", DOCUMENTS[:2], encoder=encoder)
    monkeypatch.setattr(Encoder, "encode_documents", None)  # nothing is encoded from here on
    monkeypatch.setattr(index_module, "encode_texts", None)
    for documents in ([*DOCUMENTS[:2], DOCUMENTS[0]], again()):
        with pytest.raises(DataError, match=r"document '.*' comes twice, expected unique ids"):
            Index.build(tmp_path / "repeated", documents, encoder=encoder)
        assert not (tmp_path / "repeated").exists()
    with pytest.raises(DataError, match="comes twice"):
        index.add([DOCUMENTS[2], DOCUMENTS[2]], replace=True)
    with pytest.raises(DataError, match="is already in"):
        index.add(iter(DOCUMENTS))
    assert len(index) == 2


def test_another_encoder_is_refused(built, bert_dir, avey_dir, tmp_path):
    with pytest.raises(IndexMismatchError, match="dimension"):
        Retriever(tmp_path / "index", encoder=bert_dir)
    with pytest.raises(IndexMismatchError, match="max_length"):
        Retriever(tmp_path / "index", encoder=Encoder(avey_dir, max_length=32))


def test_an_encoder_loaded_for_an_index_gets_its_length_limit_device_and_precision(tmp_path, avey_dir, monkeypatch):
    monkeypatch.setattr("aveyb_ir.encoding.devices.cpu_has_fast", lambda _: True)  # slow or not, it computes
    Index.build(tmp_path / "short", DOCUMENTS, encoder=Encoder(avey_dir, max_length=32))
    for encoder in (None, avey_dir):
        opened = Index.open(tmp_path / "short", encoder=encoder, device="cpu", dtype="bfloat16")
        assert opened.encoder.max_length == 32
        assert str(opened.encoder.model.dtype) == "torch.bfloat16"
    with pytest.raises(ValueError, match="device 'cpu' and dtype None beside an Encoder"):
        Index.open(tmp_path / "short", encoder=Encoder(avey_dir, max_length=32), device="cpu")


def test_an_encoder_that_is_gone_is_said_to_be(tmp_path, avey_dir):
    model = shutil.copytree(avey_dir, tmp_path / "model")
    Index.build(tmp_path / "index", DOCUMENTS, encoder=model)
    shutil.rmtree(model)
    with pytest.raises(IndexDirError, match="give the encoder's folder"):
        Retriever(tmp_path / "index")
    assert Retriever(tmp_path / "index", encoder=avey_dir).search("garden")


def test_nothing_is_left_of_a_build_that_fails(tmp_path, encoder, built):
    def broken():
        yield DOCUMENTS[0]
        raise DataError("corpus.jsonl line 2: broken")

    with pytest.raises(DataError, match="line 2"):
        Index.build(tmp_path / "new", broken(), encoder=encoder)
    assert not (tmp_path / "new").exists()
    with pytest.raises(DataError, match="line 2"):
        Index.build(tmp_path / "index", broken(), encoder=encoder, overwrite=True)
    assert len(Retriever(tmp_path / "index").search("garden")) == len(DOCUMENTS)


def test_no_documents_and_no_model_are_errors_before_anything_is_written(tmp_path, encoder):
    with pytest.raises(DataError, match="has no documents"):
        Index.build(tmp_path / "new", [], encoder=encoder)
    with pytest.raises(ModelError):
        Index.build(tmp_path / "new", DOCUMENTS, encoder="./nowhere")
    with pytest.raises(DataError, match="nowhere"):
        Index.build(tmp_path / "new", tmp_path / "nowhere", encoder=encoder)
    assert not (tmp_path / "new").exists()


def test_an_index_is_not_replaced_unasked(built, tmp_path, encoder):
    with pytest.raises(IndexDirError, match="overwrite"):
        Index.build(tmp_path / "index", DOCUMENTS[:1], encoder=encoder)
    assert len(Index.build(tmp_path / "index", DOCUMENTS[:1], encoder=encoder, overwrite=True)) == 1


def test_documents_are_added_replaced_and_deleted(built, tmp_path):
    new = Document("garden", "a garden of whales")
    assert built.add([Document("whale", "whales sing")]) == 1
    with pytest.raises(DataError, match="garden"):
        built.add([Document("zebra", "zebras"), new])
    built.add([new], replace=True)
    built.delete(["keeper", "empty"])
    built.compact()
    write_jsonl(tmp_path / "more.jsonl", [{"_id": "more", "text": "from a file"}])
    built.add(tmp_path / "more.jsonl")
    found = {hit.id: hit.text for hit in Retriever(built).search("whales", top_k=20)}
    assert set(found) == {"garden", "penicillin", "río", "whale", "more"}
    assert found["garden"] == "a garden of whales"
    assert len(built) == built.info()["documents"] == 5
