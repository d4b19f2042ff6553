"""Synthetic Multilingual TEDx: eight languages and thirteen directions, three of them without training data.

A talk is a flac file with a few sentences of one speaker. A direction such as es-en has the talks of es-es, as it does
in part in the release.
"""

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from espnet_diverse.audio.speech_synthesis import synthesize
from espnet_diverse.audio.writing import write_audio
from espnet_diverse.corpora import split_pair
from espnet_diverse.corpora.mtedx import LANGUAGES, SPLITS, TRAINED, ZERO_SHOT
from espnet_diverse.corpora.synthetic import Utterance, check_size, join, make_once, utterances
from espnet_diverse.corpora.synthetic.text.parallel_text import write_lines

# Number of utterances of each language and split. As in the release, half of the languages have more training data.
COUNTS = {
    "tiny": {"train": 16, "dev": 4, "test": 4},
    "demo": {"train": 120, "dev": 12, "test": 24},
}
LARGER = {"tiny": 1, "demo": 2}
LARGER_LANGUAGES = ("es", "fr", "it", "pt")
SPEAKERS = {
    "train": ("01", "02", "03", "04", "05", "06", "07", "08"),
    "dev": ("09", "10"),
    "test": ("11", "12", "13", "14"),
}
MOST_SEGMENTS = 5


class Talk(NamedTuple):
    """A recording: language, split of the release, name, and the utterances in order."""

    language: str
    split: str
    name: str
    utterances: tuple[Utterance, ...]


def make(target_dir: Path, seed: int = 0, size: str = "demo", nj: int = 2) -> Path:
    """Make the synthetic corpus; see `corpora.synthetic`."""
    check_size(size)
    talks = [talk for language in LANGUAGES for talk in _talks(language, size, seed)]
    settings = {"layout": "mtedx", "size": size, "seed": seed}
    return make_once(target_dir, settings, talks, lambda folder: _write(folder, talks, nj))


def _targets(language: str) -> list[str]:
    """Target languages of talks in `language`."""
    return [target for source, target in map(split_pair, TRAINED + ZERO_SHOT) if source == language]


def _talks(language: str, size: str, seed: int) -> Iterator[Talk]:
    for split, count in COUNTS[size].items():
        if split == "train" and language in LARGER_LANGUAGES:
            count *= LARGER[size]
        spoken = utterances([language, *_targets(language)], split, count, seed, SPEAKERS[split])
        spoken.sort(key=lambda utterance: utterance.speaker)
        for speaker, group in itertools.groupby(spoken, key=lambda utterance: utterance.speaker):
            group = list(group)
            for number, first in enumerate(range(0, len(group), MOST_SEGMENTS)):
                name = f"{language}{speaker}talk{number:02d}"
                yield Talk(language, SPLITS[split], name, tuple(group[first : first + MOST_SEGMENTS]))


def _write(folder: Path, talks: list[Talk], nj: int) -> None:
    texts: dict[Path, list[str]] = {}
    recordings = synthesize([utterance.line for talk in talks for utterance in talk.utterances], nj)
    for talk in talks:
        samples, times = join(list(itertools.islice(recordings, len(talk.utterances))))
        languages = (talk.language, *_targets(talk.language))
        for column, target in enumerate(languages):
            pair = f"{talk.language}-{target}"
            if pair in ZERO_SHOT and talk.split == "train":
                continue
            split = folder / pair / "data" / talk.split
            (split / "wav").mkdir(parents=True, exist_ok=True)
            flac = split / "wav" / f"{talk.name}.flac"
            if target == talk.language:
                write_audio(flac, samples)
                spoken = flac
            else:
                shutil.copyfile(spoken, flac)
            _add_lines(texts, split / "txt", talk, column, times)
    for path, lines in texts.items():
        write_lines(path, lines)


def _add_lines(
    texts: dict[Path, list[str]], txt: Path, talk: Talk, column: int, times: list[tuple[float, float]]
) -> None:
    """Add the lines of a talk to the files of the direction whose target is text number `column` of each sentence."""
    target = (talk.language, *_targets(talk.language))[column]
    for number, (utterance, (start, end)) in enumerate(zip(talk.utterances, times, strict=True)):
        entry = f"duration: {end - start:.3f}, offset: {start:.3f}, speaker_id: {talk.name}, wav: {talk.name}.wav"
        lines = {
            "segments": f"{talk.name}_{number:04d} {talk.name} {start:.3f} {end:.3f}",
            f"{talk.split}.yaml": f"- {{{entry}}}",
            f"{talk.split}.{talk.language}": utterance.sentence.texts[0],
            f"{talk.split}.{target}": utterance.sentence.texts[column],
        }
        for name, line in lines.items():
            texts.setdefault(txt / name, []).append(line)
