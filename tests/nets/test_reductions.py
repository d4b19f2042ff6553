"""Numbers of tokens over several processes."""

import pytest
import torch
from torch import distributed

from espnet_diverse.nets.reductions import OutOfMemoryElsewhereError, summed, token_count
from espnet_diverse.scope import scope


def test_alone_it_is_the_number_of_tokens():
    tokens = torch.tensor(7)
    assert token_count(tokens, 2) is tokens


@pytest.mark.parametrize(("mine", "other"), [((7, 2), (5, 4)), ((3, 1), (3, 1))])
def test_losses_averaged_by_sentences_are_a_mean_over_all_tokens(monkeypatch, mine, other):
    """Sums s and t over tokens: what two processes compute and ESPnet averages by sentences is (s + t) / tokens."""

    def share(this, that):
        def all_reduce(totals):
            totals += torch.tensor([*map(float, that), 0.0], dtype=totals.dtype)

        monkeypatch.setattr(distributed, "is_initialized", lambda: True)
        monkeypatch.setattr(distributed, "all_reduce", all_reduce)
        return token_count(torch.tensor(this[0]), this[1])

    s, t, sentences = 10.0, 4.0, mine[1] + other[1]
    average = mine[1] / sentences * s / share(mine, other) + other[1] / sentences * t / share(other, mine)
    torch.testing.assert_close(average, torch.tensor((s + t) / (mine[0] + other[0])))


def test_a_process_out_of_memory_is_told_to_all_others(monkeypatch):
    def all_reduce(totals):
        totals += torch.tensor([1.0, 2.0, 1.0], dtype=totals.dtype)

    monkeypatch.setattr(distributed, "all_reduce", all_reduce)
    with pytest.raises(OutOfMemoryElsewhereError, match="another process is out of memory"):
        summed(torch.tensor([3.0, 4.0]))
    assert summed(torch.tensor([3.0, 4.0]), failed=True).tolist() == [4.0, 6.0]


def test_an_open_scope_counts_for_the_parts_of_a_batch():
    with scope(token_count=lambda tokens, sentences: 10 * tokens + sentences):
        assert token_count(torch.tensor(7), 2) == 72
