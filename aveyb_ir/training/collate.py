"""From pairs to tensors: texts are tokenized once, and each batch holds each of its documents once."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sentence_transformers import SentenceTransformer

from aveyb_ir.training.loss import IGNORED, NEGATIVE, POSITIVE
from aveyb_ir.training.pairs import Pair, TrainingSet

_TOKENIZE_AT_ONCE = 1024


class TokenTable:
    """The tokens of a list of texts, made by the model's own preprocessing, kept flat.

    Args:
        model: gives tokenizer, length limit and special tokens.
        texts: row i of the table is `texts[i]`.
        prompt: put before every text.

    Attributes:
        lengths: tokens of each text, int64.
        num_cut: texts that were longer than the model's length limit and lost their end.
    """

    def __init__(self, model: SentenceTransformer, texts: Sequence[str], prompt: str) -> None:
        rows: list[npt.NDArray[np.int32]] = []
        self.num_cut = 0
        for start in range(0, len(texts), _TOKENIZE_AT_ONCE):
            encoded = model.preprocess(list(texts[start : start + _TOKENIZE_AT_ONCE]), prompt=prompt or None)
            ids, kept = encoded["input_ids"].numpy().astype(np.int32), encoded["attention_mask"].numpy().astype(bool)
            rows += [row[mask] for row, mask in zip(ids, kept, strict=True)]
            self.num_cut += sum(bool(encoding.overflowing) for encoding in encoded.encodings)
        self.lengths = np.array([len(row) for row in rows])
        self._ends = np.cumsum(self.lengths)
        self._tokens = np.concatenate(rows)

    def padded(self, rows: Sequence[int], pad_id: int) -> dict[str, torch.Tensor]:
        """`input_ids` and `attention_mask`, int64 (rows, longest of them), padded on the right."""
        lengths = self.lengths[rows]
        mask = np.arange(lengths.max()) < lengths[:, None]
        ids = np.full(mask.shape, pad_id, dtype=np.int64)
        ids[mask] = np.concatenate(
            [self._tokens[self._ends[row] - self.lengths[row] : self._ends[row]] for row in rows]
        )
        return {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask.astype(np.int64))}


class PairCollator:
    """Makes a batch from positions in `training_set.pairs`, as the trainer's data collator.

    The documents of a batch are the positives and explicit negatives of its pairs, each once, longest first so that
    mini batches waste little on padding. Known positives of an anchor are never its negatives. A pair that would be
    left without any negative borrows a document from the rest of the set.

    A batch has `anchor_*` and `document_*` tensors, `label` (anchors, documents) of POSITIVE, NEGATIVE and IGNORED, and
    `num_tokens`, which counts no padding.
    """

    valid_label_columns: Sequence[str] = ()

    def __init__(self, model: SentenceTransformer, training_set: TrainingSet) -> None:
        self.training_set = training_set
        self.anchors = TokenTable(model, training_set.anchors, model.prompts.get("query", ""))
        self.documents = TokenTable(model, training_set.documents, model.prompts.get("document", ""))
        self._pad_id = model.tokenizer.pad_token_id or 0

    def __call__(self, features: Sequence[Mapping[str, int]]) -> dict[str, Any]:
        """The batch of the pairs whose positions are under the key `pair`."""
        pairs = [self.training_set.pairs[feature["pair"]] for feature in features]
        documents, labels = candidates(self.training_set, pairs, self.documents.lengths)
        anchors = [pair.anchor for pair in pairs]
        batch: dict[str, Any] = {"label": torch.from_numpy(labels)}
        for name, table, rows in (("anchor", self.anchors, anchors), ("document", self.documents, documents)):
            batch |= {f"{name}_{key}": value for key, value in table.padded(rows, self._pad_id).items()}
        batch["num_tokens"] = int(self.anchors.lengths[anchors].sum() + self.documents.lengths[documents].sum())
        return batch


def candidates(
    training_set: TrainingSet, pairs: Sequence[Pair], lengths: npt.NDArray[np.int64]
) -> tuple[list[int], npt.NDArray[np.int8]]:
    """The documents of a batch, longest first, and what each of them is to each pair; labels (pairs, documents)."""
    found = dict.fromkeys([pair.positive for pair in pairs] + [n for pair in pairs for n in pair.negatives])
    for pair in pairs:
        if found.keys() <= training_set.positives[pair.anchor]:
            found[training_set.spare_negative(pair)] = None
    documents = sorted(found, key=lambda document: -lengths[document])
    columns = {document: column for column, document in enumerate(documents)}
    labels = np.full((len(pairs), len(documents)), NEGATIVE, dtype=np.int8)
    for row, pair in zip(labels, pairs, strict=True):
        row[[columns[document] for document in training_set.positives[pair.anchor] if document in columns]] = IGNORED
        row[columns[pair.positive]] = POSITIVE
    return documents, labels
