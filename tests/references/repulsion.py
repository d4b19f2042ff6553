"""The repulsive-attention paper's equations as naive loops in double precision.

Arrays are NumPy float64. Letters: M particles, D width, H heads, T positions.
"""

import math

import numpy as np


def bandwidth(x, rule):
    """h of particles x (M, D)."""
    if not isinstance(rule, str):
        return rule
    m = len(x)
    if rule == "official":
        squared = [sum((a - b) ** 2 for a, b in zip(x[i], x[j], strict=True)) for i in range(m) for j in range(m)]
        return np.median(squared) / math.log(m + 1)
    distances = [math.sqrt(sum((x[i] - x[j]) ** 2)) for i in range(m) for j in range(i)]
    return np.median(distances) ** 2 / math.log(m)


def svgd(x, grad, alpha, rule, relative=False):
    """(4): x and grad (M, D) -> phi (M, D)."""
    h, m = bandwidth(x, rule), len(x)
    smoothed, repelling = np.zeros_like(x), np.zeros_like(x)
    for i in range(m):
        for j in range(m):
            kernel = math.exp(-sum((x[i] - x[j]) ** 2) / h)
            smoothed[i] += kernel * grad[j] / m
            repelling[i] += 2 / h * kernel * (x[i] - x[j]) / m
    if relative:
        alpha *= np.linalg.norm(smoothed) / np.linalg.norm(repelling)
    return alpha * repelling - smoothed


def cosine(a, b):
    """Cosine of two vectors, 0 if one is 0."""
    norms = math.sqrt(sum(a * a)) * math.sqrt(sum(b * b))
    return sum(a * b) / norms if norms else 0.0


def disagreement(heads, valid, per):
    """-1/H^2 sum_ij cos of one sample, heads (H, T, D), of which the first `valid` positions count."""
    number = len(heads)
    heads, total = heads[:, :valid], 0.0
    for i in range(number):
        for j in range(number):
            if per == "sequence":
                total += cosine(heads[i].ravel(), heads[j].ravel())
            else:
                total += sum(cosine(heads[i, t], heads[j, t]) for t in range(valid)) / valid
    return -total / number**2


def position_disagreement(weights, valid):
    """-1/H^2 sum_ij |A_i . A_j| of one sample, weights (H, Tq, Tk)."""
    number = len(weights)
    pairs = [(weights[i, :valid], weights[j, :valid]) for i in range(number) for j in range(number)]
    return -sum(abs((a * b).sum()) for a, b in pairs) / number**2


def pooling_weights(h, w, v, valid):
    """(9) of one sample: h (T, D), w (E, D), v (M, E) -> weights (M, T); positions from `valid` on have 0."""
    weights = np.zeros((len(v), len(h)))
    for i in range(len(v)):
        scores = [sum(v[i, e] * math.tanh(sum(w[e] * h[t])) for e in range(len(w))) for t in range(valid)]
        weights[i, :valid] = np.exp(scores) / sum(np.exp(scores))
    return weights


def frobenius(a):
    """||A A^T - I||_F^2 of weights (H, T)."""
    total = 0.0
    for i in range(len(a)):
        for j in range(len(a)):
            total += (sum(a[i] * a[j]) - (i == j)) ** 2
    return total
