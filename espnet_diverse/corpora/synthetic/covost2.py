"""Synthetic CoVoST 2 on Common Voice: <lang>/clips, Common Voice's tables and covost_v2.<src>_<tgt>.tsv.

Clips are mp3. A quarter of the training clips are in CoVoST's split train_covost and not in Common Voice's train.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import soundfile

from espnet_diverse.audio.resampling import RATE
from espnet_diverse.audio.speech_synthesis import synthesize
from espnet_diverse.corpora.covost2 import FOLDERS
from espnet_diverse.corpora.synthetic import VOICES, Utterance, check_size, make_once, utterances

# Target languages of each spoken language.
LANGUAGES = {"en": ("ar", "de", "zh")} | dict.fromkeys(("de", "es", "fr", "it", "pt", "ru", "zh"), ("en",))
# Number of utterances of each split, for each language.
COUNTS = {
    "tiny": {"train": 8, "dev": 2, "test": 2},
    "demo": {"train": 120, "dev": 6, "test": 12},
}
HEADER = "client_id\tpath\tsentence\tup_votes\tdown_votes\tage\tgender\taccent\n"
# Different for each corpus, so that corpora have different sentences.
SEED = 2000


def make(target_dir: Path, seed: int = 0, size: str = "demo", nj: int = 2) -> Path:
    """Make the synthetic corpus; see `corpora.synthetic`."""
    check_size(size)
    corpus = {
        (language, split): utterances([language, *targets], split, count, SEED + seed, _clients(language, split))
        for language, targets in LANGUAGES.items()
        for split, count in COUNTS[size].items()
    }
    settings = {"layout": "covost2", "size": size, "seed": seed}
    return make_once(target_dir, settings, corpus, lambda folder: _write(folder, corpus, nj))


def _clients(language: str, split: str) -> list[str]:
    names = (f"{language} {split} {number}" for number in range(len(VOICES[split])))
    return [hashlib.sha512(name.encode()).hexdigest() for name in names]


def _write(root: Path, corpus: Mapping[tuple[str, str], Sequence[Utterance]], nj: int) -> None:
    recordings = synthesize([utterance.line for spoken in corpus.values() for utterance in spoken], nj)
    for (language, split), spoken in corpus.items():
        folder = root / FOLDERS.get(language, language)
        (folder / "clips").mkdir(parents=True, exist_ok=True)
        placed = {}
        for number, utterance in enumerate(spoken):
            clip = f"common_voice_{language}_{split}{number:04d}.mp3"
            soundfile.write(folder / "clips" / clip, next(recordings), RATE, format="MP3")
            placed[clip] = utterance
        _write_common_voice(folder, split, placed)
        for place, target in enumerate(LANGUAGES[language], start=1):
            _write_covost(folder, f"{folder.name}_{FOLDERS.get(target, target)}", split, placed, place)


def _write_common_voice(folder: Path, split: str, placed: Mapping[str, Utterance]) -> None:
    rows = [
        f"{utterance.speaker}\t{clip}\t{utterance.sentence.texts[0]}\t2\t0\t\t\t\n"
        for clip, utterance in placed.items()
    ]
    _append(folder / "validated.tsv", HEADER, rows)
    _append(folder / f"{split}.tsv", HEADER, rows[_extra(split, len(rows)) :])


def _write_covost(folder: Path, direction: str, split: str, placed: Mapping[str, Utterance], place: int) -> None:
    """Append the rows of one split; the translation is the text of number `place` of each sentence."""
    extra = _extra(split, len(placed))
    rows = [
        f"{clip}\t{utterance.sentence.texts[place]}\t{split}{'_covost' if number < extra else ''}\n"
        for number, (clip, utterance) in enumerate(placed.items())
    ]
    _append(folder / f"covost_v2.{direction}.tsv", "path\ttranslation\tsplit\n", rows)


def _extra(split: str, count: int) -> int:
    """Number of clips of a split that are in CoVoST's tables only."""
    return count // 4 if split == "train" else 0


def _append(path: Path, header: str, rows: Sequence[str]) -> None:
    with path.open("a", encoding="utf-8") as table:
        table.write(("" if table.tell() else header) + "".join(rows))
