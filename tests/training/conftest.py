import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aveyb_ir.config import Recipe

_STEMS = ("sun", "moon", "star", "rain", "wind", "snow", "leaf", "rock")
NAMES = [stem + end for stem in _STEMS for end in ("bird", "fish", "horse", "berry")]

MakeRecipe = Callable[..., Recipe]


@pytest.fixture
def cases() -> Path:
    return Path(__file__).parent / "cases"


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """32 pairs that share one word each, and only that."""
    path = tmp_path / "pairs.jsonl"
    rows = [
        {"anchor": f"what about {name}", "positive": f"the {name} is here and there, {name} stays"} for name in NAMES
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def make_recipe(pairs: Path, tmp_path: Path) -> MakeRecipe:
    """A recipe for a tiny fresh Avey-B; keywords go to the train section, `data` and `model` to theirs."""

    def make(*, data: dict[str, Any] | None = None, model: dict[str, Any] | None = None, **train: Any) -> Recipe:
        fresh = {"d_embed": 32, "n_layers": 2, "chunk_size": 16}
        model = {"fresh": fresh, "train_tokenizer": {"vocab_size": 600}, **(model or {})}
        train = {"output": str(tmp_path / "out"), "batch_size": 8, "device": "cpu", "learning_rate": 3e-3, **train}
        if "epochs" not in train and "max_steps" not in train:
            train["epochs"] = 1
        return Recipe.model_validate({"model": model, "data": data or {"pairs": str(pairs)}, "train": train})

    return make
