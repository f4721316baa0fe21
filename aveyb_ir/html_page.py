"""A page that needs nothing else: no script, no font and no picture from anywhere."""

from collections.abc import Iterable
from html import escape
from importlib.resources import files

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"  # no text shown can make the page load or run anything


def html_page(title: str, stylesheet: str, body: Iterable[str]) -> str:
    """Put a page together.

    Args:
        title: Plain text, also the heading.
        stylesheet: Name of a file in the package's assets.
        body: HTML below the heading, in pieces.
    """
    style = (files("aveyb_ir") / "assets" / stylesheet).read_text(encoding="utf-8")
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title><style>{style}</style></head><body>",
            f"<h1>{escape(title)}</h1>",
            *body,
            "</body></html>",
        ]
    )
