"""A build that was killed goes on where it stopped, and a finished one leaves only the index."""

import numpy as np
import pytest

from aveyb_ir import Encoder, Index, Retriever
from aveyb_ir.data import Document
from aveyb_ir.errors import DataError, IndexDirError
from aveyb_ir.index import IndexDir, segment_writer
from aveyb_ir.retrieval import index as index_module

DOCUMENTS = [Document(f"d{i}", f"number {i} of the river and its snow") for i in range(10)]


class Killed(BaseException):
    """Ends a build as a signal would, without a chance to clean up what it encoded."""


def stopping_after(num):
    yield from DOCUMENTS[:num]
    raise Killed


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(index_module, "BLOCK_DOCUMENTS", 3)


@pytest.fixture
def stopped(small_blocks, tmp_path, avey_dir):
    """The folder of a build that was stopped after two of its four blocks."""
    with pytest.raises(Killed):
        Index.build(tmp_path / "index", stopping_after(7), encoder=avey_dir, granularity="both")
    return tmp_path / "index"


def test_a_stopped_build_is_no_index(stopped):
    with pytest.raises(IndexDirError):
        IndexDir.open(stopped)
    assert sorted(path.name for path in stopped.iterdir()) == ["encoding.partial", "unpublished.partial", "writer.lock"]


def test_a_repeated_build_encodes_only_what_was_missing(stopped, tmp_path, avey_dir):
    seen = []
    encoder = Encoder(avey_dir)
    resumed = Index.build(stopped, DOCUMENTS, encoder=encoder, granularity="both", progress=seen.append)
    assert (seen[-1].documents, seen[-1].new_documents) == (10, 4)
    assert encoder.counts.texts == 10
    whole = Index.build(tmp_path / "whole", DOCUMENTS, encoder=avey_dir, granularity="both")
    for row in range(len(DOCUMENTS)):
        np.testing.assert_array_equal(resumed.directory.vectors(row), whole.directory.vectors(row))
    found, expected = (Retriever(index).search("number 7", top_k=10) for index in (resumed, whole))
    assert [(hit.id, hit.span) for hit in found] == [(hit.id, hit.span) for hit in expected]
    assert not (stopped / "encoding.partial").exists()


def test_another_encoder_or_corpus_is_refused_and_nothing_is_lost(stopped, avey_dir):
    with pytest.raises(DataError, match="max_length 32"):
        Index.build(stopped, DOCUMENTS, encoder=Encoder(avey_dir, max_length=32), granularity="both")
    with pytest.raises(DataError, match="they are others now"):
        Index.build(stopped, DOCUMENTS[1:], encoder=avey_dir, granularity="both")
    assert len(Index.build(stopped, DOCUMENTS, encoder=avey_dir, granularity="both")) == 10


def test_an_old_index_stays_while_its_replacement_is_being_built(small_blocks, tmp_path, avey_dir):
    Index.build(tmp_path / "index", DOCUMENTS[:2], encoder=avey_dir)
    with pytest.raises(Killed):
        Index.build(tmp_path / "index", stopping_after(7), encoder=avey_dir, overwrite=True)
    assert len(Index.open(tmp_path / "index")) == 2
    seen = []
    built = Index.build(tmp_path / "index", DOCUMENTS, encoder=avey_dir, overwrite=True, progress=seen.append)
    assert (len(built), seen[-1].new_documents) == (10, 4)
    assert not (tmp_path / "index" / "encoding.partial").exists()


def test_a_spec_that_fails_after_encoding_keeps_what_was_encoded(small_blocks, tmp_path, avey_dir, monkeypatch):
    def fail(*_, **__):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(segment_writer, "write_faiss", fail)
        with pytest.raises(IndexDirError, match=r"SQ8 over 10 vectors \(MemoryError\).*give another"):
            Index.build(tmp_path / "index", DOCUMENTS, encoder=avey_dir, spec="int8")
    seen = []
    index = Index.build(tmp_path / "index", DOCUMENTS, encoder=avey_dir, spec="flat", progress=seen.append)
    assert (len(index), index.info()["spec"]) == (10, "flat")
    assert all(progress.new_documents == 0 for progress in seen)


def test_a_first_build_killed_before_it_is_published_is_repeated_to_the_same_bytes(
    small_blocks, tmp_path, avey_dir, monkeypatch
):
    def kill(*_):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("aveyb_ir.index.manifest.replace_file", kill)
        patch.setattr("aveyb_ir.index.writer.end_without_index", kill)  # a dead process cleans nothing up
        with pytest.raises(Killed):
            Index.build(tmp_path / "index", DOCUMENTS, encoder=avey_dir)
    assert (tmp_path / "index" / "segment-000001").is_dir()
    Index.build(tmp_path / "index", DOCUMENTS, encoder=avey_dir)
    Index.build(tmp_path / "whole", DOCUMENTS, encoder=avey_dir)
    assert segments(tmp_path / "index") == segments(tmp_path / "whole")


def segments(path):
    return {str(file.relative_to(path)): file.read_bytes() for file in path.glob("segment-*/*")}


def test_chunks_that_are_too_few_for_a_spec_are_compared_exactly_with_a_warning(tmp_path, avey_dir, caplog):
    index = Index.build(tmp_path / "index", DOCUMENTS, encoder=avey_dir, granularity="chunk", spec="IVF4000,Flat")
    assert f"{index.info()['vectors']} vectors are too few to train IVF4000,Flat, which takes 4000" in caplog.text
    assert [record.levelname for record in caplog.records if "too few" in record.message] == ["WARNING"]
    assert Retriever(index).search("number 7", top_k=10)
