"""Figures of a classifier: what is drawn, of which texts, and errors."""

import shutil

import numpy as np
import pytest
from references.figures import assert_readable

from espnet_diverse.analysis.classes import PooledText, draw_classes, draw_pooling
from espnet_diverse.data.tables import read_table
from espnet_diverse.decoding.directory.classification import Classifier
from espnet_diverse.errors import DataError


def test_heads_entropy_and_reliability(tiny_classifier, drawn, tmp_path):
    classifier, data = Classifier(tiny_classifier.model_dir), tiny_classifier.test_dir
    paths = draw_classes(classifier, data, tmp_path, out_of_domain=tiny_classifier.train_dir)
    assert [path.name for path in paths] == ["pooling.png", "entropy.png", "reliability.png"]
    assert all(path.stat().st_size > 5000 for path in paths)
    texts, labels = read_table(data / "text"), read_table(data / "utt2tgtlang")
    names = sorted(texts)[:4]
    pooling, entropy, reliability = drawn
    assert len(names) == len(pooling.axes) - 1 == 4  # and the colour bar
    for axes, name in zip(pooling.axes, names, strict=False):
        label = labels[name]
        assert axes.get_title(loc="left").startswith(f"{name}: {label} (") and f", truly {label}" in axes.get_title(
            loc="left"
        )
        assert [each.get_text() for each in axes.get_xticklabels()] == [*texts[name].replace(" ", "␣")]
        np.testing.assert_allclose(axes.images[0].get_array().sum(1), 1, rtol=1e-5)
    named = [line.get_label() for line in entropy.axes[0].get_lines()]
    assert named == ["test", "train (out of domain)"] and "texts" in entropy.axes[0].get_ylabel()
    assert (
        reliability.axes[1].get_ylabel() == "share of texts" and "text predictions" in reliability.axes[0].get_title()
    )


def test_one_text_without_its_class(tiny_classifier, drawn, tmp_path):
    data = shutil.copytree(tiny_classifier.test_dir, tmp_path / "data")
    (data / "utt2tgtlang").unlink()
    classifier, name = Classifier(tiny_classifier.model_dir), sorted(read_table(data / "text"))[1]
    paths = draw_classes(classifier, data, tmp_path, name)
    assert [path.name for path in paths] == ["pooling.png", "entropy.png"] and len(drawn[0].axes) == 2
    assert "truly" not in drawn[0].axes[0].get_title(loc="left")
    with pytest.raises(DataError, match="data/text: has no utterance 'x'; it has "):
        draw_classes(classifier, data, tmp_path, "x")


def test_every_head_and_token_has_a_cell(drawn, tmp_path):
    random = np.random.default_rng(0)
    texts = [
        PooledText(f"u{length}: a (0.90)", ["▁a", "<space>", "b"] * length, random.dirichlet(np.ones(3 * length), 5))
        for length in (2, 8, 40)
    ]
    draw_pooling(texts, tmp_path / "pooling.png")
    *panels, bar = drawn[-1].axes
    assert bar.get_ylabel() == "weight of the token (rows sum to 1)"
    for axes, text in zip(panels, texts, strict=True):
        cells = axes.images[0].get_array()
        assert cells.shape == (6, min(80, len(text.tokens))) and axes.get_title(loc="left") == text.title
        np.testing.assert_array_equal(cells[:5], text.weights[:, :80])
        np.testing.assert_allclose(cells[5], text.weights[:, :80].mean(0))
        assert [label.get_text() for label in axes.get_xticklabels()][:3] == ["▁a", "␣", "b"]
        assert axes.get_ylabel() == "head of the pooling" and axes.get_xlabel() == "token"
    assert {axes.images[0].get_clim() for axes in panels} == {(0.0, max(text.weights.max() for text in texts))}
    assert len({axes.get_xlim() for axes in panels}) == 1
    assert_readable(drawn[-1])
