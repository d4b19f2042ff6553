"""Sparse patterns, lambda and kernel attention as naive loops in double precision, for one sequence at a time.

Arrays are NumPy float64. Letters: T tokens, D width, R features.
"""

import itertools
import math

import numpy as np


def window_mask(time, window, dilation=1, global_runs=(), causal=False):
    """Which pairs (T, T) a window with global positions allows."""
    mask = np.zeros((time, time), dtype=bool)
    for i in range(time):
        for j in range(time):
            near = any(i - j in (step * dilation, -step * dilation) for step in range(window + 1))
            is_global = any(i in run or j in run for run in global_runs)
            mask[i, j] = (near or is_global) and not (causal and j > i)
    return mask


def bigbird_mask(time, size, window=1, first=1, random=3, seed=0, causal=False):
    """Which pairs (T, T) BigBird allows; `drawn_blocks` draws the random blocks."""
    mask = np.zeros((time, time), dtype=bool)
    for i in range(time):
        own = i // size
        drawn = drawn_blocks(own, own + 1 if causal else -(-time // size), window, first, random, seed)
        for j in range(time):
            block = j // size
            seen = abs(own - block) <= window or block < first or own < first or block in drawn
            mask[i, j] = seen and not (causal and j > i)
    return mask


def drawn_blocks(own, count, window, first, random, seed):
    """The random blocks of block `own` among `count`: one of each of `random` equal parts of those not yet seen."""
    unseen = [block for block in range(first, count) if abs(own - block) > window]
    bounds = [part * len(unseen) // random for part in range(random + 1)] if random else []
    parts = [unseen[start:end] for start, end in itertools.pairwise(bounds)]
    bits = [murmur(own * random + part, seed) for part in range(random)]
    return {part[len(part) * draw // 2**32] for part, draw in zip(parts, bits, strict=True) if part}


def murmur(number, seed):
    """The final steps of MurmurHash3 for 32 bits."""
    bits = (number + seed * 0x9E3779B1) % 2**32
    bits = (bits ^ bits >> 16) * 0x85EBCA6B % 2**32
    bits = (bits ^ bits >> 13) * 0xC2B2AE35 % 2**32
    return bits ^ bits >> 16


def lambda_attention(q, k, v, mask):
    """q (Tq, D), k (Tk, D), v (Tk, Dv), mask (Tq, Tk) -> (Tq, Dv): each query sums softmaxes of the keys' channels."""
    result = np.zeros((len(q), v.shape[1]))
    for i in range(len(q)):
        seen = [j for j in range(len(k)) if mask[i, j]]
        for d in range(q.shape[1]) if seen else ():
            peak = max(k[j, d] for j in seen)
            terms = {j: math.exp((k[j, d] - peak) / math.sqrt(q.shape[1])) for j in seen}
            for j in seen:
                result[i] += q[i, d] * terms[j] / sum(terms.values()) * v[j]
    return result


def positive(x, w):
    """FAVOR+ features of x (T, D) with w (R, D) -> (T, R)."""
    return np.array([[math.exp(row @ one - one @ one / 2) / math.sqrt(len(w)) for row in w] for one in x])


def trigonometric(x, w):
    """Sines, then cosines of x (T, D) with w (R, D) -> (T, 2 R)."""
    return np.array([[f(row @ one) / math.sqrt(len(w)) for f in (math.sin, math.cos) for row in w] for one in x])


def kernel_attention(kernel, v, mask, least=0.0):
    """kernel (Tq, Tk), v (Tk, D), mask (Tq, Tk) -> (Tq, D); a denominator is at least `least` for each key."""
    result = np.zeros((len(kernel), v.shape[1]))
    for i, row in enumerate(kernel):
        seen = [j for j in range(len(v)) if mask[i, j]]
        if seen:
            result[i] = sum(row[j] * v[j] for j in seen) / max(sum(row[j] for j in seen), least * len(seen))
    return result
