"""Dense, BM25, hybrid and reranked search of one index: the same answer however it is asked."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from aveyb_ir import Encoder, Index, Retriever
from aveyb_ir.data import Document
from aveyb_ir.encoding import EncodingCounts
from aveyb_ir.errors import DataError, ModelError
from aveyb_ir.retrieval import Bm25, load_reranker

PLACES = ["garden", "lighthouse", "river", "mountain", "harbour"]
THINGS = ["table", "stairs", "snow", "ships", "children"]
DOCUMENTS = [
    Document(
        f"{place}-{i}",
        f"the {place} number {i} has {thing} and more {thing} near " + " ".join(THINGS[i % 3 : i % 3 + 2]),
        title=place,
        metadata={"even": i % 2 == 0},
    )
    for place in PLACES
    for i, thing in enumerate(THINGS)
]
QUERIES = ["ships near the harbour", "snow", "kites", "", "who saw children at the river with more stairs?"]


class ByLength:
    """Ranks the shorter text higher."""

    name = "by length"
    max_length = None

    def __init__(self, score=lambda text: -float(len(text))):
        self.counts = EncodingCounts()
        self.score = score
        self.asked = []

    def scores(self, queries, documents, *, progress=None, log_cuts=True):
        self.asked += [(query, len(texts)) for query, texts in zip(queries, documents, strict=True)]
        return [np.array([self.score(text) for text in texts], np.float32) for texts in documents]


@pytest.fixture(scope="module")
def index(tmp_path_factory, avey_dir):
    path = tmp_path_factory.mktemp("modes") / "index"
    return Index.build(path, DOCUMENTS, encoder=Encoder(avey_dir), granularity="both")


def path_of(index):
    return index.info()["path"]


def facts(hits):
    return [(hit.id, hit.score, hit.span, dict(hit.scores), dict(hit.ranks)) for hit in hits]


MODES = [("dense", False), ("bm25", False), ("hybrid", False), ("hybrid", True)]


@pytest.mark.parametrize(("mode", "reranked"), MODES)
def test_one_query_many_and_sixteen_threads_give_the_same_bits(index, bert_dir, mode, reranked):
    retriever = Retriever(index, mode=mode, reranker=str(bert_dir) if reranked else None, device="cpu")
    queries = [*QUERIES, *(f"{place} {thing}" for place, thing in zip(PLACES, THINGS, strict=True))]
    alone = [facts(retriever.search(query, top_k=7)) for query in queries]
    assert sum(map(len, alone)) > 40
    assert [facts(hits) for hits in retriever.search(queries, top_k=7)] == alone
    with ThreadPoolExecutor(16) as threads:
        assert list(threads.map(lambda query: facts(retriever.search(query, top_k=7)), queries)) == alone
    run = retriever.run({query: query for query in queries}, top_k=7)
    assert [list(hits.items()) for hits in run.values()] == [[(hit[0], hit[1]) for hit in hits] for hits in alone]


def test_queries_that_are_encoded_together_share_their_last_bits(index):
    queries = [f"{place} {thing} " * (1 + i) for place in PLACES for i, thing in enumerate(THINGS)]
    alone = [facts(Retriever(index).search(query)) for query in queries]
    together = Retriever(index, batch_size=32).search(queries)
    assert [facts(hits) for hits in together] != alone, "else one at a time would be for nothing"
    for hits, expected in zip(together, alone, strict=True):
        np.testing.assert_allclose([hit.score for hit in hits], [one[1] for one in expected], atol=1e-5)


def test_an_event_loop_gets_the_same(index):
    retriever = Retriever(index, mode="hybrid")

    async def ask():
        return await asyncio.gather(
            *(retriever.asearch(query, top_k=4) for query in QUERIES), retriever.asearch(QUERIES)
        )

    *each, together = asyncio.run(ask())
    assert [facts(hits) for hits in each] == [facts(hits) for hits in retriever.search(QUERIES, top_k=4)]
    assert [facts(hits) for hits in together] == [facts(hits) for hits in retriever.search(QUERIES)]


def test_words_are_searched_without_loading_an_encoder(index, monkeypatch):
    monkeypatch.setattr("aveyb_ir.retrieval.index.Encoder", None)
    retriever = Retriever(path_of(index), mode="bm25")
    expected = Bm25.build(DOCUMENTS).search(dict(enumerate(QUERIES)), top_k=10)
    for hits, of_bm25 in zip(retriever.search(QUERIES), expected.values(), strict=True):
        assert [(hit.id, hit.score) for hit in hits] == list(of_bm25.items())
        assert all(hit.span is None for hit in hits)
    for mode in ("dense", "hybrid"):
        with pytest.raises(ValueError, match="without an encoder"):
            retriever.search("snow", mode=mode)


def test_a_hybrid_hit_says_what_each_stage_made_of_it(index):
    retriever, query = Retriever(index), "children river"
    hits = retriever.search(query, top_k=25, mode="hybrid")
    dense = {hit.id: (rank, hit) for rank, hit in enumerate(retriever.search(query, top_k=25), start=1)}
    words = {h.id: (rank, h) for rank, h in enumerate(retriever.search(query, top_k=25, mode="bm25"), start=1)}
    assert 0 < len(words) < len(dense) == len(hits)
    for rank, hit in enumerate(hits, start=1):
        assert hit.ranks["hybrid"] == rank
        assert hit.scores["hybrid"] == hit.score
        assert (hit.ranks["dense"], hit.scores["dense"]) == (dense[hit.id][0], dense[hit.id][1].score)
        assert hit.span == dense[hit.id][1].span
        assert hit.ranks.get("bm25") == (words[hit.id][0] if hit.id in words else None)
        expected = sum(1 / (60 + hit.ranks[stage]) for stage in ("dense", "bm25") if stage in hit.ranks)
        assert hit.score == pytest.approx(expected, rel=1e-6)
    assert hits[0].to_json()["ranks"] == dict(hits[0].ranks)


def test_words_count_as_k1_and_b_say(index):
    retriever = Retriever(index, mode="bm25", k1=1.5, b=0.75)
    assert retriever.settings["bm25"] == {"k1": 1.5, "b": 0.75}
    found = retriever.run({"q": "snow ships"})
    assert found == Bm25.build(DOCUMENTS, k1=1.5, b=0.75).search({"q": "snow ships"}, top_k=100)
    assert found != Retriever(index, mode="bm25").run({"q": "snow ships"})


def test_weights_go_from_one_ranking_to_the_other(index):
    query = QUERIES[0]
    for weights, mode in (((1, 0), "dense"), ((0, 1), "bm25")):
        expected = [hit.id for hit in Retriever(index).search(query, mode=mode, top_k=3)]
        found = Retriever(index, mode="hybrid", fusion="weighted", weights=weights).search(query, top_k=3)
        assert [hit.id for hit in found] == expected
        assert found[0].score == 1


def test_only_as_deep_as_asked_is_fused(index):
    hits = Retriever(index, mode="hybrid").search(QUERIES[0], top_k=2, depth=2)
    deeper = Retriever(index, mode="hybrid").search(QUERIES[0], top_k=25, depth=25)
    assert all(rank <= 2 for hit in hits for stage, rank in hit.ranks.items() if stage != "hybrid")
    assert any(rank > 2 for hit in deeper for rank in hit.ranks.values())


@pytest.mark.parametrize("mode", ["dense", "bm25", "hybrid"])
@pytest.mark.parametrize("reranked", [False, True])
def test_a_condition_holds_for_every_hit_and_is_applied_before_the_cut(index, mode, reranked):
    retriever = Retriever(index, mode=mode, reranker=ByLength() if reranked else None)
    even = [hit for hit in retriever.search("snow ships", top_k=25, mode=mode) if hit.metadata["even"]]
    found = retriever.search("snow ships", top_k=25, where="even = true")
    assert {hit.id for hit in found} == {hit.id for hit in even}
    assert len(retriever.search("snow ships", top_k=3, where="even = true")) == 3
    with pytest.raises(ValueError, match="condition"):
        retriever.search("snow", where="even =")


def test_a_reranker_scores_as_many_as_the_depth_and_decides(index):
    reranker = ByLength()
    hits = Retriever(index, reranker=reranker).search("snow", top_k=3, depth=12)
    assert reranker.asked == [("snow", 12)]
    before = Retriever(index).search("snow", top_k=12)
    shortest = sorted(before, key=lambda hit: len(hit.document.full_text))[:3]
    assert [hit.id for hit in hits] == [hit.id for hit in shortest]
    assert [hit.score for hit in hits] == [-len(hit.document.full_text) for hit in hits]
    assert hits[0].ranks == {"dense": hits[0].ranks["dense"], "reranker": 1}
    assert Retriever(index, mode="bm25", reranker=reranker).search("kites") == []


def test_the_reranker_shares_the_score_by_weight(index):
    candidates = Retriever(index).search("snow", top_k=25)
    dense, lengths = ([f(hit) for hit in candidates] for f in (lambda h: h.score, lambda h: -len(h.document.full_text)))
    scaled = [(np.array(x) - min(x)) / (max(x) - min(x)) for x in (lengths, dense)]
    expected = 0.25 * scaled[0] + 0.75 * scaled[1]
    hits = Retriever(index, reranker=ByLength(), rerank_weight=0.25).search("snow", top_k=25)
    scores = dict(zip((hit.id for hit in candidates), expected, strict=True))
    assert {hit.id: hit.score for hit in hits} == pytest.approx(scores, abs=1e-6)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert hits[0].scores["reranker"] == -len(hits[0].document.full_text)


def test_of_equal_scores_the_one_ahead_before_stays_ahead(index):
    same = Retriever(index, reranker=ByLength(lambda text: 0.0)).search("snow", top_k=25)
    assert [hit.id for hit in same] == [hit.id for hit in Retriever(index).search("snow", top_k=25)]
    with pytest.raises(ModelError, match="NaN"):
        Retriever(index, reranker=ByLength(lambda text: float("nan"))).search("snow")


def test_it_follows_an_index_that_changes_here_and_one_that_others_change_when_told(tmp_path, avey_dir):
    index = Index.build(tmp_path / "index", DOCUMENTS, encoder=Encoder(avey_dir))
    here = Retriever(index, mode="hybrid")
    others = Retriever(tmp_path / "index", mode="bm25")
    before = facts(others.search("snow zebra"))
    index.add([Document("zebra", "a zebra in snow")])
    index.delete(["river-2"])
    for mode in ("dense", "bm25", "hybrid"):
        found = {hit.id for hit in here.search("snow zebra", top_k=30, mode=mode)}
        assert "zebra" in found
        assert "river-2" not in found
    assert facts(others.search("snow zebra")) == before
    others.refresh()
    assert others.search("snow zebra")[0].id == "zebra"
    assert {hit.id for hit in others.search("snow zebra", top_k=30)} <= set(index.directory.ids())


@pytest.mark.parametrize("value", [None, 0, -1, 2.5, True, "3"])
def test_counts_are_checked(index, value):
    with pytest.raises(ValueError, match=r"top_k is .*, expected a whole number from 1"):
        Retriever(index, mode="hybrid").search("snow", top_k=value)
    if value is not None:
        with pytest.raises(ValueError, match=r"depth is .*, expected a whole number from 1"):
            Retriever(index, mode="hybrid").search("snow", depth=value)
    with pytest.raises(ValueError, match="batch_size is"):
        Retriever(index, batch_size=value)


def test_more_than_there_is_gives_all_there_is(index):
    hits = Retriever(index, mode="hybrid", reranker=ByLength()).search("snow", top_k=1000, depth=2000)
    assert len(hits) == len(DOCUMENTS)
    with pytest.raises(ValueError, match="depth is 9, expected at least top_k, 10"):
        Retriever(index, mode="hybrid").search("snow", depth=9)


def test_other_impossible_arguments_are_refused(index):
    for options, message in (
        ({"mode": "sparse"}, "mode is 'sparse'; expected one of dense, bm25, hybrid"),
        ({"fusion": "max"}, "fusion is 'max'; expected one of rrf, weighted"),
        ({"weights": (1,)}, "expected 2 numbers"),
        ({"rerank_weight": 1.5}, "rerank_weight is 1.5"),
        ({"k1": -1}, "k1 is -1, expected a number from 0"),
        ({"mode": "bm25", "b": 2}, "b is 2, expected a number from 0 to 1"),
        ({"encoder": index.encoder}, "encoder is .* beside an Index, which is open; expected None there: leave it out"),
        ({"faiss_device": "auto"}, "faiss_device is 'auto' beside an Index, which is open; expected 'cpu'"),
    ):
        with pytest.raises(ValueError, match=message):
            Retriever(index, **options)
    for options in ({"encoder": "any"}, {"faiss_device": "cuda"}):
        with pytest.raises(ValueError, match="beside mode 'bm25', which searches no vectors; expected"):
            Retriever(path_of(index), mode="bm25", **options)
    with pytest.raises(ValueError, match="mode is 'sparse'"):
        Retriever(index).search("snow", mode="sparse")
    with pytest.raises(DataError, match="no queries"):
        Retriever(index, mode="hybrid").run({})
    assert Retriever(index, mode="hybrid").search([]) == []


def test_what_a_reranker_cuts_is_said_once_for_all_queries(index, caplog):
    class Cutting(ByLength):
        max_length = 5

        def scores(self, queries, documents, *, progress=None, log_cuts=True):
            assert not log_cuts
            self.counts.add(EncodingCounts(len(documents[0]), 10, 8, 1))
            return super().scores(queries, documents)

    retriever = Retriever(index, reranker=Cutting())
    for _ in range(2):
        caplog.clear()
        retriever.search(QUERIES[:3], top_k=2)
        said = [record.message for record in caplog.records if "cut at" in record.message]
        assert len(said) == 1
        assert said[0].startswith("3 of ")


def test_loading_a_model_elsewhere_changes_no_search(index):
    """Loading half-precision weights changes the process's default dtype for a while."""
    retriever = Retriever(index, reranker=load_reranker(index.encoder.source))
    expected = facts(retriever.search(QUERIES[0], top_k=5))
    vector = index.encoder.encode_queries(QUERIES[0])
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float16)
    try:
        assert facts(retriever.search(QUERIES[0], top_k=5)) == expected
        assert np.array_equal(index.encoder.encode_queries(QUERIES[0]), vector)
        index.encoder.encode_chunks([DOCUMENTS[0].full_text])
    finally:
        torch.set_default_dtype(before)


@pytest.mark.parametrize("query", [None, 3, b"brain", {"a": "b"}, ["a", None]])
@pytest.mark.parametrize("mode", ["dense", "bm25"])
def test_queries_are_texts(index, query, mode):
    with pytest.raises(ValueError, match=r"query is .*expected a text"):
        Retriever(index, mode=mode).search(query)


@pytest.mark.parametrize("where", [0, True, ["year > 3"]])
def test_a_condition_is_a_text(index, where):
    with pytest.raises(ValueError, match=r"where is .*expected a condition"):
        Retriever(index).search("x", where=where)


@pytest.mark.parametrize("hit", [None, 3, ["0"]])
def test_what_is_explained_is_a_hit_a_document_or_an_id(index, hit):
    with pytest.raises(ValueError, match=r"hit is .*expected a hit, a document or an id"):
        Retriever(index).explain("x", hit)
