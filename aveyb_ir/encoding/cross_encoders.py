"""Cross-encoders by folder or Hub name, as a reranker, a start to train from, a teacher or a judge."""

from typing import Any

from sentence_transformers import CrossEncoder

import aveyb_ir.models  # noqa: F401 (registers Avey-B with transformers)
from aveyb_ir.encoding.loading import locate, quietly
from aveyb_ir.errors import ModelError


def load_cross_encoder(name: str, what: str, **options: Any) -> CrossEncoder:
    """Load a cross-encoder, or a backbone that is to become one.

    `what`, such as "teacher.model", names it in messages, `options` go to its constructor.

    Raises:
        ModelError: it cannot be loaded.
    """
    try:
        with quietly():
            return CrossEncoder(locate(name), **options)
    except Exception as error:  # the library raises a dozen kinds of these; all mean that this model cannot be loaded
        reason = " ".join(str(error).split())
        raise ModelError(
            f"{what}: got {name!r}, expected a model folder or Hub name; check the path or the network "
            f"({type(error).__name__}: {reason})"
        ) from error


def check_one_score(model: CrossEncoder, what: str) -> None:
    """Raise ModelError unless the model gives one number for a pair: how well the document answers the query."""
    if model.num_labels != 1:
        name = model.config._name_or_path or "a cross-encoder in memory"
        raise ModelError(f"{what}: got {name!r} with {model.num_labels} labels, expected one score; choose a reranker")
