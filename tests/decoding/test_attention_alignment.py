"""Frames of tokens from attention: the equations against loops, and a batch against single utterances."""

import itertools

import numpy as np
import pytest
import torch
from references.whisper import write_whisper

from espnet_diverse.decoding.attention_alignment import align, aligns, evidence, warped
from espnet_diverse.decoding.encoder.encoding import Encoded
from espnet_diverse.decoding.predictor import load_predictor
from espnet_diverse.runs.packed.archive import unpacked


@pytest.fixture(scope="module")
def tiny_whisper(tmp_path_factory):
    """A run of a small Whisper model."""
    root = tmp_path_factory.mktemp("whisper")
    write_whisper(root / "whisper")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ESPNET_DIVERSE_CACHE", str(root / "cache"))
        yield unpacked(root / "whisper")


TEXTS = [[300, 301, 302, 303], [310, 311]]


@pytest.mark.parametrize(("count", "frames"), [(1, 1), (1, 5), (3, 6), (4, 4), (5, 3)])
def test_the_path_has_the_greatest_sum(count, frames):
    scores = np.random.default_rng(count * frames).normal(size=(count, frames))
    paths = [((0, 0),)]
    found = []
    while paths:
        path = paths.pop()
        row, column = path[-1]
        if (row, column) == (count - 1, frames - 1):
            found.append(path)
        steps = [(row + 1, column + 1), (row + 1, column), (row, column + 1)]
        paths += [(*path, step) for step in steps if step[0] < count and step[1] < frames]
    best = max(found, key=lambda path: sum(scores[cell] for cell in path))
    expected = [next(column for row, column in best if row == wanted) for wanted in range(count)]
    assert warped(scores) == expected


def test_evidence_is_a_mean_of_medians_of_normalised_weights():
    torch.manual_seed(0)
    weights = torch.randn(3, 4, 9).softmax(-1)
    expected = np.zeros((4, 9))
    for head, token, frame in itertools.product(range(3), range(4), range(9)):
        window = []
        for near in range(frame - 3, frame + 4):
            at = -near if near < 0 else 16 - near if near > 8 else near
            column = weights[head, :, at].double().numpy()
            window.append((column[token] - column.mean()) / column.std())
        expected[token, frame] += np.median(window) / 3
    np.testing.assert_allclose(evidence(weights), expected, atol=1e-9)


def test_few_frames_have_no_median():
    assert evidence(torch.rand(2, 3, 2)).shape == (3, 2) and np.isfinite(evidence(torch.full((2, 3, 2), 0.5))).all()


def test_an_utterance_does_not_depend_on_the_batch(tiny_whisper):
    predictor = load_predictor(tiny_whisper)
    model, ids = predictor.encoding.model, dict.fromkeys(predictor.conditions.names, 0)
    sources = [predictor.features(np.sin(np.arange(n) / 9).astype(np.float32)) for n in (24000, 12000)]
    together = align(model, predictor.encode(sources, [ids, ids]), TEXTS)
    for spans, source, text in zip(together, sources, TEXTS, strict=True):
        encoded = predictor.encode([source], [ids])
        assert isinstance(encoded, Encoded)
        (alone,) = align(model, encoded, [text])
        assert [span.token for span in spans] == text
        assert [(span.start, span.end) for span in spans] == [(span.start, span.end) for span in alone]
        assert [span.score for span in spans] == pytest.approx([span.score for span in alone], abs=1e-5)
        assert all(first.end <= second.start for first, second in itertools.pairwise(spans))
        assert all(span.start < span.end <= encoded.output.size(1) for span in spans)
    assert predictor.spans(sources[1], ids, TEXTS[1]) == pytest.approx(alone)


def test_only_weights_that_can_be_shown_align(tiny_whisper, tiny_run):
    model = load_predictor(tiny_whisper).encoding.model
    assert aligns(model) and not aligns(load_predictor(tiny_run.model_dir).encoding.model)
    del model.decoder
    assert not aligns(model)
