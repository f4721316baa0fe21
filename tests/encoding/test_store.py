"""A store holds the encoder's vectors, goes on where a run stopped, and refuses to mix two runs."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from aveyb_ir.data import Document, read_documents, write_jsonl
from aveyb_ir.encoding import EncodedCorpus, Encoder, EncoderStore, EncodingProgress, encode_to_store
from aveyb_ir.errors import DataError

CASES = Path(__file__).parent / "cases"
TEXTS = [json.loads(line)["text"] for line in (CASES / "padding_texts.jsonl").read_text(encoding="utf-8").splitlines()]
EMPTY = json.loads((CASES / "empty_texts.json").read_text(encoding="utf-8"))
LONG = [json.loads(line) for line in (CASES / "long_corpus.jsonl").read_text(encoding="utf-8").splitlines()]
DOCUMENTS = [Document(f"río {i}", f"{text} number {i}", title=f"title {i % 3}") for i, text in enumerate(TEXTS * 3)]


def vectors_of(corpus):
    return np.concatenate([shard.vectors for shard in corpus.shards()])


def ids_of(corpus):
    return [id for shard in corpus.shards() for id in shard.ids]


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(params=["avey", "bert"])
def model_dir(request):
    return request.getfixturevalue(f"{request.param}_dir")


def test_any_model_gives_what_its_encoder_gives(model_dir, tmp_path):
    encoder = Encoder(model_dir)
    corpus = encode_to_store(tmp_path / "store", iter(DOCUMENTS), encoder, shard_documents=10)
    assert corpus.num_documents == corpus.num_vectors == len(DOCUMENTS)
    assert corpus.encoder_fingerprint == encoder.fingerprint
    assert ids_of(corpus) == [document.id for document in DOCUMENTS]
    assert [len(shard.ids) for shard in corpus.shards()] == [10, 10, 10, 10, 2]
    expected = Encoder(model_dir).encode_documents([document.full_text for document in DOCUMENTS])
    np.testing.assert_allclose(vectors_of(corpus), expected, atol=1e-5)
    assert all(shard.spans_by_document() == [[None]] * len(shard.ids) for shard in corpus.shards())
    assert np.abs(vectors_of(corpus)[::-1] - expected).max() > 1e-2


@pytest.mark.parametrize("token_budget", [1, 300, 100_000])
def test_shards_and_budgets_change_nothing_that_counts(model_dir, tmp_path, token_budget):
    documents = [Document(str(i), text) for i, text in enumerate(TEXTS)]
    encoder = Encoder(model_dir, token_budget=token_budget)
    corpus = encode_to_store(tmp_path / "store", documents, encoder, shard_characters=500)
    assert len(list(corpus.shards())) > 2
    alone = np.stack([Encoder(model_dir).encode_documents(text) for text in TEXTS])
    np.testing.assert_allclose(vectors_of(corpus), alone, atol=1e-5)


def test_empty_texts(model_dir, tmp_path):
    documents = [Document(str(i), text) for i, text in enumerate(EMPTY)]
    vectors = vectors_of(encode_to_store(tmp_path / "store", documents, Encoder(model_dir), shard_documents=3))
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(vectors[[1, 2, 6]], vectors[[0, 0, 0]], atol=1e-6)
    np.testing.assert_allclose(vectors[7], Encoder(model_dir).encode_documents("hello world"), atol=1e-6)
    assert encode_to_store(tmp_path / "none", [], Encoder(model_dir)).num_documents == 0


def test_long_texts_are_whole_unless_limited_and_cuts_are_counted(avey_dir, tmp_path, caplog):
    documents = [Document(record["_id"], record["text"]) for record in LONG]
    rows = {document.id: row for row, document in enumerate(documents)}
    whole, limited = Encoder(avey_dir), Encoder(avey_dir, max_length=512)
    corpus = encode_to_store(tmp_path / "whole", documents, whole, shard_documents=1)
    vectors = vectors_of(corpus)
    assert np.abs(vectors[rows["same"]] - vectors[rows["diff"]]).max() > 1e-4
    assert (corpus.counts.texts_cut, corpus.counts.tokens) == (0, corpus.counts.tokens_used)
    corpus = encode_to_store(tmp_path / "limited", documents, limited, shard_documents=1)
    vectors = vectors_of(corpus)
    np.testing.assert_array_equal(vectors[rows["same"]], vectors[rows["diff"]])
    assert corpus.counts.texts_cut == limited.counts.texts_cut == 2
    (said,) = [record.message for record in caplog.records if "cut" in record.message]  # once, not for each shard
    assert said.startswith("2 of 3 texts cut at 512 tokens")
    assert corpus.counts.tokens > 10_000 > corpus.counts.tokens_used
    again = Encoder(avey_dir, max_length=512)
    encode_to_store(tmp_path / "limited", documents, again, shard_documents=1)
    assert again.counts == limited.counts  # what an earlier run read counts too


@pytest.mark.parametrize("granularity", ["chunk", "both"])
def test_chunks_come_with_counts_and_characters(avey_dir, tmp_path, granularity):
    encoder = Encoder(avey_dir)
    corpus = encode_to_store(tmp_path / "store", DOCUMENTS, encoder, granularity=granularity, shard_documents=20)
    chunked = encoder.encode_chunks([document.full_text for document in DOCUMENTS])
    expected_spans = [[None] * (granularity == "both") + text.spans for text in chunked]
    assert [spans for shard in corpus.shards() for spans in shard.spans_by_document()] == expected_spans
    assert np.concatenate([shard.counts for shard in corpus.shards()]).tolist() == [len(s) for s in expected_spans]
    expected = [
        vectors
        for text in chunked
        for vectors in ([text.vector[None]] * (granularity == "both") + [text.chunk_vectors])
    ]
    np.testing.assert_allclose(vectors_of(corpus), np.concatenate(expected), atol=1e-5)
    assert (corpus.granularity, corpus.num_documents) == (granularity, len(DOCUMENTS))


def test_a_model_without_chunks_says_so_and_leaves_nothing(bert_dir, tmp_path):
    with pytest.raises(ValueError, match="has no chunks"):
        encode_to_store(tmp_path / "store", DOCUMENTS, Encoder(bert_dir), granularity="chunk")
    assert not list(tmp_path.iterdir())


def test_a_broken_corpus_keeps_the_shards_before_it(avey_dir, tmp_path):
    def broken():
        yield from DOCUMENTS[:25]
        raise DataError("corpus.jsonl line 26: broken")

    with pytest.raises(DataError, match="line 26"):
        encode_to_store(tmp_path / "store", broken(), Encoder(avey_dir), shard_documents=10)
    with pytest.raises(DataError, match="not complete: 2 shards are finished; run the encoding again"):
        EncodedCorpus(tmp_path / "store")
    encode_to_store(tmp_path / "store", DOCUMENTS, Encoder(avey_dir), shard_documents=10)
    encode_to_store(tmp_path / "whole", DOCUMENTS, Encoder(avey_dir), shard_documents=10)
    assert contents(tmp_path / "store") == contents(tmp_path / "whole")


def test_a_run_killed_at_any_step_goes_on_to_the_same_bytes(avey_dir, tmp_path):
    write_jsonl(tmp_path / "corpus.jsonl", [{"_id": str(i), "text": text} for i, text in enumerate(TEXTS + EMPTY[:2])])
    stores = tmp_path / "stores"
    command = [sys.executable, CASES / "kill_encoding.py", avey_dir, tmp_path / "corpus.jsonl", stores]
    subprocess.run(command, check=True, timeout=300)
    whole = contents(stores / "whole")
    killed = sorted((path for path in stores.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
    assert contents(killed.pop()) == whole != contents(killed[-4])
    assert len(killed) > 30
    encoder, resumed = Encoder(avey_dir), []
    for store in killed:
        seen = []
        arguments = {"granularity": "both", "shard_documents": 7, "progress": seen.append}
        encode_to_store(store, read_documents(tmp_path / "corpus.jsonl"), encoder, **arguments)
        assert contents(store) == whole
        resumed.append(seen[-1].new_documents)
    assert set(resumed) == {16, 9, 2, 0}  # no finished shard was computed again
    assert resumed == sorted(resumed, reverse=True)


def begin(path, model_dir, *, documents=DOCUMENTS, **settings):
    encoder = Encoder(model_dir, **settings)
    store = EncoderStore(path, encoder, shard_documents=10).encode(documents)
    next(store), next(store)
    store.close()


def test_another_encoder_or_setting_is_refused(avey_dir, bert_dir, tmp_path):
    begin(tmp_path / "store", avey_dir, token_budget=300)
    before = contents(tmp_path / "store")
    prompted = Encoder(avey_dir, token_budget=300)
    prompted.model.prompts["document"] = "passage: "
    unlike = Encoder(avey_dir, token_budget=300)
    unlike.model[0].model.layers[0].alpha.data.fill_(0.5)
    for encoder, settings, said in [
        (Encoder(bert_dir, token_budget=300), {}, "dimension 32 against 48"),
        (prompted, {}, "prompts"),
        (unlike, {}, "weights"),
        (Encoder(avey_dir, token_budget=300, max_length=99), {}, "max_length 99 against"),
        (Encoder(avey_dir, token_budget=301), {}, "token_budget 301 against 300"),
        (Encoder(avey_dir), {"shard_documents": 11}, "shard_documents 11 against 10"),
        (Encoder(avey_dir), {"granularity": "chunk"}, "granularity 'chunk' against 'document'"),
    ]:
        with pytest.raises(DataError, match=said) as error:
            encode_to_store(tmp_path / "store", DOCUMENTS, encoder, **{"shard_documents": 10, **settings})
        assert "\n" not in str(error.value)
        assert "remove the folder" in str(error.value)
    assert contents(tmp_path / "store") == before
    encode_to_store(tmp_path / "store", DOCUMENTS, Encoder(avey_dir), shard_documents=10)  # a budget by default goes on
    encode_to_store(tmp_path / "whole", DOCUMENTS, Encoder(avey_dir, token_budget=300), shard_documents=10)
    assert contents(tmp_path / "store") == contents(tmp_path / "whole")


def test_another_corpus_is_refused(avey_dir, tmp_path):
    begin(tmp_path / "store", avey_dir)
    changed_text, changed_id = list(DOCUMENTS), list(DOCUMENTS)
    changed_text[12] = replace(DOCUMENTS[12], text="something else")
    changed_id[3] = replace(DOCUMENTS[3], id="another")
    for corpus, said in [
        (changed_text, "documents 11 to 20, but they are others now"),
        (changed_id, "documents 1 to 10, but they are others now"),
        (DOCUMENTS[:15], "documents 11 to 20, but they are others now"),
        (DOCUMENTS[:10], "documents 11 to 20, but the corpus ends before them"),
    ]:
        with pytest.raises(DataError, match=said):
            encode_to_store(tmp_path / "store", corpus, Encoder(avey_dir), shard_documents=10)
    encode_to_store(tmp_path / "store", DOCUMENTS, Encoder(avey_dir), shard_documents=10)
    with pytest.raises(DataError, match="documents 41 to 42"):
        encode_to_store(tmp_path / "store", [*DOCUMENTS, Document("x", "y")], Encoder(avey_dir), shard_documents=10)
    encode_to_store(tmp_path / "even", DOCUMENTS[:40], Encoder(avey_dir), shard_documents=10)
    with pytest.raises(DataError, match="is complete, but the corpus goes on with document 'río 40'"):
        encode_to_store(tmp_path / "even", DOCUMENTS, Encoder(avey_dir), shard_documents=10)


def test_one_writer_at_a_time(avey_dir, tmp_path):
    store = EncoderStore(tmp_path / "store", Encoder(avey_dir), shard_documents=10).encode(DOCUMENTS)
    next(store)
    with pytest.raises(DataError, match="is locked"):
        encode_to_store(tmp_path / "store", DOCUMENTS, Encoder(avey_dir), shard_documents=10)
    store.close()
    encode_to_store(tmp_path / "store", DOCUMENTS, Encoder(avey_dir), shard_documents=10)


def test_other_peoples_files_are_left_alone(avey_dir, tmp_path):
    (tmp_path / "thesis.txt").write_text("precious", encoding="utf-8")
    with pytest.raises(DataError, match=r"holds 1 other files \(thesis\.txt\)"):
        encode_to_store(tmp_path, DOCUMENTS, Encoder(avey_dir))
    assert contents(tmp_path) == {"thesis.txt": b"precious"}


def cut(path):
    path.write_bytes(path.read_bytes()[:-20])


def flip(path):
    content = bytearray(path.read_bytes())
    content[-2] ^= 4
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("manifest.json", cut),
        ("manifest.json", lambda path: path.write_text('{"format": 99}', encoding="utf-8")),
        ("manifest.json", lambda path: path.write_text("[]", encoding="utf-8")),
        ("manifest.json", Path.unlink),
        ("manifest.json", lambda path: path.write_text(path.read_text().replace('"checksums"', '"sums"'))),
        ("shard-000001.npy", cut),
        ("shard-000001.npy", flip),
        ("shard-000001.npy", lambda path: np.save(path, np.load(path)[::-1])),
        ("shard-000001.npy", Path.unlink),
        ("shard-000001.npy", lambda path: np.save(path, np.zeros((10, 5), np.float32))),
        ("shard-000001.npy", lambda path: np.save(path, np.array([{}] * 10), allow_pickle=True)),
        ("shard-000001.ids.jsonl", cut),
        ("shard-000001.ids.jsonl", lambda path: path.write_text('"a"\n', encoding="utf-8")),
        ("shard-000001.ids.jsonl", flip),
        ("shard-000001.spans.npy", cut),
        ("shard-000001.spans.npy", flip),
    ],
)
def test_damage_is_named(avey_dir, tmp_path, name, damage):
    arguments = {"granularity": "both", "shard_documents": 10}
    encode_to_store(tmp_path / "store", DOCUMENTS[:20], Encoder(avey_dir), **arguments)
    damage(tmp_path / "store" / name)
    with pytest.raises(DataError, match=str(tmp_path / "store")) as error:
        list(EncodedCorpus(tmp_path / "store").shards())
    assert "\n" not in str(error.value)


def test_a_run_does_not_go_on_with_a_shard_that_has_changed(avey_dir, tmp_path):
    begin(tmp_path / "store", avey_dir)
    before = contents(tmp_path / "store")
    flip(tmp_path / "store" / "shard-000000.npy")
    with pytest.raises(DataError, match=r"shard-000000\.npy: its content has changed since it was written"):
        encode_to_store(tmp_path / "store", DOCUMENTS, Encoder(avey_dir), shard_documents=10)
    (tmp_path / "store" / "shard-000000.npy").write_bytes(before["shard-000000.npy"])
    encode_to_store(tmp_path / "store", DOCUMENTS, Encoder(avey_dir), shard_documents=10)


def test_progress_counts_texts_and_tells_an_honest_rest(avey_dir, tmp_path):
    begin(tmp_path / "store", avey_dir)
    characters = sum(len(document.full_text) for document in DOCUMENTS)
    seen = []
    encode_to_store(
        tmp_path / "store",
        DOCUMENTS,
        Encoder(avey_dir, token_budget=None),
        shard_documents=10,
        progress=seen.append,
        total_documents=len(DOCUMENTS),
        total_characters=characters,
    )
    assert [p.documents for p in seen][:2] == [10, 20]
    assert seen[1].remaining_seconds is None  # nothing was encoded in this run yet
    assert (seen[-1].documents, seen[-1].characters) == (len(DOCUMENTS), characters)
    assert (seen[-1].new_documents, seen[-1].remaining_seconds) == (len(DOCUMENTS) - 20, 0)
    assert [p.characters for p in seen] == sorted(p.characters for p in seen)
    assert seen[-1].tokens_per_second > 0


def test_the_rest_follows_the_speed_of_this_run():
    progress = EncodingProgress(
        documents=60, characters=600, new_documents=10, new_characters=200, new_tokens=50, seconds=4.0
    )
    assert progress.remaining_seconds is None
    assert progress.tokens_per_second == 12.5
    assert replace(progress, total_documents=100).remaining_seconds == 16
    assert replace(progress, total_documents=100, total_characters=1000).remaining_seconds == 8


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"granularity": "word"}, "expected one of document, chunk, both"),
        ({"shard_documents": 0}, "shard_documents is 0"),
        ({"shard_characters": 0}, "shard_characters is 0"),
        ({"devices": []}, "devices is empty"),
    ],
)
def test_impossible_arguments_are_refused(avey_dir, tmp_path, arguments, said):
    with pytest.raises(ValueError, match=said):
        encode_to_store(tmp_path / "store", DOCUMENTS, Encoder(avey_dir), **arguments)
    assert not list(tmp_path.iterdir())
