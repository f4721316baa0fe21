"""Low-rank adaptation: a few trained additions to matrices that stay as they are, and plain matrices in the end."""

import warnings
from pathlib import Path

from sentence_transformers import SentenceTransformer

from aveyb_ir.config import Lora
from aveyb_ir.errors import MissingExtraError, RecipeError

ADAPTER_FOLDER = "adapter"

_AVEY_B = ("enricher", "fuser")


class LoraAdditions:
    """Puts low-rank additions into the backbone of a model, in place, and leaves nothing else to train.

    Args:
        model: changed in place.
        settings: rank, scale and which matrices.

    Raises:
        MissingExtraError: peft is not installed.
        RecipeError: the model has no such matrices.
    """

    def __init__(self, model: SentenceTransformer, settings: Lora) -> None:
        try:
            from peft import LoraConfig, PeftModel
        except ImportError as error:
            raise MissingExtraError(
                "train.lora: got no package peft, expected it installed; pip install 'aveyb-ir[train]'"
            ) from error
        backbone = model.transformers_model
        usual = list(_AVEY_B) if hasattr(backbone, "encode_chunks") else "all-linear"
        targets = settings.target_modules or usual
        config = LoraConfig(
            r=settings.r, lora_alpha=settings.lora_alpha, lora_dropout=settings.lora_dropout, target_modules=targets
        )
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # peft uses a name that transformers is renaming
                self._peft = PeftModel(backbone, config)
        except ValueError as error:
            raise RecipeError(
                f"train.lora.target_modules: got {targets}, expected ends of names of matrices of the model; {error}"
            ) from error

    def save(self, folder: Path) -> None:
        """Write the additions by themselves, as `PeftModel.from_pretrained` reads them."""
        self._peft.save_pretrained(str(folder))

    def merge(self) -> None:
        """Add the additions to the matrices; the backbone is again what it was, with other numbers."""
        self._peft.merge_and_unload()
