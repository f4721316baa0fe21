"""`aveyb-ir explain`."""

import os
import shutil
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aveyb_ir.cli.options import Device, Dtype, FaissDevice, Json, given
from aveyb_ir.cli.output import one_line, print_json, print_rows

if TYPE_CHECKING:
    from aveyb_ir.retrieval import Explanation, Hit, Part, Retriever


def explain(
    directory: Annotated[Path, typer.Argument(help="Index directory.")],
    query: Annotated[str, typer.Argument(help="What was looked for.")],
    id: Annotated[str | None, typer.Option(help="Document to explain, found or not.")] = None,
    rank: Annotated[int | None, typer.Option(min=1, help="Hit of a dense search, instead of --id; 1.")] = None,
    tokens: Annotated[bool, typer.Option("--tokens", help="Compare token by token too.")] = False,
    parts: Annotated[int, typer.Option(min=1, help="Parts of the document shown, the best.")] = 3,
    where: Annotated[str | None, typer.Option(help="Condition on metadata, for --rank.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with the whole document, shaded.")] = None,
    encoder: Annotated[str | None, typer.Option(help="The index's encoder, if it has moved.")] = None,
    device: Device = None,
    dtype: Dtype = None,
    faiss_device: FaissDevice = None,
    json: Json = False,
) -> None:
    """Show why a document matches: its best parts, the chunks that flowed into them, and the tokens that met."""
    if id is not None and (rank is not None or where is not None):
        raise typer.BadParameter("give either --id, or --rank and --where")
    from aveyb_ir.data import check_replaceable, write_lines
    from aveyb_ir.index import IndexDir

    IndexDir.open(directory)  # a mistyped path shows before anything heavy is imported
    if html is not None:
        check_replaceable(html)
    from aveyb_ir.retrieval import Retriever

    query = os.fsencode(query).decode("utf-8", "replace")  # what was typed, also where the locale is not UTF-8
    retriever = Retriever(directory, encoder=encoder, device=device, dtype=dtype, **given(faiss_device=faiss_device))
    hit = id if id is not None else _hit(retriever, query, rank or 1, where)
    explanation = retriever.explain(query, hit, tokens=tokens)
    if html is not None:
        write_lines(html, explanation.to_html().split("\n"))
        typer.echo(f"page written to {html}", err=True)
    if json:
        print_json(explanation.to_json())
    else:
        _print(explanation, parts)


def _hit(retriever: "Retriever", query: str, rank: int, where: str | None) -> "Hit":
    hits = retriever.search(query, top_k=rank, where=where)
    if not hits:
        raise ValueError(f"no document meets {where!r}; expected one to explain; widen the condition")
    if len(hits) < rank:
        raise ValueError(f"rank is {rank}; expected at most {len(hits)}, the number of hits; choose a smaller one")
    return hits[-1]


def _print(explanation: "Explanation", num_parts: int) -> None:
    document, text = explanation.document, explanation.document.full_text
    typer.echo(f"{one_line(document.id)}  {one_line(document.title)}".rstrip())
    score = "" if explanation.score is None else f"score {explanation.score:.4f}, "
    typer.echo(f"{score}whole document {explanation.cosine:.4f}, {explanation.extent}")
    if explanation.num_read < len(text):
        typer.echo(f"only the first {explanation.num_read:,} of {len(text):,} characters were read")
    for part in explanation.best_parts[:num_parts]:
        for line in _lines(explanation, part):
            typer.echo(line)
    if explanation.token_matches is not None:
        _print_tokens(explanation)


def _lines(explanation: "Explanation", part: "Part", *, lines: int = 3) -> Iterator[str]:
    """A part's numbers, its beginning, and the chunks brought to it with theirs."""
    width = max(40, shutil.get_terminal_size((100, 20)).columns - 4)
    alone = f", read alone {part.cosine_alone:.4f}" if explanation.unit == "chunk" else ""
    start, end = part.span
    yield f"\n{part.cosine:.4f}  {explanation.unit} {part.number}, characters {start:,}–{end:,}{alone}"
    text = " ".join(explanation.text_of(part).split())
    yield from (f"    {line}" for line in textwrap.wrap(text, width=width, max_lines=lines, placeholder=" …"))
    for chunk in part.retrieved:
        brought = " ".join(explanation.text_of(explanation.parts[chunk.number - 1]).split())
        line = f"+ chunk {chunk.number} ×{chunk.weight:.2f}: {brought}"
        yield f"    {textwrap.shorten(line, width, placeholder=' …')}"


def _print_tokens(explanation: "Explanation") -> None:
    text = explanation.document.full_text
    rows = []
    for match in explanation.token_matches or ():
        found = match.document_span
        part = None if found is None else explanation.part_at(found[0])
        rows.append(
            {
                "query": explanation.query[slice(*match.query_span)],
                "cosine": f"{match.similarity:.4f}",
                "document": None if found is None else text[slice(*found)],
                explanation.unit: None if part is None else part.number,
                "around it": None if found is None else _around(text, found),
            }
        )
    typer.echo()
    if rows:
        print_rows(rows)
    typer.echo(f"late interaction {explanation.late_interaction_score:.4f}, the sum of {len(rows)}")


def _around(text: str, span: tuple[int, int], *, characters: int = 25) -> str:
    """A token with what stands before and after it, on one line."""
    return " ".join(text[max(0, span[0] - characters) : span[1] + characters].split())
