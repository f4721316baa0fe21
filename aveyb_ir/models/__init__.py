"""Avey-B as Hugging Face models; importing this room registers them with transformers' Auto classes.

The files of this room import torch, transformers and each other only, so a saved model carries their code and loads
with `trust_remote_code=True` where this package is not installed.
"""

from transformers import AutoConfig, AutoModel, AutoModelForMaskedLM, AutoModelForSequenceClassification

from .configuration_aveyb import AveyBConfig
from .modeling_aveyb import AveyBForMaskedLM, AveyBForSequenceClassification, AveyBModel

__all__ = ["AveyBConfig", "AveyBForMaskedLM", "AveyBForSequenceClassification", "AveyBModel"]

AutoConfig.register("avey-b", AveyBConfig)
AveyBConfig.register_for_auto_class()
for _auto, _model in (
    (AutoModel, AveyBModel),
    (AutoModelForMaskedLM, AveyBForMaskedLM),
    (AutoModelForSequenceClassification, AveyBForSequenceClassification),
):
    _auto.register(AveyBConfig, _model)
    _model.register_for_auto_class(_auto.__name__)
