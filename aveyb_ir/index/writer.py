"""Changing an index directory: everything done in one `with` block becomes visible at once, or not at all."""

import errno
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from aveyb_ir._version import __version__
from aveyb_ir.data import Document
from aveyb_ir.errors import DataError, IndexDirError
from aveyb_ir.index.draft import Draft, timestamp
from aveyb_ir.index.faiss_gpu import FaissDevice, check_faiss_device
from aveyb_ir.index.first_build import begin_first_build, end_without_index, make_folder
from aveyb_ir.index.identity import EncoderIdentity
from aveyb_ir.index.incoming import Spans, check_documents, checked_parts
from aveyb_ir.index.layout import Layout
from aveyb_ir.index.lock import WriterLock
from aveyb_ir.index.manifest import FORMAT, Granularity, Manifest
from aveyb_ir.index.named_specs import Spec, load_spec
from aveyb_ir.index.reader import check_encoder
from aveyb_ir.index.segment import Batch
from aveyb_ir.index.spec import BUILT_IN, IndexSpec
from aveyb_ir.index.spec_check import check_spec
from aveyb_ir.index.vectors import unit_vectors

_WRITE_ERRORS = (OSError, sqlite3.OperationalError)


class IndexWriter:
    """The one process that changes an index directory; made by `create` or `open`, used in a `with` block.

    A block that ends well publishes; one that ends in an exception, or with the process, leaves the index as it was.
    What is added streams to disk: apart from FAISS's own index, memory holds one batch. Not for use by several
    threads at once. When the disk is full or fails, IndexDirError is raised and the writer is closed.
    """

    def __init__(
        self,
        layout: Layout,
        lock: WriterLock,
        base: Manifest,
        spec: Spec,
        faiss_device: FaissDevice,
        made: Sequence[Path] = (),
    ) -> None:
        self._layout = layout
        self._lock = lock
        self._made = list(made)  # folders that are not to stay without an index
        self._draft = Draft(layout, base, spec, faiss_device)
        self._closed = False

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        encoder: EncoderIdentity,
        *,
        spec: str | os.PathLike[str] | Spec = "flat",
        granularity: Granularity = "document",
        overwrite: bool = False,
        faiss_device: FaissDevice = "auto",
    ) -> "IndexWriter":
        """Begin a new index at `path`; with `overwrite`, one that is there stays whole until this one is published.

        What is left of a first build that was killed is no index and is begun anew.

        `spec` is anything that `load_spec` understands; `granularity` is remembered for whoever adds documents.
        FAISS builds on `faiss_device`: "cpu", "cuda", or "auto" for GPUs where it sees any.

        Raises ValueError for a `spec` that is unknown or impossible in this dimension and for a `faiss_device` that is
        unknown or not there, RecipeError for a broken file
        of one, IndexDirError when the folder holds an index or foreign files or cannot be written, IndexLockedError
        when another writer is at work there.
        """
        check_faiss_device(faiss_device)
        checked = _checked(spec, encoder.dimension)
        layout = Layout(Path(path).absolute())
        _check_free(layout, overwrite)
        with _reporting(layout), ExitStack() as on_error:
            made = make_folder(layout.root)
            lock = WriterLock(layout.lock)
            on_error.callback(lock.release)
            _check_free(layout, overwrite)  # again, now that no one else can publish there
            begin_first_build(layout)
            on_error.callback(end_without_index, layout, made)
            writer = cls(layout, lock, _blank(encoder, granularity), checked, faiss_device, made)
            on_error.pop_all()
            return writer

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        expected_encoder: EncoderIdentity | None = None,
        faiss_device: FaissDevice = "auto",
    ) -> "IndexWriter":
        """Begin to change the index at `path`; FAISS builds on `faiss_device` as in `create`.

        Raises like `IndexDir.open`, IndexDirError when the folder is read-only, and IndexLockedError when another
        writer is at work there.
        """
        check_faiss_device(faiss_device)
        layout = Layout(Path(path).absolute())
        Manifest.read(layout)  # puts no lock file where there is no index
        with _reporting(layout), ExitStack() as on_error:
            lock = WriterLock(layout.lock)
            on_error.callback(lock.release)
            base = Manifest.read(layout)
            if expected_encoder is not None:
                check_encoder(layout, base, expected_encoder)
            writer = cls(layout, lock, base, base.spec, faiss_device)
            on_error.pop_all()
            return writer

    def add(self, documents: Sequence[Document], embeddings: Any, spans: Spans | None = None) -> None:
        """Add documents with their embeddings, a float matrix (n, dimension) that is normalized in a copy.

        Without `spans` each document has one embedding. With them, `spans[i]` lists the parts of document i as
        (start, end) characters of its `full_text`, or None for all of it, and there is one embedding for each part, in
        the same order.

        Raises DataError for an id that is already there or unusable, for text that UTF-8 cannot hold, for NaN or
        infinity and for metadata that is not JSON,
        IndexMismatchError for another dimension, ValueError when counts or spans do not fit, TypeError for what is
        not a matrix of floats. After any of these the batch has left no trace.
        """
        with self._changing():
            batch = self._batch(documents, embeddings, spans)
            self._refuse_known(documents)
            if documents:
                self._draft.append(batch)

    def check_new(self, documents: Sequence[Document]) -> None:
        """Raise DataError for documents that `add` would refuse, before they are encoded."""
        with self._changing():
            check_documents(documents)
            self._refuse_known(documents)

    def upsert(self, documents: Sequence[Document], embeddings: Any, spans: Spans | None = None) -> None:
        """Add documents like `add`, each in place of the one with its id if there is one; all get new rows."""
        with self._changing():
            batch = self._batch(documents, embeddings, spans)
            known = self._draft.rows([document.id for document in documents])
            if documents:
                self._draft.append(batch)
                self._draft.remove(known.values())

    def delete(self, ids: Sequence[str]) -> None:
        """Delete documents. Raises ValueError, and deletes nothing, when an id is not there."""
        if isinstance(ids, str):
            raise ValueError(f"ids is {ids!r:.60}, expected a sequence of ids, not one of letters: give [{ids!r:.60}]")
        with self._changing():
            rows = self._draft.rows(ids)
            if missing := [id for id in ids if id not in rows]:
                raise ValueError(
                    f"{len(missing)} of {len(ids)} ids are not in {self._layout.root}, {missing[0]!r} among them; "
                    f"expected ids of its documents: nothing was deleted"
                )
            self._draft.remove(rows.values())

    def compact(self, *, spec: str | os.PathLike[str] | Spec | None = None) -> None:
        """When this block ends, rewrite the index into one segment that holds nothing of the deleted documents.

        With `spec`, the vectors are stored and searched in another way from then on. Raises like `create`.
        """
        with self._changing():
            self._draft.rewrite(None if spec is None else _checked(spec, self._draft.dimension))

    @property
    def encoding_folder(self) -> Path:
        """Where an encoder may keep what it has finished, for the case that this process dies; gone once published."""
        return self._layout.encoding

    def publish(self) -> None:
        """Make all changes visible at once and close. Raises DataError when a new index would have no documents."""
        with self._changing():
            self._draft.publish()
        self.close()

    def close(self) -> None:
        """Give up what is not published and let the next writer in; more than once does no harm."""
        if not self._closed:
            self._closed = True
            try:
                self._draft.discard()
                end_without_index(self._layout, self._made)
            finally:
                self._lock.release()

    def __enter__(self) -> "IndexWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if error is None and not self._closed:
                self.publish()
        finally:
            self.close()

    @contextmanager
    def _changing(self) -> Iterator[None]:
        if self._closed:
            raise ValueError(f"this writer of {self._layout.root} is closed; expected an open one: make a new one")
        try:
            yield
        except _WRITE_ERRORS as error:
            # How much of the batch was written is unknown, so the draft is lost.
            self.close()
            raise _cannot_write(self._layout, error) from error

    def _refuse_known(self, documents: Sequence[Document]) -> None:
        if known := self._draft.rows([document.id for document in documents]):
            raise DataError(
                f"document {next(iter(known))!r} is already in {self._layout.root}, expected new ids; "
                f"use upsert to replace documents"
            )

    def _batch(self, documents: Sequence[Document], embeddings: Any, spans: Spans | None) -> Batch:
        check_documents(documents)
        first_row = self._draft.next_row
        parts = checked_parts(first_row, documents, spans)

        def name_of(number: int) -> str:
            if number >= len(parts):
                return f"embedding number {number}"
            return f"document {documents[parts['row'][number] - first_row].id!r}"

        vectors = unit_vectors(embeddings, self._draft.dimension, name_of)
        if len(vectors) != len(parts):
            raise ValueError(
                f"{len(vectors)} embeddings for {len(documents)} documents, expected {len(parts)}: "
                f"one for each document, or one for each of its spans"
            )
        return Batch(range(first_row, first_row + len(documents)), documents, vectors, parts)


def _checked(spec: str | os.PathLike[str] | Spec, dimension: int) -> Spec:
    loaded = load_spec(spec)
    if isinstance(loaded, IndexSpec):
        check_spec(loaded, dimension)
    return loaded


def _blank(encoder: EncoderIdentity, granularity: Granularity) -> Manifest:
    now = timestamp()
    return Manifest(
        format=FORMAT,
        package_version=__version__,
        created=now,
        updated=now,
        generation=0,
        encoder=encoder,
        metric="cosine",
        spec=BUILT_IN["flat"],
        granularity=granularity,
        next_row=0,
        corpus_fingerprint=f"{0:064x}",
    )


def _check_free(layout: Layout, overwrite: bool) -> None:
    if layout.root.exists() and not layout.root.is_dir():
        raise IndexDirError(f"{layout.root} is a file; expected a folder, or a path where nothing is yet")
    foreign = [path.name for path in layout.foreign_files()]
    if foreign and not layout.manifest.exists():
        raise IndexDirError(
            f"{layout.root} is not an index and holds {len(foreign)} other files ({', '.join(foreign[:3])}); "
            f"expected an empty or new folder: choose another path"
        )
    if layout.finished_files() and not overwrite:
        raise IndexDirError(
            f"{layout.root} already holds an index, or what is left of one; expected an empty or new folder: "
            f"open it to add documents, or pass overwrite=True to replace it"
        )


@contextmanager
def _reporting(layout: Layout) -> Iterator[None]:
    try:
        yield
    except _WRITE_ERRORS as error:
        raise _cannot_write(layout, error) from error


def _cannot_write(layout: Layout, error: Exception) -> IndexDirError:
    read_only = isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
    return IndexDirError(
        f"{layout.root}: {'read-only' if read_only else 'writing failed'} ({error}); expected a folder with room that "
        f"may be written to: nothing was changed, make room or choose another folder"
    )
