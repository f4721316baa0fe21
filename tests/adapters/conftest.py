import os

# Before Haystack is imported: tests never reach for the network, and a saved pipeline may name the adapter.
os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
os.environ["HAYSTACK_DESERIALIZATION_ALLOWLIST"] = "aveyb_ir.adapters.haystack"

import pytest

from aveyb_ir import Encoder, Index, Retriever
from aveyb_ir.data import Document

PLACES = ["garden", "lighthouse", "river", "mountain", "harbour"]
THINGS = ["table", "stairs", "snow", "ships", "children"]
DOCUMENTS = [
    Document(
        f"{place}-{i}",
        f"the {place} number {i} has {thing} and more {thing} near " + " and ".join(THINGS * (1 + i)),
        title=place if i else "",
        metadata={"year": 2000 + i, "place": {"name": place}, "title": "not this one", "even": i % 2 == 0},
    )
    for place in PLACES
    for i, thing in enumerate(THINGS)
]
QUERY = "ships near the harbour"


@pytest.fixture(scope="session")
def encoder(avey_dir):
    return Encoder(avey_dir, device="cpu")


@pytest.fixture(scope="session")
def index_path(tmp_path_factory, encoder):
    path = tmp_path_factory.mktemp("adapters") / "index"
    Index.build(path, DOCUMENTS, encoder=encoder, granularity="both")
    return path


@pytest.fixture(scope="session")
def retriever(index_path, encoder):
    """What every adapter must agree with."""
    return Retriever(index_path, encoder=encoder)


@pytest.fixture(params=["dense", "bm25", "hybrid"])
def mode(request):
    return request.param
