"""Numbers of tokens over several processes."""

import pytest
import torch
from torch import distributed

from espnet_diverse.nets.processes import token_count


def test_alone_it_is_the_number_of_tokens():
    tokens = torch.tensor(7)
    assert token_count(tokens, 2) is tokens


@pytest.mark.parametrize(("mine", "other"), [((7, 2), (5, 4)), ((3, 1), (3, 1))])
def test_losses_averaged_by_sentences_are_a_mean_over_all_tokens(monkeypatch, mine, other):
    """Sums s and t over tokens: what two processes compute and ESPnet averages by sentences is (s + t) / tokens."""

    def share(this, that):
        def all_reduce(totals):
            totals += torch.tensor([*map(float, that)], dtype=totals.dtype)

        monkeypatch.setattr(distributed, "is_initialized", lambda: True)
        monkeypatch.setattr(distributed, "all_reduce", all_reduce)
        return token_count(torch.tensor(this[0]), this[1])

    s, t, sentences = 10.0, 4.0, mine[1] + other[1]
    average = mine[1] / sentences * s / share(mine, other) + other[1] / sentences * t / share(other, mine)
    torch.testing.assert_close(average, torch.tensor((s + t) / (mine[0] + other[0])))
