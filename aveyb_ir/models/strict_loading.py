"""Loads weights whole or not at all: what every model family of this room builds on."""

from typing import Any

from transformers import PreTrainedModel


class StrictPreTrainedModel(PreTrainedModel):
    """A `PreTrainedModel` that refuses a checkpoint which lacks weights or has foreign ones.

    `head_prefixes` name the parameters of a family's task heads, one prefix per part. Only these may differ between
    checkpoint and class: they start fresh where the checkpoint has no head, and are left out where the class has none.
    """

    head_prefixes: tuple[str, ...] = ()

    @classmethod
    def from_pretrained(cls, *args: Any, **kwargs: Any) -> Any:
        """Load a checkpoint as `PreTrainedModel.from_pretrained` does, refusing incomplete or foreign weights.

        A head that the checkpoint lacks altogether starts fresh; one that this class lacks is left out.

        Raises:
            OSError: Weights are missing, unexpected or of another shape; the message lists them.
        """
        wants_info = kwargs.pop("output_loading_info", False)
        any_shape = kwargs.pop("ignore_mismatched_sizes", False)
        model, info = super().from_pretrained(*args, **kwargs, output_loading_info=True, ignore_mismatched_sizes=True)
        missing = set(info["missing_keys"])
        head = {name for name in model.state_dict() if name.startswith(cls.head_prefixes)}
        if head <= missing:
            missing -= head
        others_heads = tuple(p for p in cls.head_prefixes if not any(name.startswith(p) for name in head))
        unexpected = {name for name in info["unexpected_keys"] if not name.startswith(others_heads)}
        shapes = {f"{name} {(*stored,)} for {(*own,)}" for name, stored, own in info["mismatched_keys"]}
        faults = {"missing": missing, "unexpected": unexpected, "of another shape": set() if any_shape else shapes}
        if any(faults.values()):
            raise OSError(
                f"The weights of {args[0] if args else 'this model'} do not fit {cls.__name__}: "
                + "; ".join(f"{kind}: {_listed(sorted(names))}" for kind, names in faults.items() if names)
                + f". Expected the names and shapes of a checkpoint of {cls.config_class.model_type} with this config; "
                "check that the download or copy is complete."
            )
        return (model, info) if wants_info else model


def _listed(names: list[str], most: int = 8) -> str:
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest
