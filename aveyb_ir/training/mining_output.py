"""The training file that mining writes, and the record beside it."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aveyb_ir.data import write_lines
from aveyb_ir.training.mining_questions import Question
from aveyb_ir.training.mining_scoring import Scoring
from aveyb_ir.training.record import write_json

_SUFFIXES = (".jsonl", ".jsonl.gz")
_BINS = 20
_QUANTILES = {"min": 0.0, "first_quartile": 0.25, "median": 0.5, "third_quartile": 0.75, "max": 1.0}


class MinedFiles:
    """Where mining writes: a training file, `mined.jsonl`, and its record, `mined.json`.

    Attributes:
        output: The training file.
        record: The record.

    Raises:
        ValueError: the name is no JSON Lines file's, or what is there may not be replaced.
    """

    def __init__(self, output: Path, *, overwrite: bool) -> None:
        suffix = next((suffix for suffix in _SUFFIXES if output.name.endswith(suffix)), None)
        if suffix is None:
            raise ValueError(f"output {output}: expected a name that ends in {' or '.join(_SUFFIXES)}; rename it")
        self.output = output
        self.record = output.with_name(f"{output.name.removesuffix(suffix)}.json")
        there = [path for path in (self.output, self.record) if path.exists()]
        if there and not overwrite:
            raise ValueError(f"output {there[0]}: exists, expected a new file; choose another or pass overwrite=True")
        if there and there != [self.output, self.record]:
            raise ValueError(
                f"output {there[0]}: got it alone, expected {self.output.name} and {self.record.name}, which mining "
                "writes together; it is not replaced even with overwrite=True, choose another"
            )

    def write(self, rows: Iterable[Mapping[str, Any]], record: Mapping[str, Any]) -> None:
        """Write both; the record also holds the SHA-256 of the lines.

        Raises:
            DataError: the folder cannot be written.
        """
        digest = hashlib.sha256()

        def lines() -> Iterator[str]:
            for row in rows:
                line = json.dumps(row, ensure_ascii=False)
                digest.update(line.encode("utf-8", "replace") + b"\n")
                yield line

        write_lines(self.output, lines())
        write_json(self.record, {**record, "sha256": digest.hexdigest()})


def training_records(
    questions: Mapping[str, Question],
    negatives: Mapping[str, Sequence[tuple[str, float]]],
    texts: Mapping[str, str],
    scoring: Scoring,
) -> Iterator[dict[str, Any]]:
    """Make a line of each question, in FlagEmbedding's fields; scores are rounded to six places."""
    for id, question in questions.items():
        chosen = negatives[id]
        record: dict[str, Any] = {
            "query": question.text,
            "pos": [positive.text for positive in question.positives],
            "neg": [texts[document_id] for document_id, _ in chosen],
        }
        if scoring.by is not None:
            record["pos_scores"] = [_short(score) for score in scoring.positives[id]]
            record["neg_scores"] = [_short(score) for _, score in chosen]
        yield record


def summary_of(scores: Sequence[float]) -> dict[str, float]:
    """Give mean and quartiles; nothing of no scores."""
    if not scores:
        return {}
    quantiles = np.quantile(scores, list(_QUANTILES.values())).tolist()
    return {"mean": _short(float(np.mean(scores))), **dict(zip(_QUANTILES, map(_short, quantiles), strict=True))}


def histogram_of(positive_scores: Sequence[float], negative_scores: Sequence[float]) -> dict[str, list[float]]:
    """Count both in the same bins; `edges` are one more than the counts."""
    edges = np.histogram_bin_edges([*positive_scores, *negative_scores], bins=_BINS)
    return {
        "edges": [_short(edge) for edge in edges.tolist()],
        "positives": np.histogram(positive_scores, bins=edges)[0].tolist(),
        "negatives": np.histogram(negative_scores, bins=edges)[0].tolist(),
    }


def _short(value: float) -> float:
    return round(value, 6)
