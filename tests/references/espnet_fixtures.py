"""Models that the programs of ESPnet left in `tests/fixtures`, and what its inference made of two recordings."""

import json
from typing import NamedTuple

import numpy as np
from fixtures.espnet_kinds import KINDS
from fixtures.recordings import TEST

from references.markdown import ROOT

FIXTURES = ROOT / "tests" / "fixtures"
FIRST = next(iter(TEST.values()))


class Model(NamedTuple):
    """One trained model.

    Attributes:
        age: Version of ESPnet.
        name: Name of the model, a key of `KINDS`.
    """

    age: str
    name: str

    @property
    def root(self):
        """Folder of all models of its age."""
        return FIXTURES / f"espnet_{self.age}"

    @property
    def folder(self):
        """Directory of its run."""
        return self.root / "exp" / self.name

    @property
    def kind(self):
        """Its configuration and task."""
        return KINDS[self.name]

    @property
    def named(self):
        """The option that names its weights."""
        return ["--model_file", self.kind.weights]

    def texts(self, fused=None):
        """The n-best texts of ESPnet with their scores, for each utterance; with a language model if one is given."""
        name = f"{self.name}+{fused}" if fused else self.name
        found = json.loads((self.root / "expected.json").read_text())["models"][name]["utterances"]
        return [[(best["text"], best["score"]) for best in found[utterance]] for utterance in TEST]

    def outputs(self):
        """The encoder's output of ESPnet for the first utterance (T, D), or log probabilities (L + 1, V)."""
        with np.load(self.root / "expected.npz") as arrays:
            return arrays[self.name]

    def probability(self):
        """Log probability of the first text with its end, by ESPnet's language model."""
        tokens = (self.root / "data/token_list/char/tokens.txt").read_text().split()
        places = [tokens.index("<space>" if letter == " " else letter) for letter in FIRST]
        return float(self.outputs()[range(len(FIRST) + 1), [*places, len(tokens) - 1]].sum(dtype=float))
