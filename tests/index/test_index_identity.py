import pytest

from aveyb_ir.index import EncoderIdentity


def test_identities_match_by_fingerprint_and_dimension_alone() -> None:
    one = EncoderIdentity("one", "f", 4, {"pooling": "mean"})
    assert one.matches(EncoderIdentity("two", "f", 4))
    assert not one.matches(EncoderIdentity("one", "g", 4, {"pooling": "mean"}))
    assert not one.matches(EncoderIdentity("one", "f", 5, {"pooling": "mean"}))


def test_differences_name_what_differs_and_nothing_else() -> None:
    one = EncoderIdentity("one", "f", 4, {"pooling": "mean", "prompts": {"query": "q: "}, "normalize": True})
    two = EncoderIdentity("one", "g", 4, {"pooling": "cls", "normalize": True})
    assert one.differences(two) == (
        "pooling 'mean' against 'cls', prompts {'query': 'q: '} against None, fingerprint 'f' against 'g'"
    )
    assert one.differences(one) == ""


def test_details_are_held_as_json_gives_them_back() -> None:
    assert EncoderIdentity("e", "f", 4, {"layers": (1, 2)}) == EncoderIdentity("e", "f", 4, {"layers": [1, 2]})


@pytest.mark.parametrize(
    "arguments", [("e", "", 4), ("e", "f", 0), ("e", "f", 4, {"weights": object()})], ids=["blank", "flat", "object"]
)
def test_an_impossible_identity_is_refused(arguments: tuple[str, str, int]) -> None:
    with pytest.raises(ValueError, match="encoder 'e'"):
        EncoderIdentity(*arguments)
