"""A plan: what it counts is what the encoder reports, what it estimates is near, what it weighs is what is written."""

import numpy as np
import pytest

from aveyb_ir import Encoder, Index
from aveyb_ir.data import Document
from aveyb_ir.encoding import survey_corpus
from aveyb_ir.encoding.rates import EncodingRates, LengthRate, measure_rates
from aveyb_ir.errors import DataError
from aveyb_ir.index import BUILT_IN, EncoderIdentity, IndexWriter, faiss_bytes, load_spec
from aveyb_ir.retrieval import plan


def documents(num, *, longest=120):
    random = np.random.default_rng(0)
    words = ["garden", "a", "wooden", "table", "near", "the", "old", "wall", "where", "cat", "sleeps", "in", "sun"]
    return [
        Document(f"d{i}", " ".join(random.choice(words, size=int(random.integers(1, longest)))), metadata={"n": i})
        for i in range(num)
    ]


@pytest.fixture(scope="module")
def encoder(avey_dir):
    return Encoder(avey_dir, max_length=50)


def test_counted_tokens_and_cuts_are_those_that_the_encoder_then_reports(avey_dir):
    encoder, corpus = Encoder(avey_dir, max_length=50), documents(40)
    found = plan(encoder, corpus, max_seconds=1)
    encoder.counts = type(encoder.counts)()
    encoder.encode([document.full_text for document in corpus], "document", log_cuts=False)
    counts = encoder.counts
    assert found.sampled_documents == found.documents == counts.texts
    for estimate, reported in (
        (found.tokens, counts.tokens),
        (found.tokens_used, counts.tokens_used),
        (found.documents_cut, counts.texts_cut),
    ):
        assert estimate.low == estimate.value == estimate.high == reported
    assert found.longest_tokens > 50 == found.max_length
    assert 0 < counts.texts_cut < 40


def test_the_interval_of_a_sample_holds_the_truth_about_as_often_as_it_says(encoder):
    corpus = documents(400)
    truth = survey_corpus(encoder, corpus)
    assert truth.is_complete
    inside = {"tokens": 0, "cut": 0}
    for seed in range(40):
        sampled = survey_corpus(encoder, corpus, sample=60, seed=seed)
        assert (len(sampled.texts), sampled.num_documents) == (60, 400)
        for name, of in (("tokens", lambda s: s.full_lengths), ("cut", lambda s: s.lengths < s.full_lengths)):
            estimate = sampled.total(of(sampled))
            inside[name] += estimate.low <= truth.total(of(truth)).value <= estimate.high
            assert estimate.low < estimate.high
    assert 33 <= inside["tokens"] <= 40
    assert 33 <= inside["cut"] <= 40


def test_every_document_is_equally_likely_to_be_sampled(encoder):
    corpus = [Document(str(i), f"text {i}") for i in range(10)]
    seen = [text for seed in range(300) for text in survey_corpus(encoder, corpus, sample=3, seed=seed).texts]
    counts = [seen.count(document.text) for document in corpus]
    assert sum(counts) == 900
    assert 60 <= min(counts) <= max(counts) <= 120


def test_time_is_tokens_by_the_rate_of_their_length():
    rates = EncodingRates((LengthRate(64, (10.0, 20.0, 40.0), 1), LengthRate(128, (100.0, 100.0, 100.0), 1)))
    found = rates.seconds(np.array([0, 64, 65, 1000]), weight=2)
    assert (found.low, found.value, found.high) == pytest.approx(
        (2 * (64 / 40 + 10.65), 2 * (64 / 20 + 10.65), 2 * (64 / 10 + 10.65))
    )


def test_every_length_is_timed_and_the_longest_text_is_among_them(encoder, monkeypatch):
    texts = [document.text for document in documents(60)] + ["the sun " * 600]
    lengths = np.array([10] * 20 + [40] * 40 + [1200])
    encoded = []
    monkeypatch.setattr("aveyb_ir.encoding.rates.encode_texts", lambda _, batch, __: encoded.append(list(batch)))
    rates = measure_rates(encoder, texts, lengths, max_seconds=1000)
    assert [rate.up_to for rate in rates.rates] == [16, 64, 2048]
    assert all(len(rate.tokens_per_second) == 3 for rate in rates.rates)
    assert sum(texts[-1] in batch for batch in encoded) == 3
    with pytest.raises(ValueError, match="no text has a token"):
        measure_rates(encoder, [""], np.array([0]))


def test_lengths_that_would_take_too_long_are_not_timed(encoder, monkeypatch):
    clock = iter(range(10_000))
    monkeypatch.setattr("aveyb_ir.encoding.rates.time.perf_counter", lambda: next(clock))
    monkeypatch.setattr("aveyb_ir.encoding.rates.encode_texts", lambda *_: None)
    rates = measure_rates(encoder, ["a", "b"], np.array([10, 100_000]), max_seconds=60)
    assert rates.longest_timed == 16
    assert rates.seconds(np.array([100_000])).value > 1000


@pytest.mark.parametrize("name", [*BUILT_IN, "IVF8,SQ8", "HNSW16,SQ8"])
def test_faiss_takes_the_bytes_that_were_foretold(name, tmp_path, monkeypatch):
    # Strings that are not built in are tried in another process, which is tested where that is done.
    monkeypatch.setattr("aveyb_ir.index.footprint.check_spec", lambda spec, dimension: None)
    vectors = np.random.default_rng(0).standard_normal((3000, 64)).astype(np.float32)
    with IndexWriter.create(tmp_path / "index", EncoderIdentity("any", "f", 64), spec=load_spec(name)) as writer:
        writer.add([Document(str(i), "") for i in range(3000)], vectors)
    size = sum(path.stat().st_size for path in (tmp_path / "index").rglob("faiss.index"))
    assert faiss_bytes(load_spec(name), 3000, 64) == pytest.approx(size, rel=0.03, abs=500)


def test_codes_behind_a_transformation_are_weighed(monkeypatch):
    monkeypatch.setattr("aveyb_ir.index.footprint.check_spec", lambda spec, dimension: None)
    assert faiss_bytes(load_spec("PCA32,SQ8"), 3000, 64) == 3000 * 32


@pytest.mark.parametrize("granularity", ["document", "chunk", "both"])
def test_vectors_and_disk_are_those_of_the_index_that_is_built(avey_dir, granularity, tmp_path):
    encoder, corpus = Encoder(avey_dir), documents(300)
    found = plan(encoder, corpus, granularity=granularity, max_seconds=1)
    index = Index.build(tmp_path / "index", corpus, encoder=encoder, granularity=granularity)
    assert found.vectors.value == index.info()["vectors"]
    for file, foretold in {
        "embeddings.npy": "embeddings",
        "parts.npy": "parts",
        "ids.npy": "ids",
        "documents.sqlite": "documents",
    }.items():
        size = sum(path.stat().st_size for path in (tmp_path / "index").rglob(file))
        assert found.disk_bytes[foretold] == pytest.approx(size, rel=0.1, abs=12_000)


def test_what_cannot_be_planned_is_refused(avey_dir, bert_dir):
    with pytest.raises(DataError, match="no documents"):
        plan(avey_dir, [])
    with pytest.raises(ValueError, match="no chunks"):
        plan(bert_dir, documents(2), granularity="chunk")
    with pytest.raises(ValueError, match="sample is 0"):
        plan(avey_dir, documents(2), sample=0)
