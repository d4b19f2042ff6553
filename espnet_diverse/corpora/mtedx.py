"""Multilingual TEDx: TEDx talks in eight languages, some translated (OpenSLR 100, CC BY-NC-ND 4.0).

Salesky et al., "The Multilingual TEDx Corpus for Speech Recognition and Translation", Interspeech 2021.

Official layout, after unpacking mtedx_es.tgz (to es-es), mtedx_es-en.tgz (to es-en) and so on in one folder:

    <src>-<tgt>/data/{train,valid,test}/wav/<talk>.flac
    <src>-<tgt>/data/{train,valid,test}/txt/segments          "<utterance> <talk> <start> <end>", in seconds
    <src>-<tgt>/data/{train,valid,test}/txt/<split>.yaml      the same data as a list of {wav, offset, duration}
    <src>-<tgt>/data/{train,valid,test}/txt/<split>.<src>     one transcript a line, parallel to both
    <src>-<tgt>/data/{train,valid,test}/txt/<split>.<tgt>     one translation a line

`valid` becomes dev. The yaml file is read if there is no `segments`. Audio may
also be in another format: wav, mp3, ogg, opus and sph are read through libsndfile, m4a, mp4, webm, wma, amr and aac
through ffmpeg. A talk has one speaker, who is named after the talk.

`task="asr"` reads es-es and so on, or the transcripts of the given `pairs`. `task="st"` reads the thirteen directions
of the head-selection paper, which trains ten and tests three zero-shot, for which the IWSLT 2021 campaign provided no
training translations. A language that is spoken in zero-shot directions only (Italian) would be unknown to a model with
parameters per spoken language. Its own transcripts (it-it) are therefore added to the training set, with the language
itself as target, so that zero-shot means an unseen pair of seen languages. Other languages and directions can be
selected if the folder has them in this layout.

Transcripts are normalised as for word error rates, without transcribers' notes in brackets such as (Applause), unless
`transcripts="written"`. Utterances whose text is empty after normalisation are dropped and listed.
"""

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from espnet_diverse.audio.segments import Segment
from espnet_diverse.corpora import EVERYTHING, GET_OR_DROP, Selection, split_pair
from espnet_diverse.corpora.shared.download import download as fetch
from espnet_diverse.corpora.shared.download import unpack
from espnet_diverse.data.checks.faults import Fault, refuse
from espnet_diverse.data.files.atomic_files import staged_directory
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.data.normalisation import for_wer, without_notes
from espnet_diverse.data.tables import entry_faults, parse_segment, scan_lines
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.untrusted.foreign_yaml import read_list

SETS = ("train", "dev", "test")
OPTIONS = ("task", "languages", "pairs", "zero_shot", "transcripts", "on_bad")
SPLITS = {"train": "train", "dev": "valid", "test": "test"}
LANGUAGES = ("ar", "de", "el", "es", "fr", "it", "pt", "ru")
TRAINED = ("el-en", "es-en", "es-fr", "es-it", "es-pt", "fr-en", "fr-es", "fr-pt", "pt-en", "ru-en")
ZERO_SHOT = ("it-en", "it-es", "pt-es")
URL = "https://www.openslr.org/resources/100"


def prepare(corpus_dir: Path, selection: Selection = EVERYTHING) -> dict[str, DataDir]:
    """Read the official files.

    Args:
        corpus_dir: The folder that holds es-es, es-en and so on.
        selection: Options. `languages` are the spoken languages; `pairs` are the folders to read instead. A zero-shot
            direction is in test only; if no trained direction has its spoken language, the transcripts of that
            language are in train. `on_missing="drop"` drops segments without audio.

    Returns:
        The sets train, dev and test, with segments, utt2lang and, for ST, utt2tgtlang and src_text. The prefix of
        ids is es-<utterance> for es-es, es-en-<utterance> for es-en.

    Raises:
        ConfigError: The options exclude each other.
        DataError: A folder is missing (the message lists the others), or a file is faulty (it names file and line).
    """
    root = corpus_dir.absolute()
    folders = directions(selection)
    splits = {name: selection.name_of(name, SPLITS[name]) for name in folders}
    _check_folders(root, folders, splits)
    sets = {name: DataDir() for name in folders}
    faults: list[Fault] = []
    for name, pairs in folders.items():
        for pair in pairs:
            faults += _Split(root / pair / "data" / splits[name], pair, selection).add_to(sets[name])
    refuse(faults)
    return sets


def directions(selection: Selection) -> dict[str, tuple[str, ...]]:
    """The folders to read for each set to prepare."""
    folders = _of_all_sets(selection)
    return {name: folders[name] for name in selection.wanted(SETS)}


def _of_all_sets(selection: Selection) -> dict[str, tuple[str, ...]]:
    languages, pairs, zero_shot = selection.languages, selection.pairs, selection.zero_shot
    if languages and pairs:
        raise ConfigError("languages and pairs are both given; give one of them")
    if selection.task == "asr":
        if zero_shot:
            raise ConfigError("zero_shot directions are for task st; speech recognition has none")
        return dict.fromkeys(SETS, pairs or tuple(f"{language}-{language}" for language in languages or LANGUAGES))
    if not pairs:
        zero_shot = zero_shot or tuple(pair for pair in ZERO_SHOT if _is_from(pair, languages))
        pairs = tuple(pair for pair in TRAINED if _is_from(pair, languages) and pair not in zero_shot)
    if not pairs:
        there = f"it has training data for {' '.join(TRAINED)}"
        raise ConfigError(f"languages {' '.join(languages)}: mTEDx translates none of them; {there}")
    spoken = {split_pair(pair)[0] for pair in pairs}
    untranslated = {f"{source}-{source}" for source, _ in map(split_pair, zero_shot) if source not in spoken}
    return {"train": (*pairs, *sorted(untranslated)), "dev": pairs, "test": (*pairs, *zero_shot)}


def _is_from(pair: str, languages: Sequence[str]) -> bool:
    return not languages or split_pair(pair)[0] in languages


def download(target_dir: Path, selection: Selection = EVERYTHING, url: str = URL) -> Path:
    """Fetch and unpack the archives of the folders that `selection` needs into `target_dir`/mtedx.

    The release publishes no checksums; an incomplete archive is detected when it is unpacked.
    """
    corpus_dir = target_dir / "mtedx"
    for pair in _all(directions(selection)):
        if (corpus_dir / pair).is_dir():
            continue
        source, target = split_pair(pair)
        name = f"mtedx_{source if source == target else pair}.tgz"
        archive = fetch(f"{url}/{name}", target_dir / name)
        with staged_directory(corpus_dir / pair) as staging:
            unpacked = staging / ".unpacked"
            unpacked.mkdir()
            unpack(archive, unpacked, f"unpack {name}")
            if not (unpacked / pair).is_dir():
                raise DataError(f"{archive}: holds no folder {pair}; delete it and fetch it again")
            for entry in (unpacked / pair).iterdir():
                entry.replace(staging / entry.name)
            shutil.rmtree(unpacked)
    return corpus_dir


def _check_folders(root: Path, folders: Mapping[str, Sequence[str]], splits: Mapping[str, str]) -> None:
    """Check that the folders exist."""
    present = sorted(path.parent.name for path in root.glob("*-*/data"))
    missing = [pair for pair in _all(folders) if pair not in present]
    if missing:
        there = f"there are {' '.join(present)}" if present else "there is no folder such as es-es/data"
        todo = "unpack its archive there, or select others with --languages or --pairs"
        raise DataError(f"no mTEDx data for {' '.join(missing)} in {root}: {there}; {todo}")
    for pair in folders.get("train", ()):
        folder = root / pair / "data" / splits["train"]
        if not folder.is_dir():
            source, target = split_pair(pair)
            todo = "leave it out" if source == target else f"test it only with --zero_shot {pair}, or leave it out"
            raise DataError(f"{pair} has no training data: there is no {folder}; {todo}")


def _all(folders: Mapping[str, Sequence[str]]) -> list[str]:
    return list(dict.fromkeys(pair for pairs in folders.values() for pair in pairs))


class _Split:
    """One split of one direction, folder <src>-<tgt>/data/<split>."""

    def __init__(self, folder: Path, pair: str, selection: Selection):
        self.folder = folder
        self.source, self.target = split_pair(pair)
        self.prefix = self.source if self.source == self.target else pair
        self.selection = selection
        self.translates = selection.task == "st"
        self.faults: list[Fault] = []

    def add_to(self, data: DataDir) -> list[Fault]:
        """Add the utterances with audio and text to `data`; return the faults."""
        txt, split = self.folder / "txt", self.folder.name
        listed = self._segments(txt)
        expected = None if self.faults else len(listed)
        transcripts = self._texts(txt / f"{split}.{self.source}", expected)
        translations = self._texts(txt / f"{split}.{self.target}", expected) if self.translates else transcripts
        # Sorted, so that talk.wav, which some toolkits make from talk.flac, is preferred.
        recordings = {path.stem: str(path) for path in sorted((self.folder / "wav").glob("*.*"))}
        if self.faults:
            return self.faults
        for (name, segment), transcript, translation in zip(listed, transcripts, translations, strict=True):
            words = self._words(transcript)
            reason = self._missing(name, segment, recordings)
            if not reason and not words:
                reason = f"no words in transcript {transcript!r}"
            if not reason and not translation:
                reason = "empty translation"
            if reason:
                data.dropped[f"{self.prefix}-{name}"] = reason
            else:
                self._add(data, name, segment, recordings[segment.recording])
                data.text[f"{self.prefix}-{name}"] = translation if self.translates else words
                if self.translates:
                    data.src_text[f"{self.prefix}-{name}"] = words
        return self.faults

    def _add(self, data: DataDir, name: str, segment: Segment, path: str) -> None:
        """Add one utterance without its texts."""
        utterance, recording = f"{self.prefix}-{name}", f"{self.prefix}-{segment.recording}"
        data.wav_scp[recording] = path
        data.segments[utterance] = segment._replace(recording=recording)
        data.utt2spk[utterance] = recording
        data.conditions.setdefault("utt2lang", {})[utterance] = self.source
        if self.translates:
            data.conditions.setdefault("utt2tgtlang", {})[utterance] = self.target

    def _missing(self, name: str, segment: Segment, recordings: dict[str, Path]) -> str:
        """The missing audio, or ""; also adds a fault unless such utterances are dropped."""
        if segment.recording in recordings:
            return ""
        what = f"its audio {segment.recording} is not in {self.folder / 'wav'}"
        if self.selection.on_missing == "error":
            self.faults.append(Fault(str(self.folder / "txt"), name, f"{what}; {GET_OR_DROP}"))
        return what

    def _words(self, text: str) -> str:
        return for_wer(without_notes(text), self.source) if self.selection.transcripts == "scored" else text

    def _texts(self, path: Path, expected: int | None) -> list[str]:
        texts, faults = scan_lines(path)
        if not faults and expected not in (None, len(texts)):
            what = f"has {len(texts)} lines, and there are {expected} segments; parallel files are equally long"
            faults.append(Fault(str(path), None, f"{what}: get both again"))
        self.faults += faults
        return texts

    def _segments(self, txt: Path) -> list[tuple[str, Segment]]:
        """Utterances and their segments, in the order of the file."""
        path = txt / "segments"
        if path.is_file():
            lines, faults = scan_lines(path)
            rows = [line.partition(" ") for line in lines]
        else:
            path = txt / f"{self.folder.name}.yaml"
            rows, faults = _yaml_rows(path)
        self.faults += faults
        first: dict[str, int] = {}
        for number, (name, _, value) in enumerate(rows, start=1):
            self.faults += [Fault(str(path), number, what) for what in entry_faults("segments", name, value)]
            if first.setdefault(name, number) != number:
                self.faults.append(Fault(str(path), number, f"duplicate id {name!r}, first in {first[name]}"))
        return [(name, parse_segment(value)) for name, _, value in rows]


def _yaml_rows(path: Path) -> tuple[list[tuple[str, str, str]], list[Fault]]:
    """Rows of `segments` made from a yaml list; utterances are numbered within their talk, from 0000."""
    try:
        entries = read_list(path, "its content")
    except FileNotFoundError:
        return [], [Fault(str(path), None, "no such file, and no file segments in its folder; get the corpus again")]
    except DataError as error:
        return [], [Fault(str(path), None, f"{error}; get it again")]
    rows, faults, count = [], [], Counter()
    for number, entry in enumerate(entries if isinstance(entries, list) else [entries], start=1):
        try:
            talk, start = Path(str(entry["wav"])).stem, float(entry["offset"])
            end = start + float(entry["duration"])
        except (TypeError, KeyError, ValueError, OverflowError):
            what = f"entry {entry!r} is wrong; an entry is {{wav: talk.wav, offset: 1.5, duration: 2.0}} (seconds)"
            faults.append(Fault(str(path), number, what))
            continue
        rows.append((f"{talk}_{count[talk]:04d}", " ", f"{talk} {round(start, 3)} {round(end, 3)}"))
        count[talk] += 1
    return rows, faults
