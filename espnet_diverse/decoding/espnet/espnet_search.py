"""Joint CTC/attention decoding by ESPnet's own beam search, one utterance at a time.

Watanabe et al. 2017, "Hybrid CTC/attention architecture for end-to-end speech recognition", section IV: hypotheses are
ranked by (1 - ctc_weight) log p_attention + ctc_weight log p_ctc + penalty * length. Speech translation is decoded in
the same way: its text is the translation, and few models have CTC over it. Text translation has no CTC.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from espnet2.asr.frontend.abs_frontend import AbsFrontend
from espnet2.bin import asr_inference, mt_inference, st_inference
from numpy.typing import NDArray

from espnet_diverse.audio.features import read_features
from espnet_diverse.audio.reading import read_at
from espnet_diverse.audio.segments import Segment
from espnet_diverse.decoding.condition_ids import KnownConditions, known_conditions
from espnet_diverse.decoding.encoder.precision import check_device
from espnet_diverse.decoding.encoder.quiet import quiet
from espnet_diverse.decoding.espnet.espnet_beam import choose_class
from espnet_diverse.decoding.options import SearchOptions, check_search, has_ctc, text_task, usual_ctc_weight
from espnet_diverse.decoding.prediction import Text
from espnet_diverse.decoding.search.fusion import Fusion, language_model_files, language_model_of, used_language_model
from espnet_diverse.decoding.search.ngram import NgramScorer, is_ngram
from espnet_diverse.errors import ConfigError
from espnet_diverse.nets.frontends.speech_frontend import check_samples
from espnet_diverse.registration import constructed
from espnet_diverse.runs.audio_rate import audio_rate, required_rate
from espnet_diverse.runs.model_files import find_weights
from espnet_diverse.runs.tasks import PRETRAINED, TASKS, read_config, source_table
from espnet_diverse.scope import scope
from espnet_diverse.text.pretrained_tokenizer import PretrainedTokenizer
from espnet_diverse.untrusted.whole_files import read_bytes

_CLASSES = {"asr": asr_inference.Speech2Text, "st": st_inference.Speech2Text, "mt": mt_inference.Text2Text}


class Search:
    """ESPnet's beam search with one model.

    Args:
        speech2text: ESPnet's `Speech2Text` of speech recognition or translation, or its `Text2Text`.
        conditions: The conditions that the model depends on.
        rate: Sampling rate in Hz of the audio that the model reads; None for text and features.

    Attributes:
        device: "cpu", "cuda" or "cuda:N".
        table: Table of the data directory that names the inputs.
        batch_size: 1; utterances are searched one at a time.
        batch_frames: 0.
        nbest: Number of hypotheses that are asked for.
        used: Entries of decode.json: the name of the weights, and the entries from `used_language_model`.
        frontend: The frontend of the model, if it has one.
    """

    table = "wav.scp"
    batch_size, batch_frames = 1, 0

    def __init__(self, speech2text, conditions: KnownConditions, rate: int | None):
        self.speech2text = speech2text
        self.conditions, self.rate = conditions, rate
        self.device, self.nbest = speech2text.device, speech2text.nbest
        self.used: dict[str, str | float] = {}
        self.frontend: AbsFrontend | None = None  # which `load_search` sets

    def __call__(self, source: NDArray, conditions: Mapping[str, int]) -> list[tuple]:
        """Decode one utterance.

        Args:
            source: What `read` returned.
            conditions: Condition indices of the utterance.

        Returns:
            The n-best hypotheses as ESPnet returns them: text, tokens, token indices and ESPnet's hypothesis.
        """
        ids = {condition: torch.tensor([index], device=self.device) for condition, index in conditions.items()}
        with scope(conditions=ids, collect=False), quiet():
            return self.speech2text(source)

    def batch(self, sources: Sequence[NDArray], conditions: Sequence[Mapping[str, int]]) -> list[list[Text]]:
        """The n-best texts of each utterance, best first."""
        results = map(self, sources, conditions)
        return [[Text(text, tokens, float(hyp.score)) for text, tokens, _, hyp in best] for best in results]

    def read(self, value: str, segment: Segment | None = None) -> tuple[NDArray, float]:
        """Read an audio file or a segment: samples (T,) float32 at the model's rate, and the duration in seconds.

        Raises:
            DataError: The file cannot be read.
            TooShortUttError: There are too few samples for the frontend.
        """
        samples, seconds = read_at(Path(value), self.rate, segment)
        check_samples(self.frontend, len(samples))
        return samples, seconds


class FeatureSearch(Search):
    """ESPnet's beam search with a model that reads features."""

    table = "feats.scp"

    def read(self, value: str, segment: Segment | None = None) -> tuple[NDArray, float]:
        """Read an entry of feats.scp: features (T, F) float32, and 0 seconds."""
        return read_features(value), 0.0


class TextSearch(Search):
    """ESPnet's beam search of text translation.

    With `maxlenratio` 0 ESPnet allows as many tokens as the source has, which truncates translations. Here the maximum
    is twice the number of source tokens plus 10, and the search stops when hypotheses no longer improve, as for speech.
    """

    def __init__(self, speech2text: mt_inference.Text2Text, conditions: KnownConditions):
        super().__init__(speech2text, conditions, None)
        self.table = source_table(vars(speech2text.mt_train_args))
        self.preprocess = TASKS["mt"].build_preprocess_fn(speech2text.mt_train_args, train=False)
        if speech2text.maxlenratio == 0:
            choose_class(speech2text.beam_search, bounded=True)

    def read(self, value: str, segment: Segment | None = None) -> tuple[NDArray, float]:
        """Token indices (T,) of a text, and 0 seconds."""
        return self.preprocess("", {"src_text": value})["src_text"], 0.0


def load_search(
    model_dir: Path,
    model_file: str | Path | None = None,
    options: SearchOptions | None = None,
    device: str = "cpu",
    fusion: Fusion | None = None,
    features: bool = False,
) -> Search:
    """Load a model for ESPnet's search; all its weights must fit. Its config.yaml gives the task.

    Args:
        model_dir: Directory of the run.
        model_file: Weights, see `find_weights`.
        options: Search options.
        device: "cpu", "cuda" or "cuda:N".
        fusion: Language model of any class, see `load_predictor`; this search has neither hotwords nor a shortlist.
        features: Whether a model that reads features instead of audio is allowed.

    Raises:
        ConfigError: The device does not exist, the options ask for CTC and the model was trained without it, the model
            is non-autoregressive, or hotwords or a shortlist are given.
        ModelError: A file is missing or damaged, the weights do not fit the configuration, or the model reads features
            or writes no text.
    """
    check_device(device)
    config_file = Path(model_dir) / "config.yaml"
    config = read_config(config_file)
    task = text_task(config, config_file)
    weights = find_weights(Path(model_dir), model_file, config)
    rate = None if task == "mt" else audio_rate(config) if features else required_rate(config)
    fusion = fusion or Fusion()
    if fusion.hotwords is not None:
        raise ConfigError("search=espnet has no hotwords; set search=batched, or leave them out")
    if fusion.shortlist is not None:
        raise ConfigError("search=espnet has no shortlist; set search=batched, or leave it out")
    folder, lm = language_model_of(Path(model_dir), fusion, "espnet", config.get("decoder")), {}
    if folder is not None and is_ngram(folder):
        NgramScorer(folder, [])  # refuses a file that cannot be read
        lm = {"ngram_file": str(folder)}
    elif folder is not None:
        lm = dict(zip(("lm_train_config", "lm_file"), language_model_files(folder, fusion.weights), strict=True))
    has = has_ctc(config, task), folder is not None, usual_ctc_weight(config, task)
    options = (options or SearchOptions()).resolved(*has)
    check_search(config, options)
    arguments = options.for_espnet(len(config["token_list"])) | (
        {"ngram_weight": options.lm_weight} if "ngram_file" in lm else {}
    )
    cls = _CLASSES[task]
    ours = {f"{task.upper()}Task": TASKS[task], "LMTask": TASKS["lm"]}
    pretrained = config.get("token_type") == PRETRAINED
    if pretrained:  # as in `build_preprocess_fn`: a tokenizer of characters is built and replaced
        arguments["token_type"] = "char"
    speech2text = constructed(cls, ours, config_file, weights, device=device, **lm, **arguments)
    if pretrained:
        args = getattr(speech2text, f"{task}_train_args")
        speech2text.tokenizer = PretrainedTokenizer(read_bytes(args.bpemodel))
    model = getattr(speech2text, f"{task}_model")
    conditions = known_conditions(model)
    if task == "mt":
        search: Search = TextSearch(speech2text, conditions)
    else:
        search = (FeatureSearch if rate is None else Search)(speech2text, conditions, rate)
    search.used = {"model_file": weights.name, **used_language_model(folder, fusion, options.lm_weight)}
    search.frontend = getattr(model, "frontend", None)
    return search
