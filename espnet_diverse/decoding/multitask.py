"""Multitask models of speech to text, such as OWSM, by ESPnet's search: a prompt names the language and the task.

Peng et al. 2023, "Reproducing Whisper-style training using an open-source toolkit and publicly available data". The
decoder begins with <sos>, the spoken language, the task (<asr>, or <st_deu> for a translation into German) and
<notimestamps>; the audio of an utterance is padded to the length of the training data, which is 30 seconds.
"""

import re
from argparse import Namespace

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from espnet_diverse.decoding.beam import Hypothesis
from espnet_diverse.decoding.condition_ids import KnownConditions
from espnet_diverse.decoding.espnet_beam import ESPnetBeamSearch
from espnet_diverse.decoding.ngram import NgramScorer
from espnet_diverse.decoding.options import Options
from espnet_diverse.errors import DataError, ModelError
from espnet_diverse.scope import current
from espnet_diverse.upstream.search import BeamSearch

_LANGUAGE = re.compile(r"<([a-z]{2,3})>")  # ISO 639
_NO_LANGUAGES = {"asr", "unk", "sos", "eos", "sop", "na"}
_RECOGNITION = "<asr>"
_TIMES = ("notime_symbol", "first_time_symbol", "last_time_symbol")


class Prompt:
    """The prompts of a multitask model, and the audio that it reads.

    Args:
        args: Arguments that the model was trained with.

    Attributes:
        conditions: The languages of the speech, and of the text: the same for recognition, another for translation.

    Raises:
        ModelError: `preprocessor_conf` lacks a setting, or the vocabulary a symbol of such a model.
    """

    def __init__(self, args: Namespace):
        preprocessor, self.tokens = args.preprocessor_conf, list(args.token_list)
        if lacking := [name for name in ("fs", "speech_length", *_TIMES) if name not in preprocessor]:
            raise ModelError(
                f"preprocessor_conf lacks {' '.join(lacking)}, which a model of task s2t has in its config.yaml; "
                "use the file that training wrote"
            )
        self.index = {token: index for index, token in enumerate(self.tokens)}
        symbols = [preprocessor[name] for name in _TIMES]
        if lacking := [name for name in (_RECOGNITION, *symbols) if name not in self.index]:
            raise ModelError(
                f"the {len(self.tokens)} tokens of the vocabulary lack {' '.join(lacking)}, which a model of task s2t "
                "needs for its prompts; use the token_list that it was trained with"
            )
        self.samples = round(preprocessor["fs"] * preprocessor["speech_length"])
        self.rate = preprocessor["fs"]
        found = filter(None, map(_LANGUAGE.fullmatch, self.tokens))
        self.languages = [match[1] for match in found if match[1] not in _NO_LANGUAGES]
        if not self.languages:
            raise ModelError(
                f"the {len(self.tokens)} tokens of the vocabulary have no language, which a model of task s2t needs "
                "for its prompts; languages have two or three letters of ISO 639, such as <eng>"
            )
        self.notime, self.first_time, self.last_time = (self.index[symbol] for symbol in symbols)
        self.conditions = KnownConditions({"lang": self.languages, "tgtlang": self.languages})

    def padded(self, samples: NDArray) -> NDArray:
        """Samples (L,) padded with zeros to the length that the model reads.

        Raises:
            DataError: There are more samples than the model reads.
        """
        if len(samples) > self.samples:
            most, seconds = self.samples / self.rate, len(samples) / self.rate
            raise DataError(f"{seconds:.1f} s are more than the {most:g} s that the model reads; use transcribe")
        return np.pad(samples, (0, self.samples - len(samples)))

    def indices(self, sos: int, spoken: int, written: int) -> list[int]:
        """Token indices of a prompt.

        Args:
            sos: Index of <sos>.
            spoken, written: Indices of the language of the speech and of the text among `languages`.

        Raises:
            DataError: The model does not translate into that language.
        """
        source, target = self.languages[spoken], self.languages[written]
        task = _RECOGNITION if source == target else f"<st_{target}>"
        if task not in self.index:
            into = [token[4:-1] for token in self.tokens if token.startswith("<st_")]
            raise DataError(f"--target_language {target}: the model translates into {' '.join(into) or 'no language'}")
        return [sos, self.index[f"<{source}>"], self.index[task], self.notime]

    def is_special(self, index: int) -> bool:
        """Whether a token is no part of the text."""
        return self.tokens[index][0] == "<" and self.tokens[index][-1] == ">"


class MultitaskSearch(ESPnetBeamSearch):
    """ESPnet's search of a multitask model; the open scope has the languages of the utterances.

    Args:
        model: ESPnet's model of task s2t.
        prompt: Its prompts.
        language_model: Language model of any class over the same tokens, or None.
    """

    def __init__(self, model: nn.Module, prompt: Prompt, language_model: nn.Module | NgramScorer | None = None):
        from espnet2.bin.s2t_inference import ScoreFilter  # takes a second

        super().__init__(model, model.ctc, language_model)
        self.prompt = prompt
        self.parts["scorefilter"] = ScoreFilter(
            notimestamps=prompt.notime,
            first_time=prompt.first_time,
            last_time=prompt.last_time,
            sos=model.sos,
            eos=model.eos,
            vocab_size=len(prompt.tokens),
        )

    def _search(self, options: Options) -> BeamSearch:
        search = super()._search(options)
        ids = current().conditions
        search.set_hyp_primer(self.prompt.indices(self.model.sos, int(ids["lang"]), int(ids["tgtlang"])))
        return search

    def _hypothesis(self, hyp) -> Hypothesis:
        tokens, score = super()._hypothesis(hyp)
        return Hypothesis([index for index in tokens if not self.prompt.is_special(index)], score)

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
