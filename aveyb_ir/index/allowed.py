"""Which vectors of a segment a search may find."""

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.index.faiss_import import faiss_module


class Allowed:
    """A choice among the vectors of a segment; `mask` has shape (vectors,)."""

    def __init__(self, mask: NDArray[np.bool_]) -> None:
        self.mask = mask
        self.num = int(np.count_nonzero(mask))

    @cached_property
    def selector(self) -> Any:
        """The same as FAISS takes it, which tests it inside its loops."""
        return faiss_module().IDSelectorBitmap(np.packbits(self.mask, bitorder="little"))
