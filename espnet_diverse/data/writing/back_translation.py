"""Synthetic parallel text: back-translation and self-training.

Back-translation (Sennrich et al. 2016, "Improving neural machine translation models with monolingual data") translates
text of the target language into the source language; the pairs train the opposite direction. Self-training (He et al.
2020, "Revisiting self-training for neural sequence generation") translates text of the source language with the model
itself and trains it on these pairs. Noise in the source makes both better where a beam search has translated (Edunov et
al. 2018, "Understanding back-translation at scale", section 3.1; He et al. 2020): words are left out or moved. Their
third kind, a filler in the place of a word, would need a token of its own and is not built.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass

from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.errors import DataError

PREFIXES = {"back": "bt-", "forward": "st-"}
"""Prefixes of ids by kind: "back", the given text is the target; "forward", the given text is the source."""

_FURTHEST = 3  # places that a word moves


@dataclass(frozen=True)
class Monolingual:
    """Sentences by id, and the language of each, if known."""

    text: Mapping[str, str]
    languages: Mapping[str, str]

    @classmethod
    def of(cls, data: DataDir) -> "Monolingual":
        """The table `text` of a data directory, and the table of its languages.

        Raises:
            DataError: The table of the languages lacks a sentence.
        """
        table = "utt2tgtlang" if data.conditions.get("utt2tgtlang") else "utt2lang"
        languages = data.conditions.get(table, {})
        if languages and (lacking := data.text.keys() - languages.keys()):
            raise DataError(f"{table} lacks {min(lacking)}; add its language, or remove the table")
        return cls(data.text, languages)

    def to_translate(self) -> DataDir:
        """A data directory with these sentences as the source of translation."""
        conditions = {"utt2lang": dict(self.languages)} if self.languages else {}
        return DataDir(text=dict(self.text), src_text=dict(self.text), conditions=conditions)


def add_noise(sentence: str, rate: float, draw: random.Random) -> str:
    """Leave out words of a sentence with the probability `rate`, and move the others by up to three places.

    A sentence keeps at least one word. Words are what is between spaces.
    """
    words = sentence.split()
    remaining = [word for word in words if draw.random() >= rate] or words[:1]
    places = [place + draw.uniform(0, _FURTHEST + 1) for place in range(len(remaining))]
    return " ".join(word for _, word in sorted(zip(places, remaining, strict=True), key=lambda pair: pair[0]))


def augment(
    sentences: Monolingual,
    translations: Mapping[str, str],
    kind: str,
    language: str | None = None,
    max_ratio: float = 4.0,
    noise: float = 0.0,
) -> DataDir:
    """Pair sentences with their translations; the ids get a prefix by kind.

    Args:
        sentences: Sentences written by people.
        translations: Translations by id, from a model; missing or empty where translation failed.
        kind: A name in `PREFIXES`.
        language: Language of the translations; None if the data has no languages.
        max_ratio: Pairs in which one side has more than this many times the characters of the other are dropped.
        noise: Rate of `add_noise` in the source, which is the same each time; 0 changes nothing.

    Returns:
        The pairs as `src_text` and `text`, and the reasons why others were dropped.

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
            source = add_noise(source, noise, random.Random(name)) if noise else source
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
