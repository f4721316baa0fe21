"""How a segment is made: batches stream to disk, and it gets its name when it is whole."""

import shutil
from contextlib import ExitStack, suppress

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.errors import IndexDirError
from aveyb_ir.index.documents import DocumentTable
from aveyb_ir.index.durable import FileInfo, sync
from aveyb_ir.index.faiss_build import faiss_reason, fitting_factory, write_faiss
from aveyb_ir.index.faiss_gpu import FaissDevice
from aveyb_ir.index.id_file import IdFile
from aveyb_ir.index.layout import PARTIAL, Layout
from aveyb_ir.index.manifest import SegmentInfo
from aveyb_ir.index.segment import Batch
from aveyb_ir.index.spec import FLAT, IndexSpec
from aveyb_ir.index.vectors import EmbeddingFile


class SegmentWriter:
    """A segment in the making. It carries a `.partial` name until `finish`, and `discard` leaves nothing of it."""

    def __init__(self, layout: Layout, dimension: int) -> None:
        name = f"segment-{layout.next_number():06d}"
        self._dimension = dimension
        self._final = layout.segment(name).folder
        self._files = layout.segment(name + PARTIAL)
        self._files.folder.mkdir()
        with ExitStack() as on_error:
            on_error.callback(shutil.rmtree, self._files.folder, ignore_errors=True)
            self.table = DocumentTable.create(self._files.documents)
            on_error.callback(self.table.close)
            self._embeddings = EmbeddingFile(self._files.embeddings, dimension)
            on_error.pop_all()
        # The one thing that is kept in memory until the end: 24 bytes for each vector.
        self._parts: list[NDArray[np.void]] = []
        self.num_vectors = 0

    def append(self, batch: Batch) -> None:
        """Add documents and vectors; rows may come in any order."""
        self.table.append(batch.rows, batch.documents)
        self._embeddings.append(batch.vectors)
        self._parts.append(batch.parts)
        self.num_vectors += len(batch.parts)

    def finish(
        self, first_row: int, end_row: int, spec: IndexSpec, *, is_addition: bool, device: FaissDevice
    ) -> SegmentInfo:
        """Build the FAISS index, sync everything to disk and give the folder its name.

        Vectors that are only an addition to others may be too few for the specification. Raises IndexDirError when
        FAISS fails.
        """
        files = self._files
        num_documents = len(self.table)
        IdFile.write(files.ids, self.table.all_ids())
        self.table.close()
        self._embeddings.finish()
        np.save(files.parts, np.concatenate(self._parts), allow_pickle=False)
        factory = fitting_factory(spec, self.num_vectors, self._dimension, is_addition=is_addition)
        if factory != FLAT:
            self._write_faiss(factory, spec, device)
        paths = [path for path in files.files if path != files.faiss or factory != FLAT]
        for path in (*paths, files.folder):
            sync(path)
        infos = {path.name: FileInfo.of(path) for path in paths}
        files.folder.rename(self._final)
        sync(self._final.parent)
        return SegmentInfo(self._final.name, first_row, end_row, num_documents, self.num_vectors, factory, infos)

    def _write_faiss(self, factory: str, spec: IndexSpec, device: FaissDevice) -> None:
        vectors = np.load(self._files.embeddings, mmap_mode="r", allow_pickle=False)
        try:
            write_faiss(self._files.faiss, vectors, factory, spec, device=device)
        except (RuntimeError, MemoryError) as error:
            raise IndexDirError(
                f"FAISS cannot build {factory} over {len(vectors)} vectors ({faiss_reason(error)}); expected a spec "
                f"for so many that fits into memory: nothing was published and what is encoded is kept, so give another"
            ) from error

    def discard(self) -> None:
        """Close and remove what was written, unless it is finished."""
        self.table.close()
        with suppress(OSError):  # closing writes what is left, for which there may be no room
            self._embeddings.close()
        shutil.rmtree(self._files.folder, ignore_errors=True)
