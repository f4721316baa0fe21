"""Distinct texts, kept on disk under numbers."""

from collections.abc import Sequence
from pathlib import Path

from aveyb_ir.data.disk_rows import DiskTexts
from aveyb_ir.data.text_numbers import Numbers, TextNumbers


class TextTable:
    """Keeps each distinct text once, under its number of `TextNumbers`, in a file as of `DiskTexts`."""

    def __init__(self, folder: str | Path | None = None) -> None:
        self._numbers = TextNumbers()
        self.texts = DiskTexts(folder)

    def add(self, texts: Sequence[str]) -> Numbers:
        """The number of each text; new ones are kept."""
        numbers = self._numbers.add(texts)
        for number, text in zip(numbers.tolist(), texts, strict=True):
            if number == len(self.texts):
                self.texts.append(text)
        return numbers
