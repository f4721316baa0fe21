"""What an index directory is made of: the manifest, its single source of truth."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aveyb_ir.errors import IndexDamagedError, IndexDirError
from aveyb_ir.index.durable import RESTORE, FileInfo, replace_file
from aveyb_ir.index.identity import EncoderIdentity
from aveyb_ir.index.layout import Layout

if TYPE_CHECKING:
    from pydantic import TypeAdapter

FORMAT = 1


@dataclass(frozen=True, slots=True)
class SegmentInfo:
    """One segment: rows from `first_row` up to, not including, `end_row`, some of which may be gone."""

    name: str
    first_row: int
    end_row: int
    documents: int
    vectors: int
    files: Mapping[str, FileInfo]


@dataclass(frozen=True, slots=True)
class DeletedInfo:
    """The file that lists the rows of deleted documents which a segment still holds."""

    name: str
    documents: int
    file: FileInfo


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
    spec: str
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
        if version != FORMAT:
            raise IndexDirError(
                f"{layout.manifest}: index format {version}, expected {FORMAT}; "
                f"open it with aveyb_ir {fields.get('package_version')}, which wrote it, or build it again"
            )
        return _validated(layout.manifest, fields)

    def write(self, layout: Layout) -> None:
        """Make this the published state, at once."""
        text = json.dumps(asdict(self), indent=2, ensure_ascii=False)
        replace_file(layout.manifest, (text + "\n").encode("utf-8"))

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
    from pydantic import ValidationError

    try:
        return _adapter().validate_python(fields)
    except ValidationError as error:
        first = error.errors()[0]
        raise _damaged(path, f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    except ValueError as error:
        raise _damaged(path, str(error)) from error


@cache
def _adapter() -> "TypeAdapter[Manifest]":
    # Slow to make, and not needed to import the room.
    from pydantic import TypeAdapter

    return TypeAdapter(Manifest)


def _damaged(path: Path, what: str) -> IndexDamagedError:
    return IndexDamagedError(f"{path}: {what}; {RESTORE}")
