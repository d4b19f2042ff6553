import numpy as np
import torch

from espnet_diverse.analysis.measures.attention_distance import AttentionDistance, rows, summary


def measured(*utterances):
    result = AttentionDistance()
    for weights in utterances:
        result.add(weights)
    return result


def shifted(size, *shifts):
    """One layer; each query of head h attends to the position `shifts[h]` behind it alone, around the end."""
    return torch.stack([torch.eye(size).roll(shift, 1) for shift in shifts])[None]


def test_the_distance_matches_the_definition():
    weights = torch.rand(2, 3, 5, 5).softmax(-1)
    naive = np.zeros((2, 3))
    for n, h, i, j in np.ndindex(*weights.shape):
        naive[n, h] += weights[n, h, i, j].item() * abs(i - j) / 5
    np.testing.assert_allclose(measured(weights).by_head(), naive, rtol=1e-6)


def test_utterances_count_alike_whatever_their_length():
    np.testing.assert_allclose(measured(shifted(2, 0), shifted(30, 1)).by_head(), [[(29 + 29) / 30 / 2]])


def test_rows_and_summary():
    two_layers = torch.cat([shifted(4, 0, 1), shifted(4, 1, 1)])
    found = {("encoder", "attention"): measured(two_layers), ("decoder", "semantic"): measured(shifted(4, 0, 0))}
    assert rows(found) == [
        ("encoder self-attention: attention", "0.75", "1.50"),
        ("decoder self-attention: semantic", "0.00"),
    ]
    assert summary(found)["encoder self-attention: attention"] == [[0.0, 1.5], [1.5, 1.5]]
