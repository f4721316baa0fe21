"""What an index directory is made of: the manifest, its single source of truth."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from aveyb_ir.errors import IndexDamagedError, IndexDirError
from aveyb_ir.index.durable import RESTORE, FileInfo, replace_file
from aveyb_ir.index.identity import EncoderIdentity
from aveyb_ir.index.layout import DELETED_NAME, SEGMENT_NAME, Layout, SegmentLayout
from aveyb_ir.index.spec import FLAT, IndexSpec

FORMAT = 3
_READ = (2, FORMAT)  # 2 has no files of ids

Granularity = Literal["document", "chunk", "both"]
_SEGMENT_FILES = {path.name for path in SegmentLayout(Path()).files}
_FAISS_FILE, _ID_FILE = SegmentLayout(Path()).faiss.name, SegmentLayout(Path()).ids.name


@dataclass(frozen=True, slots=True)
class SegmentInfo:
    """One segment: rows from `first_row` up to, not including, `end_row`, some of which may be gone."""

    name: str
    first_row: int
    end_row: int
    documents: int
    vectors: int
    factory: str
    files: Mapping[str, FileInfo]

    def __post_init__(self) -> None:
        # Names become paths, and the manifest may come from anyone.
        expected = _SEGMENT_FILES - ({_FAISS_FILE} if self.is_flat else set())
        if not SEGMENT_NAME.fullmatch(self.name) or {*self.files, _ID_FILE} != expected:
            raise ValueError(f"segment {self.name!r} with files {sorted(self.files)}, expected {sorted(expected)}")

    @property
    def is_flat(self) -> bool:
        """Whether its vectors are compared one by one."""
        return self.factory == FLAT

    @property
    def faiss_bytes(self) -> int:
        """What FAISS reads: its own file, or the vectors where it compares them one by one."""
        return self.files["embeddings.npy" if self.is_flat else _FAISS_FILE].bytes


@dataclass(frozen=True, slots=True)
class DeletedInfo:
    """The file that lists the rows of deleted documents which a segment still holds."""

    name: str
    documents: int
    file: FileInfo

    def __post_init__(self) -> None:
        if not DELETED_NAME.fullmatch(self.name):
            raise ValueError(f"list of deleted rows {self.name!r}, expected a name like deleted-000001.npy")


@dataclass(frozen=True, slots=True)
class Manifest:
    """A published state of an index. `next_row` only grows: the row of a deleted document is never given away."""

    format: int
    package_version: str
    created: str
    updated: str
    generation: int
    encoder: EncoderIdentity
    metric: str
    spec: IndexSpec
    granularity: Granularity
    next_row: int
    corpus_fingerprint: str
    segments: tuple[SegmentInfo, ...] = ()
    deleted: DeletedInfo | None = None

    @classmethod
    def read(cls, layout: Layout) -> "Manifest":
        """Read and check the manifest of an index directory.

        Raises IndexDirError when there is no index or a newer program wrote it, IndexDamagedError when the manifest
        is missing beside other files of an index or cannot be read.
        """
        content = _content(layout)
        try:
            fields = json.loads(content.decode("utf-8"))
            version = fields["format"]
        except (ValueError, KeyError, TypeError) as error:
            raise _damaged(layout.manifest, f"not a manifest ({error})") from error
        if version not in _READ:
            raise IndexDirError(
                f"{layout.manifest}: index format {version}, expected {' or '.join(map(str, _READ))}; "
                f"open it with aveyb_ir {fields.get('package_version')}, which wrote it, or build it again"
            )
        return _validated(layout.manifest, fields)

    def write(self, layout: Layout) -> None:
        """Make this the published state, at once."""
        replace_file(layout.manifest, self._as_bytes())

    def is_current(self, layout: Layout) -> bool:
        """Whether this is the published state, by the bytes of the manifest; cheap, but False for a rewritten one."""
        return _content(layout) == self._as_bytes()

    def _as_bytes(self) -> bytes:
        return _adapter().dump_json(self, indent=2) + b"\n"

    @property
    def num_deleted(self) -> int:
        """Documents that are deleted but still in a segment."""
        return self.deleted.documents if self.deleted else 0

    @property
    def num_documents(self) -> int:
        """Documents that can be found."""
        return sum(segment.documents for segment in self.segments) - self.num_deleted

    def named_files(self) -> dict[str, FileInfo]:
        """Every file of the index but the manifest, by its path relative to the index directory."""
        files = {f"{segment.name}/{name}": file for segment in self.segments for name, file in segment.files.items()}
        return files | ({self.deleted.name: self.deleted.file} if self.deleted else {})

    def top_names(self) -> set[str]:
        """The names directly in the index directory that this state uses."""
        return {name.split("/")[0] for name in self.named_files()}


def _content(layout: Layout) -> bytes:
    if layout.manifest.is_symlink():
        raise _damaged(layout.manifest, "a link, expected a file")
    try:
        return layout.manifest.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _absent(layout) from error
    except OSError as error:
        raise IndexDirError(f"{layout.manifest}: cannot be read ({error}); check its permissions") from error


def _absent(layout: Layout) -> IndexDirError:
    if not layout.root.exists():
        return IndexDirError(f"{layout.root} does not exist; expected an index directory: check the path or build it")
    if not layout.root.is_dir():
        return IndexDirError(f"{layout.root} is a file; expected an index directory: give the folder of the index")
    if layout.finished_files():
        return _damaged(layout.manifest, "the file is missing beside other files of an index")
    return IndexDirError(
        f"{layout.root} has no {layout.manifest.name}; expected an index directory: build one, or build it again "
        f"if a build was cut short"
    )


def _validated(path: Path, fields: dict[str, Any]) -> Manifest:
    try:
        return _adapter().validate_python(fields)
    except ValidationError as error:
        first = error.errors()[0]
        raise _damaged(path, f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    except ValueError as error:
        raise _damaged(path, str(error)) from error


@cache
def _adapter() -> TypeAdapter[Manifest]:
    # Slow to make, and not needed to import the room.
    return TypeAdapter(Manifest)


def _damaged(path: Path, what: str) -> IndexDamagedError:
    return IndexDamagedError(f"{path}: {what}; {RESTORE}")
