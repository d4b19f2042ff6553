"""Joint CTC/attention decoding by ESPnet's own beam search, one utterance at a time.

Watanabe et al. 2017, "Hybrid CTC/attention architecture for end-to-end speech recognition", section IV: hypotheses are
ranked by (1 - ctc_weight) log p_attention + ctc_weight log p_ctc + penalty * length. Speech translation is decoded the
same way; there the text is the translation, and CTC over it is an option of the model that few have. Text translation
has no CTC.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from espnet.nets.batch_beam_search import BatchBeamSearch
from espnet.nets.e2e_asr_common import end_detect
from espnet2.bin import asr_inference, mt_inference, st_inference
from numpy.typing import NDArray

from espnet_diverse.audio.files import read_audio, resample
from espnet_diverse.decoding.condition_ids import KnownConditions, known_conditions
from espnet_diverse.decoding.options import Options, ctc_weight, text_task
from espnet_diverse.decoding.results import Text
from espnet_diverse.registration import replaced_names
from espnet_diverse.scope import scope
from espnet_diverse.training.tasks import TASKS, find_weights, read_config

_CLASSES = {"asr": asr_inference.Speech2Text, "st": st_inference.Speech2Text, "mt": mt_inference.Text2Text}


class Search:
    """ESPnet's beam search on one model.

    Args:
        speech2text: ESPnet's `Speech2Text`, of speech recognition or translation, or `Text2Text`.
        conditions: What its model knows of conditions.

    Attributes:
        device: "cpu" or "cuda".
        table: The table of the data directory that has what is decoded.
        batch_size: 1; utterances are searched one at a time.
        batch_frames: 0.
    """

    table = "wav.scp"
    batch_size, batch_frames = 1, 0

    def __init__(self, speech2text, conditions: KnownConditions):
        self.speech2text = speech2text
        self.conditions = conditions
        self.device = speech2text.device

    def __call__(self, source: NDArray, conditions: Mapping[str, int]) -> list[tuple]:
        """Decode what `read` gave for the indices by condition; the best hypotheses as ESPnet gives them: text, tokens,
        their indices, and ESPnet's hypothesis."""
        ids = {condition: torch.tensor([index], device=self.device) for condition, index in conditions.items()}
        with scope(conditions=ids, collect=False):
            return self.speech2text(source)

    def batch(self, sources: Sequence[NDArray], conditions: Sequence[Mapping[str, int]]) -> list[list[Text]]:
        """The best texts of each of several utterances."""
        found = map(self, sources, conditions)
        return [[Text(text, tokens, float(hyp.score)) for text, tokens, _, hyp in best] for best in found]

    def read(self, value: str) -> tuple[NDArray, float]:
        """Samples (T,) float32 and seconds of the audio file that an entry of the table names."""
        samples, rate = read_audio(Path(value))
        return resample(samples, rate), len(samples) / rate


class TextSearch(Search):
    """The same for text translation.

    ESPnet takes `maxlenratio` 0 as at most as many tokens as the source has, which cuts translations off. Here it is at
    most twice as many and 10, and as with speech the search stops when hypotheses no longer improve.
    """

    table = "src_text"

    def __init__(self, speech2text: mt_inference.Text2Text, conditions: KnownConditions):
        super().__init__(speech2text, conditions)
        self.preprocess = TASKS["mt"].build_preprocess_fn(speech2text.mt_train_args, train=False)
        self.improving = speech2text.maxlenratio == 0
        if self.improving:
            speech2text.beam_search.__class__ = _Improving  # as ESPnet itself chooses its batched search

    def __call__(self, source: NDArray, conditions: Mapping[str, int]) -> list[tuple]:
        """As of `Search`."""
        if self.improving:
            self.speech2text.maxlenratio = -(2 * len(source) + 10)  # of ESPnet a number of tokens, where negative
        return super().__call__(source, conditions)

    def read(self, value: str) -> tuple[NDArray, float]:
        """Token indices (T,) of a text, and no seconds."""
        return self.preprocess("", {"src_text": value})["src_text"], 0.0


class _Improving(BatchBeamSearch):
    """ESPnet's search with its end detection also where the number of tokens is bounded."""

    def post_process(self, i, maxlen, minlen, maxlenratio, running_hyps, ended_hyps):
        running = super().post_process(i, maxlen, minlen, maxlenratio, running_hyps, ended_hyps)
        return self._batch_select(running, []) if end_detect([hyp.asdict() for hyp in ended_hyps], i) else running


def load_search(
    model_dir: Path, model_file: str | Path | None = None, options: Options | None = None, device: str = "cpu"
) -> Search:
    """The search on a model that is loaded strictly; the task is that of its config.yaml.

    Args:
        model_dir: Directory of the run.
        model_file: As of `find_weights`.
        options: Of the search; their defaults where None.
        device: "cpu" or "cuda".

    Raises:
        ConfigError: A CTC weight is given for a model that has no CTC over its text.
        ModelError: A file is missing or damaged, the weights do not fit the configuration, or the model neither
            recognises nor translates.
    """
    config_file, weights = Path(model_dir) / "config.yaml", find_weights(Path(model_dir), model_file)
    config, options = read_config(config_file), (options or Options()).of_espnet()
    task = text_task(config, config_file)
    options["ctc_weight"] = ctc_weight(config, task, options["ctc_weight"])
    cls = _CLASSES[task]
    with replaced_names(sys.modules[cls.__module__], **{f"{task.upper()}Task": TASKS[task]}):
        speech2text = cls(config_file, weights, device=device, lm_weight=0.0, **options)
    search = TextSearch if task == "mt" else Search
    return search(speech2text, known_conditions(getattr(speech2text, f"{task}_model")))
