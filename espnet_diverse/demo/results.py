"""The last results of the page, and the heads of the model on them."""

import base64
import secrets
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from espnet2.text.token_id_converter import TokenIDConverter
from numpy.typing import NDArray

from espnet_diverse.analysis.collect import KINDS, Observation, observe
from espnet_diverse.demo.controls import whole
from espnet_diverse.demo.head_plots import Sides, head_pictures
from espnet_diverse.errors import ConfigError, DataError, ModelError
from espnet_diverse.training.tasks import TASKS, load_model

_KEPT = 4  # results


@dataclass(frozen=True)
class Stretch:
    """What was decoded at once.

    Attributes:
        source: Samples (L,) float32 at 16 kHz, or a text that was translated.
        tokens: Tokens of what was written.
        conditions: Name of its task by condition.
        title: For pictures.
    """

    source: NDArray | str
    tokens: Sequence[str]
    conditions: Mapping[str, str]
    title: str


class Results:
    """Keeps the last results in memory, and looks at them with the model in float32 on the CPU.

    Args:
        model_dir: Directory of the run; it is loaded when heads are first asked for.
        model_file: As of `load_model`.
        task: What the model does.
    """

    def __init__(self, model_dir: Path, model_file: str | Path | None, task: str):
        self.model_dir, self.model_file, self.task = model_dir, model_file, task
        self._kept: OrderedDict[str, list[Stretch]] = OrderedDict()
        self._seen: tuple[Stretch | None, dict[str, Observation]] = None, {}

    def keep(self, stretches: list[Stretch]) -> str:
        """Keep a result, and forget the oldest; return a name for it."""
        name = secrets.token_urlsafe(9)
        self._kept[name] = stretches
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return name

    def heads(self, choices: Mapping[str, str]) -> dict:
        """Pictures of one layer.

        Args:
            choices: `result`, what `keep` returned; `segment`, which of its stretches, from 0; `attention`, a key of
                `KINDS`; `layer`, from 1; `head`, from 1, or "all". The last three have defaults.

        Returns:
            `attentions` that there are, with their numbers of layers and heads; the `attention`, `layer` and `head`
            that were drawn; `pictures`.

        Raises:
            ConfigError: There is no such attention, layer or head.
            DataError: There is no such result, or nothing was written.
            ModelError: The model has no attention to look at.
        """
        stretch = self._stretch(choices)
        seen = self._look(stretch)
        kind = choices.get("attention") or next(reversed(seen))
        layer = whole(choices, "layer") or (len(seen[kind].weights) if kind in seen else 1)
        head = None if choices.get("head") == "all" else whole(choices, "head")
        sides = Sides(stretch.tokens, self._read(stretch))
        pictures = head_pictures(seen, kind, layer, head, sides, stretch.title)
        shapes = {each: one.weights.shape for each, one in seen.items()}
        return {
            "attentions": [
                {"kind": each, "name": KINDS[each], "layers": shape[0], "heads": shape[1]}
                for each, shape in shapes.items()
            ],
            "attention": kind,
            "layer": layer,
            "head": head or "all",
            "pictures": [
                {"png": base64.b64encode(p.png).decode(), "caption": p.caption, "alternative": p.alternative}
                for p in pictures
            ],
        }

    def _stretch(self, choices: Mapping[str, str]) -> Stretch:
        stretches = self._kept.get(choices.get("result", ""))
        if stretches is None:
            raise DataError(f"this result is not kept any more, only the last {_KEPT} are; run it again")
        segment = whole(choices, "segment") or 0
        if not 0 <= segment < len(stretches):
            raise ConfigError(f"segment {segment} is not there; the result has {len(stretches)} segments")
        if not stretches[segment].tokens:
            raise DataError(f"{stretches[segment].title}: no text was written, so no head can be shown writing it")
        return stretches[segment]

    @cached_property
    def _loaded(self):
        model, args = load_model(self.model_dir, self.model_file, task=self.task)
        return model.eval(), args

    def _look(self, stretch: Stretch) -> dict[str, Observation]:
        if self._seen[0] is not stretch:
            model, args = self._loaded
            source = self._indices(stretch) if isinstance(stretch.source, str) else stretch.source
            text = TokenIDConverter(args.token_list).tokens2ids(stretch.tokens)
            names = getattr(model, "conditions", {})
            conditions = {
                condition: list(names[condition]).index(name)
                for condition, name in stretch.conditions.items()
                if condition in names
            }
            self._seen = stretch, observe(model, source, text, conditions)
        if not self._seen[1]:
            raise ModelError("this model has no attention that keeps one matrix of weights a head")
        return self._seen[1]

    def _read(self, stretch: Stretch) -> list[str] | None:
        """Tokens of a text that was translated."""
        if not isinstance(stretch.source, str):
            return None
        return [self._loaded[1].src_token_list[index] for index in self._indices(stretch)]

    def _indices(self, stretch: Stretch) -> NDArray:
        return self._preprocess("", {"src_text": stretch.source})["src_text"]

    @cached_property
    def _preprocess(self):
        return TASKS[self.task].build_preprocess_fn(self._loaded[1], train=False)
