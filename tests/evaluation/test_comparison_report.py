"""The forms a comparison is written in: they agree, need nothing else, and survive hostile names and texts."""

import csv
import json
import re
from html.parser import HTMLParser
from statistics import fmean

import numpy as np
import pytest

from aveyb_ir.data import Document, Query, write_beir_folder
from aveyb_ir.evaluation import compare, evaluate_run

HOSTILE = '<script>alert("x")</script>|$a_1$ & \\b % 100 {c} <img src="http://example.org/x.png">'
NUM_QUERIES = 30


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "letters"
    documents = [Document(f"d{i}", f"text of document {i} {HOSTILE}", title=f"title {i}") for i in range(NUM_QUERIES)]
    queries = [Query(f"q{i}", f"{HOSTILE} number {i}") for i in range(NUM_QUERIES)]
    qrels = {"test": {f"q{i}": {f"d{i}": 2, f"d{(i + 1) % NUM_QUERIES}": 1} for i in range(NUM_QUERIES)}}
    write_beir_folder(folder, documents, queries, qrels)
    return folder, qrels["test"]


def evaluations(qrels):
    """Two seeds of a system that finds the relevant documents late, and one that mostly finds them at once."""
    for name, seed, noise in (("late", 0, 3.0), ("late", 1, 3.0), (HOSTILE, 2, 0.5)):
        random = np.random.default_rng(seed)
        run = {
            id: {f"d{i}": float((f"d{i}" in judged) + noise * random.random()) for i in range(NUM_QUERIES)}
            for id, judged in qrels.items()
        }
        for data in ("letters", "again"):
            yield evaluate_run(qrels, run, metrics=["ndcg@10", "map"], name=name, data=data, split="test")


@pytest.fixture(scope="module")
def comparison(collection):
    folder, qrels = collection
    return compare(list(evaluations(qrels)), data=[folder], extras={"late": {"tokens/s": 1234.5}}, permutations=2000)


@pytest.fixture(scope="module")
def written(comparison, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report") / "new"
    paths = comparison.write(folder)
    assert sorted(path.name for path in paths) == sorted(path.name for path in folder.iterdir())
    return {path.name: path.read_text(encoding="utf-8") for path in paths}


class Page(HTMLParser):
    """Tags and attributes of a page; complains of any that does not end where it should."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.links, self.text = [], set(), [], ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.links += [value for name, value in attrs if name in ("href", "src", "srcset", "action", "data")]
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_the_page_is_whole_and_needs_nothing_else(written):
    page = Page(written["report.html"])
    assert page.open == []
    assert page.links == []
    assert not page.tags & {"script", "img", "iframe", "link", "object", "embed", "form", "base"}
    assert {"svg", "table", "details", "style", "title"} <= page.tags
    assert "default-src 'none'" in written["report.html"]
    assert not re.search(r"url\(|@import", written["report.html"])
    assert f"{HOSTILE} number " in page.text


def test_the_page_check_would_notice_markup():
    page = Page('<p><script>1</script><a href="http://example.org/">x</a></p>')
    assert "script" in page.tags
    assert page.links == ["http://example.org/"]


def test_the_page_shows_texts_ranks_and_pictures(comparison, written):
    text = Page(written["report.html"]).text
    worst = comparison.queries[0]
    assert worst.text in text
    assert worst.relevant[0].text in text
    assert "late finds first" in text
    assert written["report.html"].count("<svg") == 1 + 2
    for note in comparison.notes:
        assert note in text


def test_what_is_shown_of_a_query_is_what_was_found(collection, comparison):
    _, qrels = collection
    first_seed = next(e for e in evaluations(qrels) if e.name == "late" and e.data == "letters")
    query = next(q for q in comparison.queries if q.data == "letters")
    order = sorted(first_seed.run[query.query_id], key=first_seed.run[query.query_id].get, reverse=True)
    assert query.top["late"].id == order[0]
    assert query.top["late"].text.startswith(f"title {order[0][1:]} text of document")
    assert [found.grade for found in query.relevant] == [2, 1]
    assert {found.id: found.ranks["late"] for found in query.relevant} == {
        id: order.index(id) + 1 for id in qrels[query.query_id]
    }
    assert query.num_relevant == 2
    without = next(q for q in comparison.queries if q.data == "again")
    assert (without.text, without.relevant, without.num_relevant) == (None, (), None)


def test_json_holds_everything(comparison, written):
    content = json.loads(written["report.json"], parse_constant=pytest.fail)
    assert content == json.loads(json.dumps(comparison.to_json()))
    assert content["format"] == "aveyb-ir comparison 1"
    values = content["sets"]["letters"]["values"]["late"]["ndcg@10"]
    assert [len(values), len(values[0])] == [2, len(content["sets"]["letters"]["queries"])]
    (row,) = [r for r in content["scores"] if (r["system"], r["data"], r["metric"]) == ("late", "letters", "ndcg@10")]
    assert row["seeds"] == pytest.approx([fmean(of_seed) for of_seed in values])
    assert row["mean"] == pytest.approx(comparison.score("late", "letters").mean)
    assert len(content["differences"]) == 3
    assert {"p_holm", "significant", "low", "high", "wins"} <= content["differences"][0].keys()


def test_csv_files_are_tidy_and_agree(comparison, written):
    scores = list(csv.DictReader(written["report.csv"].splitlines()))
    assert list(scores[0]) == ["system", "data", "seed", "metric", "value"]
    assert len(scores) == 3 * 2 * 2
    by_query = list(csv.DictReader(written["per_query.csv"].splitlines()))
    assert len(by_query) == len(scores) * NUM_QUERIES
    for score in scores:
        key = [score[name] for name in ("system", "data", "seed", "metric")]
        values = [
            float(row["value"]) for row in by_query if [row[n] for n in ("system", "data", "seed", "metric")] == key
        ]
        assert fmean(values) == pytest.approx(float(score["value"]))


def test_markdown_tables_keep_their_columns(comparison, written):
    assert written["report.md"] == comparison.to_markdown() + "\n"
    tables = re.findall(r"(?:^\|.*\n)+", written["report.md"], flags=re.MULTILINE)
    assert len(tables) == 3
    for table in tables:
        cells = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(cells) == 1, table
    assert "<script" not in written["report.md"].replace(r"\<", "")


def test_the_latex_table_is_escaped(written):
    rows = [line for line in written["report.tex"].splitlines() if line.endswith(r"\\")]
    assert len(rows) == 1 + 2
    assert len({len(re.findall(r"(?<!\\)&", row)) for row in rows}) == 1
    assert r"\$a\_1\$ \& \textbackslash{}b \% 100 \{c\}" in rows[2]
    assert "1,234" in rows[1]
    for command in (r"\toprule", r"\midrule", r"\bottomrule", r"$\pm$"):
        assert command in written["report.tex"]


def test_significance_is_marked_alike_everywhere(comparison, written):
    assert comparison.difference(HOSTILE, "letters").significant
    row = next(line for line in written["report.md"].splitlines() if line.startswith("| \\<script"))
    assert row.count("▲") == 3
    assert written["report.tex"].splitlines()[-3].count(r"\blacktriangle}") == 3
    assert 'class="mark gain">▲' in written["report.html"]


def test_a_report_replaces_the_one_before(comparison, tmp_path):
    (tmp_path / "report.md").write_text("old", encoding="utf-8")
    comparison.write(tmp_path)
    assert (tmp_path / "report.md").read_text(encoding="utf-8").startswith("# ndcg@10")
    assert not list(tmp_path.glob(".*"))
