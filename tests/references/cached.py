"""Decoding with a cache, as in a search."""

import torch


def assert_cached_equals_full(net, memory, ys):
    """Scores of a decoder for prefixes of ys (B, L), step by step, are those of one pass over memory (B, T, M)."""
    (batch, length), states = ys.shape, [None] * len(ys)
    full, _ = net(memory, torch.tensor([memory.size(1)] * batch), ys, torch.tensor([length] * batch))
    for step in range(1, length + 1):
        logp, states = net.batch_score(ys[:, :step], states, memory)
        torch.testing.assert_close(logp, full[:, step - 1].log_softmax(-1))
