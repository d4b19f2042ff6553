#!/usr/bin/env python3
"""Fit a linear classifier of domains to few labelled sentences: to latent codes, or to the words that are in them.

Logistic regression of scikit-learn with a weight of the penalty that is chosen by cross-validation on the labelled
sentences; codes are standardised, words are 0 or 1. Prints the accuracy on the test set: the mean over draws of the
labelled sentences, and that of each draw.
"""

import argparse
from pathlib import Path

import numpy as np
from scipy.sparse import spmatrix
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegressionCV
from sklearn.preprocessing import StandardScaler

from espnet_diverse.data.tables import read_table

_FEATURES = ("codes", "words")
_CLASSIFIER = {"Cs": np.logspace(-4, 2, 7), "cv": 5, "max_iter": 2000, "use_legacy_attributes": False}


def features(train: list[Path], test: list[Path], kind: str) -> tuple[np.ndarray | spmatrix, np.ndarray | spmatrix]:
    """The features of the sentences of both sets, in the order of utt2domain; folders of data and of codes."""
    if kind == "words":
        texts = [list(read_table(data / "text").values()) for data, _ in (train, test)]
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
        parser.add_argument(f"--{name}", type=Path, nargs=2, required=True, metavar=("DATA", "CODES"))
    parser.add_argument("--labels", type=int, nargs="+", default=[100, 500, 1000], metavar="N")
    parser.add_argument("--draws", type=int, default=3, metavar="N", help="draws of labelled sentences (default: 3)")
    args = parser.parse_args(argv)
    true = {name: labels(getattr(args, name)[0]) for name in ("train", "test")}
    for kind in _FEATURES:
        train, test = features(args.train, args.test, kind)
        for number in args.labels:
            found = []
            for draw in range(args.draws):
                chosen = np.random.default_rng(draw).choice(len(true["train"]), number, replace=False)
                classifier = LogisticRegressionCV(**_CLASSIFIER)
                classifier.fit(train[chosen], true["train"][chosen])
                found.append(100 * classifier.score(test, true["test"]))
            print(f"{kind} {number} {np.mean(found):.1f}  {' '.join(f'{each:.1f}' for each in found)}", flush=True)


if __name__ == "__main__":
    main()
