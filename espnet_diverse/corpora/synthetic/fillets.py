"""Synthetic Fish Fillets: dialogue in German and Spanish, and its translations, in the layout of unpacked packages.

The grammar has no Czech and no Dutch. A level is named so that its hash draws it into the set of its sentences.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import batched, count
from pathlib import Path

from espnet_diverse.audio.speech_synthesis import synthesize
from espnet_diverse.audio.writing import ogg_bytes
from espnet_diverse.corpora import EVERYTHING
from espnet_diverse.corpora.fillets import GAME
from espnet_diverse.corpora.shared.splits import hashed_set
from espnet_diverse.corpora.synthetic import VOICES, Utterance, check_size, make_once, utterances
from espnet_diverse.corpora.synthetic.text.parallel_text import write_lines

SPOKEN = ("de", "es")
WRITTEN = ("en", "de", "es", "fr")
# Number of utterances of each set, for each spoken language.
COUNTS = {
    "tiny": {"train": 16, "dev": 4, "test": 4},
    "demo": {"train": 400, "dev": 24, "test": 48},
}
# Number of lines of a level.
LINES = 8
# Different for each corpus, so that corpora have different sentences.
SEED = 15000

Level = tuple[str, Sequence[Sequence[Utterance]]]
"""Name and lines of a level, each line in the languages of `SPOKEN`."""


def make(target_dir: Path, seed: int = 0, size: str = "demo", nj: int = 2) -> Path:
    """Make the synthetic corpus; see `corpora.synthetic`."""
    check_size(size)
    levels = [level for split in COUNTS[size] for level in _levels(split, COUNTS[size][split], SEED + seed)]
    settings = {"layout": "fillets", "size": size, "seed": seed}
    return make_once(target_dir, settings, levels, lambda folder: _write(folder, levels, nj))


def _texts(language: str) -> list[str]:
    """The languages of the texts of an utterance."""
    return [language, *(other for other in WRITTEN if other != language)]


def _levels(split: str, total: int, seed: int) -> Iterator[Level]:
    """The levels of a set."""
    actors = [f"actor{number}" for number in range(len(VOICES[split]))]
    spoken = [utterances(_texts(language), split, total, seed, actors) for language in SPOKEN]
    names = (name for name in map("level{}".format, count()) if hashed_set(name, EVERYTHING) == split)
    yield from zip(names, batched(zip(*spoken, strict=True), LINES), strict=False)


def _write(root: Path, levels: Sequence[Level], nj: int) -> None:
    recordings = synthesize([utterance.line for _, lines in levels for line in lines for utterance in line], nj)
    for level, lines in levels:
        named = {f"{level}-{number}": line for number, line in enumerate(lines)}
        _write_dialogs(root / "fillets-ng-data" / GAME / "script" / level, named)
        for name, line in named.items():
            for language, _ in zip(SPOKEN, line, strict=True):
                folder = root / f"fillets-ng-data-{language}" / GAME / "sound" / level / language
                folder.mkdir(parents=True, exist_ok=True)
                (folder / f"{name}.ogg").write_bytes(ogg_bytes(next(recordings)))


def _write_dialogs(folder: Path, lines: Mapping[str, Sequence[Utterance]]) -> None:
    """Write the files of dialogue of a level; the first spoken language has the texts of all."""
    order = _texts(SPOKEN[0])
    for language in WRITTEN:
        calls = []
        for name, (utterance, *_) in lines.items():
            text, english = (_quoted(utterance.sentence.texts[order.index(code)]) for code in (language, "en"))
            calls.append(f'dialogId("{name}", "font_{utterance.speaker}", {english})')
            calls += [f"dialogStr({text})"] * (language != "en")
        write_lines(folder / f"dialogs_{language}.lua", calls)


def _quoted(text: str) -> str:
    """A string of Lua."""
    return '"' + text.replace("\\", r"\\").replace('"', r"\"") + '"'
