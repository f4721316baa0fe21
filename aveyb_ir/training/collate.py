"""From pairs to tensors: texts are tokenized once, and each batch holds each of its documents once."""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sentence_transformers import SentenceTransformer

from aveyb_ir.data import DiskRows
from aveyb_ir.training.loss import IGNORED, NEGATIVE, POSITIVE
from aveyb_ir.training.pairs import Pair, TrainingSet
from aveyb_ir.training.processes import Processes
from aveyb_ir.training.prompted_texts import PromptedTexts

_PADDED_CHARACTERS_AT_ONCE = 1 << 19


class TokenTable:
    """The tokens of a list of texts, made by the model's own preprocessing, kept flat on disk.

    Args:
        model: gives tokenizer, length limit and special tokens.
        texts: row i of the table is the i-th; read once.
        prompts: put before each of them.
        folder: on whose disk the tokens are; None: the one for temporary files.

    Attributes:
        lengths: tokens of each text, int64.
        num_cut: texts that were longer than the model's length limit and lost their end.
    """

    def __init__(
        self, model: SentenceTransformer, texts: Iterable[str], prompts: Iterable[str], folder: Path | None = None
    ) -> None:
        lengths = array("q")
        self._tokens = DiskRows(folder)
        self.num_cut = 0
        for prompt, block in _blocks(texts, prompts):
            encoded = model.preprocess(block, prompt=prompt or None)
            ids, kept = encoded["input_ids"].numpy().astype(np.int32), encoded["attention_mask"].numpy().astype(bool)
            for row, mask in zip(ids, kept, strict=True):
                self._tokens.append(row[mask].tobytes())
            lengths.extend(kept.sum(axis=1).tolist())
            self.num_cut += sum(bool(encoding.overflowing) for encoding in encoded.encodings)
        self.lengths = np.array(lengths, np.int64)

    def padded(self, rows: Sequence[int], pad_id: int) -> dict[str, torch.Tensor]:
        """`input_ids` and `attention_mask`, int64 (rows, longest of them), padded on the right."""
        lengths = self.lengths[rows]
        mask = np.arange(lengths.max()) < lengths[:, None]
        ids = np.full(mask.shape, pad_id, dtype=np.int64)
        ids[mask] = np.frombuffer(b"".join(self._tokens[row] for row in rows), np.int32)
        return {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask.astype(np.int64))}


def _blocks(texts: Iterable[str], prompts: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Texts in their order, of one prompt each and as many at once as padding to the longest leaves small."""
    block: list[str] = []
    block_prompt, longest = "", 0
    for text, prompt in zip(texts, prompts, strict=True):
        longest = max(longest, len(text))
        if block and (prompt != block_prompt or (len(block) + 1) * longest > _PADDED_CHARACTERS_AT_ONCE):
            yield block_prompt, block
            block, longest = [], len(text)
        block_prompt = prompt
        block.append(text)
    if block:
        yield block_prompt, block


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
        self.anchors = _table(model, "query", training_set.anchors, training_set.folder)
        self.documents = _table(model, "document", training_set.documents, training_set.folder)
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


def _table(model: SentenceTransformer, role: str, texts: PromptedTexts, folder: Path | None) -> TokenTable:
    usual = model.prompts.get(role, "")
    prompts = (usual if prompt is None else prompt for prompt in texts.prompts)
    return TokenTable(model, texts, prompts, folder)


def candidates(
    training_set: TrainingSet, pairs: Sequence[Pair], lengths: npt.NDArray[np.int64]
) -> tuple[list[int], npt.NDArray[np.int8]]:
    """The documents of a batch, longest first, and what each of them is to each pair; labels (pairs, documents)."""
    found = dict.fromkeys([pair.positive for pair in pairs] + [n for pair in pairs for n in pair.negatives])
    known = [training_set.positives[pair.anchor] for pair in pairs]
    for pair, positives in zip(pairs, known, strict=True):
        if found.keys() <= positives:
            found[training_set.spare_negative(pair)] = None
    documents = sorted(found, key=lambda document: -lengths[document])
    columns = {document: column for column, document in enumerate(documents)}
    labels = np.full((len(pairs), len(documents)), NEGATIVE, dtype=np.int8)
    for row, pair, positives in zip(labels, pairs, known, strict=True):
        row[[columns[document] for document in positives if document in columns]] = IGNORED
        row[columns[pair.positive]] = POSITIVE
    return documents, labels
