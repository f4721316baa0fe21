"""Several processes write what one does, and say which shard a lost one was at."""

import os
import signal

import pytest

from aveyb_ir import Encoder
from aveyb_ir.data import Document
from aveyb_ir.encoding import EncoderStore, encode_to_store
from aveyb_ir.encoding.workers import _Setup
from aveyb_ir.errors import AveybError, ModelError

DOCUMENTS = [Document(str(i), f"number {i} {'of the river and its snow ' * (i % 7)}") for i in range(50)]


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_two_processes_write_the_same_bytes_as_none(avey_dir, tmp_path):
    arguments = {"granularity": "both", "shard_documents": 8}
    alone, beside = Encoder(avey_dir), Encoder(avey_dir)
    encode_to_store(tmp_path / "alone", DOCUMENTS, alone, **arguments)
    seen = []
    encode_to_store(tmp_path / "two", DOCUMENTS, beside, devices=["cpu"] * 2, progress=seen.append, **arguments)
    assert contents(tmp_path / "two") == contents(tmp_path / "alone")
    assert beside.counts == alone.counts
    assert [progress.documents for progress in seen] == [8, 16, 24, 32, 40, 48, 50]


def test_a_dead_process_is_an_error_that_names_the_shard_and_the_rest_goes_on(avey_dir, tmp_path):
    children = set_of_children()
    store = EncoderStore(tmp_path / "store", Encoder(avey_dir), shard_documents=8, devices=["cpu"])
    shards = store.encode(DOCUMENTS)
    next(shards)
    (worker,) = set_of_children() - children
    os.kill(worker, signal.SIGSTOP)  # so that it cannot answer the shard it was given
    os.kill(worker, signal.SIGKILL)
    with pytest.raises(AveybError, match=r"process on cpu that encoded shard \d ended with exit code -9"):
        list(shards)
    corpus = encode_to_store(tmp_path / "store", DOCUMENTS, Encoder(avey_dir), shard_documents=8)
    assert corpus.num_documents == 50


def test_a_model_that_other_processes_cannot_load_is_refused(avey_dir, tmp_path):
    loaded = Encoder(Encoder(avey_dir).model)
    with pytest.raises(ValueError, match="save the model and make the Encoder from its folder"):
        encode_to_store(tmp_path / "store", DOCUMENTS, loaded, devices=["cpu"])
    changed = Encoder(avey_dir)
    changed.model.prompts["document"] = "passage: "
    with pytest.raises(ModelError, match="it was changed since"):
        _Setup.of(changed, "cpu", ["cpu"], "document", 100).load()  # as the process does
    assert not list(tmp_path.iterdir())


def set_of_children():
    import psutil

    return {child.pid for child in psutil.Process().children()}
