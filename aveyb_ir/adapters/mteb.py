"""An encoder as a model that mteb evaluates.

mteb.evaluate(AveybEncoder("models/my-retriever"), mteb.get_tasks(tasks=["SciFact"]))
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.adapters.extras import imports_of
from aveyb_ir.adapters.text_vectors import EncoderSource, open_encoder
from aveyb_ir.encoding import Encoder

with imports_of("mteb"):
    from mteb.abstasks.task_metadata import TaskMetadata
    from mteb.models.abs_encoder import AbsEncoder
    from mteb.models.model_meta import ModelMeta, ScoringFunction
    from mteb.types import PromptType
    from torch.utils.data import DataLoader


class AveybEncoder(AbsEncoder):
    """Encodes what mteb gives, with the prompts of this package rather than mteb's.

    Where a task does not tell queries from documents, as in clustering, all texts get the query prompt. mteb keeps
    results by the model's name and revision: the revision is the encoder's fingerprint, so that a model which has been
    trained further is evaluated anew. Batches are made by the encoder's token budget; mteb's `batch_size` is only that
    of reading.

    Args:
        model: An Encoder, or a model folder or Hub name.
        name: Under which mteb keeps results, as "organization/model"; by default the Hub name, or the last two parts of
            the path.
        options: For a folder or name: what else `Encoder` takes, such as `device`.

    Raises:
        ModelError: The model cannot be loaded.
        ValueError: Impossible options or another kind of name.
    """

    def __init__(self, model: EncoderSource, *, name: str | None = None, **options: Any) -> None:
        self.encoder = open_encoder(model, options)
        self.mteb_model_meta = _meta(self.encoder, name)

    def encode(
        self,
        inputs: DataLoader[Any],
        *,
        task_metadata: TaskMetadata,
        hf_split: str,
        hf_subset: str,
        prompt_type: PromptType | None = None,
        **kwargs: Any,
    ) -> NDArray[np.float32]:
        """Encode texts: (n, d) float32, unit.

        Args:
            inputs: Batches with a column "text".
            task_metadata: Not used, like the two that follow.
            hf_split: Which split.
            hf_subset: Which subset.
            prompt_type: Queries or documents; None counts as queries.
            kwargs: mteb's settings of an encoder.

        Raises:
            ValueError: A precision other than float32 is asked for.
        """
        precision = kwargs.get("precision", "float32")
        if precision != "float32":
            raise ValueError(f"precision is {precision!r}; expected 'float32', the only one here; leave it out")
        texts = [text for batch in inputs for text in batch["text"]]
        return self.encoder.encode(texts, "document" if prompt_type == PromptType.document else "query")


def _meta(encoder: Encoder, name: str | None) -> ModelMeta:
    return ModelMeta(
        loader=None,
        name=_hub_like(encoder.name) if name is None else name,
        revision=encoder.fingerprint,
        release_date=None,
        languages=None,
        n_parameters=sum(parameter.numel() for parameter in encoder.model.parameters()),
        memory_usage_mb=None,
        max_tokens=float("inf") if encoder.max_length is None else encoder.max_length,
        embed_dim=encoder.dimension,
        license=None,
        open_weights=None,
        public_training_code=None,
        public_training_data=None,
        framework=["Sentence Transformers", "PyTorch"],
        similarity_fn_name=ScoringFunction.COSINE,
        use_instructions=bool(encoder.prompt("query") or encoder.prompt("document")),
        training_datasets=None,
    )


def _hub_like(name: str) -> str:
    """Give a name of two parts."""
    path = Path(name)
    parts = path.relative_to(path.anchor).parts[-2:]
    return "/".join(parts if len(parts) == 2 else ("local", *parts))
