"""Texts of a corpus that are wanted by id, kept on disk."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from aveyb_ir.data.blocks import blocks
from aveyb_ir.data.disk_rows import DiskTexts
from aveyb_ir.data.documents import Document
from aveyb_ir.data.text_numbers import TextNumbers

_ABSENT, _EMPTY = -1, -2


class WantedTexts:
    """Full texts of some documents; memory holds about 40 bytes of each, and nothing of the others.

    Args:
        documents: the corpus, read once.
        ids: numbers of the ids that are wanted.
        folder: on whose disk the texts are; None: the one for temporary files.
    """

    def __init__(self, documents: Iterable[Document], ids: TextNumbers, folder: str | Path | None = None) -> None:
        self._ids, self._texts = ids, DiskTexts(folder)
        self._rows = np.full(len(ids), _ABSENT, np.int32)
        for block in blocks(documents, lambda document: len(document.text) + len(document.id)):
            for document, number in zip(block, ids.find([document.id for document in block]).tolist(), strict=True):
                if number >= 0:
                    self._keep(number, document.full_text)

    def texts(self, ids: Sequence[str]) -> list[str]:
        """The text of each; empty where the corpus lacks it. All ids must have been wanted."""
        rows = self._rows[self._ids.find(ids)]
        return [self._texts[row] if row >= 0 else "" for row in rows.tolist()]

    def absent(self, ids: Sequence[str]) -> list[str]:
        """Those of which the corpus has no document."""
        return self._with(_ABSENT, ids)

    def empty(self, ids: Sequence[str]) -> list[str]:
        """Those whose document has no text."""
        return self._with(_EMPTY, ids)

    def _keep(self, number: int, text: str) -> None:
        self._rows[number] = len(self._texts) if text else _EMPTY
        if text:
            self._texts.append(text)

    def _with(self, mark: int, ids: Sequence[str]) -> list[str]:
        marked = self._rows[self._ids.find(ids)] == mark
        return [ids[place] for place in np.flatnonzero(marked).tolist()]
