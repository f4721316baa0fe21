"""The page of an explanation shows the whole document as it is, and can be trusted with any text."""

from html.parser import HTMLParser

import pytest

from aveyb_ir import Encoder
from aveyb_ir.data import Document
from aveyb_ir.retrieval import LateInteraction, explain

NASTY = "</p></section><script>alert(1)</script> & \"quotes' <img src=x onerror=alert(2)> "
TEXT = (NASTY + "the small garden has a wooden table\n\nand two green chairs 👩‍🔬 ") * 8
QUERY = '<b>garden</b> & "table"'


class Page(HTMLParser):
    """What a browser would see: tags, ids, links, and the text in each section's paragraph."""

    def __init__(self, source):
        super().__init__()
        self.tags, self.attributes, self.sections, self.marks, self._open = [], [], [], [], []
        self.feed(source)
        self.close()
        assert self._open == []

    @property
    def ids(self):
        return [value for name, value in self.attributes if name == "id"]

    @property
    def links(self):
        return [value for name, value in self.attributes if name == "href"]

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "br"):
            self._open.append(tag)
        if tag == "section":
            self.sections.append("")
        if tag == "mark":
            self.marks.append("")

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if "section" in self._open and "p" in self._open:
            self.sections[-1] += data
        if "mark" in self._open:
            self.marks[-1] += data


@pytest.fixture(scope="module")
def explained(avey_dir):
    return explain(Encoder(avey_dir), QUERY, Document("<id>", TEXT, title="A <title> & more"), tokens=True)


@pytest.fixture(scope="module")
def page(explained):
    return Page(explained.to_html())


def test_it_shows_the_whole_document_part_by_part(explained, page):
    assert "".join(page.sections) == explained.document.full_text
    assert len(page.sections) == len(explained.parts) > 10
    assert page.sections == [explained.document.full_text[slice(*stretch)] for stretch in explained.stretches]


def test_a_text_cannot_become_part_of_the_page(explained, page):
    assert not {"script", "img", "b"} & set(page.tags)
    assert page.tags.count("title") == 1
    assert page.tags.count("section") == len(explained.parts)
    assert {name for name, _ in page.attributes if name.startswith("on")} == set()
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in page.attributes
    assert "src" not in dict(page.attributes)


def test_every_link_leads_to_a_place_on_the_page(explained, page):
    assert len(page.ids) == len(set(page.ids))
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)
    brought = {f"#c{chunk.number}" for part in explained.parts for chunk in part.retrieved}
    assert brought <= set(page.links)
    assert {f"c{part.number}" for part in explained.parts} <= set(page.ids)


def test_the_tokens_that_met_are_marked_in_the_text(explained, page):
    spans = sorted({match.document_span for match in explained.token_matches})
    assert page.marks == [explained.document.full_text[slice(*span)] for span in spans]
    assert f"{explained.late_interaction_score:.4f}" in explained.to_html()


def test_tokens_of_one_character_have_one_mark(avey_dir):
    """Emoji are several tokens of the same characters, also across the border of two chunks."""
    encoder = Encoder(avey_dir)
    found = explain(encoder, "🇦🇶🏴‍☠️👩‍🔬", Document("d", "👩‍🔬🇦🇶🏴‍☠️" * 30), tokens=True)
    page = Page(found.to_html())
    assert "".join(page.sections) == found.document.full_text
    assert len(page.ids) == len(set(page.ids))
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)


def test_the_best_part_is_the_darkest(explained):
    best, worst = explained.best_parts[0].number, explained.best_parts[-1].number
    source = explained.to_html()
    assert f'<section id="c{best}" style="--s:1.000">' in source
    assert f'<section id="c{worst}" style="--s:0.000">' in source


def test_what_was_not_read_is_shown_as_such(bert_dir, avey_dir):
    found = explain(Encoder(bert_dir), "garden", Document("d", TEXT), tokens=True)
    page = Page(found.to_html())
    assert len(page.sections) == len(found.parts) + 1
    assert page.sections[-1] == TEXT.strip()[found.num_read :]
    assert "Not read: beyond the length limit" in found.to_html()
    further = explain(
        Encoder(bert_dir),
        "garden",
        Document("d", "a lighthouse keeper " * 40 + "garden"),
        tokens=True,
        late_interaction=LateInteraction(Encoder(avey_dir)),
    )
    page = Page(further.to_html())
    assert {f"t{match.document_span[0]}" for match in further.token_matches} <= set(page.ids)
    assert max(match.document_span[0] for match in further.token_matches) >= further.num_read
    assert "<td>not read</td>" in further.to_html()


def test_an_empty_document_has_a_page_too(avey_dir, bert_dir):
    for model in (avey_dir, bert_dir):
        page = Page(explain(Encoder(model), "garden", Document("d", ""), tokens=True).to_html())
        assert "".join(page.sections) == ""
