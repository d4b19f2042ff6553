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
from dataclasses import dataclass, field

from espnet_diverse.conditions import CONDITIONS
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.errors import DataError

PREFIXES = {"back": "bt-", "forward": "st-"}
"""Prefixes of ids by kind: "back", the given text is the target; "forward", the given text is the source."""

_FURTHEST = 3  # places that a word moves


@dataclass(frozen=True)
class Monolingual:
    """Sentences by id, and the language and the domain of each, if known."""

    text: Mapping[str, str]
    languages: Mapping[str, str] = field(default_factory=dict)
    domains: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, data: DataDir, given: Mapping[str, str] | None = None) -> "Monolingual":
        """The tables of a data directory.

        Args:
            data: The data directory.
            given: Values of the conditions "lang" and "domain" for all sentences, in place of tables.

        Raises:
            DataError: The table of the languages or of the domains lacks a sentence.
        """
        given, tables = given or {}, []
        language_table = "utt2tgtlang" if data.conditions.get("utt2tgtlang") else "utt2lang"
        for condition, table in (("lang", language_table), ("domain", "utt2domain")):
            values = data.conditions.get(table, {})
            if condition in given:
                values = dict.fromkeys(data.text, given[condition])
            elif values and (lacking := data.text.keys() - values.keys()):
                label = CONDITIONS[condition].label
                raise DataError(f"{table} lacks {min(lacking)}; add its {label}, or remove the table")
            tables.append(values)
        return cls(data.text, *tables)

    def to_translate(self, language: str | None = None) -> DataDir:
        """A data directory with these sentences as the source of translation, into `language` if it is given."""
        target = {} if language is None else dict.fromkeys(self.text, language)
        tables = {"utt2lang": self.languages, "utt2tgtlang": target, "utt2domain": self.domains}
        conditions = {table: dict(values) for table, values in tables.items() if values}
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
        language: Language of the translations; None if it is not known.
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
    begin = len(PREFIXES[kind])
    if sentences.domains:
        result.conditions["utt2domain"] = {name: sentences.domains[name[begin:]] for name in result.text}
    if language is not None and sentences.languages:
        written = {name: sentences.languages[name[begin:]] for name in result.text}
        translated = dict.fromkeys(result.text, language)
        sides = (translated, written) if kind == "back" else (written, translated)
        result.conditions |= zip(("utt2lang", "utt2tgtlang"), sides, strict=True)
    return result
