"""Token embeddings whose plain means come nearest to a teacher's vectors, found by least squares."""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from aveyb_ir.training.ragged import Ragged

_ITERATIONS = 60


def fit_embeddings(
    embeddings_VD: NDArray[np.float32],
    tokens: Ragged,
    targets_ND: NDArray[np.float32],
    *,
    penalty: float,
) -> NDArray[np.float32]:
    """Change token embeddings so that the mean of a text's tokens points where its target does.

    Of E in: minimize |A E - targets|² + penalty · |E - E₀|², A the token counts of the texts, each row divided by the
    length that the text's sum has at the start, E₀ the start after the linear map that serves all texts best, the
    penalty in units of the mean square of those divisors. E is found by conjugate gradients; a token of few texts stays
    near its start, one of none keeps it. Model2Vec's "tokenlearn" follows the same gradient step by step.

    Memory holds the whole problem: three times 12 bytes for each distinct token of each text, and a few matrices as
    large as `targets_ND` in float64.

    Args:
        embeddings_VD: the start, (vocabulary, d).
        tokens: ids of each text, special ones too where the model has them.
        targets_ND: unit length, (texts, d).
        penalty: about how many mentions of a token outweigh what its start says.

    Returns:
        (vocabulary, d) float32, with the standard deviation of the start.
    """
    counts = _counts(tokens, len(embeddings_VD))
    start = embeddings_VD.astype(np.float64)
    scale_N = 1 / np.maximum(np.linalg.norm(counts @ start, axis=1), np.finfo(np.float32).tiny)
    means = sparse.diags_array(scale_N) @ counts
    mapping_DD = np.linalg.lstsq(means @ start, targets_ND.astype(np.float64), rcond=None)[0]
    fitted = start @ mapping_DD
    fitted += _correction(means.tocsr(), targets_ND - means @ fitted, penalty * float(np.mean(scale_N**2)))
    scaled: NDArray[np.float32] = (fitted * (embeddings_VD.std() / fitted.std())).astype(np.float32)
    return scaled


def _counts(tokens: Ragged, num_tokens: int) -> sparse.csr_array:
    """How often each text has each token, (texts, vocabulary)."""
    ones, ids = np.ones(len(tokens.values)), tokens.values.copy()  # sorted in place by the sum
    counts = sparse.csr_array((ones, ids, tokens.bounds), shape=(len(tokens), num_tokens))
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
