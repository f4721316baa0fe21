"""A study recipe is checked as a whole before anything is trained."""

from pathlib import Path

import pytest

from aveyb_ir.checked_yaml import Section
from aveyb_ir.errors import RecipeError
from aveyb_ir.study import StudyRecipe, load_study

RECIPES = Path(__file__).parents[2] / "recipes"


@pytest.mark.parametrize("name", ["study-small.yaml", "study-mini.yaml", "study-base.yaml", "smoke/study.yaml"])
def test_studies_that_come_along_are_valid(name: str) -> None:
    study = load_study(RECIPES / name)
    for label in study.systems:
        assert study.training_recipe(label, seed=3, learning_rate=0.5).train.learning_rate == 0.5


def test_systems_differ_in_nothing_but_their_own_part() -> None:
    study = load_study(RECIPES / "study-small.yaml")
    recipes = [study.training_recipe(label, seed=7) for label in study.systems]
    assert len(recipes) == 5
    differing = {"fresh", "fresh_transformer", "max_length"}
    for recipe in recipes:
        assert recipe.data == recipes[0].data
        assert recipe.train == recipes[0].train
        assert recipe.model.model_dump(exclude=differing) == recipes[0].model.model_dump(exclude=differing)


def test_paths_are_taken_from_the_folder_of_the_study() -> None:
    assert load_study(RECIPES / "study-small.yaml").evaluation[0].data == str(RECIPES.parent / "aveyb_ir/assets/nq")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("seeds=[1,1]", "expected different ones"),
        ("seeds=[]", "seeds: got"),
        ("protocols=[full,full]", "protocols ['full', 'full'], expected different ones"),
        ("selection.learning_rates=[1e-4,1.00000001e-4]", "learning rates ['0.0001', '0.0001'], expected different"),
        ("selection.split=test", "selection by test of"),
        ("systems.bm25={}", "'bm25'; expected letters"),
        ("systems.x/y={}", "'x/y'; expected letters"),
        ("systems.other={}", "system other: model: got none of `start` and `fresh`"),
        ("training.train.batchsize=3", "system avey-b: train.batchsize: unknown key, did you mean train.batch_size"),
        ("selecton.split=dev", "selecton: unknown key, did you mean selection"),
        ("protocols=[both]", "protocols.0: got 'both', expected 'full' or 'paper'"),
        ("references={avey-b: aveyb-mini}", "avey-b is a system and a reference"),
        ("references={a/b: aveyb-mini}", "'a/b'; expected letters"),
        ("training.model=fresh", "training.model: got 'fresh', expected fields"),
        ("training.task=pretrain", "system avey-b: "),
        ("training.task=mine", "system avey-b: task: got 'mine', expected one of contrastive, pretrain, distill"),
        ("speed.repeats=0", "speed.repeats: got 0"),
    ],
)
def test_mistakes_are_named(override: str, message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        load_study(RECIPES / "study-small.yaml", [override])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_field_is_explained_beside_the_recipes() -> None:
    text = (RECIPES / "README.md").read_text(encoding="utf-8")
    for name, field in StudyRecipe.model_fields.items():
        assert f"`{name}`" in text
        for part in (field.annotation, *getattr(field.annotation, "__args__", ())):
            if isinstance(part, type) and issubclass(part, Section):
                assert all(f"`{name}.{key}`" in text for key in part.model_fields)
