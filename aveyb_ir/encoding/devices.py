"""Chooses where and in which precision to compute."""

import warnings

import torch

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def choose_device(device: str | None) -> torch.device:
    """Return the asked-for device, or the best there is.

    Raises:
        ValueError: The device does not exist here.
    """
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    chosen = torch.device(device)
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"Device {device!r} asked for, but torch {torch.__version__} sees no GPU; use device='cpu'.")
    return chosen


def choose_dtype(dtype: str | None, device: torch.device) -> torch.dtype:
    """Return the asked-for dtype, or bfloat16 on GPUs that have it and float32 elsewhere.

    On a CPU without bfloat16 units a bfloat16 matrix product was measured 60 to 100 times slower than float32, so
    asking for one there gives a warning.

    Raises:
        ValueError: An unknown dtype.
    """
    if dtype is None:
        fast = device.type == "cuda" and torch.cuda.is_bf16_supported()
        return torch.bfloat16 if fast else torch.float32
    if dtype not in DTYPES:
        raise ValueError(f"dtype is {dtype!r}; expected one of {', '.join(DTYPES)}.")
    chosen = DTYPES[dtype]
    if chosen != torch.float32 and device.type == "cpu" and not cpu_has_fast(chosen):
        warnings.warn(
            f"{dtype} is emulated on this CPU and far slower than float32; use dtype='float32' here.", stacklevel=2
        )
    return chosen


def cpu_has_fast(dtype: torch.dtype) -> bool:
    """Whether this CPU has units for bfloat16 or float16, instead of emulating them."""
    probe = {torch.bfloat16: "_is_avx512_bf16_supported", torch.float16: "_is_avx512_fp16_supported"}[dtype]
    return bool(getattr(torch.cpu, probe, lambda: False)()) or bool(
        getattr(torch.cpu, "_is_amx_tile_supported", lambda: False)()
    )
