"""Multitask models of speech to text, such as OWSM, by ESPnet's search: a prompt names the language and the task.

Peng et al. 2023, "Reproducing Whisper-style training using an open-source toolkit and publicly available data". The
decoder begins with <sos>, the spoken language, the task (<asr>, or <st_deu> for a translation into German) and
<notimestamps>; the audio of an utterance is padded to the length of the training data, which is 30 seconds.
"""

import re
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from espnet_diverse.decoding.condition_ids import KnownConditions
from espnet_diverse.decoding.espnet.espnet_beam import ESPnetBeamSearch
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.search.ngram import NgramScorer
from espnet_diverse.errors import DataError, ModelError
from espnet_diverse.scope import current
from espnet_diverse.upstream.search import BeamSearch

_LANGUAGE = re.compile(r"<([a-z]{2,3})>")  # ISO 639
_NO_LANGUAGES = {"asr", "unk", "sos", "eos", "sop", "na"}
_RECOGNITION = "<asr>"


class Prompt:
    """The prompts of a multitask model, and the audio that it reads; see its two kinds.

    Args:
        args: Arguments that the model was trained with.

    Attributes:
        task: Task of the model.
        symbols: Names of the symbols in `preprocessor_conf` that a prompt needs.
        conditions: The languages of the speech, and of the text: the same for recognition, another for translation.
        special: Indices of tokens that are no part of a text.
        samples: Number of samples that the model reads.
        rate: Their sampling rate in Hz.

    Raises:
        ModelError: `preprocessor_conf` lacks a setting, or the vocabulary lacks a symbol, that a multitask model needs.
    """

    task: str
    symbols: tuple[str, ...]
    conditions: KnownConditions

    def __init__(self, args: Namespace):
        self.tokens, self.settings = list(args.token_list), self._settings(args.preprocessor_conf or {})
        if lacking := [name for name in ("fs", "speech_length", *self.symbols) if name not in self.settings]:
            raise ModelError(
                f"preprocessor_conf lacks {' '.join(lacking)}, which a model of task {self.task} has in its "
                "config.yaml; use the file that training wrote"
            )
        self.index = {token: index for index, token in enumerate(self.tokens)}
        symbols = [self.settings[name] for name in self.symbols]
        if lacking := [name for name in (_RECOGNITION, *symbols) if name not in self.index]:
            raise ModelError(
                f"the {len(self.tokens)} tokens of the vocabulary lack {' '.join(lacking)}, which a model of task "
                f"{self.task} needs for its prompts; use the token_list that it was trained with"
            )
        self.samples = round(self.settings["fs"] * self.settings["speech_length"])
        self.rate = self.settings["fs"]
        self.special = {index for token, index in self.index.items() if token[:1] == "<" and token[-1:] == ">"}
        matches = filter(None, map(_LANGUAGE.fullmatch, self.tokens))
        self.languages = [match[1] for match in matches if match[1] not in _NO_LANGUAGES]
        if not self.languages:
            raise ModelError(
                f"the {len(self.tokens)} tokens of the vocabulary have no language, which a model of task {self.task} "
                "needs for its prompts; languages have two or three letters of ISO 639, such as <eng>"
            )

    @property
    def seconds(self) -> float:
        """Length of the audio that the model reads."""
        return self.samples / self.rate

    def padded(self, samples: NDArray) -> NDArray:
        """Samples (L,) padded with zeros to the length that the model reads.

        Raises:
            DataError: There are more samples than the model reads.
        """
        return np.pad(samples, (0, self.missing(len(samples))))

    def missing(self, count: int) -> int:
        """Number of zeros to add after `count` samples; raises the same errors as `padded`."""
        if count > self.samples:
            reads = f"the {self.seconds:g} s that the model reads"
            raise DataError(f"{count / self.rate:.1f} s are more than {reads}; use transcribe, or split the recording")
        return self.samples - count

    def language_and_task(self, spoken: int, written: int) -> list[int]:
        """Token indices of the two symbols that every prompt has.

        Args:
            spoken, written: Indices of the language of the speech and of the text in `conditions`.

        Raises:
            DataError: The model does not translate into that language.
        """
        source, target = self.conditions.names["lang"][spoken], self.conditions.names["tgtlang"][written]
        task = _RECOGNITION if source == target else f"<st_{target}>"
        if task not in self.index:
            into = [token[4:-1] for token in self.tokens if token.startswith("<st_")]
            raise DataError(f"--target_language {target}: the model translates into {' '.join(into) or 'no language'}")
        return [self.index[f"<{source}>"], self.index[task]]

    def _settings(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of the preprocessor that the model was trained with."""
        return dict(settings)


class DecoderPrompt(Prompt):
    """The prompts of a model of task s2t, with which its decoder begins."""

    task = "s2t"
    symbols = ("notime_symbol", "first_time_symbol", "last_time_symbol")

    def __init__(self, args: Namespace):
        super().__init__(args)
        self.notime, self.first_time, self.last_time = (self.index[self.settings[name]] for name in self.symbols)
        self.conditions = KnownConditions({"lang": self.languages, "tgtlang": self.languages})

    def indices(self, sos: int, spoken: int, written: int) -> list[int]:
        """Token indices of a prompt that begins with `sos`; other arguments and errors as in `language_and_task`."""
        return [sos, *self.language_and_task(spoken, written), self.notime]


class MultitaskSearch(ESPnetBeamSearch):
    """ESPnet's search of a multitask model; the open scope has the languages of the utterances.

    Args:
        model: ESPnet's model of task s2t.
        prompt: Its prompts.
        language_model: Language model of any class over the same tokens, or None.
    """

    def __init__(self, model: nn.Module, prompt: DecoderPrompt, language_model: nn.Module | NgramScorer | None = None):
        from espnet2.bin.s2t_inference import ScoreFilter  # takes a second

        super().__init__(model, model.ctc, language_model)
        self.prompt, self.named = prompt, "a multitask model"
        self.parts["scorefilter"] = ScoreFilter(
            notimestamps=prompt.notime,
            first_time=prompt.first_time,
            last_time=prompt.last_time,
            sos=model.sos,
            eos=model.eos,
            vocab_size=len(prompt.tokens),
        )

    def _search(self, options: SearchOptions) -> BeamSearch:
        search = super()._search(options)
        ids = current().conditions
        search.set_hyp_primer(self.prompt.indices(self.model.sos, int(ids["lang"]), int(ids["tgtlang"])))
        return search

    def languages(self, source: Tensor) -> dict[str, float]:
        """Probabilities of the spoken language, by the decoder's first token, highest first.

        Args:
            source: Encoder output of one utterance (T, M).
        """
        first = source.new_tensor([self.model.sos]).long()
        scores, _ = self.model.decoder.score(first, None, source)
        names = self.prompt.languages
        chosen = scores[[self.prompt.index[f"<{name}>"] for name in names]].softmax(0).tolist()
        return dict(sorted(zip(names, chosen, strict=True), key=lambda one: -one[1]))
