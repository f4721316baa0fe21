"""How good a model is while it trains: an exact search of a held-out split, measured as trec_eval does."""

from collections.abc import Iterator
from typing import Any

import pytrec_eval
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.evaluation import BaseEvaluator

from aveyb_ir.data import Collection, Document
from aveyb_ir.encoding import Encoder
from aveyb_ir.retrieval import exact_search

SELECTED_BY = "ndcg@10"
"""The metric that says which weights are the best."""

_DEPTH = 100


class DevelopmentSet(BaseEvaluator):  # type: ignore[misc]
    """Gives NDCG@10, MRR@10 and recall@100 of a model, as means over all judged queries.

    The corpus is streamed for every evaluation, as `aveyb_ir.evaluation` does, and the numbers are the same. Sentence
    Transformers' own evaluator holds the corpus in memory, pads it, and knows no grades.

    Args:
        collection: Has the split.
        split: Judgements to evaluate on.
        max_documents: Documents searched: the judged ones, and of the others the first, up to this number. Fewer
            documents are faster and make every number higher, so such numbers compare with each other only. None: all.

    Raises:
        DataError: There is no such split, or none of its queries has a text.
    """

    def __init__(self, collection: Collection, split: str, *, max_documents: int | None = None) -> None:
        super().__init__()
        self.collection = collection
        self.queries = collection.judged_queries(split)
        self.qrels = {query_id: dict(judged) for query_id, judged in collection.qrels(split).items() if judged}
        self.max_documents = max_documents

    def __call__(self, model: SentenceTransformer, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Evaluate a model as it is now."""
        answers = exact_search(Encoder(model), self._documents(), self.queries, top_k=_DEPTH)
        ten = {query_id: dict(list(hits.items())[:10]) for query_id, hits in answers.run.items()}
        return {
            "ndcg@10": self._mean("ndcg_cut.10", answers.run),
            "mrr@10": self._mean("recip_rank", ten),
            "recall@100": self._mean("recall.100", answers.run),
        }

    def _documents(self) -> Iterator[Document]:
        judged = {document_id for grades in self.qrels.values() for document_id in grades}
        spare = None if self.max_documents is None else max(0, self.max_documents - len(judged))
        for document in self.collection.documents():
            if document.id in judged or spare is None:
                yield document
            elif spare:
                spare -= 1
                yield document

    def _mean(self, measure: str, run: dict[str, dict[str, float]]) -> float:
        """The mean over all judged queries; one without hits counts as 0."""
        scores = pytrec_eval.RelevanceEvaluator(self.qrels, {measure}).evaluate(run)
        key = measure.replace(".", "_")
        return float(sum(values[key] for values in scores.values()) / len(self.qrels))
