"""A query encoder beside an index: accepted where its vectors are those of the index's encoder."""

import os

from aveyb_ir.encoding import Encoder, OnnxQueryEncoder
from aveyb_ir.errors import IndexMismatchError
from aveyb_ir.index import EncoderIdentity, IndexDir


def query_encoder_for(
    directory: IndexDir,
    query_encoder: OnnxQueryEncoder | str | os.PathLike[str],
    encoder: Encoder | str | os.PathLike[str] | None,
    *,
    allow_int8: bool,
) -> OnnxQueryEncoder:
    """Load a query encoder unless it is loaded, and check that an index takes its vectors.

    Args:
        directory: The index.
        query_encoder: A folder that `export_onnx` wrote, or one that is loaded.
        encoder: For a folder: the full encoder, for what the query encoder does not do, or where to load it from.
        allow_int8: Whether vectors will do that are only near those of the index's encoder.

    Raises:
        IndexMismatchError: It was exported from another encoder than the index's, or computes in int8 uninvited.
        MissingExtraError: ONNX Runtime is not installed.
        ModelError: It cannot be loaded.
        ValueError: An encoder beside a query encoder that is loaded.
    """
    if isinstance(query_encoder, OnnxQueryEncoder):
        if encoder is not None:
            raise ValueError(
                f"encoder {encoder!r:.80} beside an OnnxQueryEncoder, expected None: it has its own; give the encoder "
                "to the OnnxQueryEncoder"
            )
        loaded = query_encoder
    else:
        loaded = OnnxQueryEncoder(query_encoder, encoder=encoder)
    path, made_by = directory.info()["path"], directory.encoder
    exported = EncoderIdentity(loaded.name, loaded.exported_fingerprint, loaded.dimension, loaded.exported_details)
    if not made_by.matches(exported):
        raise IndexMismatchError(
            f"{path} was built with encoder {made_by.name!r}, which is not what {loaded.name!r} was exported from: "
            f"{made_by.differences(exported)}; export the encoder it was built with or build the index again"
        )
    if loaded.int8 and not allow_int8:
        raise IndexMismatchError(
            f"{loaded.name} computes in int8, so that its vectors are near those of the encoder of {path} and not the "
            "same; expected float32: export without int8, or say allow_int8=True (--allow-int8)"
        )
    return loaded
