"""From pairs to tensors: texts are tokenized once, and each batch holds each of its documents once."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sentence_transformers import SentenceTransformer

from aveyb_ir.training.loss import IGNORED, NEGATIVE, POSITIVE
from aveyb_ir.training.pairs import Pair, TrainingSet
from aveyb_ir.training.processes import Processes

_TOKENIZE_AT_ONCE = 1024


class TokenTable:
    """The tokens of a list of texts, made by the model's own preprocessing, kept flat.

    Args:
        model: gives tokenizer, length limit and special tokens.
        texts: row i of the table is `texts[i]`.
        prompts: put before each of them.

    Attributes:
        lengths: tokens of each text, int64.
        num_cut: texts that were longer than the model's length limit and lost their end.
    """

    def __init__(self, model: SentenceTransformer, texts: Sequence[str], prompts: Sequence[str]) -> None:
        rows: list[npt.NDArray[np.int32]] = []
        self.num_cut = 0
        for prompt, block in _blocks(texts, prompts):
            encoded = model.preprocess(block, prompt=prompt or None)
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


def _blocks(texts: Sequence[str], prompts: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Texts in their order, a number at once and of one prompt each."""
    for prompt, run in groupby(zip(prompts, texts, strict=True), key=itemgetter(0)):
        while block := [text for _, text in islice(run, _TOKENIZE_AT_ONCE)]:
            yield prompt, block


class PairCollator:
    """Makes a batch from positions in `training_set.pairs`, as the trainer's data collator.

    The documents of a batch are the positives and explicit negatives of its pairs, each once, longest first so that
    mini batches waste little on padding. Known positives of an anchor are never its negatives. A pair that would be
    left without any negative borrows a document from the rest of the set.

    A batch has `anchor_*` and `document_*` tensors of the texts that this process embeds; `label` (anchors, documents)
    of POSITIVE, NEGATIVE and IGNORED for the whole joined batch, in the order in which `Processes.gather` puts it
    together; and `num_tokens` of all processes, which counts no padding.

    Args:
        model: gives tokenizer and prompts.
        training_set: the pairs.
        processes: that share each batch.
    """

    valid_label_columns: Sequence[str] = ()

    def __init__(
        self, model: SentenceTransformer, training_set: TrainingSet, processes: Processes | None = None
    ) -> None:
        self.training_set = training_set
        self.processes = processes or Processes()
        self.anchors = _table(model, "query", training_set.anchors, training_set.anchor_prompts)
        self.documents = _table(model, "document", training_set.documents, training_set.document_prompts)
        self._pad_id = model.tokenizer.pad_token_id or 0

    def __call__(self, features: Sequence[Mapping[str, int]]) -> dict[str, Any]:
        """The batch of the pairs whose positions are under the key `pair`."""
        pairs = [self.training_set.pairs[feature["pair"]] for feature in features]
        documents, labels = candidates(self.training_set, pairs, self.documents.lengths)
        anchors = [pair.anchor for pair in pairs]
        num_tokens = int(self.anchors.lengths[anchors].sum() + self.documents.lengths[documents].sum())
        if missing := max(0, self.processes.count - len(documents)):  # every process must have something to embed
            documents = [*documents, *[documents[0]] * missing]
            labels = np.pad(labels, ((0, 0), (0, missing)), constant_values=IGNORED)
        order = np.ix_(self.processes.order(len(anchors)), self.processes.order(len(documents)))
        batch: dict[str, Any] = {"label": torch.from_numpy(labels[order]), "num_tokens": num_tokens}
        for name, table, rows in (("anchor", self.anchors, anchors), ("document", self.documents, documents)):
            own = [rows[place] for place in self.processes.own(len(rows))]
            batch |= {f"{name}_{key}": value for key, value in table.padded(own, self._pad_id).items()}
        return batch


def _table(model: SentenceTransformer, role: str, texts: Sequence[str], prompts: Sequence[str | None]) -> TokenTable:
    usual = model.prompts.get(role, "")
    return TokenTable(model, texts, [usual if prompt is None else prompt for prompt in prompts])


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
