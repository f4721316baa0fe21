"""Tells whole checkpoints from torn ones, such as a killed run leaves behind."""

import json
import logging
import shutil
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from aveyb_ir.training.processes import Processes
from aveyb_ir.training.record import write_json

logger = logging.getLogger(__name__)

SEAL_FILE = "complete.json"


class Seal(TrainerCallback):  # type: ignore[misc]
    """Notes in each checkpoint, when all processes have written theirs, which files of which size it consists of."""

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Seal the checkpoint that was just written."""
        processes = Processes.here()
        processes.wait()
        if processes.is_main:
            folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            write_json(folder / SEAL_FILE, _sizes(folder))


def last_whole_checkpoint(folder: Path) -> Path | None:
    """The newest checkpoint whose files are all there; None if there is none."""
    return next((checkpoint for checkpoint in _newest_first(folder) if _is_whole(checkpoint)), None)


def remove_torn_checkpoints(folder: Path) -> None:
    """Remove what a killed run left half written, so that it is never taken for a checkpoint."""
    for checkpoint in _newest_first(folder):
        if not _is_whole(checkpoint):
            logger.warning("%s is not complete and is skipped", checkpoint)
            shutil.rmtree(checkpoint)


def _newest_first(folder: Path) -> list[Path]:
    steps = {path: path.name.removeprefix("checkpoint-") for path in folder.glob("checkpoint-*") if path.is_dir()}
    return sorted((path for path, step in steps.items() if step.isdecimal()), key=lambda path: -int(steps[path]))


def _is_whole(checkpoint: Path) -> bool:
    seal = checkpoint / SEAL_FILE
    return seal.is_file() and json.loads(seal.read_text(encoding="utf-8")) == _sizes(checkpoint)


def _sizes(folder: Path) -> dict[str, int]:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != SEAL_FILE)
    return {path.relative_to(folder).as_posix(): path.stat().st_size for path in files}
