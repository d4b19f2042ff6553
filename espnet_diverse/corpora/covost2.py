"""CoVoST 2: sentences of Common Voice, read aloud in 22 languages, and their translations (both CC0).

Wang, Wu and Pino, "CoVoST 2 and Massively Multilingual Speech-to-Text Translation", arXiv:2007.10310; Ardila et al.,
"Common Voice: A Massively-Multilingual Speech Corpus", LREC 2020. 21 languages are translated into English and English
into 15. CoVoST 2 was made from release 4 of Common Voice, which is no longer published; a later release has most of its
clips, and the summary gives the share that is left out. Common Voice is unpacked to one folder per language; the tables
of CoVoST are in that folder or in its parent:

    <lang>/clips/<clip>.mp3
    <lang>/validated.tsv                           client_id path sentence ...
    <lang>/{train,dev,test}.tsv                    the same columns: Common Voice's own splits
    <lang>/covost_v2.<src>_<tgt>.tsv               path translation split
    <lang>/covost_v2.<src>_<tgt>.<split>.tsv       path sentence translation client_id: output of get_covost_splits.py

The folders zh-CN and sv-SE hold the languages zh and sv. CoVoST's splits train and train_covost become train; dev and
test are kept. If a direction has only its joint table, sentences and speakers come from validated.tsv. Speech
recognition uses CoVoST's splits if a language has a table of CoVoST, otherwise Common Voice's splits; this allows every
language of Common Voice.

Clips may also be wav, flac or ogg files with the same stem. The first twelve characters of client_id are the speaker's
name. Utterances whose text is empty after normalisation are dropped and listed.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from espnet_diverse.corpora import EVERYTHING, Selection, split_pair
from espnet_diverse.corpora.shared.directions import refuse_untrained, spoken_languages, translated_directions
from espnet_diverse.corpora.shared.row_faults import RowFaults
from espnet_diverse.corpora.shared.table_files import read_table_file
from espnet_diverse.data.characters import clean_text, text_fault
from espnet_diverse.data.faults import Fault, refuse
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.data.normalisation import for_wer
from espnet_diverse.errors import DataError

SETS = ("train", "dev", "test")
OPTIONS = ("task", "languages", "pairs", "zero_shot", "transcripts")
NO_DOWNLOAD = (
    "Common Voice is available on request at https://commonvoice.mozilla.org, in its newest release; release 4, which "
    "CoVoST 2 was made from, is no longer published, so some clips will be missing, which --on_bad drop leaves out up "
    "to --max_bad SHARE. The tables of CoVoST 2 are at https://github.com/facebookresearch/covost: unpack both to "
    "DIR/<language> and give DIR, to run.sh as --corpus_dir DIR"
)
INTO_ENGLISH = (
    *("fr", "de", "es", "ca", "it", "ru", "zh", "pt", "fa", "et", "mn"),
    *("nl", "tr", "ar", "sv", "lv", "sl", "ta", "ja", "id", "cy"),
)
FROM_ENGLISH = ("de", "ca", "zh", "fa", "et", "mn", "tr", "ar", "sv", "lv", "sl", "ta", "ja", "id", "cy")
PAIRS = (*(f"{source}-en" for source in INTO_ENGLISH), *(f"en-{target}" for target in FROM_ENGLISH))
FOLDERS = {"zh": "zh-CN", "sv": "sv-SE"}
SPLITS = {"train": ("train", "train_covost"), "dev": ("dev",), "test": ("test",)}
_HASH = re.compile("[0-9a-f]{64,}")
_ESCAPED = re.compile(r"\\(.)")


class Entry(NamedTuple):
    """One clip of a split: the table and line that name it, and its columns."""

    table: Path
    line: int
    clip: str
    sentence: str
    translation: str
    client: str


class Row(NamedTuple):
    """Line number of a row, from 1, and its values in the requested columns."""

    line: int
    values: tuple[str, ...]


def prepare(corpus_dir: Path, selection: Selection = EVERYTHING) -> dict[str, DataDir]:
    """Read Common Voice and the tables of CoVoST.

    Args:
        corpus_dir: The folder that holds de, en, zh-CN and so on.
        selection: Options; by default all languages or directions in the folder. Clips that have no audio or are not in
            validated.tsv and faulty rows are errors unless `on_bad="drop"`.

    Returns:
        The sets train, dev and test with utt2lang and, for ST, utt2tgtlang and src_text. Ids are de-<clip> for ASR and
        de-en-<clip> for ST, because an English clip has up to fifteen translations.

    Raises:
        ConfigError: A language or direction is not available; the message lists the available ones.
        DataError: A table is faulty (the message names file and line), or a direction has no training data.
    """
    root = corpus_dir.absolute()
    selection = _with_short_codes(selection)
    languages = {_short(clips.parent.name): clips.parent for clips in sorted(root.glob("*/clips"))}
    if not languages:
        raise DataError(f"no Common Voice in {root}: there is no folder such as de/clips; unpack each language there")
    faults = RowFaults(selection)
    folders = {language: _Folder(root, folder, language, faults) for language, folder in languages.items()}
    wanted = _wanted(selection, folders, root)
    sets = {name: DataDir() for name in selection.wanted(SETS)}
    for (source, target), trained in wanted.items():
        for name in sets if trained else sets.keys() & {"test"}:
            folders[source].add_to(sets[name], name, target)
    faults.refused += _twice(sets)
    faults.refuse()
    if "train" in sets:
        names = ["-".join(filter(None, pair)) for pair, trained in wanted.items() if trained]
        refuse_untrained(sets["train"], names, root)
    return sets


def _wanted(selection: Selection, folders: "dict[str, _Folder]", root: Path) -> dict[tuple[str, str], bool]:
    """Pairs of source and target language to prepare ("" as target for ASR), and whether each is trained."""
    if selection.task == "asr":
        return {(language, ""): True for language in spoken_languages(selection, list(folders), root)}
    available = []
    for pair in PAIRS:
        source, _ = split_pair(pair)
        if source in folders and folders[source].tables(pair):
            available.append(pair)
    return {split_pair(pair): trained for pair, trained in translated_directions(selection, available, root).items()}


def _short(language: str) -> str:
    return language.partition("-")[0] if language in FOLDERS.values() else language


def _with_short_codes(selection: Selection) -> Selection:
    """The same selection with zh for zh-CN."""

    def short(pairs: Sequence[str]) -> tuple[str, ...]:
        return tuple("-".join(map(_short, split_pair(pair))) for pair in pairs)

    languages = tuple(map(_short, selection.languages))
    return replace(selection, languages=languages, pairs=short(selection.pairs), zero_shot=short(selection.zero_shot))


def _twice(sets: dict[str, DataDir]) -> list[Fault]:
    """Clips that are in two sets, though perhaps translated into different languages."""
    owner: dict[str, str] = {}
    faults = []
    for name, data in sets.items():
        for utterance, wav in data.wav_scp.items():
            if owner.setdefault(wav, name) != name:
                reason = f"{wav} is also in {owner[wav]}; a clip may be in one set only: correct the tables"
                faults.append(Fault(name, utterance, reason))
    return faults


class _Folder:
    """One language of Common Voice."""

    def __init__(self, root: Path, folder: Path, language: str, faults: RowFaults):
        self.root = root
        self.folder = folder
        self.language = language
        self.faults, self.selection = faults, faults.selection
        self._joint: tuple[Path | None, list[Row]] = (None, [])  # the last joint table, which is read for each set

    def tables(self, pair: str) -> dict[str, Path]:
        """The tables of a direction: one per split, or a joint table under the name "", or none."""
        stem = "covost_v2." + "_".join(FOLDERS.get(language, language) for language in split_pair(pair))
        for place in (self.folder, self.root):
            sets = self.selection.wanted(SETS)
            splits = {name: place / f"{stem}.{self.selection.name_of(name)}.tsv" for name in sets}
            if all(path.is_file() for path in splits.values()):
                return splits
            if (place / f"{stem}.tsv").is_file():
                return {"": place / f"{stem}.tsv"}
        return {}

    def add_to(self, data: DataDir, name: str, target: str) -> None:
        """Add the clips of one split, with translations into `target` unless that is ""."""
        prefix = "-".join(filter(None, (self.language, target)))
        for entry in self._entries(data, name, target):
            utterance, fault = f"{prefix}-{Path(entry.clip).stem}", self._fault(entry)
            if utterance in data.wav_scp:
                fault = f"clip {entry.clip} is listed twice; remove a line"
                utterance = f"{utterance}-line{entry.line}"
            if fault:
                self.faults.add(data, utterance, Fault(str(entry.table), entry.line, fault))
            else:
                self._add(data, utterance, entry, target)

    def _entries(self, data: DataDir, name: str, target: str) -> Iterator[Entry]:
        """The clips of the split `name`, from the tables of CoVoST if there are any, otherwise of Common Voice."""
        targets = [target] if target else FROM_ENGLISH if self.language == "en" else ["en"]
        tables = next(filter(None, (self.tables(f"{self.language}-{other}") for other in targets)), {})
        if "" in tables:
            renamed = dict(self.selection.set_names).get(name)
            yield from self._joined(data, tables[""], (renamed,) if renamed else SPLITS[name])
            return
        table = tables.get(name, self.folder / f"{self.selection.name_of(name)}.tsv")
        columns = ("path", "sentence", "client_id", *(["translation"] if target else []))
        for line, (clip, sentence, client, *translation) in self._rows(data, table, columns):
            yield Entry(table, line, clip, sentence, "".join(translation), client)

    def _joined(self, data: DataDir, table: Path, splits: Sequence[str]) -> Iterator[Entry]:
        """The rows of CoVoST's joint table that are in `splits`, with sentence and speaker from Common Voice."""
        if self._joint[0] != table:
            self._joint = table, self._rows(data, table, ("path", "translation", "split"))
        for line, (clip, translation, split) in self._joint[1]:
            if split in splits:
                sentence, client = self._validated.get(clip, ("", ""))
                yield Entry(table, line, clip, sentence, translation, client)

    def _rows(self, data: DataDir, table: Path, columns: Sequence[str]) -> list[Row]:
        """Columns of a table; its faulty rows are faults of the set `data`."""
        rows, faults = read_tsv(table, columns)
        self.faults.add_lines(data, f"{self.language}-{table.stem}", faults)
        return rows

    def _fault(self, entry: Entry) -> str:
        """The reason why a clip cannot be used, such as a file or row that Common Voice lacks, or ""."""
        if Path(entry.clip).stem not in self._clips:
            return f"clip {entry.clip} is not in {self.folder / 'clips'}; get it"
        if not (entry.client or entry.sentence):
            return f"clip {entry.clip} is not in {self.folder / 'validated.tsv'}; get it"
        return next(filter(None, map(text_fault, map(_plain, (entry.sentence, entry.translation)))), "")

    def _add(self, data: DataDir, utterance: str, entry: Entry, target: str) -> None:
        """Add one utterance, or list it as dropped if its text is empty."""
        scored = self.selection.transcripts == "scored"
        words = for_wer(entry.sentence, self.language) if scored else _plain(entry.sentence)
        translation = _plain(entry.translation)
        if not words or (target and not translation):
            data.dropped[utterance] = "empty translation" if words else f"no words in transcript {entry.sentence!r}"
            return
        data.wav_scp[utterance] = str(self._clips[Path(entry.clip).stem])
        data.text[utterance] = translation if target else words
        client = entry.client
        data.utt2spk[utterance] = client[:12] if _HASH.fullmatch(client) else client or utterance
        data.conditions.setdefault("utt2lang", {})[utterance] = self.language
        if target:
            data.src_text[utterance] = words
            data.conditions.setdefault("utt2tgtlang", {})[utterance] = target

    @cached_property
    def _clips(self) -> dict[str, Path]:
        """Audio files by stem; if a clip exists as mp3 and wav, the wav."""
        return {clip.stem: clip for clip in sorted((self.folder / "clips").iterdir())}

    @cached_property
    def _validated(self) -> dict[str, tuple[str, str]]:
        """Sentence and speaker of every clip."""
        rows, faults = read_tsv(self.folder / "validated.tsv", ("path", "sentence", "client_id"))
        if (
            self.selection.on_bad == "error"
        ):  # otherwise clips whose rows are faulty are listed as missing in this table
            self.faults.refused += faults
        return {clip: (sentence, client) for _, (clip, sentence, client) in rows}


def read_tsv(path: Path, columns: Sequence[str]) -> tuple[list[Row], list[Fault]]:
    """Read columns of a tab-separated table with a header, as published by Common Voice and CoVoST, and faults of rows.

    Quotation marks are literal, and a backslash escapes the character after it: pandas' QUOTE_NONE with an escape
    character, with which the tables of CoVoST were written.

    Args:
        path: The table.
        columns: Names of the columns.

    Raises:
        DataError: A column is missing, or the file cannot be read or is not UTF-8.
    """
    table = read_table_file(path)
    lacking = [f"has no column {name!r}; it has {', '.join(table.columns)}" for name in {*columns} - {*table.columns}]
    refuse([Fault(str(path), 1, reason) for reason in sorted(lacking)])
    rows = [Row(row.where, tuple(_ESCAPED.sub(r"\1", row.values[name]) for name in columns)) for row in table.rows]
    return rows, table.faults


def _plain(text: str) -> str:
    return clean_text(text)[0]
