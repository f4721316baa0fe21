"""Writes an Avey-B retriever as an ONNX graph that encodes queries of at most one chunk.

There the ranker has nothing to choose, so that what is left is plain arithmetic: the graph is traced from the model as
its equations read (`models/reference_aveyb.py`), for one text of any length up to a chunk. A longer text needs steps
that depend on its data, and was measured to gain nothing.
"""

import logging
import os
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from sentence_transformers.sentence_transformer.modules import Pooling
from torch import Tensor, nn

from aveyb_ir.data import read_documents
from aveyb_ir.encoding.encoder import Encoder
from aveyb_ir.encoding.onnx_folder import GRAPH, INPUT, OUTPUT, OnnxManifest, checksums_of
from aveyb_ir.encoding.onnx_queries import OnnxQueryEncoder, imports_of_onnx
from aveyb_ir.encoding.token_counts import token_counts
from aveyb_ir.errors import ModelError
from aveyb_ir.models import AveyBModel
from aveyb_ir.models.reference_aveyb import chunk_states
from aveyb_ir.packaged import SAMPLE

_MAX_DIFFERENCE = 1e-5
_CHECKED_TEXTS = 64


@dataclass(frozen=True)
class OnnxExport:
    """What was written, and how near its vectors are to the model's on texts of many lengths.

    Attributes:
        path: The folder.
        precision: "float32" or "int8".
        bytes: Of the graph.
        texts: How many were encoded by both.
        longest: Tokens of the longest of them.
        max_difference: Largest difference of any number of a vector.
        min_cosine: Least cosine between the two vectors of a text.
        mean_cosine: Mean cosine.
    """

    path: str
    precision: str
    bytes: int
    texts: int
    longest: int
    max_difference: float
    min_cosine: float
    mean_cosine: float

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary."""
        return asdict(self)


def export_onnx(
    model: Encoder | str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    int8: bool = False,
    max_length: int | None = None,
    truncate_dim: int | None = None,
) -> OnnxExport:
    """Write a folder for `OnnxQueryEncoder`, which encodes queries on a CPU several times faster than the model.

    The folder appears whole, after its vectors were compared with the model's, or not at all. Weights that half
    precision holds exactly, as those of `aveyb-mini`, are stored so where that costs nothing; nothing is rounded.

    Args:
        model: An Avey-B with mean pooling: a folder, a Hub name or an Encoder, which must be on the CPU in float32.
        path: A folder that does not exist yet.
        int8: Compute matrix products in int8. Vectors are then near those of the model (the cosines are returned), and
            a search takes them for an index of the model on an explicit word only.
        max_length: For what is loaded: as for the `Encoder` that made the index.
        truncate_dim: Likewise.

    Raises:
        MissingExtraError: ONNX, its script library or ONNX Runtime is not installed.
        ModelError: The model cannot be loaded, is of another kind, or its graph gives other vectors.
        ValueError: The path is taken, or an Encoder is not on the CPU in float32 or comes with limits.
    """
    with imports_of_onnx("export_onnx"):
        import onnxruntime.quantization  # noqa: F401 (missing packages show before anything is computed)
        import onnxscript  # noqa: F401
    target = Path(path)
    if target.exists() or target.is_symlink():
        raise ValueError(f"{target} exists; expected a new folder: remove it or choose another")
    encoder = _loaded(model, max_length, truncate_dim)
    _check_kind(encoder)
    texts = _texts_of_a_chunk(encoder)
    with _published(target) as folder:
        _write_graph(_QueryGraph(encoder), folder / GRAPH)
        if int8:
            _quantize(folder / GRAPH)
        encoder.model.tokenizer.save_pretrained(folder)
        manifest = OnnxManifest(
            model=_found_again(encoder.source),
            details=encoder.details,
            fingerprint=encoder.fingerprint,
            precision="int8" if int8 else "float32",
            dimension=encoder.dimension,
            checksums=checksums_of(folder),
        )
        manifest.write(folder)
        report = _compared(encoder, OnnxQueryEncoder(folder, encoder=encoder), texts)
        if not int8 and not report["max_difference"] <= _MAX_DIFFERENCE:
            raise ModelError(
                f"{encoder.name}: the graph's vectors differ by up to {report['max_difference']:.2g} from the model's, "
                f"expected at most {_MAX_DIFFERENCE:.0e}; nothing was written. Try another onnxscript or onnxruntime"
            )
        size = (folder / GRAPH).stat().st_size
    return OnnxExport(str(target), manifest.precision, size, **report)


class _QueryGraph(nn.Module):
    """Token ids of one text of at most one chunk to its unit vector."""

    table_VD: Tensor

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.backbone = encoder.model.transformers_model
        self.dimension = encoder.dimension
        table_VD = self.backbone.embed.weight.detach()
        half_VD = table_VD.half()  # most of a small model's bytes; what was released in half precision is exact in it
        self.register_buffer("table_VD", half_VD if torch.equal(half_VD.float(), table_VD) else table_VD)

    def forward(self, token_T: Tensor) -> Tensor:
        own_SD = F.embedding(token_T, self.table_VD).float()
        num_tokens, config = own_SD.shape[0], self.backbone.config
        if config.tail == "zero":
            own_SD = F.pad(own_SD, (0, 0, 0, config.chunk_size - num_tokens))
        states_TD = chunk_states(self.backbone, [own_SD], 0)[:num_tokens]
        return F.normalize(states_TD.mean(0)[: self.dimension], dim=-1)


def _loaded(model: Encoder | str | os.PathLike[str], max_length: int | None, truncate_dim: int | None) -> Encoder:
    if not isinstance(model, Encoder):
        return Encoder(
            os.fspath(model), device="cpu", dtype="float32", max_length=max_length, truncate_dim=truncate_dim
        )
    if max_length is not None or truncate_dim is not None:
        raise ValueError(
            f"max_length {max_length} and truncate_dim {truncate_dim} beside an Encoder, expected None for both: it "
            "has its own; give them to the Encoder"
        )
    if model.model.device.type != "cpu" or model.model.dtype != torch.float32:
        raise ValueError(
            f"the Encoder computes on {model.model.device} in {model.model.dtype}, expected the CPU and float32: "
            "export the model by its folder or name"
        )
    return model


def _check_kind(encoder: Encoder) -> None:
    modules = [type(module).__name__ for module in encoder.model]
    means = any(isinstance(module, Pooling) and module.pooling_mode == "mean" for module in encoder.model)
    if (
        modules != ["Transformer", "Pooling", "Normalize"]
        or not means
        or not isinstance(encoder.model.transformers_model, AveyBModel)
    ):
        raise ModelError(
            f"{encoder.name} is {type(encoder.model.transformers_model).__name__} with the modules "
            f"{', '.join(modules)}; expected an Avey-B with mean pooling and Normalize: other models are exported by "
            "optimum"
        )


def _texts_of_a_chunk(encoder: Encoder) -> list[str]:
    """Texts whose lengths in tokens are spread over one chunk: beginnings of passages, and filler for other lengths."""
    chunk_size: int = encoder.model.config.chunk_size
    passages = islice(read_documents(SAMPLE), 4 * chunk_size)
    beginnings = ["", "🙂 naïve 漢字", *(" ".join(["the"] * length) for length in range(1, chunk_size + 1))]
    beginnings += [" ".join(passage.text.split()[: i % chunk_size + 1]) for i, passage in enumerate(passages)]
    counts = token_counts(encoder, beginnings, "query")
    by_length = {int(count): text for text, count in zip(beginnings, counts, strict=True) if count <= chunk_size}
    if not by_length:
        raise ModelError(
            f"{encoder.name}: its query prompt {encoder.prompt('query')!r} fills a chunk of {chunk_size} tokens; "
            "expected room for a query beside it, since a longer text cannot be exported"
        )
    lengths = sorted(by_length)
    spread = np.unique(np.linspace(0, len(lengths) - 1, _CHECKED_TEXTS).round().astype(int))
    return [by_length[lengths[i]] for i in spread]


def _compared(encoder: Encoder, exported: OnnxQueryEncoder, texts: list[str]) -> dict[str, Any]:
    """Encode texts by both and say how near the vectors are."""
    expected = np.stack([encoder.encode_queries(text) for text in texts])
    found = exported.encode_queries(texts)
    cosines = (expected * found).sum(1)
    return {
        "texts": len(texts),
        "longest": int(token_counts(encoder, texts, "query").max()),
        "max_difference": float(np.abs(expected - found).max()),
        "min_cosine": float(cosines.min()),
        "mean_cosine": float(cosines.mean()),
    }


def _write_graph(graph: _QueryGraph, path: Path) -> None:
    example = torch.zeros(graph.backbone.config.chunk_size // 2, dtype=torch.int64)
    with torch.no_grad(), _quietly():
        program = torch.onnx.export(
            graph.eval(),
            (example,),
            input_names=[INPUT],
            output_names=[OUTPUT],
            dynamic_shapes=({0: torch.export.Dim.DYNAMIC},),
            dynamo=True,
            verbose=False,
        )
        assert program is not None
        program.save(path)


def _quantize(path: Path) -> None:
    """Put the weights of matrix products into int8, in place; what they are multiplied with follows when it comes."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with _quietly():
        quantize_dynamic(
            path,
            path,
            op_types_to_quantize=["MatMul"],
            weight_type=QuantType.QInt8,
            per_channel=True,
            reduce_range=True,  # to seven bits: with eight, sums overflow on processors without VNNI
        )


@contextmanager
def _quietly() -> Iterator[None]:
    """Hold back advice on packages and passes that make no difference to this graph."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


@contextmanager
def _published(target: Path) -> Iterator[Path]:
    """A folder to write into, which becomes `target` when the block ends without an error, and else vanishes."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    partial.mkdir()
    try:
        yield partial
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _found_again(source: str | None) -> str | None:
    """Where a model will be found from any working directory."""
    return str(Path(source).resolve()) if source is not None and Path(source).is_dir() else source
