"""Batches of masked pieces, each decided by its number alone, so that a resumed run goes on with the same ones.

Pieces keep to themselves: a batch has one row for each, and Avey-B packs rows without padding and without looking from
one text into another. Pieces of like length meet in a batch, so other architectures pad little, too.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import Dataset
from transformers import DataCollatorForLanguageModeling

from aveyb_ir.errors import ModelError
from aveyb_ir.training.pretraining_pieces import Pieces

NOT_PREDICTED = -100
_GROUPED_BATCHES = 32


class Masker:
    """Chooses tokens to predict, and hides them: 80 % as the mask symbol, 10 % as any token, 10 % not at all.

    As in BERT (Devlin et al. 2019, arXiv 1810.04805). Special symbols are never chosen.

    Args:
        tokenizer: has a mask symbol.
        rate: share of the tokens that are chosen.

    Raises:
        ModelError: the tokenizer has no mask symbol.
    """

    def __init__(self, tokenizer: Any, rate: float) -> None:
        if tokenizer.mask_token_id is None:
            raise ModelError(
                f"tokenizer {tokenizer.name_or_path!r}: has no mask symbol, expected one to hide tokens with; "
                "choose another tokenizer or add a mask_token to its configuration"
            )
        self._collator = DataCollatorForLanguageModeling(tokenizer, mlm_probability=rate)
        self._special = torch.tensor(sorted(tokenizer.all_special_ids))

    def __call__(self, ids_T: Tensor, seed: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """Hide tokens, the same for the same seed.

        Args:
            ids_T: int64 tokens of any number of texts, at least one of them not special.
            seed: any numbers.

        Returns:
            What the model reads, and labels: the token where it is to be predicted, else NOT_PREDICTED; never all.
        """
        (state,) = np.random.SeedSequence(seed).generate_state(1, np.uint64)
        generator = torch.Generator().manual_seed(int(state) % 2**63)
        special_T = torch.isin(ids_T, self._special)
        self._collator.generator = generator
        read, labels = self._collator.torch_mask_tokens(ids_T.clone()[None], special_tokens_mask=special_T[None])
        read_T, labels_T = read[0], labels[0]
        if (labels_T == NOT_PREDICTED).all():
            (candidates,) = (~special_T).nonzero(as_tuple=True)
            chosen = candidates[torch.randint(len(candidates), (1,), generator=generator)]
            read_T[chosen], labels_T[chosen] = self._collator.tokenizer.mask_token_id, ids_T[chosen]
        return read_T, labels_T


class MaskedBatches(Dataset[dict[str, Any]]):
    """All batches of a run in their order; item i is batch `i % num_batches` of epoch `i // num_batches`.

    Every piece comes once an epoch, in other company each time. A batch has about `batch_tokens` tokens, and at the
    most one piece more.

    A batch has `input_ids`, `attention_mask` and `labels`, int64 (pieces, longest of them), padded on the right, and
    `num_tokens`, which counts no padding.

    Args:
        pieces: what is read.
        masker: hides tokens.
        batch_tokens: tokens of a batch.
        pad_id: fills rows up.
        seed: fixes order and masks.
        run_length: batches in the whole run; None for one epoch.
        shuffled: False for the order of length, as evaluations want it.
    """

    def __init__(
        self,
        pieces: Pieces,
        masker: Masker,
        batch_tokens: int,
        *,
        pad_id: int,
        seed: int,
        run_length: int | None = None,
        shuffled: bool = True,
    ) -> None:
        self._pieces, self._masker, self._pad_id = pieces, masker, pad_id
        self._seed, self._shuffled = seed, shuffled
        # Where batches are at least as long as any piece, none is empty.
        self.num_batches = max(1, int(pieces.lengths.sum()) // max(batch_tokens, int(pieces.lengths.max())))
        self._run_length = self.num_batches if run_length is None else run_length
        self._epoch: tuple[int, list[npt.NDArray[np.int64]]] | None = None

    def __len__(self) -> int:
        return self._run_length

    def __getitem__(self, number: int) -> dict[str, Any]:
        """Batch `number` of the run."""
        epoch, place = divmod(number, self.num_batches)
        if self._epoch is None or self._epoch[0] != epoch:
            self._epoch = (epoch, self._batches(epoch))
        rows = [torch.from_numpy(self._pieces[piece].astype(np.int64)) for piece in self._epoch[1][place]]
        read_T, labels_T = self._masker(torch.cat(rows), (self._seed, number))
        lengths = [len(row) for row in rows]
        batch: dict[str, Any] = {
            name: torch.nn.utils.rnn.pad_sequence(list(flat.split(lengths)), batch_first=True, padding_value=filler)
            for name, flat, filler in (
                ("input_ids", read_T, self._pad_id),
                ("attention_mask", torch.ones_like(read_T), 0),
                ("labels", labels_T, NOT_PREDICTED),
            )
        }
        return {**batch, "num_tokens": len(read_T)}

    def _batches(self, epoch: int) -> list[npt.NDArray[np.int64]]:
        lengths, count = self._pieces.lengths, self.num_batches
        generator = np.random.default_rng((self._seed, epoch))
        order = generator.permutation(len(lengths)) if self._shuffled else np.arange(len(lengths))
        window = -(-len(order) * _GROUPED_BATCHES // count) if self._shuffled else len(order)
        groups = [order[start : start + window] for start in range(0, len(order), window)]
        # Up and down in turns, so that the batch between two groups has like lengths as well.
        groups = [group[lengths[group].argsort(kind="stable")][:: (-1) ** i] for i, group in enumerate(groups)]
        order = np.concatenate(groups)
        starts = lengths[order].cumsum() - lengths[order]
        batch_of = starts * count // lengths.sum()
        batches = np.split(order, np.flatnonzero(np.diff(batch_of)) + 1)
        return [batches[place] for place in generator.permutation(count)] if self._shuffled else batches
