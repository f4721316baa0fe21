import json
from pathlib import Path
from typing import Any

import pytest
from sentence_transformers import CrossEncoder, SentenceTransformer
from transformers import AutoModelForMaskedLM
from typer.testing import CliRunner

from aveyb_ir.cli.app import app
from aveyb_ir.config import Backbone, Optimization, Recipe
from aveyb_ir.errors import RecipeError
from aveyb_ir.tasks import DistillRecipe, PretrainRecipe, RerankerRecipe, load_task
from aveyb_ir.training import train_task

RECIPES = Path(__file__).parents[2] / "recipes"
SMOKE = ["distill", "msmarco", "msmarco-nq", "nq", "paper-msmarco", "pretrain", "reranker"]
TASKS = [PretrainRecipe, DistillRecipe, RerankerRecipe]


@pytest.mark.parametrize("name", SMOKE)
def test_recipes_for_real_data_are_valid_and_their_smoke_versions_say_the_same_but_for_size(name: str) -> None:
    real, smoke = load_task(RECIPES / f"{name}.yaml"), load_task(RECIPES / "smoke" / f"{name}.yaml")
    assert type(real) is type(smoke)
    assert real.train.output == f"runs/{name}"
    assert smoke.train.output == f"runs/smoke/{name}"
    same = {"lr_scheduler_type", "warmup_ratio", "weight_decay", "adam_beta1", "adam_beta2", "loss", "max_grad_norm"}
    assert real.train.model_dump(include=same) == smoke.train.model_dump(include=same)
    if isinstance(real, Recipe):
        assert real.model.model_dump(include={"prompts", "append_eos"}) == smoke.model.model_dump(
            include={"prompts", "append_eos"}
        )


@pytest.mark.parametrize("name", SMOKE)
def test_smoke_recipes_run(name: str, tmp_path: Path) -> None:
    recipe = load_task(RECIPES / "smoke" / f"{name}.yaml", ["train.device=cpu"])
    result = train_task(recipe, output=tmp_path / "out")
    assert result.num_steps >= 2
    assert load_task(result.output / "recipe.yaml") == recipe.model_copy(
        update={"train": recipe.train.model_copy(update={"output": str(tmp_path / "out")})}
    )
    assert {"seed", "data_fingerprint", "versions"} <= json.loads((result.output / "training.json").read_text()).keys()
    assert (result.output / "curve.png").stat().st_size > 1000
    if name == "reranker":
        assert CrossEncoder(str(result.output), device="cpu").predict([("a", "b")]).shape == (1,)
    else:
        assert SentenceTransformer(str(result.output), device="cpu").encode("a").shape == (16,)
    if name == "pretrain":
        AutoModelForMaskedLM.from_pretrained(result.output)
        assert result.metrics["perplexity"] > 1


def test_the_command_runs_recipes_of_any_task(tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ["train", str(RECIPES / "smoke" / "reranker.yaml"), "--set", "train.max_steps=1", "--output", str(out)]
    done = CliRunner().invoke(app, [*arguments, "--device", "cpu", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["output"] == str(out)


def test_the_papers_recipe_is_the_papers() -> None:
    recipe = load_task(RECIPES / "paper-msmarco.yaml")
    assert isinstance(recipe, Recipe)
    train = recipe.train
    assert (train.batch_size, train.mini_batch_size, train.max_steps) == (16, 256, 1000)
    assert (train.lr_scheduler_type, train.warmup_ratio) == ("linear", 0.1)
    assert (train.adam_beta1, train.adam_beta2, train.weight_decay) == (0.9, 0.95, 0.1)
    assert recipe.model.model_dump()["prompts"] == {"query": "Query: ", "document": "Document: "}
    assert recipe.model.append_eos
    assert recipe.model.pooling == "mean"
    assert recipe.data.pairs == "hgissbkh/msmarco-pairs"


@pytest.mark.parametrize("recipe", TASKS)
def test_every_field_of_every_task_is_explained_beside_the_recipes(recipe: Any) -> None:
    text = (RECIPES / "README.md").read_text(encoding="utf-8")
    for section_name, field in recipe.model_fields.items():
        for section in (field.annotation, *getattr(field.annotation, "__args__", ())):
            for name in getattr(section, "model_fields", {}):
                shared = name in Optimization.model_fields or name in Backbone.model_fields
                assert f"`{section_name}.{name}" in text or shared, f"{section_name}.{name}"


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_recipe_without_a_task_is_contrastive(tmp_path: Path) -> None:
    text = (RECIPES / "pairs.yaml").read_text(encoding="utf-8")
    plain = load_task(written(tmp_path / "a.yaml", text))
    assert isinstance(plain, Recipe)
    assert load_task(written(tmp_path / "b.yaml", "task: contrastive\n" + text)) == plain


def test_mistakes_in_a_task_are_named(tmp_path: Path) -> None:
    smoke = (RECIPES / "smoke" / "pretrain.yaml").read_text(encoding="utf-8")
    with pytest.raises(RecipeError, match=r"task: got 'pretrian', expected one of contrastive, pretrain, distill, rer"):
        load_task(written(tmp_path / "a.yaml", smoke.replace("task: pretrain", "task: pretrian")))
    with pytest.raises(RecipeError, match=r"data.mask_rat: unknown key, did you mean data.mask_rate"):
        load_task(written(tmp_path / "b.yaml", smoke.replace("mask_rate", "mask_rat")))
    with pytest.raises(RecipeError, match=r"`train.eval_steps` without `data.held_out`"):
        load_task(written(tmp_path / "c.yaml", smoke.replace("  held_out: 0.1\n", "")))
    distill = RECIPES / "smoke" / "distill.yaml"
    with pytest.raises(RecipeError, match=r"embedding without a bi_encoder as `teacher`"):
        load_task(distill, ["distill.loss=embedding"])
    with pytest.raises(RecipeError, match=r"kl without `data.negatives`"):
        load_task(distill, ["data.negatives=null"])
    with pytest.raises(RecipeError, match="exactly one of `beir` and `pairs`"):
        load_task(distill, ["data.beir=data/nq"])
