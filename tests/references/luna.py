"""Luna's equations, numbered as in `functional/luna.py`, as naive loops in double precision for one sequence.

Arrays are NumPy float64. Letters: T positions, M width, D width of a head, R rows of P.
"""

import math

import numpy as np

from references.sdma import attention


def multi_head(q, k, v, heads, seen):
    """Softmax attention of `heads` heads: q (Tq, M), k and v (Tk, M), seen (Tk,) bool -> (Tq, M)."""
    width, mask = q.shape[1] // heads, np.broadcast_to(seen, (len(q), len(k)))
    parts = [slice(h * width, (h + 1) * width) for h in range(heads)]
    return np.concatenate([attention(q[:, part], k[:, part], mask) @ v[:, part] for part in parts], axis=1)


def nested(p, q, k, v, unpack_k, unpack_v, pack_heads, heads, seen):
    """(1), (2): p (R, M), q (Tq, M), k and v (Tk, M) -> Y_X (Tq, M), Y_P (R, M).

    `unpack_k` and `unpack_v` project a row of Y_P. Row i of P takes part if there are more than i positions.
    """
    packed = multi_head(p, k, v, pack_heads, seen)
    keys, values = (np.array([project(row) for row in packed]) for project in (unpack_k, unpack_v))
    return multi_head(q, keys, values, heads, np.arange(len(p)) < sum(seen)), packed


def pattern(p, c):
    """(3): p (R, D), c (T, D) -> w (T, R)."""
    scores = [[float(np.dot(row, position)) / math.sqrt(len(row)) for row in p] for position in c]
    return np.array([[math.log2(1 + 2**score) for score in row] for row in scores])


def running_mean(x, y, z, seen):
    """f_t(x, y, z): x (Tq, D1), y (Tk, D1), z (Tk, D2), seen (Tq, Tk) bool -> (Tq, D2)."""
    result = np.zeros((len(x), z.shape[1]))
    for t in range(len(x)):
        visible = [j for j in range(len(y)) if seen[t, j]]
        for j in visible:
            result[t] += float(np.dot(x[t], y[j])) * z[j] / len(visible)
    return result


def causal(q, k, v, w, seen):
    """(4), (5) for one head: q (Tq, D), k and v (Tk, D), w (Tk, R), seen (Tq, Tk) bool -> y (Tq, D)."""
    logits = running_mean(q / math.sqrt(q.shape[1]), k, w, seen)
    a = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    return running_mean(a, w, v, seen)
