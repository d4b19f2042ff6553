"""few_labels: codes and words that tell the domains apart give right classes; the lines that are printed."""

import sys

import numpy as np
import pytest
from scipy.sparse import csr_matrix

WORDS = {"news": "minister", "talks": "thanks"}


@pytest.fixture
def folders(tmp_path):
    """Data directory and codes of a training and a test set; the first unit of a code and a word tell the domain."""
    found = {}
    for name, count in (("train", 60), ("test", 20)):
        data, random = tmp_path / name, np.random.default_rng(count)
        data.mkdir()
        rows = [(f"{name}-{index:02d}", ("news", "talks")[index % 2]) for index in range(count)]
        (data / "text").write_text("".join(f"{key} a {WORDS[domain]} b\n" for key, domain in rows))
        (data / "utt2domain").write_text("".join(f"{key} {domain}\n" for key, domain in rows))
        means = random.normal(size=(count, 3)) * 0.01
        means[:, 0] += [domain == "talks" for _, domain in rows]
        np.savez(data / "codes.npz", utterances=np.array([key for key, _ in rows]), mean=means)
        found[name] = [str(data), str(data)]
    return found


def test_codes_and_words_give_the_domains(folders, monkeypatch, capsys):
    import few_labels

    argv = ["few_labels.py", "--train", *folders["train"], "--test", *folders["test"], "--labels", "30", "--draws", "2"]
    monkeypatch.setattr(sys, "argv", argv)
    few_labels.main()
    lines = [f"{kind} 30 100.0  100.0 100.0\n" for kind in ("codes", "words", "nblr")]
    assert capsys.readouterr().out == "".join(lines)
    few_labels.main([f"--{name}={folders[name][0]}" for name in folders] + ["--labels", "30", "--draws", "2"])
    assert capsys.readouterr().out == "".join(lines[1:])


def test_words_are_weighted_by_ratios_of_their_counts():
    """Of 4 sentences, "a" is in all of the first class and in none of the second, "b" in one of each."""
    import few_labels

    words, classes = csr_matrix([[1, 1], [1, 0], [0, 1], [0, 0]] * 5), np.array(["x", "x", "y", "y"] * 5)
    classifier = few_labels.NaiveBayesLogisticRegression()
    classifier.fit(words, classes)
    a, b = np.log((11 / 17) / (1 / 7)), np.log((6 / 17) / (6 / 7))
    np.testing.assert_allclose(classifier.fitted[0][0], [[a, b]])
    np.testing.assert_allclose(classifier.fitted[1][0], [[-a, -b]])
    assert classifier.score(words, classes) == 1
