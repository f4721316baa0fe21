"""How messages list things."""

from collections.abc import Collection
from itertools import islice


def listed(items: Collection[object], limit: int = 10, separator: str = ", ") -> str:
    """Join the first `limit` items for a one-line message and say how many more there are."""
    text = separator.join(str(item) for item in islice(items, limit))
    return text if len(items) <= limit else f"{text} and {len(items) - limit} more"
