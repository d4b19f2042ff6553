"""Attention of the Reformer as naive loops in double precision, for one head of one sequence. Arrays are NumPy float64.

Letters: T tokens, D width, R rounds, n buckets, m positions in a chunk.
"""

import math

import numpy as np


def chunks(x, rotation, size):
    """x (T, D), rotation (D, n / 2) -> the chunk of each position."""
    buckets = []
    for row in x:
        rotated = [row @ column for column in rotation.T]
        both = rotated + [-value for value in rotated]
        buckets.append(max(range(len(both)), key=lambda bucket, both=both: both[bucket]))
    order = sorted(range(len(x)), key=lambda position: (buckets[position], position))
    return {position: place // size for place, position in enumerate(order)}


def head(q, k, v, rotations, size, tied):
    """q, k, v (T, D), rotations (R, D, n / 2) -> context (T, D): one softmax over the union of all rounds."""
    keys = [row / math.sqrt(row @ row) for row in k] if tied else k
    context = np.zeros_like(v)
    rounds = [(chunks(q, each, size), chunks(np.array(keys), each, size)) for each in rotations]
    for i in range(len(q)):
        seen = [j for j in range(len(q)) if any(mine[i] - theirs[j] in (0, 1) for mine, theirs in rounds)]
        if tied and len(seen) > 1:
            seen.remove(i)
        scores = np.exp([q[i] @ keys[j] / math.sqrt(q.shape[1]) for j in seen])
        context[i] = sum(score * v[j] for score, j in zip(scores / scores.sum(), seen, strict=True)) if seen else 0
    return context
