"""Implausible samples, lengths and texts; `test_validate.py` has them in data directories."""

import numpy as np
import pytest

from espnet_diverse.data.checks.limits import Limits
from espnet_diverse.data.checks.plausibility import length_findings, measure, sound_findings, text_findings


def test_measures_do_not_depend_on_blocks():
    samples = np.random.default_rng(0).normal(0, 0.4, 5000).astype(np.float32)
    whole, parts = measure([samples]), measure([samples[:7], samples[:0], samples[7:]])
    assert (whole.count, whole.low, whole.high, whole.digest) == (parts.count, parts.low, parts.high, parts.digest)
    assert (whole.low, whole.high) == (samples.min(), samples.max())
    assert whole.mean == pytest.approx(samples.mean(), abs=1e-6) == parts.mean
    assert whole.clipped == parts.clipped == np.mean(np.abs(samples) >= 1 - 1.5 * 2**-15)
    assert measure([]).count == 0


@pytest.mark.parametrize(
    ("samples", "kinds"),
    [
        (np.sin(np.arange(16000) / 7), []),  # a sine at full scale
        (0.0005 * np.sin(np.arange(16000) / 7), []),
        (0.5 + 0.00005 * np.sin(np.arange(16000) / 7), ["silent"]),
        (0.2 + 0.1 * np.sin(np.arange(16000) / 7), ["offset"]),
        (np.clip(1.1 * np.sin(np.arange(16000) / 7), -1, 1), ["clipped"]),
        (np.zeros(0), ["silent"]),
    ],
)
def test_sounds(samples, kinds):
    assert [kind for kind, _ in sound_findings(measure([samples.astype(np.float32)]))] == kinds


@pytest.mark.parametrize(
    ("text", "seconds", "kinds"),
    [
        ("二", 0.1, []),
        ("antidisestablishmentarianism", 1.0, []),
        ("x " * 41, 1.0, []),
        ("x " * 42, 1.0, ["crowded"]),
        ("x " * 121, 3.0, []),
        ("x " * 122, 3.0, ["crowded"]),
        ("?!", 1.0, ["wordless"]),
        ("?!", None, []),
        ("AT&T & co; a&b;", None, []),
        ("&quot;a", None, ["entity"]),
        ("x &#x2019; " * 10, 1.0, ["entity", "crowded"]),
        ("ﬁve", None, ["compatibility"]),
        ("1½ l", None, ["compatibility"]),
        ("Ａ", None, ["compatibility"]),
        ("ｶ", None, ["compatibility"]),
        ("ﻻ", None, ["compatibility"]),
        ("km²", None, ["compatibility"]),
        ("1º, l’été… ™ ĳ：，น้ำ が 각 ſ", None, []),
    ],
)
def test_texts(text, seconds, kinds):
    assert [kind for kind, _ in text_findings(text, seconds, Limits())] == kinds


def test_a_ligature_is_named_with_its_nfkc_form():
    [(_, what)] = text_findings("oﬃce", None, Limits())
    assert "'ﬃ' (U+FB03)" in what and "'ffi'" in what


@pytest.mark.parametrize(("seconds", "kinds"), [(1.0, []), (0.99, ["crowded"])])
def test_tokens_and_the_blanks_between_equal_ones_need_a_frame_each(seconds, kinds):
    limits = Limits(tokens=list, frames=6)  # a second
    assert [kind for kind, _ in text_findings("abbc", seconds, limits)] == []
    assert [kind for kind, _ in text_findings("abbb", seconds, limits)] == kinds


def test_lengths():
    limits = Limits(0.5, 2)
    assert [[kind for kind, _ in length_findings(s, limits)] for s in (0.49, 0.5, 2, 2.01)] == [
        ["short"],
        [],
        [],
        ["long"],
    ]
