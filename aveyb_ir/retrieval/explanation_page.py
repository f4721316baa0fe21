"""An explanation as one HTML page."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape

from aveyb_ir.html_page import html_page
from aveyb_ir.retrieval.explanation import Explanation, Part, RetrievedChunk

_BEST_PARTS = 3
_SNIPPET_CHARACTERS = 400
_MOST_LINKS = 12


def to_html(explanation: Explanation) -> str:
    """Lay an explanation out: the best parts, the tokens that met, and the whole document, shaded by what matched."""
    title = f"Why {explanation.document.id} matches “{explanation.query}”"
    return html_page(title, "explanation.css", _Page(explanation).body())


class _Page:
    """What several places of the page need to know of an explanation."""

    def __init__(self, explanation: Explanation) -> None:
        self.it = explanation
        self.text = explanation.document.full_text
        cosines = [part.cosine for part in explanation.parts]
        self.least, self.most = min(cosines, default=0.0), max(cosines, default=0.0)
        self.later: Mapping[int, list[int]] = _later(explanation)
        found = {match.document_span for match in explanation.token_matches or () if match.document_span is not None}
        self.met = _apart(found)

    def body(self) -> Iterator[str]:
        """All below the heading."""
        it = self.it
        yield f'<p class="lead">{_lead(it)}</p>'
        if it.parts:
            bars = "".join(map(self.bar, it.parts))
            yield f'<nav aria-label="The {it.unit}s of the document">{bars}</nav>'
            yield f"<h2>The best {it.unit}s</h2><ol>"
            for part in it.best_parts[:_BEST_PARTS]:
                yield f"<li>{self.facts(part)}<p>{escape(_snippet(it.text_of(part)))}</p></li>"
            yield "</ol>"
        if it.token_matches is not None:
            yield from self.tokens()
        yield "<h2>The document</h2>"
        scale = f"Shaded from the lowest cosine, {self.least:.4f}, to the highest, {self.most:.4f}."
        yield f'<p class="caption">{scale}</p>'
        yield from self.document()
        notes = "".join(f"<li>{escape(note)}</li>" for note in _notes(it))
        yield f'<h2>How to read this</h2><ul class="notes">{notes}</ul>'

    def shade(self, part: Part) -> str:
        """How dark a part is, from 0 for the one least like the query to 1, which the only one is."""
        width = self.most - self.least
        return f"{(part.cosine - self.least) / width if width else 1:.3f}"

    def bar(self, part: Part) -> str:
        """A part in the overview of the document."""
        title = f"{part.number}: {part.cosine:.4f}"
        return f'<a href="#c{part.number}" style="--s:{self.shade(part)}" title="{title}"></a>'

    def facts(self, part: Part) -> str:
        """A part's number, its cosines, and where it took from and gave to."""
        facts = [f"cosine {part.cosine:.4f}"]
        if self.it.unit == "chunk":
            facts.append(f"alone {part.cosine_alone:.4f}")
        if part.retrieved:
            facts.append(f"took in {', '.join(map(_retrieved, part.retrieved))}")
        if part.number in self.later:
            facts.append(f"went into {_links(self.later[part.number])}")
        number = f'<a class="number" href="#c{part.number}">{part.number}</a>'
        return f'<div class="facts">{number}{" · ".join(facts)}</div>'

    def document(self) -> Iterator[str]:
        """The whole text, each part in a section of its own."""
        it, end = self.it, self.it.num_read
        for part, stretch in zip(it.parts, it.stretches, strict=True):
            shown, shade = self.marked(*stretch), self.shade(part)
            yield f'<section id="c{part.number}" style="--s:{shade}">{self.facts(part)}<p>{shown}</p></section>'
        if self.text[end:].strip():
            yield '<section class="unread"><div class="facts">Not read: beyond the length limit</div>'
            yield f"<p>{self.marked(end, len(self.text))}</p></section>"

    def marked(self, first: int, last: int) -> str:
        """Characters of the document with those tokens marked that are the nearest to one of the query's."""
        shown, reached = [], first
        for start, end in self.met:
            if reached <= start < last:
                end = min(end, last)
                met = f'<mark id="t{start}">{escape(self.text[start:end])}</mark>'
                shown += [escape(self.text[reached:start]), met]
                reached = end
        return "".join([*shown, escape(self.text[reached:last])])

    def tokens(self) -> Iterator[str]:
        """Each token of the query beside what it found."""
        it = self.it
        yield "<h2>Token by token</h2><table><thead><tr><th>query</th><th>nearest in the document</th>"
        yield f"<th>{it.unit}</th><th>cosine</th><th></th></tr></thead><tbody>"
        for match in it.token_matches or ():
            asked, found = escape(it.query[slice(*match.query_span)]), self.place(match.document_span)
            bar = f'<span class="bar" style="--s:{max(0.0, match.similarity):.3f}"></span>'
            yield f'<tr><td>{asked}</td>{found}<td class="value">{match.similarity:.4f}</td><td>{bar}</td></tr>'
        yield f'</tbody><tfoot><tr><td>sum</td><td></td><td></td><td class="value">{it.late_interaction_score:.4f}</td>'
        yield "<td></td></tr></tfoot></table>"

    def place(self, span: tuple[int, int] | None) -> str:
        """Where in the document a token is, as two cells."""
        if span is None:
            return "<td>nothing</td><td></td>"
        mark = max(start for start, _ in self.met if start <= span[0])
        found = f'<a href="#t{mark}">{escape(self.text[slice(*span)])}</a>'
        part = self.it.part_at(span[0])
        return f"<td>{found}</td><td>{'not read' if part is None else _link(part.number)}</td>"


def _apart(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans in order without those that begin inside another, as tokens of parts of one character do."""
    apart: list[tuple[int, int]] = []
    for span in sorted(spans):
        if not apart or span[0] >= apart[-1][1]:
            apart.append(span)
    return apart


def _later(explanation: Explanation) -> dict[int, list[int]]:
    """For each chunk the later ones to which it was brought."""
    later = defaultdict(list)
    for part in explanation.parts:
        for chunk in part.retrieved:
            later[chunk.number].append(part.number)
    return dict(later)


def _lead(it: Explanation) -> str:
    facts = [escape(it.document.title)] * bool(it.document.title)
    if it.score is not None:
        facts.append(f"score {it.score:.4f}")
    if len(it.scores) > 1:
        facts += [f"{escape(stage)} {score:.4f} (rank {it.ranks[stage]})" for stage, score in it.scores.items()]
    facts.append(f"whole document {it.cosine:.4f}")
    if it.best_part is not None:
        facts.append(f"best of {it.extent} {it.best_part.cosine:.4f} ({_link(it.best_part.number)})")
    return " · ".join([*facts, escape(it.encoder)])


def _notes(it: Explanation) -> Iterator[str]:
    yield (
        f"Numbers beside a {it.unit} are cosines with the query's vector. An index of documents scores by the whole "
        "document's, one of chunks by the best chunk's, one of both by their weighted mean."
    )
    if it.unit == "chunk":
        yield (
            "A chunk's vector comes from reading the whole document: the model's ranker brought to it the earlier "
            "chunks it took in. × is what each was multiplied by, relative to the weakest of them. “Alone” is the "
            "cosine of the same chunk with nothing brought to it; the difference is what the others did."
        )
    else:
        yield (
            "This model has no chunks: passages were read one by one, each without the others. They show what matches, "
            "but are not pieces of the score."
        )
    if it.token_matches is not None:
        yield (
            f"Token by token: states of {it.token_model}, each token of the query with its nearest in the document; "
            "the sum is the score of late interaction. The tokens found are underlined in the text."
        )


def _retrieved(chunk: RetrievedChunk) -> str:
    return f"{_link(chunk.number)} ×{chunk.weight:.2f}"


def _link(number: int) -> str:
    return f'<a href="#c{number}">{number}</a>'


def _links(numbers: Sequence[int]) -> str:
    more = f" and {len(numbers) - _MOST_LINKS} more" * (len(numbers) > _MOST_LINKS)
    return ", ".join(map(_link, numbers[:_MOST_LINKS])) + more


def _snippet(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _SNIPPET_CHARACTERS else f"{text[:_SNIPPET_CHARACTERS]} …"
