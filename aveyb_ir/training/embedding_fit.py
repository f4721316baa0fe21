"""Token embeddings whose plain means come nearest to a teacher's vectors, found by least squares."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

_ITERATIONS = 60


def fit_embeddings(
    embeddings_VD: NDArray[np.float32],
    token_lists: Sequence[NDArray[np.int32]],
    targets_ND: NDArray[np.float32],
    *,
    penalty: float,
) -> NDArray[np.float32]:
    """Change token embeddings so that the mean of a text's tokens points where its target does.

    Of E in: minimize |A E - targets|² + penalty · |E - E₀|², A the token counts of the texts, each row divided by the
    length that the text's sum has at the start, E₀ the start after the linear map that serves all texts best, the
    penalty in units of the mean square of those divisors. E is found by conjugate gradients; a token of few texts stays
    near its start, one of none keeps it. Model2Vec's "tokenlearn" follows the same gradient step by step.

    Args:
        embeddings_VD: the start, (vocabulary, d).
        token_lists: token ids of each text, special ones too where the model has them.
        targets_ND: unit length, (texts, d).
        penalty: about how many mentions of a token outweigh what its start says.

    Returns:
        (vocabulary, d) float32, with the standard deviation of the start.
    """
    counts = _counts(token_lists, len(embeddings_VD))
    start = embeddings_VD.astype(np.float64)
    scale_N = 1 / np.maximum(np.linalg.norm(counts @ start, axis=1), np.finfo(np.float32).tiny)
    means = sparse.diags_array(scale_N) @ counts
    mapping_DD = np.linalg.lstsq(means @ start, targets_ND.astype(np.float64), rcond=None)[0]
    fitted = start @ mapping_DD
    fitted += _correction(means.tocsr(), targets_ND - means @ fitted, penalty * float(np.mean(scale_N**2)))
    scaled: NDArray[np.float32] = (fitted * (embeddings_VD.std() / fitted.std())).astype(np.float32)
    return scaled


def _counts(token_lists: Sequence[NDArray[np.int32]], num_tokens: int) -> sparse.csr_array:
    """How often each text has each token, (texts, vocabulary)."""
    ends = np.cumsum([0, *map(len, token_lists)])
    columns = np.concatenate(token_lists)
    counts = sparse.csr_array((np.ones(len(columns)), columns, ends), shape=(len(token_lists), num_tokens))
    counts.sum_duplicates()
    return counts


def _correction(means: sparse.csr_array, missing_ND: NDArray[np.float64], penalty: float) -> NDArray[np.float64]:
    """X of least |means X - missing|² + penalty |X|², by conjugate gradients from zero, all columns at once."""
    transposed = means.T.tocsr()
    found = np.zeros((means.shape[1], missing_ND.shape[1]))
    residual = transposed @ missing_ND
    direction, size = residual.copy(), float((residual**2).sum())
    for _ in range(_ITERATIONS):
        if not size:
            break
        image = transposed @ (means @ direction) + penalty * direction
        step = size / float((direction * image).sum())
        found += step * direction
        residual -= step * image
        previous, size = size, float((residual**2).sum())
        direction = residual + size / previous * direction
    return found
