"""mteb measures an encoder as `evaluate` does."""

import json

import mteb
import numpy as np
import pytest
from datasets import Dataset
from mteb.abstasks import AbsTaskRetrieval
from mteb.abstasks.task_metadata import TaskMetadata
from mteb.models import EncoderProtocol
from mteb.types import PromptType
from torch.utils.data import DataLoader

from aveyb_ir import Encoder, evaluate
from aveyb_ir.adapters.mteb import AveybEncoder

WORDS = [
    "garden",
    "table",
    "stairs",
    "ships",
    "snow",
    "children",
    "sun",
    "wall",
    "cat",
    "chairs",
    "night",
    "fish",
    "salt",
    "river",
    "sea",
    "summer",
]
CORPUS = {
    f"d{i}": {
        "title": WORDS[i % 7] if i % 3 else "",
        "text": " ".join(WORDS[(i * j) % 16] for j in range(1, 9 + i % 9)),
    }
    for i in range(60)
}
QUERIES = {f"q{i}": f"{WORDS[i]} {WORDS[(3 * i + 1) % 16]}" for i in range(16)}
QRELS = {f"q{i}": {f"d{(7 * i + j) % 60}": 1 + j % 2 for j in range(25 + i % 4)} for i in range(16)}


class TinyRetrieval(AbsTaskRetrieval):
    metadata = TaskMetadata(
        name="TinyRetrieval",
        type="Retrieval",
        main_score="ndcg_at_10",
        description="A few made-up texts.",
        dataset={"path": "none", "revision": "1"},
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
    )

    def load_data(self, *arguments, **options):
        self.dataset = {
            "default": {
                "test": {
                    "corpus": Dataset.from_list([{"id": id, **document} for id, document in CORPUS.items()]),
                    "queries": Dataset.from_list([{"id": id, "text": text} for id, text in QUERIES.items()]),
                    "relevant_docs": QRELS,
                    "top_ranked": None,
                }
            }
        }
        self.data_loaded = True


@pytest.fixture
def beir_folder(tmp_path):
    (tmp_path / "qrels").mkdir()
    for name, rows in (("corpus", CORPUS), ("queries", {id: {"text": text} for id, text in QUERIES.items()})):
        lines = [json.dumps({"_id": id, **row}) + "\n" for id, row in rows.items()]
        (tmp_path / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
    lines = [f"{query}\t{id}\t{grade}\n" for query, grades in QRELS.items() for id, grade in grades.items()]
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines), encoding="utf-8")
    return tmp_path


def ndcg(model):
    (result,) = mteb.evaluate(
        model, TinyRetrieval(), cache=None, co2_tracker=False, show_progress_bar=False
    ).task_results
    return result.get_score()


def test_a_task_gives_the_ndcg_of_evaluate(encoder, beir_folder):
    metrics = evaluate(encoder, beir_folder).metrics
    assert 0.1 < metrics["ndcg@10"] < 0.9
    assert ndcg(AveybEncoder(encoder)) == pytest.approx(metrics["ndcg@10"], abs=1e-5)


def test_prompts_count(avey_dir):
    plain = Encoder(avey_dir, device="cpu")
    plain.model.prompts = {}
    assert ndcg(AveybEncoder(plain)) != pytest.approx(ndcg(AveybEncoder(avey_dir, device="cpu")), abs=1e-5)


def encode(model, texts, **options):
    inputs = DataLoader(Dataset.from_dict({"text": texts}), batch_size=2)
    return model.encode(inputs, task_metadata=TinyRetrieval.metadata, hf_split="test", hf_subset="default", **options)


def test_texts_are_encoded_as_what_they_are(encoder):
    model, texts = AveybEncoder(encoder), ["a garden", "the river", "snow"]
    documents, queries = encoder.encode_documents(texts), encoder.encode_queries(texts)
    np.testing.assert_array_equal(encode(model, texts, prompt_type=PromptType.document), documents)
    np.testing.assert_array_equal(encode(model, texts, prompt_type=PromptType.query, batch_size=64), queries)
    np.testing.assert_array_equal(encode(model, texts), queries)
    assert not np.allclose(queries, documents, atol=1e-3)
    with pytest.raises(ValueError, match="precision is 'int8'"):
        encode(model, texts, precision="int8")


def test_it_is_an_encoder_that_says_what_it_is(encoder, avey_dir):
    model = AveybEncoder(encoder)
    assert isinstance(model, EncoderProtocol)
    meta = model.mteb_model_meta
    assert (meta.name, meta.revision) == ("/".join(avey_dir.parts[-2:]), encoder.fingerprint)
    assert (meta.embed_dim, meta.max_tokens, meta.use_instructions) == (48, float("inf"), True)
    assert meta.n_parameters == sum(parameter.numel() for parameter in encoder.model.parameters())
    assert AveybEncoder(encoder, name="ours/avey").mteb_model_meta.name == "ours/avey"
    with pytest.raises(ValueError, match="organization/model_name"):
        AveybEncoder(encoder, name="avey")


def test_another_length_limit_is_another_revision(encoder, avey_dir, bert_dir):
    shorter = AveybEncoder(avey_dir, device="cpu", max_length=8).mteb_model_meta
    assert shorter.name == AveybEncoder(encoder).mteb_model_meta.name
    assert (shorter.max_tokens, shorter.revision != encoder.fingerprint) == (8, True)
    assert AveybEncoder(bert_dir, device="cpu").mteb_model_meta.max_tokens == 64
    with pytest.raises(ValueError, match="got device beside an Encoder"):
        AveybEncoder(encoder, device="cpu")
