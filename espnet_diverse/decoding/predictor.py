"""The batched search with a trained model: from utterances to texts."""

from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import torch
from espnet2.text.build_tokenizer import build_tokenizer
from espnet2.text.token_id_converter import TokenIDConverter
from numpy.typing import NDArray
from torch import Tensor, nn

from espnet_diverse.audio.reading import read_audio
from espnet_diverse.audio.resampling import resample
from espnet_diverse.decoding.condition_ids import known_conditions
from espnet_diverse.decoding.encoding import Encoding
from espnet_diverse.decoding.greedy import GreedySearch
from espnet_diverse.decoding.options import Options, ctc_weight, text_task
from espnet_diverse.decoding.precision import check_precision, set_precision
from espnet_diverse.decoding.results import Text
from espnet_diverse.decoding.sampling import SamplingSearch
from espnet_diverse.decoding.search import BeamSearch
from espnet_diverse.errors import ConfigError
from espnet_diverse.scope import scope
from espnet_diverse.training.precision import compile_layers
from espnet_diverse.training.tasks import TASKS, find_weights, read_config

_BATCH_FRAMES = 24_000  # of features: 240 seconds of 10 ms


class Found(NamedTuple):
    """What was found in an utterance: its best texts, best first, and, where they were asked for, log probabilities of
    labels by CTC (T, V)."""

    texts: list[Text]
    log_probs: Tensor | None


class BatchedSearch:
    """Our beam search, greedy search, or sampling on one model; threads may share it, which wait for each other.

    Args:
        model: Of speech recognition, speech translation or text translation.
        args: What it was trained with.
        task: What it does: "asr", "st", "mt".
        options: Of the search; `ctc_weight` is a number.
        device: Where the model is.
        precision: What linear maps compute in, one of `options.PRECISIONS`.
        compiled: Whether encoder layers are compiled.

    Attributes:
        task: As given.
        ctc: CTC over the text that the model writes; None where it was trained without.
        conditions: What the model knows of conditions.
        table: The table of a data directory that has what is decoded.
        batch_size: Utterances that are wanted at a time.
        batch_frames: Frames, with those of padding, that are taken at a time.

    Raises:
        ModelError: The model has parts that cannot be searched in batches.
    """

    def __init__(
        self,
        model: nn.Module,
        args: Namespace,
        task: str,
        options: Options,
        device: str = "cpu",
        precision: str = "float32",
        compiled: bool = False,
    ):
        model.eval()
        self.task, self.ctc = task, getattr(model, "st_ctc" if task == "st" else "ctc", None)
        self.encoding = Encoding(model, device)
        if options.search == "greedy":
            self.search: Callable = GreedySearch(self.ctc)
            attention = []
        else:
            if options.search == "sampling":
                self.search = SamplingSearch(model.decoder, model.eos, options, of_text=task == "mt")
            else:
                self.search = BeamSearch(model.decoder, self.ctc, model.eos, options, of_text=task == "mt")
            attention = [scorer.attention for _, scorer in self.search.scorers]
        set_precision([model, *attention], precision)
        if compiled:
            compile_layers(model.encoder, True)
        self.device, self.conditions = device, known_conditions(model)
        self.table = "src_text" if task == "mt" else "wav.scp"
        self.preprocess = TASKS[task].build_preprocess_fn(args, train=False) if task == "mt" else None
        self.batch_size, self.batch_frames = options.batch_size, _BATCH_FRAMES
        self.converter = TokenIDConverter(token_list=args.token_list)
        model_of_pieces = {"bpemodel": args.bpemodel} if args.token_type == "bpe" else {}
        self.tokenizer = build_tokenizer(token_type=args.token_type, **model_of_pieces)
        self._lock = Lock()  # the search has its hypotheses in attributes, and some modules what they computed last

    def read(self, value: str) -> tuple[NDArray, float]:
        """Features (T, F) and seconds of the audio file that an entry of the table names; of a text its token indices
        (T,) and 0.

        Raises:
            DataError: The file cannot be read.
            TooShortUttError: There are too few frames for the encoder.
        """
        if self.preprocess is not None:
            return self.preprocess("", {"src_text": value})["src_text"], 0.0
        samples, rate = read_audio(Path(value))
        return self.features(resample(samples, rate)), len(samples) / rate

    def features(self, samples: NDArray) -> NDArray:
        """Samples (L,) float32 at 16 kHz -> features (T, F).

        Raises:
            TooShortUttError: There are too few frames for the encoder.
        """
        with self._lock:
            return self.encoding.features(samples)

    def batch(self, sources: Sequence[NDArray], conditions: Sequence[Mapping[str, int]]) -> list[list[Text]]:
        """Decode what `read` returned, each utterance for its indices by condition -> its best texts, best first."""
        return [found.texts for found in self.find(sources, conditions)]

    def find(
        self, sources: Sequence[NDArray], conditions: Sequence[Mapping[str, int]], posteriors: bool = False
    ) -> list[Found]:
        """As `batch`, and `posteriors` asks for log probabilities by `ctc`, which there must be."""
        ids = {
            condition: torch.tensor([each[condition] for each in conditions], device=self.device)
            for condition in self.conditions.names
        }
        with self._lock, torch.inference_mode():
            if isinstance(self.search, SamplingSearch):
                self.search.draw_for(sources)
            if self.preprocess is not None:
                sources = [self.encoding.features(source) for source in sources]
            source, lengths = self.encoding.encode(sources, ids)
            with scope(ids, collect=False):
                found = self.search(source, lengths)
            log_probs = self.ctc.log_softmax(source).cpu() if posteriors else [None] * len(found)
        texts = [[self._text(*hypothesis) for hypothesis in best] for best in found]
        rows = zip(texts, log_probs, lengths.tolist(), strict=True)
        return [Found(best, None if x is None else x[:length]) for best, x, length in rows]

    def _text(self, indices: list[int], score: float) -> Text:
        tokens = self.converter.ids2tokens([index for index in indices if index])  # without blank, as ESPnet
        return Text(self.tokenizer.tokens2text(tokens), tokens, score)


def load_batched_search(
    model_dir: Path,
    model_file: str | Path | None = None,
    options: Options | None = None,
    device: str = "cpu",
    precision: str = "float32",
    compiled: bool = False,
) -> BatchedSearch:
    """The search on a model that is loaded strictly; the task is that of its config.yaml.

    Args:
        model_dir: Directory of the run.
        model_file: As of `find_weights`.
        options: Of the search; their defaults where None.
        device: "cpu" or "cuda".
        precision: What linear maps compute in, one of `options.PRECISIONS`.
        compiled: Whether encoder layers are compiled.

    Raises:
        ConfigError: A CTC weight, or a search by CTC, is given for a model that has no CTC over its text; the precision
            or compiling is not possible here.
        ModelError: A file is missing or damaged, the weights do not fit the configuration, or the model cannot be
            searched in batches.
    """
    check_precision(precision, device, compiled)
    config_file, options = Path(model_dir) / "config.yaml", options or Options()
    weights, config = find_weights(Path(model_dir), model_file), read_config(config_file)
    task = text_task(config, config_file)
    if options.search == "sampling":
        options = replace(options, ctc_weight=0.0)
    options = replace(options, ctc_weight=ctc_weight(config, task, options.ctc_weight))
    if options.search == "greedy" and not ctc_weight(config, task, None):
        raise ConfigError(f"{config_file}: search=greedy is not possible: the model was trained without CTC")
    model, args = TASKS[task].build_model_from_file(config_file, weights, device)
    return BatchedSearch(model, args, task, options, device, precision, compiled)
