"""Documents and queries from files, whichever fields they have."""

from pathlib import Path

import pytest

from aveyb_ir.data import Document, Query, read_documents, read_queries
from aveyb_ir.errors import DataError

CASES = Path(__file__).parent / "cases"


def test_title_and_text_are_joined_without_stray_spaces_or_the_word_none() -> None:
    texts = {document.id: document.full_text for document in read_documents(CASES / "missing-and-null-fields")}
    assert texts == {
        "d1": "no title key",
        "d2": "null title",
        "d3": "Only a title",
        "d4": "",
        "d5": "Both title and text",
        "d6": "",
    }


def test_other_fields_join_the_metadata(tmp_path: Path) -> None:
    file = tmp_path / "c.jsonl"
    file.write_text('{"_id": "a", "text": "t", "title": "T", "url": "u", "metadata": {"year": 1}}\n', encoding="utf-8")
    assert list(read_documents(file)) == [Document("a", "t", "T", {"url": "u", "year": 1})]


@pytest.mark.parametrize("line", ['{"id": 7, "contents": "t"}', '{"docid": "7", "text": "t", "metadata": null}'])
def test_pyserini_field_names_and_numeric_ids_are_understood(tmp_path: Path, line: str) -> None:
    file = tmp_path / "c.jsonl"
    file.write_text(line, encoding="utf-8")
    assert list(read_documents(file)) == [Document("7", "t")]


def test_queries_come_from_folders_jsonl_and_tsv(tmp_path: Path) -> None:
    assert [query.id for query in read_queries(CASES / "missing-and-null-fields")] == ["q1", "q2", "q3"]
    (tmp_path / "q.jsonl").write_text('{"qid": 1, "query": "what?", "lang": "en"}', encoding="utf-8")
    assert list(read_queries(tmp_path / "q.jsonl")) == [Query("1", "what?", {"lang": "en"})]
    (tmp_path / "q.tsv").write_bytes("1\twhat is this\tthen?\r\n2\tÅ\n".encode())
    assert list(read_queries(tmp_path / "q.tsv")) == [Query("1", "what is this\tthen?"), Query("2", "Å")]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"text": "t"}', "no field _id or id or docid among text"),
        ('{"_id": "a", "txt": "t"}', "no field text or contents among txt"),
        ('{"_id": null, "text": "t"}', "id None is NoneType"),
        ('{"_id": 1.0, "text": "t"}', "id 1.0 is float"),
        ('{"_id": true, "text": "t"}', "id True is bool"),
        ('{"_id": "", "text": "t"}', "an id is empty"),
        (r'{"_id": "a\nb", "text": "t"}', ".* holds a line break"),
        (r'{"_id": "a\u0000b", "text": "t"}', ".* holds a line break, a NUL"),
        ('{"_id": "a", "text": ["t"]}', "text is list"),
        ('{"_id": "a", "text": "t", "title": 3}', "title is int"),
        ('{"_id": "a", "text": "t", "metadata": [1]}', "metadata is list"),
    ],
)
def test_bad_records_are_refused_with_file_and_line(tmp_path: Path, line: str, problem: str) -> None:
    file = tmp_path / "c.jsonl"
    file.write_text('{"_id": "fine", "text": "t"}\n' + line, encoding="utf-8")
    with pytest.raises(DataError, match=rf"c\.jsonl line 2: {problem}"):
        list(read_documents(file))


def test_an_id_given_twice_is_refused_with_both_lines(tmp_path: Path) -> None:
    file = tmp_path / "c.jsonl"
    file.write_text('{"_id": 1, "text": "a"}\n\n{"_id": "2", "text": "b"}\n{"_id": "1", "text": "c"}', encoding="utf-8")
    with pytest.raises(DataError, match=r"c\.jsonl line 4: id '1' was already used on line 1"):
        list(read_documents(file))


def test_tsv_without_a_tab_is_refused(tmp_path: Path) -> None:
    (tmp_path / "q.tsv").write_text("1\tfine\n2 not fine\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"q\.tsv line 2: no tab"):
        list(read_queries(tmp_path / "q.tsv"))


def test_documents_are_streamed(tmp_path: Path) -> None:
    file = tmp_path / "c.jsonl"
    file.write_text('{"_id": "a", "text": "t"}\nnot JSON\n', encoding="utf-8")
    assert next(read_documents(file)).id == "a"
