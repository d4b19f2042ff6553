"""Synthetic Europarl-ST 1.1 in six languages and their thirty directions, with audio as wav: v1.1/<src>/<tgt>."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from espnet_diverse.audio.speech_synthesis import synthesize
from espnet_diverse.audio.writing import write_audio
from espnet_diverse.corpora.synthetic import VOICES, Utterance, check_size, join, make_once, utterances
from espnet_diverse.corpora.synthetic.text.parallel_text import write_lines

LANGUAGES = ("en", "fr", "de", "it", "es", "pt")
# Number of utterances of each split, for each language.
COUNTS = {
    "tiny": {"train": 16, "dev": 4, "test": 4},
    "demo": {"train": 192, "dev": 12, "test": 24},
}
# Maximum number of sentences of a speech.
LONGEST = 4
# Different for each corpus, so that corpora have different sentences.
SEED = 3000


def make(target_dir: Path, seed: int = 0, size: str = "demo", nj: int = 2) -> Path:
    """Make the synthetic corpus; see `corpora.synthetic`."""
    check_size(size)
    corpus = {
        (language, split): list(_speeches(language, split, count, SEED + seed))
        for language in LANGUAGES
        for split, count in COUNTS[size].items()
    }
    settings = {"layout": "europarl_st", "size": size, "seed": seed}
    return make_once(target_dir, settings, corpus, lambda folder: _write(folder / "v1.1", corpus, nj))


def _speeches(language: str, split: str, count: int, seed: int) -> Iterator[list[Utterance]]:
    """The utterances of each speaker, in speeches of up to `LONGEST` sentences."""
    speakers = [f"{language}{split}_{number}" for number in range(len(VOICES[split]))]
    targets = [other for other in LANGUAGES if other != language]
    spoken = utterances([language, *targets], split, count, seed, speakers)
    for speaker in speakers:
        group = [utterance for utterance in spoken if utterance.speaker == speaker]
        for start in range(0, len(group), LONGEST):
            yield group[start : start + LONGEST]


def _write(root: Path, corpus: Mapping[tuple[str, str], Sequence[Sequence[Utterance]]], nj: int) -> None:
    lines = [utterance.line for speeches in corpus.values() for speech in speeches for utterance in speech]
    recordings = synthesize(lines, nj)
    for (language, split), speeches in corpus.items():
        audios = root / language / "audios"
        audios.mkdir(parents=True, exist_ok=True)
        names, segments = [], []
        for number, speech in enumerate(speeches):
            # The European Parliament's sittings are named by date, agenda item and speech.
            names.append(
                f"{language}.2010{['train', 'dev', 'test'].index(split) + 1:02d}01.{number // 10}.3-{number:03d}"
            )
            samples, times = join([next(recordings) for _ in speech])
            write_audio(audios / f"{names[-1]}.wav", samples)
            segments += [f"{names[-1]} {start} {end}" for start, end in times]
        targets = [other for other in LANGUAGES if other != language]
        for place, other in enumerate(targets, start=1):
            _write_direction(root / language / other / split, (language, other), names, segments, speeches, place)


def _write_direction(
    folder: Path,
    pair: tuple[str, str],
    names: Sequence[str],
    segments: Sequence[str],
    speeches: Sequence[Sequence[Utterance]],
    place: int,
) -> None:
    """Write the files of one direction and split; the translation is the text of number `place` of each sentence."""
    files = {
        "segments.lst": segments,
        "speeches.lst": names,
        "speakers.lst": [speech[0].speaker for speech in speeches],
    }
    for language, text in zip(pair, (0, place), strict=True):
        sentences = [[utterance.sentence.texts[text] for utterance in speech] for speech in speeches]
        files[f"segments.{language}"] = [sentence for speech in sentences for sentence in speech]
        files[f"speeches.{language}"] = [" ".join(speech) for speech in sentences]
    for name, rows in files.items():
        write_lines(folder / name, rows)
