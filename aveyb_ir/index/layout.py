"""Where the files of an index directory lie.

    DIR/manifest.json               what the index is made of; a file it does not name is not part of the index
    DIR/writer.lock                 held with flock by the one process that writes
    DIR/deleted-000003.npy          int64 rows of the documents deleted since their segment was written, ascending
    DIR/segment-000001/             documents and their vectors, written once and never changed
        documents.sqlite            row, id, title, text and metadata of each document
        ids.npy                     the ids once more, by row, as `IdFile` maps them; none in indexes of format 2
        embeddings.npy              float32 (vectors, dimension), unit length; zero vectors stay zero
        parts.npy                   for each vector: the row of its document and the characters it stands for
        faiss.index                 the FAISS index over embeddings.npy; none where all of them are compared
        words.sqlite                counts of words, kept by the first search for them; no part of what is published
    DIR/encoding.partial/           what a build has encoded so far and a repeated one goes on with
    DIR/unpublished.partial         there until a new index is published: what else is there is no one's loss

A name ending in `.partial` is being written, or was when its writer died.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

PARTIAL = ".partial"
SEGMENT_NAME = re.compile(r"segment-\d{6,}")
DELETED_NAME = re.compile(r"deleted-\d{6,}\.npy")
_OWN_NAME = re.compile(
    r"(?:segment-(\d{6,})|deleted-(\d{6,})\.npy|manifest\.json)(?:\.partial)?|(?:encoding|unpublished)\.partial|writer\.lock"
)


@dataclass(frozen=True, slots=True)
class SegmentLayout:
    """The files of one segment folder."""

    folder: Path

    @property
    def documents(self) -> Path:
        """SQLite database of the documents."""
        return self.folder / "documents.sqlite"

    @property
    def ids(self) -> Path:
        """Array file of the ids."""
        return self.folder / "ids.npy"

    @property
    def embeddings(self) -> Path:
        """Array file of the vectors."""
        return self.folder / "embeddings.npy"

    @property
    def parts(self) -> Path:
        """Array file of what each vector stands for."""
        return self.folder / "parts.npy"

    @property
    def faiss(self) -> Path:
        """FAISS index file."""
        return self.folder / "faiss.index"

    @property
    def files(self) -> tuple[Path, ...]:
        """All files that a segment can have."""
        return (self.documents, self.ids, self.embeddings, self.parts, self.faiss)


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of an index directory. Everything stored on disk is relative to `root`."""

    root: Path

    @property
    def manifest(self) -> Path:
        """The one file that says what belongs to the index."""
        return self.root / "manifest.json"

    @property
    def lock(self) -> Path:
        """The file that a writer locks."""
        return self.root / "writer.lock"

    @property
    def encoding(self) -> Path:
        """The folder for what has been encoded and is not published; publishing removes it."""
        return self.root / f"encoding{PARTIAL}"

    @property
    def unpublished(self) -> Path:
        """The file that says, where there is no manifest, that there never was one."""
        return self.root / f"unpublished{PARTIAL}"

    def segment(self, name: str) -> SegmentLayout:
        """The segment folder of that name."""
        return SegmentLayout(self.root / name)

    def own_files(self) -> list[Path]:
        """Everything in the directory that an index puts there, named by a manifest or not."""
        return [path for path in self._entries() if _OWN_NAME.fullmatch(path.name)]

    def finished_files(self) -> list[Path]:
        """What a writer published: worth keeping until someone says otherwise."""
        if self.unpublished.exists() and not self.manifest.exists():
            return []
        return [path for path in self.own_files() if path != self.lock and not path.name.endswith(PARTIAL)]

    def foreign_files(self) -> list[Path]:
        """Everything in the directory that no index puts there."""
        return [path for path in self._entries() if not _OWN_NAME.fullmatch(path.name)]

    def unnamed_files(self, named: Iterable[str]) -> list[Path]:
        """Segments and lists of deleted rows that a manifest naming `named` does not use."""
        keep = {self.manifest.name, self.lock.name, *named}
        return [path for path in self.own_files() if path.name not in keep]

    def next_number(self) -> int:
        """A number that no segment or list of deleted rows has, leftovers included."""
        matches = (_OWN_NAME.fullmatch(path.name) for path in self.own_files())
        return 1 + max((int(match[1] or match[2] or 0) for match in matches if match), default=0)

    def _entries(self) -> list[Path]:
        return sorted(self.root.iterdir()) if self.root.is_dir() else []
