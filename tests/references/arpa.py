"""A model in ARPA format, and the part of the module `kenlm` that ESPnet uses, for machines without a compiler.

Back-off: log p(w | h) is that of the n-gram h w where it is listed, else backoff(h) + log p(w | h without its first
word). Words that are not listed have the probability of <unk>.
"""

from pathlib import Path
from types import ModuleType

import numpy as np

ORDER = 2


def write_arpa(path, words, seed=0):
    """A bigram model with random probabilities, in which half of the bigrams are listed."""
    random = np.random.default_rng(seed)
    words = ["<unk>", "<s>", "</s>", *words]
    pairs = [(a, b) for a in words[1:] for b in words[2:] if random.random() < 0.5]
    lines = [r"\data\ ".strip(), f"ngram 1={len(words)}", f"ngram 2={len(pairs)}", "", r"\1-grams:"]
    lines += [f"{-random.uniform(0.2, 2):.4f}\t{word}\t{-random.uniform(0, 1):.4f}" for word in words]
    lines += ["", r"\2-grams:", *(f"{-random.uniform(0.1, 1):.4f}\t{a} {b}" for a, b in pairs), "", r"\end\ ".strip()]
    path.write_text("\n".join(lines) + "\n")
    return path


class State:
    """The words that the next one depends on."""

    def __init__(self):
        self.words = ()

    def __eq__(self, other):
        return self.words == other.words

    def __hash__(self):
        return hash(self.words)


class LanguageModel:
    """An n-gram model."""

    def __init__(self, path):
        self.table = {}
        first, *lines = Path(path).read_text(encoding="utf-8").splitlines()
        if not first.startswith(r"\data"):
            raise OSError("Cannot read model\nno header")
        for line in lines:
            if "\t" in line:
                chance, words, *backoff = line.split("\t")
                self.table[tuple(words.split())] = float(chance), float(backoff[0]) if backoff else 0.0

    def NullContextWrite(self, state):  # noqa: N802
        state.words = ()

    def BaseScore(self, state, word, following):  # noqa: N802
        word = word if (word,) in self.table else "<unk>"
        history, score = state.words, 0.0
        while (*history, word) not in self.table:
            score += self.table.get(history, (0.0, 0.0))[1]
            history = history[1:]
        following.words = () if word == "<unk>" else (word,)[-(ORDER - 1) :]
        return score + self.table[(*history, word)][0]


def stand_in():
    """A module with the names of `kenlm` that ESPnet uses."""
    module = ModuleType("kenlm")
    module.State, module.LanguageModel = State, LanguageModel
    return module
