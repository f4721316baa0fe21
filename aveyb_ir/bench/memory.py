"""Peak memory of encoding one text, measured in a fresh process so that nothing else counts."""

import resource
import subprocess
import sys

import torch

from aveyb_ir.bench.subjects import build_subject
from aveyb_ir.bench.texts import sample_text


def peak_memory_bytes(model: str, num_tokens: int, *, size: str, tail: str, device: str, dtype: str) -> int:
    """Peak of a process that builds the model and encodes a text: resident bytes, or allocated ones on a GPU."""
    arguments = [model, str(num_tokens), size, tail, device, dtype]
    command = [sys.executable, "-m", "aveyb_ir.bench.memory", *arguments]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])


def _measure(model: str, num_tokens: str, size: str, tail: str, device: str, dtype: str) -> int:
    subject = build_subject(model, size=size, tail=tail, device=device, dtype=getattr(torch, dtype))
    subject.encode([sample_text(int(num_tokens), subject.vocab_size).to(device)])
    if torch.device(device).type == "cuda":
        return int(torch.cuda.max_memory_allocated())
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


if __name__ == "__main__":
    sys.stdout.write(f"{_measure(*sys.argv[1:])}\n")
