"""The main job from end to end on the sample collection that comes with the package."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from aveyb_ir.config import load_recipe
from aveyb_ir.data import BeirFolder
from aveyb_ir.encoding import Encoder
from aveyb_ir.evaluation import evaluate
from aveyb_ir.packaged import DEFAULT_MODEL, DEMO_RECIPE, SAMPLE
from aveyb_ir.retrieval import Hit, Index, Retriever
from aveyb_ir.training import train

_NUM_SEARCHES = 3


@dataclass(frozen=True)
class DemoResult:
    """What the demo measured, and where what it made lies.

    Attributes:
        bm25: NDCG@10 of BM25 on the sample's test questions.
        before: NDCG@10 of the model that comes with the package, on the same.
        after: NDCG@10 after training, on the same.
        searches: A few test questions with their hits.
        model: Folder of the trained model.
        index: Index directory of the sample's passages.
        seconds: Time taken by all of it.
    """

    bm25: float
    before: float
    after: float
    searches: list[tuple[str, list[Hit]]]
    model: Path
    index: Path
    seconds: float


def run_demo(output: str | Path, *, say: Callable[[str], object] = lambda line: None) -> DemoResult:
    """Evaluate the packaged model beside BM25, fine-tune it, index the passages, evaluate again and search.

    Args:
        output: Folder for `model/` and `index/`; those of an earlier demo are replaced.
        say: Called with a line for a person after each step.

    Raises:
        ValueError: The folder holds something that the demo did not write.
    """
    start = time.perf_counter()
    model, index = Path(output) / "model", Path(output) / "index"
    folder, recipe = BeirFolder(SAMPLE), load_recipe(DEMO_RECIPE)

    counts = {split: f"{len(folder.qrels(split)):,}" for split in ("train", "test")}
    num_passages = f"{sum(1 for _ in folder.documents()):,}"
    say(f"{num_passages} passages of Natural Questions, {counts['train']} training and {counts['test']} test questions")
    bm25 = evaluate("bm25", folder).metrics["ndcg@10"]
    say(f"NDCG@10 of BM25 on the test questions: {bm25:.4f}")
    before = evaluate(Encoder(DEFAULT_MODEL), folder).metrics["ndcg@10"]
    say(f"NDCG@10 of {DEFAULT_MODEL}: {before:.4f}")
    say("Fine-tuning it on the training questions, about a minute on two free cores ...")
    result = train(recipe, output=model, overwrite=True)
    say(f"Trained {result.num_steps} steps in {result.seconds:.0f} s; the model is in {model}")
    encoder = Encoder(model)
    Index.build(index, folder.path, encoder=encoder, overwrite=True)
    say(f"Encoded and indexed the passages in {index}")
    after = evaluate(encoder, folder).metrics["ndcg@10"]
    say(f"NDCG@10 after fine-tuning: {after:.4f}")
    queries = list(folder.judged_queries("test").values())[:_NUM_SEARCHES]
    found = Retriever(Index.open(index, encoder=encoder)).search(queries, top_k=3)
    seconds = time.perf_counter() - start
    say(f'All in {seconds:.0f} s. Search it yourself: aveyb-ir search {index} "your question"')
    return DemoResult(bm25, before, after, list(zip(queries, found, strict=True)), model, index, seconds)
