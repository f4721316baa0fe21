"""Avey-B's ranker: which earlier chunks come to a chunk, and with what weight.

The score of chunk j for chunk i is MaxSim over *raw token embeddings* (paper, section on the ranker):

    score(i, j) = sum over tokens t of i of  max over tokens u of j of  cos(x_t, x_u),      j < i

so it depends on token ids only. Two exact ways to compute it stand side by side: `maxsim`, the definition on pairs of
chunks, and `distinct_token_scores`, which works on the distinct tokens of a text.

Shape letters: C chunks of a text, P pairs of chunks, S positions of a chunk, D width, U distinct tokens,
K retrieved chunks, A and B blocks of distinct tokens.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

# Rows of the Gram matrix computed at a time: 30,000 distinct tokens in fp32 would need 3.6 GB as one matrix. All rows
# of a block get the columns of its last one, so few of them waste little, and fewer would slow the product down.
_BLOCK_TOKENS = 384
# Similarities held at a time by `maxsim`, in elements.
_BLOCK_SIMILARITIES = 1 << 24
# Scores held at a time beside the whole table of them, in elements: a million tokens make 15,625 chunks of 64.
_BLOCK_SCORES = 1 << 24


def unit_rows(x: Tensor, eps: float) -> Tensor:
    """Divide each vector of the last dimension by its norm; zero vectors stay zero. Norms in fp32 or better."""
    norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.promote_types(x.dtype, torch.float32))
    floor = max(eps, torch.finfo(norm.dtype).tiny)
    return (x / norm.clamp_min(floor)).to(x.dtype)


def maxsim(query_PSD: Tensor, key_PSD: Tensor) -> Tensor:
    """Score pairs of chunks by the definition: P sums over tokens of the best cosine. Inputs are unit rows.

    Differentiable. Returns (P,) in the dtype of the inputs.
    """
    step = max(1, _BLOCK_SIMILARITIES // (query_PSD.shape[1] * key_PSD.shape[1]))
    blocks = [
        (q @ k.transpose(1, 2)).amax(-1).sum(-1)
        for q, k in zip(query_PSD.split(step), key_PSD.split(step), strict=True)
    ]
    return torch.cat(blocks)


def distinct_tokens_pay(num_tokens: int, num_distinct: int, chunk_size: int) -> bool:
    """Choose how a text is scored: True for `distinct_token_scores`, False for `maxsim` on all pairs.

    Pairs cost N²/2 cosines; distinct tokens cost about U²/2 cosines, U·N/2 comparisons (memory-bound, each worth some
    sixteen multiply-adds of a d≈500 cosine's rate per element) and a fixed number of small operations.
    """
    num_chunks = -(-num_tokens // chunk_size)
    pairs = num_chunks * (num_chunks - 1) // 2 * chunk_size**2
    distinct = num_distinct**2 // 2 + num_distinct * num_tokens // 32
    return num_chunks > 4 and distinct < pairs


def distinct_token_scores(unit_UD: Tensor, token_N: Tensor, chunk_size: int) -> Tensor:
    """Score all chunks of one text against all earlier ones in U²·d instead of N²·d, exact to rounding.

    With G the cosines of distinct tokens, M[j, a] = max of G[a, b] over the tokens b of chunk j, and C[i, a] how often
    token a occurs in chunk i, the scores are C·Mᵀ. G is computed in blocks of rows. A token is needed as a row only if
    it occurs after the first chunk, and against columns that occur before its last chunk only: the order of first and
    of last occurrence makes both a prefix, and about halves the work.

    Args:
        unit_UD: Unit embeddings of the distinct tokens, fp32.
        token_N: For each position of the text the row of its token in `unit_UD`, int64.
        chunk_size: Positions per chunk; the last chunk may be shorter.

    Returns:
        (C, C) fp32; entries with j >= i are unspecified. Equal chunks have exactly equal scores.
    """
    device, num_tokens, num_distinct = token_N.device, token_N.numel(), unit_UD.shape[0]
    num_chunks = -(-num_tokens // chunk_size)
    chunk_N = torch.arange(num_tokens, device=device) // chunk_size

    first_U = torch.full((num_distinct,), num_chunks, device=device).scatter_reduce(0, token_N, chunk_N, "amin")
    last_U = torch.zeros(num_distinct, dtype=torch.long, device=device).scatter_reduce(0, token_N, chunk_N, "amax")
    by_first_U = torch.argsort(first_U, stable=True)
    column_U = torch.empty_like(by_first_U)
    column_U[by_first_U] = torch.arange(num_distinct, device=device)
    unit_UD, last_U = unit_UD[by_first_U], last_U[by_first_U]
    # Column tokens in front of chunk j's first new one: how many columns chunks before j can need.
    columns_before_C = torch.searchsorted(
        first_U[by_first_U], torch.arange(num_chunks + 1, device=device), right=False
    ).tolist()

    # Distinct (chunk, token) pairs in chunk order, with their counts.
    pair_M, count_M = torch.unique(chunk_N * num_distinct + column_U[token_N], return_counts=True)
    pair_chunk_M, pair_token_M = pair_M // num_distinct, pair_M % num_distinct
    sizes = torch.bincount(pair_chunk_M, minlength=num_chunks).tolist()
    tokens_of_chunk = pair_token_M.split(sizes)

    rows = torch.argsort(last_U, stable=True)
    rows = rows[last_U[rows] > 0]
    scores_CC = unit_UD.new_zeros(num_chunks, num_chunks)
    slot_U = torch.full((num_distinct,), -1, device=device)
    for row_A in rows.split(_BLOCK_TOKENS):
        last = int(last_U[row_A[-1]])
        gram_BA = unit_UD[: columns_before_C[last]] @ unit_UD[row_A].T
        best_JA = torch.stack([gram_BA.index_select(0, tokens_of_chunk[j]).amax(0) for j in range(last)])
        slot_U[row_A] = torch.arange(row_A.numel(), device=device)
        slot_M = slot_U[pair_token_M]
        here_M = slot_M >= 0
        counts = (slot_M[here_M], count_M[here_M].to(best_JA.dtype), pair_chunk_M[here_M])
        _add_product(scores_CC[:, :last], *counts, best_JA.T.contiguous())
        slot_U[row_A] = -1
    return scores_CC


def _add_product(scores_CJ: Tensor, slot_M: Tensor, count_M: Tensor, chunk_M: Tensor, best_AJ: Tensor) -> None:
    """Add the sparse product C·Mᵀ, restricted to one block of tokens, to the scores; some rows at a time."""
    num_rows, num_columns = scores_CJ.shape
    size_C = torch.bincount(chunk_M, minlength=num_rows)
    end_C = size_C.cumsum(0)
    step = max(1, _BLOCK_SCORES // num_columns)
    for first in range(0, num_rows, step):
        last = min(first + step, num_rows)
        start, end = int(end_C[first] - size_C[first]), int(end_C[last - 1])
        scores_CJ[first:last] += F.embedding_bag(
            slot_M[start:end],
            best_AJ,
            end_C[first:last] - size_C[first:last] - start,
            mode="sum",
            per_sample_weights=count_M[start:end],
        )


def select(scores_CC: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Take for each chunk its min(i, k) best earlier chunks in descending order; of equal scores the earlier chunk.

    Returns:
        (C, k) int64 chunk numbers and (C, k) scores. Where there are fewer than k, the row begins with chunk -1 and
        score 0, which is where the compressor expects its zeros.
    """
    num_chunks = scores_CC.shape[0]
    step = max(1, _BLOCK_SCORES // num_chunks)
    blocks = [_select_rows(scores_CC, first, min(first + step, num_chunks), k) for first in range(0, num_chunks, step)]
    return torch.cat([chunk for chunk, _ in blocks]), torch.cat([score for _, score in blocks])


def _select_rows(scores_CC: Tensor, first: int, last: int, k: int) -> tuple[Tensor, Tensor]:
    device = scores_CC.device
    number_R1 = torch.arange(first, last, device=device).unsqueeze(-1)
    later_RC = torch.arange(last, device=device) >= number_R1
    ranked = scores_CC[first:last, :last].masked_fill(later_RC, -torch.inf).sort(dim=-1, descending=True, stable=True)
    rank_RK = torch.arange(k, device=device) - (k - number_R1.clamp(max=k))
    empty_RK = rank_RK < 0
    rank_RK = rank_RK.clamp(min=0)
    chunk_RK = ranked.indices.gather(1, rank_RK).masked_fill(empty_RK, -1)
    return chunk_RK, ranked.values.gather(1, rank_RK).masked_fill(empty_RK, 0.0)


def weights(score_CK: Tensor, retrieved_CK: Tensor) -> Tensor:
    """Divide each selected score by the smallest selected one of its chunk; 0 where nothing was retrieved.

    The paper's text divides by the largest; the released code and weights by the smallest, and so does this.
    """
    smallest_C1 = score_CK.masked_fill(~retrieved_CK, torch.inf).amin(-1, keepdim=True)
    tiny = torch.finfo(score_CK.dtype).tiny
    smallest_C1 = torch.where(smallest_C1.abs() < tiny, tiny, smallest_C1)  # only zero embeddings score 0
    return (score_CK / smallest_C1).masked_fill(~retrieved_CK, 0.0)


def pin(chunk_CK: Tensor, first_C: Tensor) -> Tensor:
    """Put each text's first chunk in the place of the last selected one, where it was not selected itself.

    The last place is that of the smallest score and has weight 1 (see `weights`), which the first chunk takes over. So
    nothing jumps where the two scores meet, and a first chunk that scores nothing still arrives.

    Args:
        chunk_CK: What `select` chose, by number, -1 for none.
        first_C: For each chunk the number of its text's first one.
    """
    last_C = chunk_CK[:, -1]
    absent_C = (last_C >= 0) & (chunk_CK != first_C.unsqueeze(-1)).all(-1)
    return torch.cat([chunk_CK[:, :-1], torch.where(absent_C, first_C, last_C).unsqueeze(-1)], dim=-1)
