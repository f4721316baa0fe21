"""Haystack gets what the retriever gives, in pipelines that can be saved, and its filters mean what they mean there."""

import asyncio

import pytest
from haystack import Document, Pipeline
from haystack.utils.filters import document_matches_filter

from aveyb_ir import Retriever
from aveyb_ir.adapters.haystack import AveybRetriever
from aveyb_ir.errors import IndexDirError

QUERY = "ships near the harbour"


def facts(result):
    return [(document.id, document.score) for document in result["documents"]]


def expected(hits):
    return [(hit.id, hit.score) for hit in hits]


def pipeline_of(component):
    pipeline = Pipeline()
    pipeline.add_component("retriever", component)
    return pipeline


def test_a_path_is_searched_in_every_mode(index_path, retriever, mode):
    component = AveybRetriever(index_path, mode=mode, options={"device": "cpu"}, top_k=7)
    assert facts(component.run(QUERY)) == expected(retriever.search(QUERY, top_k=7, mode=mode))
    assert len(component.run(QUERY, top_k=2)["documents"]) == 2
    assert facts(asyncio.run(component.run_async(QUERY))) == facts(component.run(QUERY))


def test_a_document_has_what_the_hit_had(retriever):
    found = AveybRetriever(retriever, top_k=25).run(QUERY)["documents"]
    passages = AveybRetriever(retriever, top_k=25, content="passage").run(QUERY)["documents"]
    for document, passage, hit in zip(found, passages, retriever.search(QUERY, top_k=25), strict=True):
        assert (document.content, passage.content) == (hit.document.full_text, hit.passage)
        span = list(hit.span) if hit.span else None
        assert document.meta == {**hit.metadata, "title": hit.title, "span": span}


def test_a_saved_pipeline_finds_the_same(index_path, bert_dir):
    component = AveybRetriever(
        index_path,
        mode="hybrid",
        reranker=bert_dir,
        options={"device": "cpu", "fusion": "weighted"},
        top_k=4,
        depth=9,
        where="year >= 2001",
        document_weight=0.3,
        content="passage",
    )
    pipeline = pipeline_of(component)
    text = pipeline.dumps()
    again = Pipeline.loads(text)
    assert again.dumps() == text
    question = {"retriever": {"query": QUERY, "filters": {"field": "meta.even", "operator": "==", "value": True}}}
    before, after = (one.run(question)["retriever"]["documents"] for one in (pipeline, again))
    assert before == after
    hits = Retriever(index_path, mode="hybrid", fusion="weighted", reranker=bert_dir, device="cpu").search(
        QUERY, top_k=4, depth=9, where="year >= 2001 and even = true", document_weight=0.3
    )
    assert [(document.id, document.score, document.content) for document in after] == [
        (hit.id, hit.score, hit.passage) for hit in hits
    ]


def test_only_paths_can_be_saved(retriever, index_path):
    with pytest.raises(ValueError, match="index is a Retriever; expected a path"):
        AveybRetriever(retriever).to_dict()
    with pytest.raises(ValueError, match="reranker is a object; expected a path"):
        AveybRetriever(index_path, reranker=object()).to_dict()


def test_an_index_is_opened_by_warming_up_and_not_before(tmp_path):
    component = AveybRetriever(tmp_path / "nothing")
    with pytest.raises(IndexDirError):
        component.warm_up()


def test_a_warm_component_keeps_its_index(index_path):
    component = AveybRetriever(index_path, mode="bm25")
    component.warm_up()
    opened = component._opened()
    component.run(QUERY)
    assert component._opened() is opened


def both(operator, *conditions):
    return {"operator": operator, "conditions": list(conditions)}


def over(field, operator, value):
    return {"field": field, "operator": operator, "value": value}


FILTERS = [
    *(over("meta.year", operator, 2002) for operator in ("==", "!=", ">", ">=", "<", "<=")),
    over("year", ">", 2002.5),
    over("meta.year", "in", [2001, 2003]),
    over("meta.year", "not in", [2001, None]),
    over("meta.year", "in", []),
    over("meta.year", "not in", []),
    over("meta.even", "==", True),
    over("meta.place.name", "==", "river"),
    over("meta.place.name", "!=", "it's"),
    over("meta.place.name", "in", ["it's", "garden"]),
    over("meta.missing", "==", None),
    over("meta.missing", "!=", None),
    over("meta.missing", "!=", 1),
    over("meta.missing", "in", [1, None]),
    over("meta.missing", "<", 1),
    both("AND", over("meta.year", ">", 2001), over("meta.even", "==", False)),
    both("OR", over("meta.year", "==", 2000), over("meta.place.name", "==", "harbour")),
    both("NOT", over("meta.year", "==", 2000), over("meta.place.name", "==", "harbour")),
    both(
        "AND",
        both("OR", over("meta.even", "==", True), over("meta.year", "<", 2002)),
        both("NOT", both("OR", over("meta.place.name", "==", "river"), over("meta.year", "==", 2004))),
    ),
]


@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_filters_hold_as_in_haystack(retriever, filters):
    component = AveybRetriever(retriever, top_k=25)
    everything = component.run(QUERY)["documents"]
    assert len(everything) == 25
    theirs = [document for document in everything if document_matches_filter(filters, document)]
    assert component.run(QUERY, filters=filters)["documents"] == theirs


def test_empty_filters_filter_nothing(retriever):
    assert len(AveybRetriever(retriever, top_k=25).run(QUERY, filters={})["documents"]) == 25


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        (over("meta.year", "~", 1), "the operator '~'; expected one of ==, !=, >, >=, <, <=, in, not in"),
        (over("meta.year", "in", 1), "the value 1; expected a list"),
        (over("meta.year", "==", [1]), r"the value \[1\]; expected a text, a number or a truth value"),
        (over("meta.year", ">", None), "the value None; expected a text"),
        (over('meta."', "==", 1), "expected the name of a metadata field"),
        (over("meta..x", "==", 1), "expected the name of a metadata field"),
        (over("meta.year", "==", float("nan")), "condition"),
        ({"field": "meta.year", "operator": "=="}, "has no value"),
        (both("XOR", over("meta.year", "==", 1)), "one of AND, OR, NOT"),
        (both("AND"), "at least one"),
    ],
)
def test_other_filters_are_refused(retriever, filters, message):
    with pytest.raises(ValueError, match=message):
        AveybRetriever(retriever).run(QUERY, filters=filters)


def test_a_document_of_haystack_is_what_comes_out(retriever):
    assert all(type(document) is Document for document in AveybRetriever(retriever).run(QUERY)["documents"])
