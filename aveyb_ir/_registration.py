"""Registers the model classes with transformers as soon as a program uses it, without importing it before.

`import aveyb_ir` has to stay fast, and `SentenceTransformer(path)` has to know Avey-B in any program that imported
aveyb_ir. So the registration waits for the end of the first `import transformers`.
"""

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_MODELS = "aveyb_ir.models"


def register_with_transformers() -> None:
    """Register now if transformers is imported already, else when it is."""
    if "transformers" in sys.modules:
        importlib.import_module(_MODELS)
    else:
        sys.meta_path.insert(0, _AfterImport())


class _AfterImport(MetaPathFinder):
    """Lets the import of transformers run as usual and imports our models after it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "transformers":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_then_register(module: ModuleType) -> None:
            execute(module)
            importlib.import_module(_MODELS)

        spec.loader.exec_module = execute_then_register  # type: ignore[method-assign]
        return spec
