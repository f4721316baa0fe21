"""Hard negatives: what a model ranks high for a query and does not answer it, written as a training file."""

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from sentence_transformers import CrossEncoder

from aveyb_ir.data import Collection, Document, TrainingRow, listed
from aveyb_ir.encoding import Encoder
from aveyb_ir.errors import DataError
from aveyb_ir.retrieval import Retriever
from aveyb_ir.training.mining_choice import Choice, MiningRules, Strategy, choose, possible_negatives
from aveyb_ir.training.mining_output import MinedFiles, histogram_of, summary_of, training_records
from aveyb_ir.training.mining_questions import MiningData, open_mining_data
from aveyb_ir.training.mining_scoring import (
    Scoring,
    cross_encoder_details,
    judging,
    scoring_by_cross_encoder,
    scoring_by_search,
)
from aveyb_ir.training.mining_search import CorpusSearch, DenseSearch, IndexSearch, find_candidates
from aveyb_ir.training.mining_texts import CorpusKeys, keys_of, texts_of
from aveyb_ir.training.record import environment

_logger = logging.getLogger(__name__)

Progress = Callable[[str, int], None]
"""Told what is being done and how much more of it has been."""


@dataclass(frozen=True)
class MiningResult:
    """What was mined.

    Attributes:
        output: The training file.
        record: What it was made from, and how, beside it.
        num_queries: Rows of the file.
        num_negatives: Of all rows.
        short: Rows with fewer negatives than asked for, by how many they have.
        dropped: Documents that were found and not taken, by reason.
        scored_by: Whose scores the file holds: "model", "cross_encoder", or None where words were counted alone.
        positive_scores: Mean and quartiles.
        negative_scores: Mean and quartiles.
    """

    output: Path
    record: Path
    num_queries: int
    num_negatives: int
    short: dict[int, int]
    dropped: dict[str, int]
    scored_by: str | None
    positive_scores: dict[str, float]
    negative_scores: dict[str, float]

    def to_json(self) -> dict[str, Any]:
        """Plain dictionaries, texts and numbers."""
        return {**asdict(self), "output": str(self.output), "record": str(self.record)}


def mine(
    model: Encoder | Retriever | str | os.PathLike[str],
    data: Collection | Sequence[TrainingRow] | str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    split: str = "train",
    pairs: bool = False,
    corpus: str | Path | None = None,
    num_negatives: int = 7,
    depth: int = 100,
    skip_top: int = 0,
    absolute_margin: float | None = None,
    relative_margin: float | None = None,
    min_score: float | None = None,
    max_score: float | None = None,
    strategy: Strategy = "top",
    seed: int = 42,
    cross_encoder: CrossEncoder | str | os.PathLike[str] | None = None,
    bm25: bool = False,
    vectors: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> MiningResult:
    """Find hard negatives and write them with their queries and positives, for `data.pairs` of a recipe.

    Each line has `query`, `pos`, `neg`, and where something has scored them `pos_scores` and `neg_scores`, as
    FlagEmbedding has them; negatives stand best ranked first. Beside `mined.jsonl`, `mined.json` says what it was made
    from. The same call makes the same files.

    A negative is never a document that is judged relevant to the query, by id; nor one with the text of such a document
    or of the query itself, case and white space apart; and no two of a row have the same text. Queries with equal texts
    share their positives. A row for which too few documents are left keeps those few, perhaps none, and how many rows
    that are is logged; nothing is made up.

    The whole corpus is compared with each query, a block of it in memory at a time.

    Args:
        model: An Encoder, a model folder or Hub name, the word "bm25", or a Retriever, whose index is searched instead
            of the corpus.
        data: A collection or where one is, a BEIR folder or a public name; or training rows, or a file of them; see
            `open_collection` and `read_training_rows`.
        output: The file to write, `.jsonl` or `.jsonl.gz`.
        split: Which judgements of a collection.
        pairs: `data` names training rows, even if it is a folder or a public name.
        corpus: Documents to search, for training rows; by default all texts of the rows. See `read_documents`.
        num_negatives: Wanted for each query.
        depth: Hits that are looked at for each query, positives among them.
        skip_top: How many of the best ranked possible negatives are left out, which are the likeliest to be answers.
        absolute_margin: A negative scores at least this much less than the query's worst positive.
        relative_margin: A negative scores less than the query's worst positive by at least this share of its score.
        min_score: A negative scores at least this.
        max_score: A negative scores at most this.
        strategy: "top": the best ranked; "sample": at random among all that are possible.
        seed: For "sample"; what it draws for a query does not depend on the other queries.
        cross_encoder: Judges in the model's place, a CrossEncoder, its folder or Hub name: margins and limits are about
            its scores, before any activation, and they are written, to be distilled from. The model still ranks.
            Without a margin a negative may not score above the worst positive.
        bm25: Look at BM25's hits too, in turns with the model's, which scores them.
        vectors: A folder where vectors are kept, for mining again and for `evaluate`.
        overwrite: Replace what an earlier run wrote.
        progress: Called with a word for what is done and how much more of it has been.

    Raises:
        DataError: Broken data, no such split, vectors or an index of another corpus, or not one negative was found.
        ModelError: A model cannot be loaded.
        ValueError: Impossible or contradicting arguments, or an output that may not be replaced.
    """
    rules = MiningRules(
        num_negatives, depth, skip_top, absolute_margin, relative_margin, min_score, max_score, strategy, seed
    )
    files = MinedFiles(Path(output), overwrite=overwrite)
    by_words = isinstance(model, str) and model == "bm25"
    if by_words and rules.need_scores and cross_encoder is None:
        raise ValueError("got margins or limits of scores with BM25, expected a cross_encoder to score by; give one")
    if vectors is not None and (by_words or isinstance(model, Retriever)):
        raise ValueError(f"vectors {os.fspath(vectors)!r}: got no model to make them, expected one; leave them out")
    source = open_mining_data(data, split=split, pairs=pairs, corpus=corpus)
    dense = None if by_words else _dense(model, source, vectors)
    if isinstance(dense, IndexSearch):
        source = replace(source, documents=dense.documents)
    reader = None
    if cross_encoder is not None:
        reader = judging(cross_encoder, None if dense is None else dense.encoder.model.device)
        rules = rules if rules.has_margin else replace(rules, absolute_margin=0.0)
    mining = _Mining(rules, source, dense, by_words or bm25, reader, progress or _tell_nobody)
    return mining.write(files)


@dataclass(frozen=True)
class _Mining:
    """One run, checked and with everything open."""

    rules: MiningRules
    source: MiningData
    dense: DenseSearch | None
    by_words: bool
    reader: CrossEncoder | None
    tell: Progress

    def write(self, files: MinedFiles) -> MiningResult:
        scoring, choice, corpus = self._choose()
        negatives = choice.negatives
        positive_scores = [score for scores in scoring.positives.values() for score in scores]
        negative_scores = [score for found in negatives.values() for _, score in found] if scoring.by else []
        result = MiningResult(
            output=files.output,
            record=files.record,
            num_queries=len(negatives),
            num_negatives=sum(map(len, negatives.values())),
            short=_short_rows(negatives, self.rules.num_negatives),
            dropped={reason: count for reason, count in sorted(choice.dropped.items()) if count},
            scored_by=scoring.by,
            positive_scores=summary_of(positive_scores),
            negative_scores=summary_of(negative_scores),
        )
        self._check(result)
        texts = texts_of(self.source.documents(), {id for found in negatives.values() for id, _ in found})
        rows = training_records(self.source.questions, negatives, texts, scoring)
        histogram = histogram_of(positive_scores, negative_scores) if scoring.by else None
        files.write(rows, {**self._record(corpus), "result": result.to_json(), "score_histogram": histogram})
        return result

    def _choose(self) -> tuple[Scoring, Choice, CorpusKeys]:
        """Search, take out known answers, and choose by scores."""
        source, tell = self.source, self.tell
        words = _counted(source.documents(), partial(tell, "documents read")) if self.by_words else None
        found = find_candidates(self.dense, source, words, self.rules.depth, partial(tell, "documents searched"))
        corpus = keys_of(source.documents(), {id for ids in found.ranked.values() for id in ids})
        dropped: Counter[str] = Counter()
        possible = possible_negatives(source.questions, found.ranked, corpus.of, self.rules.skip_top, dropped)
        if self.reader is None:
            scoring = scoring_by_search(found)
        else:
            scoring = scoring_by_cross_encoder(self.reader, source, possible, partial(tell, "pairs judged"))
        highest = {id: scoring.highest(self.rules, id) for id in possible}
        choice = choose(possible, highest, scoring.judge, self.rules)
        choice.dropped.update(dropped)
        return scoring, choice, corpus

    def _check(self, result: MiningResult) -> None:
        if not result.num_negatives:
            raise DataError(
                f"{self.source.source}: got no negative for any of {result.num_queries} queries, expected some; "
                f"{_not_taken(result)}; look deeper, or loosen margins and limits"
            )
        if result.short:
            _logger.warning(
                "%d of %d queries have fewer than %d negatives (%s); %s",
                sum(result.short.values()),
                result.num_queries,
                self.rules.num_negatives,
                listed([f"{count} have {number}" for number, count in result.short.items()]),
                _not_taken(result),
            )

    def _record(self, corpus: CorpusKeys) -> dict[str, Any]:
        return {
            "data": self.source.source,
            "queries_sha256": self.source.fingerprint,
            "num_documents": corpus.num_documents,
            "corpus_sha256": corpus.sha256,
            "model": None if self.dense is None else self.dense.details(),
            "bm25": self.by_words,
            "cross_encoder": None if self.reader is None else cross_encoder_details(self.reader),
            "rules": asdict(self.rules),
            "environment": environment(),
        }


def _dense(
    model: Encoder | Retriever | str | os.PathLike[str], source: MiningData, vectors: str | os.PathLike[str] | None
) -> DenseSearch:
    if isinstance(model, Retriever):
        return IndexSearch(model)
    encoder = model if isinstance(model, Encoder) else Encoder(os.fspath(model))
    return CorpusSearch(encoder, source, None if vectors is None else Path(vectors))


def _short_rows(negatives: Mapping[str, Sized], wanted: int) -> dict[int, int]:
    counts = Counter(len(found) for found in negatives.values() if len(found) < wanted)
    return dict(sorted(counts.items()))


def _not_taken(result: MiningResult) -> str:
    return "not taken: " + (", ".join(f"{reason} {count}" for reason, count in result.dropped.items()) or "none")


def _counted(documents: Iterable[Document], count: Callable[[int], None]) -> Iterator[Document]:
    for document in documents:
        yield document
        count(1)


def _tell_nobody(what: str, count: int) -> None:
    pass
