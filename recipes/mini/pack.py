"""Store a trained model the way it comes with the package: half precision, without code, with its card.

python recipes/mini/pack.py TRAINED aveyb_ir/assets/aveyb-mini
"""

import json
import shutil
import sys
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer

import aveyb_ir.models  # noqa: F401 (registers Avey-B with transformers)

_CARD = Path(__file__).parent / "CARD.md"


def main() -> None:
    """Replace the target."""
    source, target = sys.argv[1], Path(sys.argv[2])
    model = SentenceTransformer(source, device="cpu", model_kwargs={"dtype": torch.float32}).half()
    shutil.rmtree(target, ignore_errors=True)
    model.save_pretrained(str(target), create_model_card=False)
    for code in target.glob("*.py"):  # whoever has this folder has the package, and so the code
        code.unlink()
    file = target / "config.json"
    config = {key: value for key, value in json.loads(file.read_text(encoding="utf-8")).items() if key != "auto_map"}
    file.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    shutil.copy(_CARD, target / "README.md")


if __name__ == "__main__":
    main()
