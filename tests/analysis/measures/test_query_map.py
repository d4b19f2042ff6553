import math

import numpy as np
import pytest
import torch

from espnet_diverse.analysis.measures import query_map
from espnet_diverse.analysis.measures.query_map import QuerySample, embed, separation


def sample():
    """Queries of two heads that name their head and position."""
    drawn = QuerySample(5)
    for index in range(5):
        positions = 100 * index + torch.arange(20.0)
        drawn.add(torch.stack([torch.stack([torch.full((20,), h), positions], -1) for h in (0.0, 1.0)]))
    return drawn.queries()


def test_a_sample_is_bounded_and_takes_the_same_positions_of_all_heads(monkeypatch):
    monkeypatch.setattr(query_map, "POINTS", 30)
    queries = sample()
    assert queries.shape == (2, 15, 2)
    assert (queries[0, :, 0] == 0).all() and (queries[1, :, 0] == 1).all()
    assert (queries[0, :, 1] == queries[1, :, 1]).all()
    assert len(set(queries[0, :, 1] // 100)) == 5  # every utterance has a part
    np.testing.assert_array_equal(queries, sample())


def test_few_queries_are_all_taken():
    assert sample().shape == (2, 100, 2)


def test_heads_apart_stay_apart_and_points_repeat():
    random = np.random.default_rng(0)
    queries = random.standard_normal((2, 12, 8)).astype(np.float32)
    queries[1] += 50
    points = embed(queries)
    assert points.shape == (2, 12, 2)
    np.testing.assert_array_equal(points, embed(queries))
    centres = points.mean(1)
    spread = np.linalg.norm(points - centres[:, None], axis=-1).max()
    assert np.linalg.norm(centres[0] - centres[1]) > spread


def test_one_point_has_a_map():
    assert embed(np.ones((1, 1, 8), np.float32)).tolist() == [[[0.0, 0.0]]]


def silhouette(queries):
    """The definition, query by query."""
    heads, count, _ = queries.shape
    values = []
    for h in range(heads):
        for q in range(count):
            apart = np.linalg.norm(queries - queries[h, q], axis=-1)  # (H, n)
            own = apart[h].sum() / (count - 1)
            other = min(apart[g].mean() for g in range(heads) if g != h)
            values.append((other - own) / max(own, other))
    return np.mean(values)


def test_separation_is_the_mean_silhouette():
    queries = np.random.default_rng(0).standard_normal((3, 7, 4))
    queries[2] += 0.5
    assert separation(queries) == pytest.approx(silhouette(queries), abs=1e-12)


def test_separation_of_heads_apart_and_of_heads_that_overlap():
    queries = np.random.default_rng(0).standard_normal((2, 200, 8))
    assert abs(separation(queries)) < 0.02
    queries[1] += 1000
    assert separation(queries) > 0.99
    assert math.isnan(separation(queries[:1])) and math.isnan(separation(queries[:, :1]))
