"""Figures of a classifier: what is drawn, of which texts, and errors."""

import shutil

import numpy as np
import pytest

from espnet_diverse.analysis.classes import draw_classes
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
