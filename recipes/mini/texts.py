"""Rows of a short and a long text on the same thing, from free text, for a student to learn its teacher's vectors of.

    python recipes/mini/texts.py --beir DATA --packages UNPACKED [--wikipedia DUMP.xml.bz2] \
        [--translation FILE] --output texts.jsonl

DATA holds collections in BEIR layout; of nq, squad-sentences, squad2, medquad and scifact the train judgements are
used, of scifact also the titles and abstracts. UNPACKED is where Debian's packages dict-wn, dict-gcide, dict-foldoc and
dict-jargon were unpacked (`dpkg-deb -x`). TRANSLATION is Debian's list of package descriptions, Translation-en.

Left out: any query that a dev or test split of DATA judges, and text twice.
"""

import argparse
import bz2
import gzip
import json
import random
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator
from pathlib import Path

_Row = tuple[str, str]

_COLLECTIONS = ("nq", "squad-sentences", "squad2", "medquad", "scifact")
_HELD_BACK = (*_COLLECTIONS, "cranfield", "msmarco-dl")
_PASSAGE_WORDS = 60  # a teacher's time goes by words, and a short passage teaches as much as a long one
_ABSTRACT_WORDS = 90
_AT_MOST = {"medquad": 5_000, "wordnet": 25_000, "gcide": 2_000, "foldoc": 3_000, "jargon": 1_000, "packages": 2_000}
_QUESTIONS = ("{}", "{}", "what is {}", "define {}", "what does {} mean", "meaning of {}")


def main() -> None:
    """Write the rows in a random but fixed order."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--beir", type=Path, required=True)
    parser.add_argument("--packages", type=Path, required=True)
    parser.add_argument("--wikipedia", type=Path)
    parser.add_argument("--translation", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    chance = random.Random(1)
    dictionaries = given.packages / "usr/share/dictd"
    sources: dict[str, Iterable[_Row]] = {name: _judged(given.beir / name) for name in _COLLECTIONS}
    sources["abstracts"] = _titled(given.beir / "scifact")
    sources["wordnet"] = _wordnet(dictionaries / "wn.dict.dz", chance)
    sources["gcide"] = _gcide(dictionaries / "gcide.dict.dz")
    sources["foldoc"] = _entries(dictionaries / "foldoc.dict.dz")
    sources["jargon"] = _entries(dictionaries / "jargon.dict.dz")
    if given.wikipedia is not None:
        sources["wikipedia"] = _wikipedia(given.wikipedia)
    if given.translation is not None:
        sources["packages"] = _descriptions(given.translation)
    held_back = {_key(text) for name in _HELD_BACK for text in _held_back(given.beir / name)}
    seen: set[str] = set()
    rows = []
    for name, source in sources.items():
        kept = []
        for short, long in source:
            key = _key(long)
            if short and len(long.split()) >= 4 and key not in seen and _key(short) not in held_back:
                seen.add(key if name not in _COLLECTIONS else f"{_key(short)} {key}")
                kept.append((short, long))
        kept = chance.sample(kept, min(len(kept), _AT_MOST.get(name, len(kept))))
        print(f"{name}: {len(kept)} rows, {sum(len(long.split()) for _, long in kept)} words")
        rows += kept
    chance.shuffle(rows)
    with given.output.open("w", encoding="utf-8") as output:
        for short, long in rows:
            output.write(json.dumps({"query": short, "positive": long}, ensure_ascii=False) + "\n")


def _key(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


def _lines(file: Path) -> Iterator[dict[str, str]]:
    with file.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _judgements(folder: Path, split: str) -> Iterator[tuple[str, str]]:
    file = folder / "qrels" / f"{split}.tsv"
    if file.exists():
        for line in file.read_text(encoding="utf-8").splitlines()[1:]:
            query, document, grade = line.split("\t")
            if int(grade) > 0:
                yield query, document


def _held_back(folder: Path) -> Iterator[str]:
    judged = {query for split in ("dev", "test") for query, _ in _judgements(folder, split)}
    return (query["text"] for query in _lines(folder / "queries.jsonl") if query["_id"] in judged)


def _judged(folder: Path) -> Iterator[_Row]:
    queries = {line["_id"]: line["text"] for line in _lines(folder / "queries.jsonl")}
    documents = {line["_id"]: _full_text(line) for line in _lines(folder / "corpus.jsonl")}
    for query, document in _judgements(folder, "train"):
        for passage in _passages(documents[document], _ABSTRACT_WORDS)[:1]:
            yield queries[query], passage


def _titled(folder: Path) -> Iterator[_Row]:
    for document in _lines(folder / "corpus.jsonl"):
        yield document["title"], _passages(document["text"], _ABSTRACT_WORDS)[0]


def _full_text(document: dict[str, str]) -> str:
    return f"{document['title']} {document['text']}".strip()


def _passages(text: str, words: int) -> list[str]:
    """Cut a text into passages of whole sentences, of about so many words."""
    passages: list[str] = []
    current: list[str] = []
    for sentence in re.split(r"(?<=[.!?])\s+", text):
        current += sentence.split()
        if len(current) >= words * 0.7:
            passages.append(" ".join(current[: int(words * 1.3)]))
            current = []
    return passages + ([" ".join(current)] if len(current) > words // 4 or not passages else [])


def _entries(file: Path) -> Iterator[_Row]:
    """Headword and the beginning of each entry's text."""
    for head, text in _whole_entries(file):
        yield head, _passages(_plain(text), _PASSAGE_WORDS)[0]


def _whole_entries(file: Path) -> Iterator[_Row]:
    """Headword and text of each entry of a dictionary: a headword begins its line, its text is indented."""
    head, body = "", list[str]()
    with gzip.open(file, "rt", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.strip() and not line[0].isspace():
                if body and not head.startswith("00"):
                    yield head, " ".join(body)
                head, body = line.strip(), []
            else:
                body.append(line.strip())


def _plain(text: str) -> str:
    text = re.sub(r"\[\{.*?\}\]|\(\d{4}-\d\d-\d\d\)|<[^>]*>|\[[^\]]*\]|\{|\}", " ", text)
    return " ".join(text.split())


def _wordnet(file: Path, chance: random.Random) -> Iterator[_Row]:
    """Each sense once, asked for by one of its words."""
    senses: dict[str, list[str]] = {}
    for head, text in _whole_entries(file):
        for sense in re.split(r"(?:^|\s)(?:n|v|adj|adv)?\s*\d*:\s", _plain_wordnet(text))[1:]:
            senses.setdefault(sense.strip(), []).append(head)
    for sense, heads in senses.items():
        yield chance.choice(_QUESTIONS).format(chance.choice(heads)), sense


def _plain_wordnet(text: str) -> str:
    return " ".join(re.sub(r"\[(syn|ant|also): [^\]]*\]", " ", text).split())


def _gcide(file: Path) -> Iterator[_Row]:
    for head, text in _entries(file):
        text = re.sub(r"--[A-Z][\w.]*|\bFormerly\b", " ", text)
        if len(text.split()) >= 15:
            yield head.split("\\")[0].strip(), f"{head.split(chr(92))[0].strip()}: {text}"


def _descriptions(file: Path) -> Iterator[_Row]:
    """One line and the paragraphs of each different package description."""
    short, body, seen = "", list[str](), set[str]()
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("Description-en: "):
            short, body = line.removeprefix("Description-en: "), []
        elif line.startswith(" ") and short:
            body.append("" if line == " ." else line.strip())
        elif not line and short:
            passage = _passages(" ".join(body), _PASSAGE_WORDS)[0]
            if len(passage.split()) >= 20 and passage[:60] not in seen:
                seen.add(passage[:60])
                yield short, passage
            short = ""


def _wikipedia(file: Path) -> Iterator[_Row]:
    """Article and section, and each passage of it."""
    with bz2.open(file) as dump:
        for _, page in ElementTree.iterparse(dump):
            if page.tag.endswith("}page"):
                name = page.tag.removesuffix("page")
                title = page.findtext(f"{name}title") or ""
                markup = page.findtext(f"{name}revision/{name}text") or ""
                page.clear()
                if not markup.startswith("#"):
                    yield from _sections(title, markup)


def _sections(title: str, markup: str) -> Iterator[_Row]:
    for pattern in (r"(?s)<!--.*?-->", r"(?s)<ref[^>]*/>", r"(?s)<ref.*?</ref>", r"(?s)\{\|.*?\|\}"):
        markup = re.sub(pattern, " ", markup)
    while (shorter := re.sub(r"\{\{[^{}]*\}\}", " ", markup)) != markup:
        markup = shorter
    markup = re.sub(r"\[\[(?:File|Image|Category)[^\[\]]*(?:\[\[[^\[\]]*\]\][^\[\]]*)*\]\]", " ", markup)
    markup = re.sub(r"\[\[(?:[^|\]]*\|)?([^\]]*)\]\]", r"\1", markup)
    markup = re.sub(r"<[^>]*>|'{2,}|\[https?:\S*|\]", " ", markup)
    heading = ""
    for part in re.split(r"(?m)^(=+[^=]+=+)\s*$", markup):
        if part.startswith("="):
            heading = part.strip("= ")
        elif heading not in ("See also", "References", "External links", "Further reading", "Notes"):
            prose = " ".join(line for line in part.splitlines() if len(line) > 80 and line[0] not in "|*#:;!{")
            for passage in _passages(prose, _PASSAGE_WORDS):
                if len(passage.split()) >= 30:
                    yield f"{title} {heading}".strip(), f"{title} {passage}"


if __name__ == "__main__":
    main()
