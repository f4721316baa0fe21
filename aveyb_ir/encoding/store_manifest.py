"""What a store of vectors was begun with and which shards of it are finished."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from pydantic import TypeAdapter

from aveyb_ir.encoding.encoder import Encoder, EncodingCounts
from aveyb_ir.encoding.granularity import Granularity
from aveyb_ir.encoding.store_files import StoreLayout, damaged, replace_file, sync_names
from aveyb_ir.errors import DataError

FORMAT = 2


@dataclass(frozen=True)
class ShardRecord:
    """One finished shard.

    Attributes:
        documents: How many it holds.
        vectors: How many it holds.
        token_budget: Tokens per batch with which it was computed: its bytes follow from its documents and this.
        corpus_hash: Of the ids and texts of all documents up to its end.
        seen: What was read.
        checksums: Of each of its files, by name.
    """

    documents: int
    vectors: int
    token_budget: int
    corpus_hash: str
    seen: EncodingCounts
    checksums: dict[str, str]


@dataclass(frozen=True)
class Origin:
    """What decides the bytes of the shards, beside the documents."""

    encoder: str
    dimension: int
    dtype: str
    device: str
    compiled: bool
    granularity: Granularity
    shard_documents: int
    shard_characters: int
    token_budget: int
    encoder_details: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        encoder: Encoder,
        devices: Iterable[torch.device],
        granularity: Granularity,
        shard_documents: int,
        shard_characters: int,
    ) -> "Origin":
        """Describe a run that begins now."""
        return cls(
            encoder=encoder.fingerprint,
            dimension=encoder.dimension,
            dtype=str(encoder.model.dtype).removeprefix("torch."),
            device="+".join(sorted({device.type for device in devices})),
            compiled=encoder.compiled,
            granularity=granularity,
            shard_documents=shard_documents,
            shard_characters=shard_characters,
            token_budget=encoder.token_budget,
            encoder_details=encoder.details,
        )

    def differences(self, other: "Origin") -> list[str]:
        """Say what differs; of encoders, which of their details."""
        ours, theirs = ({**asdict(origin), **origin.encoder_details} for origin in (self, other))
        names = [name for name in {**ours, **theirs} if name not in ("encoder", "encoder_details")]
        return [
            f"{name} {_shown(theirs.get(name))} against {_shown(ours.get(name))}"
            for name in names
            if ours.get(name) != theirs.get(name)
        ]


@dataclass(frozen=True)
class StoreManifest:
    """The single source of truth about a store."""

    format: int
    complete: bool
    origin: Origin
    shards: tuple[ShardRecord, ...] = ()

    @classmethod
    def read(cls, layout: StoreLayout) -> "StoreManifest":
        """Read and check a manifest. Raises DataError when it is missing, broken or of another format."""
        try:
            content = layout.manifest.read_bytes()
        except OSError as error:
            raise DataError(f"{layout.root} holds no encoded corpus ({error}); give the folder of one.") from error
        try:
            fields = json.loads(content.decode("utf-8"))
            if fields["format"] != FORMAT:
                raise damaged(layout.manifest, f"format {fields['format']}, expected {FORMAT}")
            return TypeAdapter(cls).validate_python(fields)
        except (ValueError, KeyError, TypeError) as error:  # a ValidationError is a ValueError
            what = str(error).splitlines()[0]
            raise damaged(layout.manifest, f"not the manifest of an encoded corpus ({what})") from error

    def write(self, layout: StoreLayout) -> None:
        """Make this the state of the store, once everything it names is on disk."""
        sync_names(layout.root)
        fields = asdict(self)
        shards = ",\n".join(json.dumps(shard) for shard in fields.pop("shards"))
        begin = json.dumps(fields, ensure_ascii=True, sort_keys=True, indent=1)
        content = f'{begin[:-2]},\n "shards": [\n{shards}\n ]\n}}\n'
        replace_file(layout.manifest, lambda file: file.write(content.encode("ascii")))
        sync_names(layout.root)

    def check_origin(self, layout: StoreLayout, now: Origin) -> None:
        """Raise DataError unless a run that is now to go on would write what the run that began would have."""
        if differences := self.origin.differences(now):
            raise DataError(
                f"{layout.root} was begun with something else ({'; '.join(differences)}), so it cannot go on; expected "
                "the same. Undo the change, or remove the folder to begin anew."
            )


def _shown(value: Any) -> str:
    return repr(value) if len(repr(value)) <= 60 else f"{repr(value)[:57]}…"
