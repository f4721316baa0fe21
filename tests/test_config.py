import os
import re
from pathlib import Path

import pytest

from aveyb_ir.config import DataSection, Recipe, load_recipe
from aveyb_ir.errors import RecipeError

RECIPE = """
model:
  fresh: {d_embed: 64, n_layers: 2, chunk_size: 16}
  train_tokenizer: {vocab_size: 2000}
  prompts: {query: "query: "}
data:
  pairs: ./pairs.jsonl
train:
  output: models/out
  epochs: 1
  learning_rate: 1e-3
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE, encoding="utf-8")
    return path


def broken(path: Path, text: str, *overrides: str) -> str:
    path.write_text(text, encoding="utf-8")
    with pytest.raises(RecipeError) as error:
        load_recipe(path, overrides)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_reads_values_and_defaults(recipe: Path) -> None:
    loaded = load_recipe(recipe)
    assert loaded.model.fresh is not None
    assert loaded.model.fresh.d_embed == 64
    assert loaded.train.learning_rate == 0.001
    assert loaded.train.batch_size == Recipe.model_fields["train"].annotation.model_fields["batch_size"].default
    assert loaded.model.max_length is None


def test_the_resolved_recipe_reads_back_equal_from_anywhere(recipe: Path, tmp_path: Path) -> None:
    loaded = load_recipe(recipe, ["train.seed=7", "model.prompts.document='Überschrift: '", "train.output=../out"])
    copy = tmp_path / "elsewhere" / "copy.yaml"
    copy.parent.mkdir()
    copy.write_text(loaded.to_yaml(), encoding="utf-8")
    assert load_recipe(copy) == loaded
    assert "batch_size" in loaded.to_yaml()


def test_dotted_paths_are_the_recipes_and_others_the_working_directorys(
    recipe: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    loaded = load_recipe(
        os.path.relpath(recipe), ["model.start=./mine", "model.fresh=null", "model.train_tokenizer=null"]
    )
    assert loaded.data.pairs == str(tmp_path / "pairs.jsonl")
    assert loaded.train.output == "models/out"
    assert loaded.model.start == str(work / "mine")


def test_overrides_are_yaml_and_may_add_sections(recipe: Path) -> None:
    loaded = load_recipe(recipe, ["train.epochs=null", "train.max_steps=5", "model.prompts={document: 'd='}"])
    assert (loaded.train.epochs, loaded.train.max_steps) == (None, 5)
    assert loaded.model.prompts is not None
    assert loaded.model.prompts.document == "d="


@pytest.mark.parametrize("override", ["train.seed", "seed=3", "=3", ".seed=3", "train.=3"])
def test_an_override_of_another_form_is_a_bad_argument(recipe: Path, override: str) -> None:
    with pytest.raises(ValueError, match=r"expected section\.key=value"):
        load_recipe(recipe, [override])


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("batch_siz: 8", "train.batch_siz: unknown key, did you mean train.batch_size?"),
        ("lr_scheduler: linear", "did you mean train.lr_scheduler_type?"),
        ("split: dev", "train.split: unknown key, did you mean data.split?"),
        ("xyz: red", "train.xyz: unknown key, expected one of output, epochs, max_steps"),
    ],
)
def test_an_unknown_key_comes_with_the_nearest_known_one(recipe: Path, line: str, advice: str) -> None:
    assert advice in broken(recipe, f"{RECIPE}  {line}\n")


def test_a_misspelt_section_and_a_misplaced_key_are_explained(recipe: Path) -> None:
    message = broken(recipe, RECIPE.replace("train:", "trian:") + "batch_size: 3\n")
    assert "trian: unknown key, did you mean train?" in message
    assert "batch_size: unknown key, did you mean train.batch_size?" in message
    assert "train: missing" in message


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("train.batch_size=many", "train.batch_size: got 'many', expected a valid integer"),
        ("train.batch_size=0", "train.batch_size: got 0, expected greater than 0"),
        ("train.batch_size=true", "train.batch_size: got True, expected a valid integer"),
        ("train.batch_size='8'", "train.batch_size: got '8', expected a valid integer"),
        ("train.learning_rate=.inf", "train.learning_rate: got inf, expected a finite number"),
        ("train.warmup_ratio=2", "train.warmup_ratio: got 2, expected less than or equal to 1"),
        ("train.dtype=float8", "train.dtype: got 'float8', expected 'float32' or 'bfloat16'"),
        ("train.gradient_checkpointing=1", "train.gradient_checkpointing: got 1, expected a valid boolean"),
        ("model.pooling=max", "model.pooling: got 'max', expected 'mean' or 'cls'"),
        ("model.prompts=text", "model.prompts: got 'text', expected a valid dictionary"),
        ("model.start=x", "model: got both of `start` and `fresh`; set exactly one"),
        ("model.train_tokenizer=null", "model: got none of `tokenizer` and `train_tokenizer` and `embeddings_from`"),
        ("data.beir=x", "data: got both of `beir` and `pairs`"),
        ("train.max_steps=3", "train: got both of `epochs` and `max_steps`"),
        ("train.eval_steps=3", "only one of `train.eval_steps` and `data.eval_split`"),
        ("data.eval_split=dev", "data: got `eval_split` without `eval_beir`"),
    ],
)
def test_an_impossible_value_is_named_with_what_was_expected(recipe: Path, override: str, expected: str) -> None:
    message = broken(recipe, RECIPE, override)
    assert expected in message
    assert "with overrides" in message


def test_all_mistakes_are_reported_at_once(recipe: Path) -> None:
    message = broken(recipe, RECIPE, "train.batch_size=x", "train.seed=-1", "data.pears=1", "model.fresh.d_embed=0")
    for key in ("train.batch_size", "train.seed", "data.pears", "model.fresh.d_embed"):
        assert f"{key}: " in message


def test_a_start_with_a_second_tokenizer_is_refused(recipe: Path) -> None:
    assert "whose own must be kept" in broken(recipe, RECIPE, "model.fresh=null", "model.start=x")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "got nothing, expected the sections model, data, train"),
        ("- a\n", "expected the sections"),
        ("train: {epochs: 1\ndata: x\n", "line 2: "),
        ("train:\n  epochs: 1\n  epochs: 2\n", "line 3: got 'epochs' is given twice"),
    ],
)
def test_files_that_are_no_recipe_are_explained(recipe: Path, text: str, expected: str) -> None:
    assert expected in broken(recipe, text)


def test_missing_files_and_other_encodings_are_explained(recipe: Path) -> None:
    recipe.write_bytes(RECIPE.replace("query: ", "größe: ").encode("latin-1"))
    with pytest.raises(RecipeError, match="UTF-8"):
        load_recipe(recipe)
    with pytest.raises(RecipeError, match=re.escape(f"{recipe}x: No such file")):
        load_recipe(f"{recipe}x")


def test_yaml_cannot_make_objects(recipe: Path) -> None:
    assert "line" in broken(recipe, RECIPE + "  output: !!python/object/apply:os.getcwd []\n")


RECIPES = Path(__file__).parents[1] / "recipes"


@pytest.mark.parametrize("name", ["beir.yaml", "pairs.yaml"])
def test_recipes_that_come_along_are_valid(name: str) -> None:
    assert load_recipe(RECIPES / name).train.output == f"runs/{Path(name).stem}"


def test_every_field_is_explained_beside_the_recipes() -> None:
    text = (RECIPES / "README.md").read_text(encoding="utf-8")
    for section_name, section in Recipe.model_fields.items():
        assert section.annotation is not None
        for name in section.annotation.model_fields:
            assert f"`{section_name}.{name}" in text


@pytest.mark.parametrize(
    "data", [{"beir": "nq"}, {"sets": [{"pairs": "a"}]}, {"sets": [{"beir": "nq", "corpus": "c"}]}]
)
def test_a_corpus_belongs_to_pairs(data: dict[str, object]) -> None:
    assert DataSection(pairs="a", corpus="c").training_sets[0].corpus == "c"
    corpus = {} if "corpus" in str(data) else {"corpus": "c"}
    with pytest.raises(ValueError, match="`corpus` without `pairs`"):
        DataSection.model_validate(corpus | data)
