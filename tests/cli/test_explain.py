"""`aveyb-ir explain`: text for people, JSON for programs, and a page."""

import json

import pytest

from aveyb_ir import Index, Retriever
from aveyb_ir.data import write_jsonl

QUERY = "penicillin in London"
LONG = "the small garden has a wooden table and two green chairs near the old wall where a cat sleeps " * 6
RECORDS = [
    {"_id": "long", "title": "A garden", "text": LONG + "penicillin was discovered in London", "year": 1999},
    {"_id": "short", "text": "a lighthouse keeper paints the stairs blue", "year": 2021},
]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("explain") / "corpus.jsonl"
    write_jsonl(path, RECORDS)
    return path


@pytest.fixture(scope="module")
def index(tmp_path_factory, corpus, avey_dir):
    path = tmp_path_factory.mktemp("explain") / "index"
    Index.build(path, corpus, encoder=avey_dir, granularity="chunk")
    return path


def test_the_best_parts_come_with_what_was_brought_to_them(run, index):
    code, out, err = run("explain", index, QUERY, "--id", "long", "--parts", 2)
    assert (code, err) == (0, "")
    found = Retriever(index).explain(QUERY, "long")
    assert out.startswith("long  A garden\n")
    assert f"whole document {found.cosine:.4f}, {len(found.parts)} chunks" in out
    shown = [line for line in out.splitlines() if ", characters " in line]
    assert [line.split("  ")[0] for line in shown] == [f"{part.cosine:.4f}" for part in found.best_parts[:2]]
    for chunk in found.best_part.retrieved:
        assert f"    + chunk {chunk.number} ×{chunk.weight:.2f}: " in out


def test_json_is_the_explanation_of_the_hit_of_that_rank(run, index):
    hits = Retriever(index).search(QUERY, top_k=2)
    for rank, hit in enumerate(hits, start=1):
        code, out, _ = run("explain", index, QUERY, "--rank", rank, "--tokens", "--json")
        assert code == 0
        assert json.loads(out) == json.loads(json.dumps(hit.explain(tokens=True).to_json()))
    assert json.loads(run("explain", index, QUERY, "--json")[1])["id"] == hits[0].id
    code, out, _ = run("explain", index, QUERY, "--where", "year > 2000", "--json")
    assert json.loads(out)["id"] == "short"


def test_tokens_are_shown_with_their_sum(run, index):
    _, out, _ = run("explain", index, QUERY, "--tokens")
    (hit,) = Retriever(index).search(QUERY, top_k=1)
    found = hit.explain(tokens=True)
    matches = len(found.token_matches)
    assert out.splitlines()[-1] == f"late interaction {found.late_interaction_score:.4f}, the sum of {matches}"
    assert "late interaction" not in run("explain", index, QUERY)[1]


def test_a_page_is_written_beside_the_text(run, index, tmp_path):
    code, out, err = run("explain", index, QUERY, "--id", "long", "--html", tmp_path / "new" / "why.html")
    assert (code, err) == (0, f"page written to {tmp_path / 'new' / 'why.html'}\n")
    page = (tmp_path / "new" / "why.html").read_text(encoding="utf-8")
    assert page.rstrip("\n") == Retriever(index).explain(QUERY, "long").to_html()
    assert out.startswith("long")


def test_a_limit_is_said_to_have_cut(run, tmp_path, corpus, bert_dir):
    run("index", "build", tmp_path / "bert", "--corpus", corpus, "--encoder", bert_dir)
    code, out, _ = run("explain", tmp_path / "bert", QUERY, "--id", "long")
    assert code == 0
    assert "only the first " in out
    assert "read alone" not in out


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--id", "nowhere"), 1, "1 id(s) are not in the index"),
        (("--rank", 3), 1, "rank is 3; expected at most 2, the number of hits; choose a smaller one"),
        (("--where", "year > 3000"), 1, "no document meets"),
        (("--id", "long", "--rank", 1), 2, "give either --id, or --rank and --where"),
        (("--html", "."), 1, ". is a folder"),
    ],
)
def test_what_cannot_be_explained_is_said_in_one_line(run, index, options, code, message):
    found, out, err = run("explain", index, QUERY, *options)
    assert (found, out) == (code, "")
    assert message in " ".join(err.replace("│", " ").split())
