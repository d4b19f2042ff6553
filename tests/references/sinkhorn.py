"""Sparse Sinkhorn attention as naive loops in double precision, for one head of one sequence. Arrays are NumPy float64.

Letters: T tokens, D width, S positions in a block, N blocks.
"""

import math

import numpy as np


def normalised(logits, iterations):
    """Rows, then columns of exp(logits) (N, N) divided by their sums, `iterations` times."""
    table = np.exp(logits)
    for _ in range(iterations):
        for row in table:
            row /= sum(row)
        for column in table.T:
            column /= sum(column)
    return table


def head(q, k, v, size, iterations, temperature):
    """q, k, v (T, D) -> context (T, D); the last block may be shorter."""
    blocks = [range(start, min(start + size, len(q))) for start in range(0, len(q), size)]
    means = [[np.mean([x[i] for i in block], axis=0) for block in blocks] for x in (q, k)]
    logits = np.array([[a @ b / math.sqrt(q.shape[1]) / temperature for b in means[1]] for a in means[0]])
    order, context = normalised(logits, iterations), np.zeros_like(v)
    for n, block in enumerate(blocks):
        keys, values = [], []
        for place in range(min(size, len(q))):
            mixed = [np.zeros(x.shape[1]) for x in (k, v)]
            for m, other in enumerate(blocks):
                if place < len(other):
                    mixed = [sums + order[n, m] * x[other[place]] for sums, x in zip(mixed, (k, v), strict=True)]
            keys.append(mixed[0])
            values.append(mixed[1])
        keys += [k[i] for i in block]
        values += [v[i] for i in block]
        for i in block:
            scores = np.exp([q[i] @ key / math.sqrt(q.shape[1]) for key in keys])
            context[i] = sum(score * value for score, value in zip(scores / scores.sum(), values, strict=True))
    return context
