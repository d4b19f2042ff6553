"""Store of the last results of the page, and maps of the attention heads on them."""

import secrets
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from espnet2.text.token_id_converter import TokenIDConverter
from espnet2.train.abs_espnet_model import AbsESPnetModel
from numpy.typing import NDArray

from espnet_diverse.analysis.collect import KINDS, Observation, observe
from espnet_diverse.analysis.teacher_forcing import prompt_tokens
from espnet_diverse.decoding.frame_times import known_frame_times
from espnet_diverse.decoding.predictor import Predictor
from espnet_diverse.demo.controls import whole
from espnet_diverse.demo.head_maps import Axis, Sides, head_maps, spectrogram
from espnet_diverse.errors import ConfigError, DataError, ModelError
from espnet_diverse.runs.tasks import load_model

_KEPT = 4  # results


@dataclass(frozen=True)
class DecodedSegment:
    """A segment of a recording, or a line of a text, with its decoded tokens.

    Attributes:
        source: Samples (L,) float32 at the rate of the model, or the source text.
        tokens: Tokens of the output text.
        conditions: Values by condition.
        title: Title for messages.
        start: Begin of the segment in the recording, in seconds.
    """

    source: NDArray | str
    tokens: Sequence[str]
    conditions: Mapping[str, str]
    title: str
    start: float = 0.0


class Results:
    """Keeps the last results in memory, and maps attention heads with the model in float32 on the CPU.

    This is the model of the search if that is in float32 on the CPU and used by one request at a time; otherwise a
    copy, loaded when plots are first requested.

    Args:
        search: Predictor that found the results.
        model_dir: Directory of the run, for the copy.
        model_file: Weights of the copy, see `load_model`.
        shared: Whether other threads use the model of the search while heads are plotted.
    """

    def __init__(self, search: Predictor, model_dir: Path, model_file: str | Path | None = None, shared: bool = False):
        self.search, self.model_dir, self.model_file = search, model_dir, model_file
        self.needs_copy = shared or search.compiled or (search.device, search.precision) != ("cpu", "float32")
        self._kept: OrderedDict[str, list[DecodedSegment]] = OrderedDict()
        self._seen: tuple[DecodedSegment | None, dict[str, Observation]] = None, {}

    def keep(self, segments: list[DecodedSegment]) -> str:
        """Store a result, drop the oldest, and return the id of the new one."""
        name = secrets.token_urlsafe(9)
        self._kept[name] = segments
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return name

    def heads(self, choices: Mapping[str, str]) -> dict:
        """Map the heads of one layer.

        Args:
            choices: `result`, the id from `keep`; `segment`, the index of the segment; `attention`, a key of `KINDS`;
                `layer`, from 1; `head`, from 1, or "all". The last three have defaults.

        Returns:
            `attentions`, with their numbers of layers and heads; the chosen `attention`, `layer` and `head`; the
            `plots`, see `head_maps`; and the `sound`, see `spectrogram`, None for a text.

        Raises:
            ConfigError: There is no such segment, attention, layer or head.
            DataError: There is no such result, or its text is empty.
            ModelError: The model has no attention that can be plotted.
        """
        segment = self._segment(choices)
        observations = self._look(segment)
        kind = choices.get("attention") or next(reversed(observations))
        layer = whole(choices, "layer") or (len(observations[kind].weights) if kind in observations else 1)
        head = None if choices.get("head") == "all" else whole(choices, "head")
        written = [*prompt_tokens(self._model, self._ids(segment)), *segment.tokens]
        sides = Sides(written, self._read(segment), self._frames(segment.start))
        shapes = {key: one.weights.shape for key, one in observations.items()}
        return {
            "attentions": [
                {"kind": key, "name": KINDS[key], "layers": shape[0], "heads": shape[1]}
                for key, shape in shapes.items()
            ],
            "attention": kind,
            "layer": layer,
            "head": head or "all",
            "plots": head_maps(observations, kind, layer, head, sides),
            "sound": self._sound(segment),
        }

    def _segment(self, choices: Mapping[str, str]) -> DecodedSegment:
        segments = self._kept.get(choices.get("result", ""))
        if segments is None:
            raise DataError(f"only the last {_KEPT} results are kept, and this one is not among them; run it again")
        index = whole(choices, "segment") or 0
        if not 0 <= index < len(segments):
            raise ConfigError(f"segment {index} does not exist; the result has {len(segments)} segments")
        if not segments[index].tokens:
            raise DataError(
                f"{segments[index].title}: the text is empty, so there are no heads to plot; choose another"
            )
        return segments[index]

    @cached_property
    def _model(self) -> AbsESPnetModel:
        if not self.needs_copy:
            return self.search.encoding.model
        model, _ = load_model(self.model_dir, self.model_file, task=self.search.task)
        return model.eval()

    def _look(self, segment: DecodedSegment) -> dict[str, Observation]:
        if self._seen[0] is not segment:
            source = self._indices(segment) if isinstance(segment.source, str) else segment.source
            text = TokenIDConverter(self.search.args.token_list).tokens2ids(segment.tokens)
            self._seen = segment, observe(self._model, source, text, self._ids(segment))
        if not self._seen[1]:
            raise ModelError("this model has no attention with one matrix of weights per head; choose another model")
        return self._seen[1]

    def _ids(self, segment: DecodedSegment) -> dict[str, int]:
        """Index of the value of each condition of the model."""
        names = getattr(self._model, "conditions", {})
        return {key: list(names[key]).index(name) for key, name in segment.conditions.items() if key in names}

    def _read(self, segment: DecodedSegment) -> list[str] | None:
        """Tokens of the source text; None where the source is audio."""
        if not isinstance(segment.source, str):
            return None
        return [self.search.args.src_token_list[index] for index in self._indices(segment)]

    def _frames(self, start: float) -> Axis:
        """Axis of the encoder frames of a segment that begins at `start`, with times where they are known."""
        times = known_frame_times(self._model, self.search.rate)
        if times is None:
            return Axis("encoder frame")
        return Axis("second", start=start + times.boundary(0), step=times.step)

    def _sound(self, segment: DecodedSegment) -> dict | None:
        if isinstance(segment.source, str):
            return None
        return spectrogram(segment.source, self.search.rate, segment.start)

    def _indices(self, segment: DecodedSegment) -> NDArray:
        return self.search.read(segment.source)[0]
