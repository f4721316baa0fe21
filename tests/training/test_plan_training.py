"""A training plan against the run that it is for."""

import pytest

from aveyb_ir.config import load_recipe
from aveyb_ir.data import Document, Query, write_beir_folder
from aveyb_ir.training import plan_training, train


@pytest.fixture
def recipe(tmp_path):
    words = [f"word{i}" for i in range(60)]
    documents = [Document(f"d{i}", f"a text about {word} and more " * 3) for i, word in enumerate(words)]
    queries = [Query(f"q{i}", f"about {word}") for i, word in enumerate(words)]
    write_beir_folder(tmp_path / "set", documents, queries, {"train": {f"q{i}": {f"d{i}": 1} for i in range(60)}})
    path = tmp_path / "recipe.yaml"
    path.write_text(
        f"""
model:
  fresh: {{d_embed: 16, n_layers: 2, chunk_size: 16}}
  train_tokenizer: {{vocab_size: 400}}
data: {{beir: {tmp_path / "set"}}}
train: {{epochs: 3, batch_size: 8, device: cpu}}
""",
        encoding="utf-8",
    )
    return load_recipe(path)


def test_steps_are_those_of_the_run_and_tokens_are_near(recipe, tmp_path):
    found = plan_training(recipe)
    result = train(recipe, output=tmp_path / "model")
    assert (found.rows, found.steps, found.batches) == (result.num_rows, result.num_steps, 8)
    assert found.tokens == pytest.approx(result.tokens_per_second * result.seconds, rel=0.1)
    assert 0 < found.seconds.low <= found.seconds.value <= found.seconds.high


def test_one_step_measures_nothing(recipe):
    with pytest.raises(ValueError, match="measured_steps is 1"):
        plan_training(recipe, measured_steps=1)
