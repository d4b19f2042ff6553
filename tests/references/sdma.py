"""The SDMA paper's equations as naive loops in double precision, for one unpadded sequence at a time.

Arrays are NumPy float64. Letters: T tokens, D width, C clusters, H heads, N layers.
"""

import math

import numpy as np


def log_gaussian(x, mean, log_var):
    """log N(x; mean, diag exp(log_var)) for vectors of D numbers."""
    total = 0.0
    for value, centre, spread in zip(x, mean, log_var, strict=True):
        total -= 0.5 * (math.log(2 * math.pi) + spread + (value - centre) ** 2 / math.exp(spread))
    return total


def log_density(x, log_prior, mean, log_var):
    """log pi_c + log N(x_i; c), terms of (5): x (T, D), log_prior (C,), mean and log_var (C, D) -> (T, C)."""
    normaliser = math.log(sum(math.exp(value) for value in log_prior))
    result = np.zeros((len(x), len(mean)))
    for i, token in enumerate(x):
        for c in range(len(mean)):
            result[i, c] = log_prior[c] - normaliser + log_gaussian(token, mean[c], log_var[c])
    return result


def _softmax(row):
    peak = max(row)
    terms = [math.exp(value - peak) for value in row]
    return [term / sum(terms) for term in terms]


def responsibility(x, log_prior, mean, log_var):
    """(9) -> (T, C)."""
    return np.array([_softmax(row) for row in log_density(x, log_prior, mean, log_var)])


def attention(q, k, mask=None, scale=None, bias=None):
    """(1): q (Tq, D), k (Tk, D), mask and bias (Tq, Tk) -> A (Tq, Tk); zeros where nothing may be attended."""
    scale = 1 / math.sqrt(q.shape[1]) if scale is None else scale
    result = np.zeros((len(q), len(k)))
    for i in range(len(q)):
        seen = [j for j in range(len(k)) if mask is None or mask[i, j]]
        scores = [float(np.dot(q[i], k[j])) * scale + (0 if bias is None else bias[i, j]) for j in seen]
        for j, weight in zip(seen, _softmax(scores) if seen else [], strict=True):
            result[i, j] = weight
    return result


def semantic_mask(p_query, p_key, mask=None):
    """(10): p_query (Tq, C), p_key (Tk, C) -> M (Tq, Tk)."""
    result = np.zeros((len(p_query), len(p_key)))
    for i in range(len(p_query)):
        for j in range(len(p_key)):
            if mask is None or mask[i, j]:
                result[i, j] = sum(p_query[i, c] * p_key[j, c] for c in range(p_query.shape[1]))
        total = result[i].sum()
        if total > 0:
            result[i] /= total
    return result


def masked_attention(weights, semantic):
    """(2): A and M (Tq, Tk) -> Abar (Tq, Tk)."""
    result = np.zeros_like(weights)
    for i in range(len(weights)):
        total = sum(semantic[i, j] * weights[i, j] for j in range(weights.shape[1]))
        for j in range(weights.shape[1]):
            result[i, j] = semantic[i, j] * weights[i, j] / total if total > 0 else 0.0
    return result


def mixed_attention(q, k, p_query, p_key, gamma, mask=None, scale=None, bias=None):
    """(1), (10), (2) and (11) -> Ahat (Tq, Tk)."""
    weights = attention(q, k, mask, scale, bias)
    masked = masked_attention(weights, semantic_mask(p_query, p_key, mask))
    return (1 - gamma) * weights + gamma * masked


def gamma(step, nu, rate):
    """The mixing rate of (11), the sign of its exponent repaired."""
    return 1 - max(1 - nu, math.exp(-rate * step))


def cluster_kl(x, log_prior, mean, log_var, variance, direction="paper"):
    """(20) of one head, q(x) = N(x, variance): the Gaussian part in expectation over (9), and the categorical part."""
    posterior = responsibility(x, log_prior, mean, log_var)
    prior = _softmax(log_prior)
    total = 0.0
    for i, token in enumerate(x):
        for c, p in enumerate(posterior[i]):
            gaussian = 0.0
            for value, centre, spread in zip(token, mean[c], log_var[c], strict=True):
                target = math.exp(spread)
                gaussian += 0.5 * (math.log(target / variance) + (variance + (value - centre) ** 2) / target - 1)
            total += p * gaussian
            if direction == "paper":
                total += p * math.log(p / prior[c])
            else:
                total += prior[c] * math.log(prior[c] / p)
    return total / len(x)


def query_given_cluster(q, log_prior, mean, log_var, temper=1.0):
    """(17) with (18) to the power of `temper`, of one head: q (T, D) -> (T, C), normalised over tokens."""
    joint = log_density(q, log_prior, mean, log_var)
    posterior = responsibility(q, log_prior, mean, log_var)
    result = np.zeros_like(joint)
    for c in range(joint.shape[1]):
        scores = []
        for i in range(len(q)):
            log_p = math.log(sum(math.exp(value - joint.max()) for value in joint[i])) + joint.max()  # (18)
            scores.append(math.log(posterior[i, c]) + temper * log_p)
        result[:, c] = _softmax(scores)
    return result


def query_given_query(q, log_prior, mean, log_var, temper=1.0):
    """(16): q (H, T, D), one mixture for all heads -> (T, H, H)."""
    heads, time, _ = q.shape
    told = [query_given_cluster(head, log_prior, mean, log_var, temper) for head in q]
    given = [responsibility(head, log_prior, mean, log_var) for head in q]
    result = np.zeros((time, heads, heads))
    for i in range(time):
        for h in range(heads):
            for other in range(heads):
                result[i, h, other] = sum(told[h][i, c] * given[other][i, c] for c in range(len(log_prior)))
    return result


def head_mi_upper(p):
    """(21): p (T, H, H) of (16)."""
    time, heads, _ = p.shape
    total = 0.0
    for i in range(time):
        for h in range(heads):
            for other in range(heads):
                if other != h:
                    total -= math.log(1 - p[i, h, other])
    return total / (time * heads**2)


def head_mi_leave_one_out(q, log_prior, mean, log_var):
    """(14) summed over pairs of different heads and divided by their number with equal ones: q (H, T, D)."""
    heads, time, _ = q.shape
    told = [query_given_cluster(head, log_prior, mean, log_var) for head in q]
    given = [responsibility(head, log_prior, mean, log_var) for head in q]

    def log_p(i, h, j, other):  # (16), of the query of token i in head h and that of token j in another head
        return math.log(sum(told[h][i, c] * given[other][j, c] for c in range(len(log_prior))))

    total = 0.0
    for h in range(heads):
        for other in range(heads):
            if other != h:
                for i in range(time):
                    rest = sum(log_p(i, h, j, other) for j in range(time) if j != i)
                    total += (log_p(i, h, i, other) - rest / (time - 1)) / time
    return total / heads**2


def query_mi_lower(p):
    """(19) and (22) of one head: p (T, C)."""
    total = 0.0
    for i in range(len(p)):
        f = [float(np.dot(p[i], p[j])) for j in range(len(p))]
        total += math.log(math.exp(f[i]) / sum(math.exp(value) for value in f))
    return total / len(p)


def diversity(p, alpha, beta, form="paper"):
    """(23) of one head: p (T, C). "code" leaves the mask unsquared, "balanced" takes each part's own mean."""
    time = len(p)
    diagonal = between = 0.0
    for i in range(time):
        for j in range(time):
            square = (float(np.dot(p[i], p[j])) - (i == j)) ** 2
            if i == j:
                diagonal += square
            else:
                between += square
    if form == "balanced":
        return alpha**2 * diagonal / time + beta**2 * between / (time * (time - 1))
    power = 1 if form == "code" else 2
    return (alpha**power * diagonal + beta**power * between) / time**2


def _jensen_shannon(rows):
    """Generalised Jensen-Shannon divergence of distributions, in bits."""
    middle = sum(rows) / len(rows)
    return _entropy(middle) - sum(_entropy(row) for row in rows) / len(rows)


def _entropy(p):
    return -sum(value * math.log2(value) for value in p if value > 0)


def layer_redundancy(weights):
    """LR, in bits: weights (N, H, Tq, Tk)."""
    layers, heads, queries, _ = weights.shape
    total = 0.0
    for layer in weights:
        divergence = sum(_jensen_shannon([head[i] for head in layer]) for i in range(queries)) / queries
        total += math.log2(heads) - divergence
    return total / layers


def head_redundancy_matrix(weights):
    """1 - JS of every two heads: weights (N, H, Tq, Tk) -> (N H, N H); its mean is HR."""
    heads = [head for layer in weights for head in layer]
    result = np.zeros((len(heads), len(heads)))
    for a, first in enumerate(heads):
        for b, second in enumerate(heads):
            divergences = [_jensen_shannon([first[i], second[i]]) for i in range(len(first))]
            result[a, b] = 1 - sum(divergences) / len(divergences)
    return result
