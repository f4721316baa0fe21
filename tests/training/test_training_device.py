import pytest
import torch

from aveyb_ir.errors import RecipeError
from aveyb_ir.training.arguments import check_device


@pytest.mark.parametrize(
    ("device", "dtype", "message"),
    [("cuda", "float32", "train.device: got cuda"), ("auto", "bfloat16", "train.dtype: got bfloat16 and no CUDA")],
)
def test_what_only_a_gpu_can_do_is_refused_without_one(
    monkeypatch: pytest.MonkeyPatch, device: str, dtype: str, message: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RecipeError, match=message):
        check_device(device, dtype)
    check_device("cpu", "bfloat16")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    check_device(device, dtype)
