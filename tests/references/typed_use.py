"""A script of a user, whose types `make lint` checks as `mypy --strict` does.

Each `type: ignore` marks a mistake that the checker must find: one that it accepts is an unused comment, an error.
"""

from pathlib import Path

import torch

from espnet_diverse import (
    FineTuningOptions,
    Recognizer,
    StreamRecognizer,
    TrainingOptions,
    Translator,
    fine_tune,
    train,
)
from espnet_diverse.attention import Core, MultiHeadAttention, build_attention
from espnet_diverse.inference import Fusion, Request, Segment, SegmentationOptions, Transcript, Translation


def transcripts(recognizer: Recognizer, files: list[Path]) -> list[str]:
    found = recognizer.transcribe_all([Request(file) for file in files], word_timestamps=True)
    return [one.to_json() for one in found if isinstance(one, Transcript)]


options = TrainingOptions(task="asr", number=3, init_param=["exp/old:encoder:encoder"])
run: Path = train("model/small,attention/sdma", "data", "exp/sdma", settings={"max_epoch": 20}, options=options)
tuned: Path = fine_tune(run, "other", "exp/tuned", options=FineTuningOptions(tokens_dir=Path("tokens"), restart=True))
recognizer = Recognizer(tuned, segmentation=SegmentationOptions("energy"))
transcript: Transcript = recognizer.transcribe("talk.mp3", language="de", word_timestamps=True, beam_size=3)
subtitles: str = transcript.to_srt(max_line_width=40)
starts: dict[str, float] = {word.text: word.start for word in transcript.words}
segments: list[Segment] = list(recognizer.segments("talk.mp3", options={"beam_size": 5}))
rate: int | None = recognizer.search.rate
hub = Recognizer.from_pretrained("hf:owner/name", fusion=Fusion(hotwords=["attention"])).transcribe("talk.mp3").text

translator = Translator("exp/mt_model")
one: Translation = translator.translate("guten Tag", target_language="en")
several: list[str] = [each.text for each in translator.translate(["guten Tag", "Ja"])]
partial: list[str] = [each.text for each in StreamRecognizer("exp/streaming").listen("-")]

attention: MultiHeadAttention = build_attention("sdma", size=64, heads=4, dropout=0.1)
core: Core = attention.core
x = torch.randn(2, 7, 64)
y: torch.Tensor = attention(x, x, x, torch.ones(2, 1, 7, dtype=torch.bool))
print(transcripts(recognizer, [Path("talk.mp3")]), attention.pool, core.supports.explicit_weights)

number: int = transcript.text  # type: ignore[assignment]
print(one.txt)  # type: ignore[attr-defined]
recognizer.search.reset()  # type: ignore[attr-defined]
