"""What a student is told by its teacher's scores and vectors."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.losses.merged_forward import embed_columns
from sentence_transformers.sentence_transformer.losses import DistillKLDivLoss, EmbedDistillLoss, MarginMSELoss
from torch import Tensor, nn

from aveyb_ir.tasks import DistillSection


def score_loss(model: SentenceTransformer, section: DistillSection) -> nn.Module:
    """The loss of a student whose `scale` times cosine is to be like a teacher's scores.

    `margin_mse`: squared error of the differences between the positive and each negative (Hofstätter et al. 2020, arXiv
    2010.02666). `kl`: Kullback-Leibler divergence of the distributions over the candidates (Lin et al. 2020, arXiv
    2010.11386).
    """

    def similarity(queries_BD: Tensor, documents_BD: Tensor) -> Tensor:
        return section.scale * F.cosine_similarity(queries_BD.float(), documents_BD.float())

    margins: nn.Module = MarginMSELoss(model, similarity_fct=similarity)
    distributions: nn.Module = DistillKLDivLoss(
        model, similarity_fct=similarity, student_temperature=1.0, teacher_temperature=section.teacher_temperature
    )
    return margins if section.loss == "margin_mse" else distributions


class EmbeddingDistillationLoss(EmbedDistillLoss):  # type: ignore[misc]
    """Draws a student's vectors to its teacher's, and its similarities within a batch to the teacher's.

    1 - cosine of each vector and its target (Kim et al. 2023, arXiv 2301.12005), plus `similarity_weight` times
    `similarity_divergence` of all texts of the batch. Labels are rows of the teacher's vectors, (batch, columns).

    Args:
        model: the student.
        vectors: gives the teacher's vectors (n, d_teacher) of n rows.
        axes: (d_teacher, d_student), narrow the targets; None for a learned projection of the student to d_teacher.
        teacher_width: d_teacher.
        scale: factor on cosines before the softmax of the divergence.
        similarity_weight: 0 leaves the divergence out.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        vectors: Callable[[NDArray[np.int64]], NDArray[np.float32]],
        *,
        axes: NDArray[np.float32] | None,
        teacher_width: int,
        scale: float,
        similarity_weight: float,
    ) -> None:
        super().__init__(model, "cosine", projection_dim=teacher_width if axes is None else None)
        self.vectors, self.scale, self.similarity_weight = vectors, scale, similarity_weight
        self.register_buffer("axes", None if axes is None else torch.from_numpy(axes), persistent=False)

    def forward(self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor) -> Tensor:
        """The loss of one batch."""
        students = embed_columns(self.model, sentence_features)
        rows = labels.T.flatten().cpu().numpy()  # column after column, as the students are
        teacher_ND = torch.from_numpy(self.vectors(rows)).to(labels.device)
        target_ND = teacher_ND if self.axes is None else teacher_ND @ self.axes
        loss: Tensor = self.compute_loss_from_embeddings(students, list(target_ND.chunk(len(students))))
        if self.similarity_weight:
            divergence = similarity_divergence(torch.cat(students), teacher_ND, self.scale)
            loss = loss + self.similarity_weight * divergence
        return loss

    def get_config_dict(self) -> dict[str, Any]:
        """What the loss was set to."""
        return {**super().get_config_dict(), "scale": self.scale, "similarity_weight": self.similarity_weight}


def similarity_divergence(student_ND: Tensor, teacher_ND: Tensor, scale: float) -> Tensor:
    """How far, for each text, the student's distribution over the other texts is from the teacher's; the mean.

    The distributions are softmax(scale * cosine), the divergence is Kullback-Leibler's, computed in float32 at least.
    Widths may differ.
    """
    log_student_NN, log_teacher_NN = (_log_neighbours(vectors, scale) for vectors in (student_ND, teacher_ND))
    return F.kl_div(log_student_NN, log_teacher_NN, reduction="batchmean", log_target=True)


def _log_neighbours(vectors_ND: Tensor, scale: float) -> Tensor:
    """Log probabilities (N, N - 1) of each text's neighbours, itself left out."""
    with torch.autocast(vectors_ND.device.type, enabled=False):
        vectors_ND = F.normalize(vectors_ND if vectors_ND.dtype == torch.float64 else vectors_ND.float())
        scores_NN = scale * vectors_ND @ vectors_ND.T
        others_NN = ~torch.eye(len(scores_NN), dtype=torch.bool, device=scores_NN.device)
        return torch.log_softmax(scores_NN[others_NN].view(len(scores_NN), -1), dim=1)


def principal_axes(blocks: Iterable[NDArray[np.float32]], width: int) -> NDArray[np.float32]:
    """The `width` directions (d, width), orthonormal, in which vectors say most; dot products are kept best by them.

    Not centred, since cosines are not. Reads blocks (n, d) one at a time.
    """
    total: NDArray[np.float64] | None = None
    for block in blocks:
        exact = np.asarray(block, dtype=np.float64)
        total = exact.T @ exact if total is None else total + exact.T @ exact
    assert total is not None  # a training set has texts
    _, directions = np.linalg.eigh(total)
    return np.ascontiguousarray(directions[:, ::-1][:, :width], dtype=np.float32)


def turned_to(student_ND: NDArray[np.float32], target_ND: NDArray[np.float32]) -> NDArray[np.float32]:
    """The rotation (d, d) of targets that brings them nearest to what the student says already.

    It changes no cosine among the targets, and spares a student that starts from something the turning of it all.
    Orthogonal Procrustes problem (Schönemann 1966, Psychometrika 31).

    Args:
        student_ND: vectors of some texts, at the start.
        target_ND: their targets.
    """
    left, _, right = np.linalg.svd(target_ND.astype(np.float64).T @ student_ND.astype(np.float64))
    rotation: NDArray[np.float32] = (left @ right).astype(np.float32)
    return rotation
