"""CTC alignments against paths that are enumerated."""

import itertools

import pytest
import torch
from espnet2.asr.ctc import CTC
from references.posteriors import planted

from espnet_diverse.decoding.ctc_alignment import align, ctc_support
from espnet_diverse.nets.whisper.byte_ctc import ByteCTC


def best_path(log_probs, ids):
    """The most probable of all paths that give `ids`, and whether there is one."""
    frames, labels = log_probs.shape
    paths = itertools.product(range(labels), repeat=frames)
    giving = [path for path in paths if [key for key, _ in itertools.groupby(path) if key] == ids]
    return max(giving, key=lambda path: sum(float(log_probs[t, k]) for t, k in enumerate(path)), default=None)


def spans_of(path):
    """First frame and the one after the last of each run of a label that is not blank."""
    spans, at = [], 0
    for label, run in itertools.groupby(path):
        length = len(list(run))
        if label:
            spans.append((at, at + length))
        at += length
    return spans


@pytest.mark.parametrize("ids", [[], [1], [1, 1], [2, 1], [1, 2, 2], [2, 2, 2], [1, 2, 1, 2], [1, 1, 1, 1]], ids=str)
def test_alignment_is_the_best_of_all_paths(ids):
    for seed in range(5):
        torch.manual_seed(seed)
        log_probs = (2 * torch.randn(6, 3)).log_softmax(-1)
        expected, found = best_path(log_probs, ids), align(log_probs, ids)
        if expected is None:
            assert found is None
            continue
        assert [(span.start, span.end) for span in found] == spans_of(expected)
        assert [span.token for span in found] == ids
        for span in found:
            assert span.score == pytest.approx(float(log_probs[span.start : span.end, span.token].exp().mean()))


def test_support_is_the_share_of_tokens_that_ctc_hears():
    log_probs = torch.cat([planted([1, 0], 4), planted([0, 3], 4, 0.99)])
    assert ctc_support(align(log_probs, [1, 3])) == 1.0
    assert ctc_support(align(log_probs, [1, 2, 3])) == pytest.approx(2 / 3)
    assert ctc_support(align(planted([0] * 9, 4, 0.99), [1, 2, 3])) == 0.0
    assert ctc_support(align(log_probs, [])) == 0.0


def test_a_text_that_does_not_fit_has_no_spans_and_no_support():
    assert align(planted([1, 0], 2), [1, 1]) is None and ctc_support(None) == 0.0


def test_half_precision_is_aligned_too():
    log_probs = planted([0, 1, 0, 2], 3)
    assert [span.start for span in align(log_probs.bfloat16(), [1, 2])] == [1, 3]


def test_tokens_of_bytes_last_from_their_first_byte_to_their_last():
    ctc = ByteCTC(CTC(4, 2), ["<blank>", "<unk>", "ab", "c", "<|de|>", "<sos/eos>"])
    a, b, c = (1 + ord(letter) for letter in "abc")
    path = [0, a, a, 0, b, 0, c, 0]
    log_probs = torch.full((8, 257), -9.0).scatter(-1, torch.tensor(path).unsqueeze(-1), -0.5)
    spans = align(log_probs, [2, 4, 3], ctc)
    assert [(span.token, span.start, span.end) for span in spans] == [(2, 1, 5), (4, 5, 5), (3, 6, 7)]
    assert [round(span.score, 4) for span in spans] == [0.6065, 0.0, 0.6065]
    assert align(log_probs[:2], [2, 3], ctc) is None and align(log_probs, [], ctc) == []
