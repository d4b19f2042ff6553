"""Parallel text of which a model wrote one side: back-translation and self-training.

Sennrich et al. 2016, "Improving neural machine translation models with monolingual data": text of the target language
is translated into the source language, and trains the model as the translation of what came out. He et al. 2020,
"Revisiting self-training for neural sequence generation", translate text of the source language by the model itself and
train it with that.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.errors import DataError

PREFIXES = {"back": "bt-", "forward": "st-"}
"""Begin of the ids by kind: text is the target and its translation the source, or the other way round."""


@dataclass(frozen=True)
class Monolingual:
    """Sentences of one language, and what language each is in, where that is known."""

    text: Mapping[str, str]
    languages: Mapping[str, str]

    @classmethod
    def of(cls, data: DataDir) -> "Monolingual":
        """The side `text` of a data directory, which may have another side or audio."""
        return cls(data.text, data.conditions.get("utt2tgtlang") or data.conditions.get("utt2lang", {}))

    def to_translate(self) -> DataDir:
        """These sentences as what a translation model reads."""
        conditions = {"utt2lang": dict(self.languages)} if self.languages else {}
        return DataDir(text=dict(self.text), src_text=dict(self.text), conditions=conditions)


def augment(
    sentences: Monolingual,
    translations: Mapping[str, str],
    kind: str,
    language: str | None = None,
    max_ratio: float = 4.0,
) -> DataDir:
    """Parallel text of sentences and their translations, with ids that tell its origin.

    Args:
        sentences: What people wrote.
        translations: What a model made of it, by id; of a sentence that it failed at, nothing or an empty text.
        kind: A name in `PREFIXES`.
        language: Language of the translations; None where languages are not told apart.
        max_ratio: Pairs of which one side has more than this many times the characters of the other are dropped.

    Raises:
        DataError: No pair is left.
    """
    result = DataDir()
    for utterance, sentence in sentences.text.items():
        name, translation = PREFIXES[kind] + utterance, translations.get(utterance, "")
        if not translation:
            result.dropped[name] = "no translation"
        elif max(len(sentence), len(translation)) > max_ratio * min(len(sentence), len(translation)):
            result.dropped[name] = f"{len(sentence)} and {len(translation)} characters"
        else:
            source, target = (translation, sentence) if kind == "back" else (sentence, translation)
            result.src_text[name], result.text[name] = source, target
    if not result.text:
        first = next(iter(result.dropped.items()), ("", "there are no sentences"))
        raise DataError(
            f"no pair is left of {len(sentences.text)} sentences; first {' '.join(first)}; train the model more"
        )
    if language is not None and sentences.languages:
        begin = len(PREFIXES[kind])
        written = {name: sentences.languages[name[begin:]] for name in result.text}
        translated = dict.fromkeys(result.text, language)
        sides = (translated, written) if kind == "back" else (written, translated)
        result.conditions = dict(zip(("utt2lang", "utt2tgtlang"), sides, strict=True))
    return result
