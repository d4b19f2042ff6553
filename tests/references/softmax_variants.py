"""Attentions beside softmax as naive loops in double precision, for one sequence at a time.

Arrays are NumPy float64. Letters: T tokens, D width of a head, H heads, M width of the input, K positions of a filter.
"""

import math

import numpy as np

from references.sdma import attention


def gates(x, w, scale):
    """Sigmoids of x (T, M) times w (N, M) -> (T, N)."""
    return np.array([[scale / (1 + math.exp(-float(row @ one))) for one in w] for row in x])


def memory(v, filters, residual):
    """A convolution along time by channels: v (T, D), filters (D, K) -> (T, D)."""
    width = filters.shape[1]
    result = v.copy() if residual else np.zeros_like(v)
    for t in range(len(v)):
        for d in range(v.shape[1]):
            for step in range(width):
                near = t + step - (width - 1) // 2
                if 0 <= near < len(v):
                    result[t, d] += filters[d, step] * v[near, d]
    return result


def talking_heads(q, k, before, after, seen, bias):
    """q and k (H, T, D), maps (H, H), seen (H, T, T) bool, bias (H, T, T) -> weights and mixed weights (H, T, T)."""
    heads, time, width = q.shape
    logits, mixed = (np.zeros((heads, time, time)) for _ in range(2))
    for g in range(heads):
        for h in range(heads):
            logits[g] += before[h, g] * (q[h] @ k[h].T / math.sqrt(width) + bias[h])
    nothing = np.zeros((time, 1))
    weights = np.array([attention(nothing, nothing, seen[g], bias=logits[g]) for g in range(heads)])
    for h in range(heads):
        for g in range(heads):
            mixed[h] += after[g, h] * weights[g]
    return weights, mixed


def differential(q, k, v, vectors, initial, norm, seen, terms):
    """q, k and v (T, D), vectors (4, D / 2) in the order q1 k1 q2 k2, norm (D,), terms (2, T, T) -> (T, D)."""
    half = q.shape[1] // 2
    first, second = (
        attention(q[:, part], k[:, part], seen, bias=term / math.sqrt(half))
        for part, term in zip((slice(0, half), slice(half, None)), terms, strict=True)
    )
    q1, k1, q2, k2 = vectors
    weight = math.exp(float(q1 @ k1)) - math.exp(float(q2 @ k2)) + initial
    context = (first - weight * second) @ v
    for row in context:
        row *= (1 - initial) * norm / math.sqrt(sum(value**2 for value in row) / len(row) + 1e-5)
    return context
