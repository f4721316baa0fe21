"""Two ways to score chunks, and what is made of the scores."""

import pytest
import torch

from aveyb_ir.models import ranker_aveyb
from aveyb_ir.models.ranker_aveyb import distinct_token_scores, maxsim, select, unit_rows, weights


def scores_by_definition(unit_UD, token_N, size):
    chunks = [unit_UD[tokens] for tokens in token_N.split(size)]
    scores = torch.zeros(len(chunks), len(chunks), dtype=unit_UD.dtype)
    for i in range(len(chunks)):
        for j in range(i):
            scores[i, j] = (chunks[i] @ chunks[j].T).amax(-1).sum()
    return scores


@pytest.mark.parametrize("block", [1, 7, 1024])
@pytest.mark.parametrize(("length", "distinct"), [(17, 9), (160, 1), (161, 40), (400, 400), (555, 120)])
def test_distinct_tokens_give_maxsim(monkeypatch, block, length, distinct):
    monkeypatch.setattr(ranker_aveyb, "_BLOCK_TOKENS", block)
    monkeypatch.setattr(ranker_aveyb, "_BLOCK_SCORES", 10 * block)
    token = torch.cat([torch.arange(distinct), torch.randint(0, distinct, (length,))])[
        torch.randperm(length + distinct)
    ]
    unit = unit_rows(torch.randn(distinct, 24, dtype=torch.float64), 1e-12)
    found = distinct_token_scores(unit, token, 16).tril(-1)
    torch.testing.assert_close(found, scores_by_definition(unit, token, 16), atol=1e-10, rtol=0)


def test_equal_chunks_have_equal_scores():
    page = torch.randint(0, 50, (16,))
    token = torch.cat([page, torch.randint(0, 50, (16,)), page, page, torch.randint(0, 50, (40,))])
    _, token = torch.unique(token, return_inverse=True)
    unit = unit_rows(torch.randn(int(token.max()) + 1, 24), 1e-12)
    scores = distinct_token_scores(unit, token, 16)
    assert torch.equal(scores[4:, 0], scores[4:, 2])
    assert torch.equal(scores[4:, 0], scores[4:, 3])


def test_of_equal_scores_the_earlier_chunk_comes_first():
    scores = torch.tensor([[0.0] * 5] * 4 + [[2.0, 3.0, 2.0, 3.0, 9.0]])
    chunk, score = select(scores, 3)
    assert chunk[4].tolist() == [1, 3, 0]
    assert score[4].tolist() == [3, 3, 2]


def test_selection_in_blocks_is_selection(monkeypatch):
    scores = torch.randint(0, 5, (40, 40)).float()
    whole = select(scores, 3)
    monkeypatch.setattr(ranker_aveyb, "_BLOCK_SCORES", 100)
    assert all(torch.equal(a, b) for a, b in zip(select(scores, 3), whole, strict=True))


def test_missing_chunks_come_first_and_the_future_never():
    chunk, score = select(torch.arange(16.0).view(4, 4), 2)
    assert chunk.tolist() == [[-1, -1], [-1, 0], [1, 0], [2, 1]]
    assert score.tolist() == [[0, 0], [0, 4], [9, 8], [14, 13]]


def test_weights_are_relative_to_the_smallest_selected_score():
    there = torch.tensor([[False, True, True], [False, False, False], [True, True, True]])
    score = torch.tensor([[0.0, 6.0, 2.0], [0, 0, 0], [0, 0, 0]])
    assert weights(score, there).tolist() == [[0, 3, 1], [0, 0, 0], [0, 0, 0]]


def test_maxsim_in_blocks_is_maxsim(monkeypatch):
    query, key = torch.randn(9, 5, 8), torch.randn(9, 6, 8)
    whole = maxsim(query, key)
    monkeypatch.setattr(ranker_aveyb, "_BLOCK_SIMILARITIES", 60)
    torch.testing.assert_close(maxsim(query, key), whole)


def test_zero_rows_have_cosine_zero():
    unit = unit_rows(torch.tensor([[0.0, 0.0], [3.0, 4.0]]), 1e-12)
    torch.testing.assert_close(unit, torch.tensor([[0, 0], [0.6, 0.8]]))


@pytest.mark.parametrize("tail", ["zero", "mask"])
def test_both_ways_give_the_model_the_same_states(make_model, monkeypatch, tail):
    from aveyb_ir.models import blocks_aveyb

    model = make_model(tail=tail)
    ids = torch.randint(0, 97, (1, 301))
    states = []
    for pays in (True, False):
        monkeypatch.setattr(blocks_aveyb, "distinct_tokens_pay", lambda *_, pays=pays: pays)
        with torch.no_grad():
            states.append(model(ids).last_hidden_state)
    torch.testing.assert_close(states[0], states[1], atol=2e-5, rtol=0)
