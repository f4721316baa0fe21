"""The folder of a query encoder in ONNX: what is in it, and what it says of the model that it was exported from.

DIR/query_encoder.json      the manifest; all that decides a vector, and the checksums of the other files
DIR/model.onnx              token ids of one text of at most one chunk to its unit vector
DIR/tokenizer.json, …       as transformers saves a tokenizer
"""

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from aveyb_ir.encoding.fingerprint import fingerprint_of
from aveyb_ir.encoding.store_files import checksum
from aveyb_ir.errors import ModelError

MANIFEST = "query_encoder.json"
GRAPH = "model.onnx"
INPUT, OUTPUT = "input_ids", "sentence_embedding"
"""Names of the graph's input, (tokens,) int64, and output, (dimension,) float32."""

Precision = Literal["float32", "int8"]


class OnnxManifest(BaseModel):
    """What a folder says of itself.

    Attributes:
        format: Version of this layout.
        model: Folder or Hub name that the full encoder can be loaded from; None for one that was exported from memory.
        details: `Encoder.details` of the full encoder.
        fingerprint: `Encoder.fingerprint` of the full encoder.
        precision: Of the matrix products.
        dimension: Numbers per vector.
        checksums: BLAKE2b of the folder's other files, by name.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    format: Literal[1] = 1
    model: str | None
    details: dict[str, Any]
    fingerprint: str
    precision: Precision
    dimension: int
    checksums: dict[str, str]

    @property
    def chunk_size(self) -> int:
        """Tokens of the longest text that the graph takes."""
        return int(self.details["architecture"]["chunk_size"])

    @property
    def max_length(self) -> int | None:
        """Tokens kept of each text; None where there is no limit that a text could reach."""
        limit = self.details["max_length"]
        return None if limit is None or limit >= 2**31 else int(limit)

    @property
    def prompt(self) -> str:
        """What is put before each query."""
        return str(self.details["prompts"].get("query", ""))

    @classmethod
    def read(cls, folder: Path) -> "OnnxManifest":
        """Read the manifest and check that the folder is what it says.

        Raises:
            ModelError: No such folder, one of another kind, or one that is damaged.
        """
        path = folder / MANIFEST
        if not path.is_file():
            raise ModelError(
                f"{folder} has no {MANIFEST}; expected a folder that `aveyb-ir export onnx` wrote: export the model"
            )
        try:
            manifest = cls.model_validate_json(path.read_bytes())
        except ValidationError as error:
            first = error.errors()[0]
            raise _damaged(path, f"{'.'.join(map(str, first['loc'])) or 'content'}: {first['msg']}") from error
        except OSError as error:
            raise _damaged(path, str(error)) from error
        if fingerprint_of(manifest.details) != manifest.fingerprint:
            raise _damaged(path, "its details do not have the fingerprint that it names")
        manifest._check_files(folder)
        return manifest

    def write(self, folder: Path) -> None:
        """Write the manifest into a folder that is not published yet."""
        (folder / MANIFEST).write_text(self.model_dump_json(indent=1) + "\n", encoding="utf-8")

    def _check_files(self, folder: Path) -> None:
        if GRAPH not in self.checksums or any(Path(name).name != name for name in self.checksums):
            raise _damaged(folder / MANIFEST, f"it names the files {sorted(self.checksums)}")
        for name, expected in self.checksums.items():
            try:
                found = checksum(folder / name)
            except OSError as error:
                raise _damaged(folder / name, str(error)) from error
            if found != expected:
                raise _damaged(folder / name, f"its content has BLAKE2b {found}, expected {expected}")


def checksums_of(folder: Path) -> dict[str, str]:
    """Checksums of all files of a folder, by name."""
    return {path.name: checksum(path) for path in sorted(folder.iterdir())}


def _damaged(path: Path, what: str) -> ModelError:
    return ModelError(f"{path}: {what}; expected what was exported: export the model again")
