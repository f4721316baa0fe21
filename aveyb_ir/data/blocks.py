"""Streams are worked on a block at a time, whose size in memory does not depend on how long texts are."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

_CHARACTERS_AT_ONCE = 1 << 20

_Item = TypeVar("_Item")


def blocks(items: Iterable[_Item], length: Callable[[_Item], int]) -> Iterator[list[_Item]]:
    """Items in their order, as many at once as have about a million characters; `length` counts those of one."""
    block: list[_Item] = []
    characters = 0
    for item in items:
        block.append(item)
        characters += length(item)
        if characters >= _CHARACTERS_AT_ONCE:
            yield block
            block, characters = [], 0
    if block:
        yield block
