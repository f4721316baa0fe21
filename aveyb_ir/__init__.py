"""Dense retrieval and reranking over long documents with Avey-B.

The public names load on first use, so `import aveyb_ir` is fast and imports no torch. Importing it also makes
transformers and sentence-transformers know the model type "avey-b".
"""

from typing import TYPE_CHECKING

from ._lazy import lazy_names
from ._registration import register_with_transformers
from ._version import __version__

if TYPE_CHECKING:
    from .encoding import Encoder
    from .evaluation import evaluate, evaluate_run
    from .retrieval import Hit, Index, Reranker, Retriever, load_reranker
    from .training import train

__all__ = [
    "Encoder",
    "Hit",
    "Index",
    "Reranker",
    "Retriever",
    "__version__",
    "evaluate",
    "evaluate_run",
    "load_reranker",
    "train",
]

_ROOM_OF = {
    "Encoder": "encoding",
    "evaluate": "evaluation",
    "evaluate_run": "evaluation",
    "Hit": "retrieval",
    "Index": "retrieval",
    "Reranker": "retrieval",
    "Retriever": "retrieval",
    "load_reranker": "retrieval",
    "train": "training",
}

__getattr__, __dir__ = lazy_names(__name__, _ROOM_OF)

register_with_transformers()
