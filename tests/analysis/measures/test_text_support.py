from types import SimpleNamespace

import numpy as np
import pytest
from references.posteriors import planted

from espnet_diverse.analysis.measures.text_support import check_support, measure_support
from espnet_diverse.analysis.samples import Sample
from espnet_diverse.decoding.prediction import Prediction, Text
from espnet_diverse.errors import ConfigError

TEXTS = {
    "hears": ("ab", [1, 2], [1, 2]),
    "invents": ("cc", [3, 3], [1, 2]),
    "wrong": ("ab", [1, 2], [3, 2]),
    "still": ("", [], [1]),
}


class Model:
    """A search that finds the planned texts, and a CTC that hears "ab"."""

    batch_size, batch_frames, ctc = 2, 1000, None
    tokens = SimpleNamespace(indices=lambda tokens: tokens)

    def find(self, sources, conditions, posteriors):
        assert posteriors
        for source in sources:
            text, tokens, _ = TEXTS[str(source[0])]
            yield Prediction([Text(text, tokens, 0.0)] if tokens else [], planted([0, 1, 0, 2, 0], 4, 0.99))


def test_texts_and_references_are_measured_apart():
    samples = [Sample(name, np.array([name]), "ref", kept, {}) for name, (_, _, kept) in TEXTS.items()]
    found = measure_support(Model(), samples)
    assert found.summary()["utterances"] == {
        "hears": {"text": "ab", "ctc_support": 1.0, "reference_ctc_support": 1.0},
        "invents": {"text": "cc", "ctc_support": 0.0, "reference_ctc_support": 1.0},
        "still": {"text": "", "ctc_support": 1.0, "reference_ctc_support": 1.0},
        "wrong": {"text": "ab", "ctc_support": 1.0, "reference_ctc_support": 0.5},
    }
    assert found.summary()["may_be_invented"] == ["invents"]
    assert found.summary()["ctc_support"] == 0.75


@pytest.mark.parametrize(
    ("ctc", "weight", "said"), [(None, 0.0, "no CTC over its output text"), (1, 1.0, "CTC alone writes the texts")]
)
def test_a_model_that_ctc_cannot_judge_is_refused(ctc, weight, said):
    with pytest.raises(ConfigError, match=said):
        check_support(SimpleNamespace(ctc=ctc, options=SimpleNamespace(ctc_weight=weight)))
