"""Compiles the layers of a model where the caller asks for it."""

from sentence_transformers import SentenceTransformer
from torch import nn

from aveyb_ir.errors import ModelError


def compile_layers(model: SentenceTransformer) -> None:
    """Compile each layer of the backbone in place, for any batch shape; names and values of weights stay as they are.

    Layers are alike, so that one compilation serves all of them. It happens at the first batch, and fails there with
    PyTorch's own error where no C++ compiler is at hand.

    Raises:
        ModelError: The backbone has no list of layers, or packs texts: layers of Avey-B take a list of buckets that
            differs from batch to batch, and PyTorch gives up after the eighth.
    """
    if getattr(model.transformers_model, "packs_texts", False):
        raise ModelError(
            f"{type(model.transformers_model).__name__} computes packed texts, whose layers would be compiled anew for "
            "every batch; expected a model that pads. Leave out compile."
        )
    layers = next((module for module in model.transformers_model.modules() if isinstance(module, nn.ModuleList)), None)
    if layers is None:
        raise ModelError(
            f"{type(model.transformers_model).__name__} has no list of layers to compile; expected a stack of layers. "
            "Leave out compile."
        )
    for layer in layers:
        layer.compile(dynamic=True)
