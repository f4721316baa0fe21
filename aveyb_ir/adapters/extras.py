"""Says which extra to install where a library is missing."""

from collections.abc import Iterator
from contextlib import contextmanager

from aveyb_ir.errors import MissingExtraError


@contextmanager
def imports_of(extra: str) -> Iterator[None]:
    """Turn the failure of an import inside into a MissingExtraError that names the extra.

    Raises:
        MissingExtraError: What is imported is not installed, or too old to have it.
    """
    try:
        yield
    except ImportError as error:
        raise MissingExtraError(
            f"aveyb_ir.adapters.{extra.replace('-', '_')}: got {str(error)!r}, expected the library installed and no "
            f"older than the extra wants; pip install 'aveyb-ir[{extra}]'"
        ) from error
