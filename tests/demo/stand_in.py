"""A service of the page whose answers are written here, so that a test can know every word of them."""

import numpy as np
import torch

from espnet_diverse.analysis.collect import Observation
from espnet_diverse.demo.head_maps import Axis, Sides, head_maps, spectrogram
from espnet_diverse.demo.task_services import answer_of
from espnet_diverse.serve.limits import Limits
from espnet_diverse.transcription.result import Alternative, Segment, Word
from espnet_diverse.transcription.transcript import Transcript

FACTS = [
    ("parameters", "31.20 M"),
    ("encoder", "diverse_conformer, 12 layers, 256 wide, 4 heads"),
    ("encoder attention", "sdma"),
    ("decoder cross-attention", "softmax"),
    ("languages", "el es"),
    ("decode/test", "WER 12.3, CER 4.5"),
]
WORDS = (
    Word("the", 0.1, 0.25, 0.97),
    Word("old", 0.25, 0.4, 0.62),
    Word("house", 0.4, 0.6, 0.31),
)
TEXTS = ("the old house", "the cold house", "the house", "the old house 家里")
SPOKEN = Segment(
    0.1,
    0.6,
    TEXTS[0],
    -1.5,
    ("the", "old", "house"),
    (),
    WORDS,
    tuple(Alternative(each, -1.5) for each in TEXTS),
    "",
    1.0,
)
LEAST_SUPPORT = Segment(
    0.65, 0.75, "thank you", -2.0, ("thank", "you"), alternatives=(Alternative("thank you", -2.0),), ctc_support=0.1
)
SOUND = np.sin(2 * np.pi * 2000 * np.arange(8000) / 16_000).astype(np.float32)  # 2 kHz for half a second
TRANSCRIPT = Transcript((SPOKEN, LEAST_SUPPORT), 0.75, {"lang": "el"})


def _seen():
    torch.manual_seed(0)
    weights = torch.rand(1, 2, 4, 20).softmax(-1)
    weights[0, 1, 2] = torch.eye(20)[7]  # head 2, row 3, column 8: all of the weight
    return {"cross": Observation(weights, torch.zeros(2, 4, 1), torch.zeros(1, 2, 4, 1))}


class Shown:
    """Its recording has two segments, of which the second may be invented."""

    live = None

    def __init__(self):
        self.limits = Limits()

    def about(self):
        limits = {"seconds": 120, "megabytes": 25, "characters": 100}
        names = {"name": "houses", "task": "asr", "rate": 16_000, "live": False, "description": "Speech recognition."}
        names["suffixes"] = {"all": [".wav"], "direct": [".wav"]}
        return {**names, "facts": FACTS, "conditions": [], "beam_size": 10, "nbest": 5, "limits": limits}

    def run(self, body, choices):
        return {"id": "1", "found": [], "seconds": 0.1, **answer_of(TRANSCRIPT, choices["name"])}

    def heads(self, body, choices):
        sides = Sides(SPOKEN.tokens, None, Axis("second", start=0.08, step=0.04))
        attentions = [{"kind": "cross", "name": "decoder cross-attention", "layers": 1, "heads": 2}]
        head = None if choices.get("head", "all") in ("", "all") else int(choices["head"])
        plots = head_maps(_seen(), "cross", 1, head, sides)
        found = {"attentions": attentions, "attention": "cross", "layer": 1, "head": head or "all", "plots": plots}
        return {**found, "sound": spectrogram(SOUND, 16_000, SPOKEN.start)}
