"""Queries to vectors by ONNX Runtime: the part of an encoder that a search needs, without its overhead."""

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoTokenizer

from aveyb_ir.encoding.encoder import Encoder, EncodingCounts
from aveyb_ir.encoding.fingerprint import fingerprint_of
from aveyb_ir.encoding.onnx_folder import GRAPH, INPUT, OUTPUT, OnnxManifest
from aveyb_ir.encoding.tokenization import tokenize
from aveyb_ir.errors import MissingExtraError, ModelError

_log = logging.getLogger(__name__)


class OnnxQueryEncoder:
    """Encodes queries to the vectors of the Avey-B that was exported, several times faster on a CPU.

    The graph takes texts of at most one chunk. A longer query goes to the full encoder, on the CPU in float32, which is
    loaded when the first one comes; a warning says so, once. Each query is computed by itself, so that its vector has
    the same bits in any company; many at a time cost about as much as by the full encoder in batches.

    Args:
        path: A folder that `export_onnx` wrote.
        encoder: The full encoder for longer queries, or where to load it from; by default what was exported.
        num_threads: Threads of a computation; by default as many as PyTorch uses.

    Attributes:
        name: The folder.
        dimension: Numbers per vector.
        max_length: Tokens kept of each text; None where there is no limit.
        int8: Whether the matrix products are computed in int8, which only approximates the vectors of the model.
        exported_details: `Encoder.details` of the full encoder.
        exported_fingerprint: `Encoder.fingerprint` of the full encoder.
        counts: What has been given so far.

    Raises:
        MissingExtraError: ONNX Runtime is not installed.
        ModelError: There is no such folder, it is damaged, or the encoder is another than was exported.
        ValueError: `num_threads` is below 1.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        encoder: Encoder | str | os.PathLike[str] | None = None,
        num_threads: int | None = None,
    ) -> None:
        if num_threads is not None and num_threads < 1:
            raise ValueError(f"num_threads is {num_threads}; expected at least 1, or None for PyTorch's number.")
        folder = Path(path)
        manifest = OnnxManifest.read(folder)
        self.name = str(path)
        self.dimension, self.max_length = manifest.dimension, manifest.max_length
        self.int8 = manifest.precision == "int8"
        self.exported_details, self.exported_fingerprint = manifest.details, manifest.fingerprint
        self.counts = EncodingCounts()
        self._chunk_size, self._prompt = manifest.chunk_size, manifest.prompt
        self._source = manifest.model if encoder is None or isinstance(encoder, Encoder) else os.fspath(encoder)
        self._encoder = self._checked(encoder) if isinstance(encoder, Encoder) else None
        self._tokenizer = AutoTokenizer.from_pretrained(folder)
        self._session = _session(folder / GRAPH, num_threads or torch.get_num_threads())

    @property
    def details(self) -> dict[str, Any]:
        """What decides the vectors: that of the full encoder, and the precision where it is another."""
        return {**self.exported_details, "queries": "int8"} if self.int8 else self.exported_details

    @property
    def fingerprint(self) -> str:
        """Hash of `details`: that of the full encoder, unless the precision is int8."""
        return fingerprint_of(self.details)

    @property
    def encoder(self) -> Encoder:
        """The full encoder, loaded when it is first asked for.

        Raises:
            ModelError: It cannot be loaded, or is another than was exported.
        """
        if self._encoder is None:
            if self._source is None:
                raise ModelError(
                    f"{self.name} was exported from a model in memory and names none; expected one for what the graph "
                    "cannot do, such as long queries: give encoder"
                )
            self._encoder = self._checked(
                Encoder(
                    self._source,
                    device="cpu",
                    dtype="float32",
                    max_length=self.max_length,
                    truncate_dim=self.exported_details.get("truncate_dim"),
                )
            )
        return self._encoder

    def encode_queries(self, texts: str | Sequence[str], *, log_cuts: bool = True) -> NDArray[np.float32]:
        """Encode queries with the query prompt: (n, d) float32 unit vectors, or (d,) for a single string.

        With `log_cuts` it is logged how many texts were cut; else they are only counted.

        Raises:
            ModelError: A query is longer than a chunk and the full encoder cannot be loaded.
        """
        if isinstance(texts, str):
            vector: NDArray[np.float32] = self.encode_queries([texts], log_cuts=log_cuts)[0]
            return vector
        tokenized = tokenize(self._tokenizer, [self._prompt + text for text in texts], self.max_length)
        seen = EncodingCounts.of(tokenized)
        self.counts.add(seen)
        if seen.texts_cut and log_cuts:
            _log.warning(seen.cuts(self.max_length))
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for i, (text, token_ids) in enumerate(zip(texts, tokenized.token_ids, strict=True)):
            if len(token_ids) > self._chunk_size:
                vectors[i] = self._encoded_whole(text, len(token_ids))
            elif len(token_ids):
                vectors[i] = self._session.run([OUTPUT], {INPUT: token_ids.astype(np.int64)})[0]
        return vectors

    def _encoded_whole(self, text: str, num_tokens: int) -> NDArray[np.float32]:
        if self._encoder is None:
            _log.warning(
                f"A query has {num_tokens} tokens, and {self.name} encodes up to {self._chunk_size}: this and other "
                f"longer ones are encoded by {self._source or 'the full encoder'}, which is loaded now."
            )
        return self.encoder.encode_queries(text, log_cuts=False)

    def _checked(self, encoder: Encoder) -> Encoder:
        if encoder.fingerprint != self.exported_fingerprint:
            raise ModelError(
                f"{encoder.name} has fingerprint {encoder.fingerprint}, expected {self.exported_fingerprint}, that of "
                f"the encoder which {self.name} was exported from: give that one, or export this one"
            )
        return encoder


QueryEncoder: TypeAlias = Encoder | OnnxQueryEncoder
"""What can encode the queries of a search."""


@contextmanager
def imports_of_onnx(what: str) -> Iterator[None]:
    """Say which extra to install where an import inside fails. Raises MissingExtraError."""
    try:
        yield
    except ImportError as error:
        raise MissingExtraError(
            f"{what}: got {str(error)!r}, expected ONNX and ONNX Runtime installed; pip install 'aveyb-ir[onnx]'"
        ) from error


def _session(graph: Path, num_threads: int) -> Any:
    with imports_of_onnx(str(graph)):
        import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = num_threads, 1
    # Threads that wait for the next query by spinning would take a core from the rest of the program.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's exceptions share no other base; all mean that it cannot load this graph
        reason = " ".join(str(error).split())
        raise ModelError(
            f"{graph}: ONNX Runtime {onnxruntime.__version__} cannot load it ({reason}); expected a graph that it "
            "reads: export the model again here, or install a newer ONNX Runtime"
        ) from error
