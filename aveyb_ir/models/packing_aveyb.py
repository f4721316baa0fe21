"""Packing: a batch of texts as a flat list of chunks, in buckets that are computed together without padding.

Token-wise work (norms, enricher, fuser) runs on a flat matrix of rows; only the mixing inside a chunk needs the chunk's
shape, and takes it from its bucket.

Shape letters: N texts, T tokens of all texts, C chunks of all texts, B chunks of a bucket, W the bucket's width,
R rows, D width of the states.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor


@dataclass(frozen=True)
class Chunks:
    """Every chunk of a batch in text order: which text it belongs to, where its tokens start, how many they are."""

    text_C: Tensor
    start_C: Tensor
    length_C: Tensor

    @classmethod
    def of(cls, lengths: Sequence[int], chunk_size: int) -> "Chunks":
        """Cut texts of these many tokens, lying back to back, into chunks; a text of no tokens has no chunk. On CPU."""
        chunks = [
            (text, end - length + offset, min(chunk_size, length - offset))
            for text, (length, end) in enumerate(zip(lengths, accumulate(lengths), strict=True))
            for offset in range(0, length, chunk_size)
        ]
        return cls(*torch.tensor(chunks, dtype=torch.long).view(-1, 3).T.contiguous())

    def __len__(self) -> int:
        return self.text_C.numel()


@dataclass(frozen=True)
class ChunkStates:
    """What is kept of texts that are encoded whole: the mean state of each chunk, and that of its first token.

    Attributes:
        chunks: The chunks, in text order.
        num_texts: How many texts they belong to; one without tokens has no chunk.
        mean_CD: Mean state of each chunk's tokens, fp32.
        first_CD: State of each chunk's first token, fp32.
    """

    chunks: Chunks
    num_texts: int
    mean_CD: Tensor
    first_CD: Tensor

    def first_of_texts(self) -> Tensor:
        """State of each text's first token, (N, D) fp32; zeros for a text without tokens."""
        first_ND = self.first_CD.new_zeros(self.num_texts, self.first_CD.shape[1])
        text_C = self.chunks.text_C.to(first_ND.device)
        begins_C = text_C.diff(prepend=text_C.new_full((1,), -1)) > 0
        return first_ND.index_copy_(0, text_C[begins_C], self.first_CD[begins_C])

    def mean_of_texts(self) -> Tensor:
        """Mean state of each text's tokens, (N, D) fp32; zeros for a text without tokens."""
        device = self.mean_CD.device
        length_C, text_C = self.chunks.length_C.to(device), self.chunks.text_C.to(device)
        total_ND = self.mean_CD.new_zeros(self.num_texts, self.mean_CD.shape[1])
        total_ND.index_add_(0, text_C, self.mean_CD * length_C.unsqueeze(-1))
        length_N = total_ND.new_zeros(self.num_texts).index_add_(0, text_C, length_C.float())
        return total_ND / length_N.clamp_min(1).unsqueeze(-1)


@dataclass(frozen=True)
class Bucket:
    """Chunks computed together at one width.

    Attributes:
        chunk_B: Their numbers in `Chunks`.
        width: Positions given to each chunk when it is mixed.
        num_rows: Rows of the flat matrix that belong to the bucket.
        row_R: For each row its place in the (B, W) grid; None where rows fill the grid.
        token_BW: For each place the flat position of its token, -1 for places without one.
    """

    chunk_B: Tensor
    width: int
    num_rows: int
    row_R: Tensor | None
    token_BW: Tensor

    def to_grid(self, rows_RD: Tensor) -> Tensor:
        """Lay rows out as (B, W, D); places without a row are zeros."""
        if self.row_R is not None:
            grid_PD = rows_RD.new_zeros(self.token_BW.numel(), rows_RD.shape[-1])
            rows_RD = grid_PD.index_copy(0, self.row_R, rows_RD)
        return rows_RD.view(-1, self.width, rows_RD.shape[-1])

    def to_rows(self, grid_BWD: Tensor) -> Tensor:
        """Take back the rows of a (B, W, D) grid."""
        flat_PD = grid_BWD.flatten(0, 1)
        return flat_PD if self.row_R is None else flat_PD.index_select(0, self.row_R)

    def mean(self, grid_BWD: Tensor) -> Tensor:
        """Average the tokens of each chunk in a grid made by `to_grid`: (B, D) fp32. Other rows do not count."""
        present_BW1 = (self.token_BW >= 0).unsqueeze(-1)
        if self.row_R is None and not bool(present_BW1.all()):
            grid_BWD = grid_BWD.masked_fill(~present_BW1, 0.0)
        return grid_BWD.sum(1, dtype=torch.float32) / present_BW1.sum(1)

    @property
    def token_R(self) -> Tensor:
        """For each row the flat position of its token, -1 for the zero rows of a published last chunk."""
        flat_P = self.token_BW.flatten()
        return flat_P if self.row_R is None else flat_P.index_select(0, self.row_R)


def micro_batches(
    chunks: Chunks, chunk_size: int, *, mask_tails: bool, max_rows: int | None, device: torch.device
) -> Iterator[list[Bucket]]:
    """Group chunks into buckets and buckets into micro-batches of at most `max_rows` rows (one chunk at the least).

    Whole chunks come first, then last chunks from the longest to the shortest; with `mask_tails` these get buckets of
    similar length, else they are computed like whole chunks.
    """
    group: list[Bucket] = []
    num_rows = 0
    for bucket in _buckets(chunks, chunk_size, mask_tails, max_rows, device):
        if group and max_rows is not None and num_rows + bucket.num_rows > max_rows:
            yield group
            group, num_rows = [], 0
        group.append(bucket)
        num_rows += bucket.num_rows
    if group:
        yield group


def _buckets(
    chunks: Chunks, chunk_size: int, mask_tails: bool, max_rows: int | None, device: torch.device
) -> Iterator[Bucket]:
    lengths: list[int] = chunks.length_C.tolist()
    whole = [chunk for chunk, length in enumerate(lengths) if length == chunk_size or not mask_tails]
    for piece in _pieces(whole, chunk_size, max_rows):
        yield _bucket(chunks, piece, chunk_size, True, device)
    tails = [chunk for chunk, length in enumerate(lengths) if length < chunk_size and mask_tails]
    tails.sort(key=lengths.__getitem__, reverse=True)
    while tails:
        width = lengths[tails[0]]
        # Padding a bucket costs mixing only, a small part of the work; many buckets cost many small operations.
        similar = sum(lengths[chunk] >= 0.75 * width - 8 for chunk in tails)
        for piece in _pieces(tails[:similar], width, max_rows):
            yield _bucket(chunks, piece, lengths[piece[0]], False, device)
        tails = tails[similar:]


def _pieces(numbers: list[int], width: int, max_rows: int | None) -> Iterator[list[int]]:
    size = max(1, len(numbers) if max_rows is None else max_rows // width)
    return (numbers[first : first + size] for first in range(0, len(numbers), size))


def _bucket(chunks: Chunks, numbers: list[int], width: int, whole: bool, device: torch.device) -> Bucket:
    chunk_B = torch.tensor(numbers)
    position_W = torch.arange(width)
    length_B1 = chunks.length_C[chunk_B].unsqueeze(-1)
    present_BW = position_W < length_B1
    token_BW = (chunks.start_C[chunk_B].unsqueeze(-1) + position_W).masked_fill(~present_BW, -1)
    full_grid = whole or bool(present_BW.all())
    row_R = None if full_grid else present_BW.flatten().nonzero().flatten().to(device)
    num_rows = present_BW.numel() if row_R is None else row_R.numel()
    return Bucket(chunk_B.to(device), width, num_rows, row_R, token_BW.to(device))
