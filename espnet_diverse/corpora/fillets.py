"""Fish Fillets: acted dialogue of a game in Czech and Dutch, and its translations (packages of Debian, GPL-2).

Layout of the packages fillets-ng-data, fillets-ng-data-cs and fillets-ng-data-nl, each unpacked in a folder of its name
or all in one folder, as on a machine that has them installed:

    [<package>/]usr/share/games/fillets-ng/script/<level>/dialogs_<language>.lua
    [<package>/]usr/share/games/fillets-ng/sound/<level>/<language>/<dialog>.ogg

A file of dialogue has `dialogId("<dialog>", "font_<actor>", "<English>")` for each recording, then, unless it is the
English one, `dialogStr("<text>")`. Most of the text is said by two fish; an actor of a language is one speaker. Spoken
are 1,714 texts in Czech (1.6 hours) and 1,526 in Dutch (1.5 hours). By default they are translated into the nine
languages of `TARGETS`, some of them with a part of the levels alone; other directions can be selected, such as cs-nl.

A hash of the level draws its set by `split_shares`, so that a level is in one set, in every language and direction.
Dialogue of several levels (folder share) is left out, as are recordings in folders en, which are noises. Recordings
without text or without a translation are dropped and listed.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from espnet_diverse.corpora import EVERYTHING, Selection, split_pair
from espnet_diverse.corpora.shared.directions import (
    refuse_names,
    refuse_untrained,
    spoken_languages,
    translated_directions,
)
from espnet_diverse.corpora.shared.row_faults import RowFaults
from espnet_diverse.corpora.shared.splits import hashed_set
from espnet_diverse.data.characters import clean_text, safe_name, text_fault
from espnet_diverse.data.faults import Fault
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.data.lines import read_utf8
from espnet_diverse.data.normalisation import for_wer
from espnet_diverse.errors import DataError

SETS = ("train", "dev", "test")
OPTIONS = ("task", "languages", "pairs", "zero_shot", "transcripts", "split_shares", "split_seed")
TARGETS = ("en", "de", "fr", "es", "it", "pl", "ru", "sv", "bg")
GAME = "usr/share/games/fillets-ng"
NO_DOWNLOAD = (
    "fillets has no download; get it with: apt-get download fillets-ng-data fillets-ng-data-cs fillets-ng-data-nl, "
    "unpack each with: dpkg-deb -x FILE DIR/PACKAGE, and give DIR, to run.sh as --corpus_dir DIR"
)
_STRING = r'"(?:[^"\\\n]|\\.)*"'
_TOKEN = re.compile(
    rf"--[^\n]*|\bdialog(?P<kind>Id|Str)\s*\(\s*(?P<texts>{_STRING}(?:\s*,\s*{_STRING})*)\s*\)"
    rf"|\bdialogId\s*\(\s*{_STRING}\s*\.\.[^\n]*"  # names of noises that a loop of the program makes
    rf"|(?P<broken>\bdialog(?:Id|Str)\b)|{_STRING}",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


class Line(NamedTuple):
    """A line of dialogue: who says it, and the text in one language."""

    actor: str
    text: str


def prepare(corpus_dir: Path, selection: Selection = EVERYTHING) -> dict[str, DataDir]:
    """Read the unpacked packages.

    Args:
        corpus_dir: The folder that holds them.
        selection: Languages or directions; by default those from the spoken languages into `TARGETS`. Faulty lines are
            errors unless `on_bad="drop"`.

    Returns:
        The sets train, dev and test with utt2lang and, for ST, utt2tgtlang and src_text. Ids are
        <language>-<level>-<dialog>, for ST <source>-<target>-<level>-<dialog>.

    Raises:
        ConfigError: A language or direction is missing; the message lists the existing ones.
        DataError: A package is missing, a file is faulty (file and line are named), or a language or direction has no
            training data.
    """
    root = corpus_dir.absolute()
    refuse_names(selection, SETS, "the sets are drawn from the levels")
    game = _Game(root)
    if selection.task == "asr":
        languages = spoken_languages(selection, game.spoken, root)
        wanted = dict.fromkeys(languages, True)
    else:
        directions = [f"{source}-{target}" for source in game.spoken for target in game.written if source != target]
        default = [pair for pair in directions if split_pair(pair)[1] in TARGETS]
        wanted = translated_directions(selection, directions, root, default)
    sets, faults = {name: DataDir() for name in SETS}, RowFaults(selection)
    for name, trained in wanted.items():
        _Spoken(game, name, faults).add_to(sets, trained)
    faults.refuse()
    chosen = selection.wanted(SETS)
    if "train" in chosen:
        refuse_untrained(sets["train"], [name for name, trained in wanted.items() if trained], root)
    return {name: sets[name] for name in chosen}


class _Game:
    """The files of the packages: recordings by spoken language and level, and files of dialogue."""

    def __init__(self, root: Path):
        folders = [folder for folder in (*sorted(root.glob(f"*/{GAME}")), root / GAME, root) if folder.is_dir()]
        self.dialogs = {
            (path.parent.name, _code(path.stem.removeprefix("dialogs_"))): path
            for folder in folders
            for path in sorted(folder.glob("script/*/dialogs_*.lua"))
        }
        recordings = sorted(path for folder in folders for path in folder.glob("sound/*/*/*.ogg"))
        self.recordings = [path for path in recordings if path.parent.name != "en"]
        for package, files in (("fillets-ng-data", self.dialogs), ("fillets-ng-data-cs or -nl", self.recordings)):
            if not files:
                todo = f"unpack the package with dpkg-deb -x FILE {root / package.split()[0]}"
                raise DataError(f"{root}: has nothing of {package} (folder {GAME}); {todo}")
        self.written = sorted({language for _, language in self.dialogs})
        self.spoken = sorted({_code(path.parent.name) for path in self.recordings})
        self._lines: dict[tuple[str, str], dict[str, Line]] = {}

    def levels(self, language: str) -> dict[str, list[Path]]:
        """The recordings in a language by level."""
        levels: dict[str, list[Path]] = {}
        for path in self.recordings:
            if _code(path.parent.name) == language:
                levels.setdefault(path.parent.parent.name, []).append(path)
        return levels

    def lines(self, level: str, language: str, faults: RowFaults, data: DataDir) -> Mapping[str, Line]:
        """The lines of a level by dialog; none where it is not translated. Faults are added to its set, once."""
        key = level, language
        if key not in self._lines:
            path = self.dialogs.get(key)
            self._lines[key], line_faults = read_dialogs(path, language == "en") if path else ({}, [])
            faults.add_lines(data, f"{language}-{level}", line_faults)
        return self._lines[key]


def read_dialogs(path: Path, original: bool) -> tuple[dict[str, Line], list[Fault]]:
    """Read a file of dialogue.

    Args:
        path: The file.
        original: The text is that of `dialogId`, and not of the `dialogStr` that follows it.

    Returns:
        Lines by dialog, in which a later one replaces an earlier one of the same name, and faults.

    Raises:
        DataError: The file is not UTF-8.
    """
    content = read_utf8(path)
    lines: dict[str, Line] = {}
    faults, name, actor = [], "", ""
    for token in _TOKEN.finditer(content):
        kind, texts = token["kind"], [_plain(text[1:-1]) for text in re.findall(_STRING, token["texts"] or "")]
        if kind == "Id" and len(texts) == 3:
            name, actor = texts[0], texts[1].removeprefix("font_")
            if original:
                lines[name] = Line(actor, texts[2])
        elif kind == "Str" and name:
            lines[name], name = Line(actor, texts[-1]), ""  # one of the release has dialog and actor before the text
        elif kind or token["broken"]:
            reason = 'must be dialogId("DIALOG", "font_ACTOR", "TEXT"), then dialogStr("TEXT")'
            faults.append(Fault(str(path), content.count("\n", 0, token.start()) + 1, f"{reason}; correct it"))
            name = ""
    return lines, faults


class _Spoken:
    """The recordings of a language, with their translations if `name` is a direction."""

    def __init__(self, game: _Game, name: str, faults: RowFaults):
        self.game, self.name, self.faults, self.selection = game, name, faults, faults.selection
        self.source, self.target = split_pair(name) if faults.selection.task == "st" else (name, "")

    def add_to(self, sets: dict[str, DataDir], trained: bool) -> None:
        """Add the recordings of each level to its set, or to test alone."""
        for level, recordings in self.game.levels(self.source).items():
            name = hashed_set(level, self.selection)
            if not (trained or name == "test"):
                continue
            languages = filter(None, (self.source, self.target))
            texts = [self.game.lines(level, language, self.faults, sets[name]) for language in languages]
            for path in recordings:
                self._add(sets[name], f"{self.name}-{level}-{path.stem}", path, [text.get(path.stem) for text in texts])

    def _add(self, data: DataDir, utterance: str, path: Path, lines: list[Line | None]) -> None:
        """Add one recording, or list it as dropped if it lacks a text."""
        scored = self.selection.transcripts == "scored"
        transcript, translation = (line.text if line else "" for line in (lines[0], lines[-1]))
        words = for_wer(transcript, self.source) if scored else transcript
        if not (words and translation):
            reason = f"no words in transcript {transcript!r}" if lines[0] else "no dialogue of this name"
            data.dropped[utterance] = "no translation" if words else reason
            return
        for text, language in zip((transcript, translation), (self.source, self.target), strict=True):
            if reason := text_fault(text):
                dialogs = self.game.dialogs[path.parent.parent.name, language or self.source]
                self.faults.add(data, utterance, Fault(str(dialogs), path.stem, reason))
                return
        data.wav_scp[utterance] = str(path)
        data.text[utterance] = translation if self.target else words
        data.utt2spk[utterance] = safe_name(f"{self.source}-{lines[0].actor}")
        data.conditions.setdefault("utt2lang", {})[utterance] = self.source
        if self.target:
            data.src_text[utterance] = words
            data.conditions.setdefault("utt2tgtlang", {})[utterance] = self.target


def _code(name: str) -> str:
    return name.replace("_", "-")


def _plain(text: str) -> str:
    """The text of a string of Lua: escapes resolved, and white space reduced to single spaces."""
    return clean_text(" ".join(_ESCAPE.sub(lambda match: " " if match[1] in "ntr\n" else match[1], text).split()))[0]
