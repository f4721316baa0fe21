"""Avey-B and NeoBERT as Hugging Face models; importing this room registers them with transformers' Auto classes.

The files of this room import torch, transformers and each other only, so a saved model carries their code and loads
with `trust_remote_code=True` where this package is not installed.
"""

from transformers import AutoConfig, AutoModel, AutoModelForMaskedLM, AutoModelForSequenceClassification

from .configuration_aveyb import AveyBConfig
from .configuration_neobert import NeoBERTConfig
from .modeling_aveyb import AveyBForMaskedLM, AveyBForSequenceClassification, AveyBModel
from .modeling_neobert import NeoBERTForMaskedLM, NeoBERTForSequenceClassification, NeoBERTModel

__all__ = [
    "AveyBConfig",
    "AveyBForMaskedLM",
    "AveyBForSequenceClassification",
    "AveyBModel",
    "NeoBERTConfig",
    "NeoBERTForMaskedLM",
    "NeoBERTForSequenceClassification",
    "NeoBERTModel",
]

for _config, _models in (
    (AveyBConfig, (AveyBModel, AveyBForMaskedLM, AveyBForSequenceClassification)),
    (NeoBERTConfig, (NeoBERTModel, NeoBERTForMaskedLM, NeoBERTForSequenceClassification)),
):
    AutoConfig.register(_config.model_type, _config)
    _config.register_for_auto_class()
    for _auto, _model in zip(
        (AutoModel, AutoModelForMaskedLM, AutoModelForSequenceClassification), _models, strict=True
    ):
        _auto.register(_config, _model)
        _model.register_for_auto_class(_auto.__name__)
