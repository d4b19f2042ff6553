#!/usr/bin/env python3
"""Fit a linear classifier of domains to few labelled sentences: to latent codes, or to the words that are in them.

Logistic regression of scikit-learn with a weight of the penalty that is chosen by cross-validation on the labelled
sentences; codes are standardised, words are 0 or 1. In "nblr", words are weighted by naive Bayes' ratios of counts, a
baseline of the repulsive-attention paper. Prints the accuracy on the test set: the mean over draws of the labelled
sentences, and the accuracy of each draw. Without folders of codes, only words are used.
"""

import argparse
from pathlib import Path

import numpy as np
from scipy.sparse import spmatrix
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegressionCV
from sklearn.preprocessing import StandardScaler

from espnet_diverse.data.tables import read_table

_FEATURES = ("codes", "words", "nblr")
_CLASSIFIER = {
    "Cs": np.logspace(-4, 2, 7),
    "l1_ratios": (0.0,),
    "cv": 5,
    "scoring": "accuracy",
    "max_iter": 2000,
    "use_legacy_attributes": False,
}


class NaiveBayesLogisticRegression:
    """Logistic regression on words weighted by log-count ratios, each class against the others.

    Wang and Manning 2012, "Baselines and Bigrams: Simple, Good Sentiment and Topic Classification", equation (1) with a
    smoothing count of 1: r = log((p / ||p||_1) / (q / ||q||_1)), where p and q are 1 plus the number of sentences with
    a word inside and outside of the class. The class with the largest decision value is predicted.
    """

    def fit(self, words: spmatrix, classes: np.ndarray) -> None:
        """Fit to the words (sentences, vocabulary) and the class of each sentence."""
        self.classes, self.fitted = np.unique(classes), []
        for name in self.classes:
            inside, outside = (1 + np.asarray(words[rows].sum(0)) for rows in (classes == name, classes != name))
            ratio = np.log(inside / inside.sum()) - np.log(outside / outside.sum())
            model = LogisticRegressionCV(**_CLASSIFIER).fit(words.multiply(ratio).tocsr(), classes == name)
            self.fitted.append((ratio, model))

    def score(self, words: spmatrix, classes: np.ndarray) -> float:
        """Return the accuracy."""
        values = [model.decision_function(words.multiply(ratio).tocsr()) for ratio, model in self.fitted]
        return float(np.mean(self.classes[np.argmax(values, axis=0)] == classes))


def features(train: list[Path], test: list[Path], kind: str) -> tuple[np.ndarray | spmatrix, np.ndarray | spmatrix]:
    """Return the features of the sentences of both sets, in the order of `text`; folders of data and of codes."""
    if kind != "codes":
        texts = [list(read_table(data / "text").values()) for data, *_ in (train, test)]
        words = CountVectorizer(binary=True, token_pattern=r"\S+").fit(texts[0])
        return words.transform(texts[0]), words.transform(texts[1])
    rows = []
    for data, folder in (train, test):
        codes = np.load(folder / "codes.npz", allow_pickle=False)
        assert codes["utterances"].tolist() == list(read_table(data / "text")), folder
        rows.append(codes["mean"])
    scaler = StandardScaler().fit(rows[0])
    return scaler.transform(rows[0]), scaler.transform(rows[1])


def labels(data: Path) -> np.ndarray:
    """The domain of each sentence, in the order of its text."""
    domains = read_table(data / "utt2domain")
    return np.array([domains[name] for name in read_table(data / "text")])


def main(argv: list[str] | None = None) -> None:
    """Print a line for each kind of features and number of labels."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("train", "test"):
        parser.add_argument(f"--{name}", type=Path, nargs="+", required=True, metavar=("DATA", "CODES"))
    parser.add_argument("--labels", type=int, nargs="+", default=[100, 500, 1000], metavar="N")
    parser.add_argument("--draws", type=int, default=3, metavar="N", help="draws of labelled sentences (default: 3)")
    args = parser.parse_args(argv)
    true = {name: labels(getattr(args, name)[0]) for name in ("train", "test")}
    for kind in _FEATURES if len(args.train) > 1 else _FEATURES[1:]:
        train, test = features(args.train, args.test, kind)
        for number in args.labels:
            found = []
            for draw in range(args.draws):
                chosen = np.random.default_rng(draw).choice(len(true["train"]), number, replace=False)
                classifier = NaiveBayesLogisticRegression() if kind == "nblr" else LogisticRegressionCV(**_CLASSIFIER)
                classifier.fit(train[chosen], true["train"][chosen])
                found.append(100 * classifier.score(test, true["test"]))
            print(f"{kind} {number} {np.mean(found):.1f}  {' '.join(f'{each:.1f}' for each in found)}", flush=True)


if __name__ == "__main__":
    main()
