"""The benchmark: encoders side by side over lengths and on a mixed corpus, with what the numbers are worth."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from aveyb_ir.bench.measure import Cell, Rate, decay_exponent, measure
from aveyb_ir.bench.memory import peak_memory_bytes
from aveyb_ir.bench.ranker import RankerTiming, time_ranker
from aveyb_ir.bench.subjects import NAMES, Subject, build_subject
from aveyb_ir.bench.texts import mixed_lengths, sample_text
from aveyb_ir.encoding.devices import choose_device, choose_dtype

# Lengths from which throughput is fitted; below, fixed costs weigh in.
_FIT_FROM = 2048


@dataclass
class BenchReport:
    """What was measured, ready for JSON.

    Attributes:
        setting: Machine, dtype, threads, sizes and versions.
        cells: One encoder on one length and batch size.
        mixed: One encoder on a corpus of mixed lengths.
        decay: α of throughput T(N) ∝ N^-α per encoder, where at least two lengths from 2,048 tokens were measured.
        peak_bytes: Peak memory per encoder and length.
        ranker: The ranker against the plain loop.
        skipped: Cells not measured, with the reason.
    """

    setting: dict[str, Any]
    cells: list[Cell] = field(default_factory=list)
    mixed: list[Cell] = field(default_factory=list)
    decay: dict[str, float] = field(default_factory=dict)
    peak_bytes: dict[str, dict[int, int]] = field(default_factory=dict)
    ranker: list[RankerTiming] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Plain dictionaries, lists and numbers."""
        return asdict(self)


def bench(
    models: Sequence[str] | Mapping[str, str] = NAMES,
    *,
    lengths: Sequence[int] = (16, 128, 512, 2048, 8192),
    batch_size: int = 1,
    size: str = "base",
    tail: str = "mask",
    device: str | None = None,
    dtype: str | None = None,
    repeats: int = 5,
    max_seconds: float = 60.0,
    mixed: bool = False,
    memory: Sequence[int] = (),
    ranker: Sequence[int] = (),
    progress: Callable[[str], object] = lambda line: None,
) -> BenchReport:
    """Measure encoders in turns on this machine.

    Args:
        models: Names ("avey-b", "avey-b-reference", "modernbert", "neobert"; random weights of the released sizes), or
            model folders; a mapping gives each a label for the report.
        lengths: Tokens per text. A model is not measured beyond what it can read.
        batch_size: Texts per batch.
        size: "base" or "small".
        tail: What Avey-B does with the end of a last chunk, "mask" or "zero".
        device: By default a GPU where there is one.
        dtype: By default what is fast there.
        repeats: Rounds; medians are reported.
        max_seconds: A cell whose batch would take longer, judged by the model's shorter lengths, is skipped and listed.
        mixed: Also a corpus of 256 texts of mixed lengths.
        memory: Lengths for which peak memory is measured, each in a fresh process.
        ranker: Lengths for which the ranker is timed against the plain loop.
        progress: Called with a line for each step.

    Raises:
        ValueError: An unknown model, size, device or dtype.
    """
    place = choose_device(device)
    precision = choose_dtype(dtype, place)
    options: dict[str, Any] = {"size": size, "tail": tail, "device": str(place)}
    named = models if isinstance(models, Mapping) else {name: name for name in models}
    subjects = [
        replace(build_subject(source, dtype=precision, **options), name=label) for label, source in named.items()
    ]
    setting = {**machine_setting(str(place), precision), "batch_size": batch_size}
    if any(source in NAMES for source in named.values()):  # folders have a size and a tail of their own
        setting |= {"size": size, "tail": tail}
    report = BenchReport(setting)
    rate = Rate(str(place), precision)
    for length in sorted(lengths):
        able = [subject for subject in subjects if _is_affordable(subject, length, max_seconds, report)]
        if not able:
            continue
        progress(f"{length} tokens: {', '.join(subject.name for subject in able)}")
        rate.reset()
        report.cells += measure(able, _batches(length, batch_size, str(place)), repeats=repeats, rate=rate)
    if mixed:
        progress("mixed lengths")
        rate.reset()
        whole = [subject for subject in subjects if not subject.reference]
        report.mixed = measure(whole, _mixed_batch(str(place)), repeats=repeats, rate=rate)
    for length in memory:
        for label, source in named.items():
            progress(f"peak memory of {label} at {length} tokens")
            peak = peak_memory_bytes(source, length, dtype=str(precision).removeprefix("torch."), **options)
            report.peak_bytes.setdefault(label, {})[length] = peak
    for length in ranker:
        progress(f"ranker at {length} tokens")
        report.ranker.append(time_ranker(length))
    report.decay = {subject.name: alpha for subject in subjects if (alpha := _decay(subject, report)) is not None}
    return report


def _batches(length: int, batch_size: int, device: str) -> Callable[[Subject], list[Tensor]]:
    def texts_of(subject: Subject) -> list[Tensor]:
        starts = range(0, batch_size * length, length)
        return [sample_text(length, subject.vocab_size, start=start).to(device) for start in starts]

    return texts_of


def _mixed_batch(device: str) -> Callable[[Subject], list[Tensor]]:
    def texts_of(subject: Subject) -> list[Tensor]:
        return [
            sample_text(length, subject.vocab_size, start=997 * number).to(device)
            for number, length in enumerate(sorted(mixed_lengths()))
        ]

    return texts_of


def _is_affordable(subject: Subject, length: int, max_seconds: float, report: BenchReport) -> bool:
    """Judge time by the longest length so far, as if cost grew linearly: never skips what would have fitted."""
    if subject.max_tokens is not None and length > subject.max_tokens:
        report.skipped.append(f"{subject.name} at {length} tokens: reads {subject.max_tokens} at most")
        return False
    earlier = [cell for cell in report.cells if cell.model == subject.name]
    if not earlier or earlier[-1].seconds * length / earlier[-1].tokens <= max_seconds:
        return True
    report.skipped.append(f"{subject.name} at {length} tokens: over {max_seconds:g} s a batch")
    return False


def _decay(subject: Subject, report: BenchReport) -> float | None:
    cells = [cell for cell in report.cells if cell.model == subject.name and cell.tokens >= _FIT_FROM]
    if len(cells) < 2:
        return None
    return decay_exponent([cell.tokens for cell in cells], [cell.tokens_per_second for cell in cells])


def machine_setting(device: str, dtype: torch.dtype) -> dict[str, Any]:
    """What a number measured here depends on."""
    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else torch.backends.cpu.get_cpu_capability()
    return {
        "device": f"{device} ({name})",
        "dtype": str(dtype).removeprefix("torch."),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
