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
`transcripts="written"`. Entities such as &amp; are read as their character, and tags of subtitles such as <i> are
removed. Utterances whose text is empty after normalisation are dropped and listed.
"""

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from espnet_diverse.audio.segments import Segment
from espnet_diverse.corpora import EVERYTHING, Selection, split_pair
from espnet_diverse.corpora.shared.download import download as fetch
from espnet_diverse.corpora.shared.row_faults import Lines, RowFaults, parallel, read_lines
from espnet_diverse.data.characters import id_fault
from espnet_diverse.data.faults import Fault
from espnet_diverse.data.files.atomic_files import staged_directory
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.data.normalisation import for_wer, subtitle, without_notes
from espnet_diverse.data.tables import entry_faults, parse_segment
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.untrusted.foreign_yaml import read_list
from espnet_diverse.untrusted.tar_files import unpack

SETS = ("train", "dev", "test")
OPTIONS = ("task", "languages", "pairs", "zero_shot", "transcripts")
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
            language are in train. `on_bad="drop"` drops segments without audio, and faulty lines.

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
    faults = RowFaults(selection)
    for name, pairs in folders.items():
        for pair in pairs:
            _Split(root / pair / "data" / splits[name], pair, selection).add_to(sets[name], faults)
    faults.refuse()
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
        available = f"it has training data for {' '.join(TRAINED)}"
        raise ConfigError(f"languages {' '.join(languages)}: mTEDx translates none of them; {available}")
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
        available = f"there are {' '.join(present)}" if present else "there is no folder such as es-es/data"
        todo = "unpack its archive there, or select others with --languages or --pairs"
        raise DataError(f"no mTEDx data for {' '.join(missing)} in {root}: {available}; {todo}")
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
        # Sorted, so that talk.wav, which some toolkits make from talk.flac, is preferred.
        self.recordings = {path.stem: str(path) for path in sorted((folder / "wav").glob("*.*"))}

    def add_to(self, data: DataDir, faults: RowFaults) -> None:
        """Add the utterances with audio and text to `data`."""
        txt, split = self.folder / "txt", self.folder.name
        listed = txt / "segments"
        languages = [self.source, self.target] if self.translates else [self.source]
        files = [read_lines(txt / f"{split}.{language}", faults.refused, subtitle) for language in languages]
        if listed.is_file():
            segments = read_lines(listed, faults.refused)
        else:
            listed = txt / f"{split}.yaml"
            segments = _yaml_lines(listed, faults.refused)
        first: dict[str, int] = {}
        for line, (row, *texts), fault in parallel([segments, *files], faults.refused):
            name, _, value = row.partition(" ")
            fault, utterance = fault or self._fault(name, value, listed, line), f"{self.prefix}-{name}"
            if first.setdefault(name, line) != line:
                fault = fault or Fault(str(listed), line, f"duplicate id {name!r}, first in {first[name]}")
            if fault:
                named = name and first[name] == line and not id_fault(name)
                faults.add(data, utterance if named else f"{self.prefix}-{split}-line{line}", fault)
                continue
            words, translation = self._words(texts[0]), texts[-1]
            if words and translation:
                self._add(data, name, parse_segment(value))
                data.text[utterance] = translation if self.translates else words
                if self.translates:
                    data.src_text[utterance] = words
            else:
                data.dropped[utterance] = "empty translation" if words else f"no words in transcript {texts[0]!r}"

    def _add(self, data: DataDir, name: str, segment: Segment) -> None:
        """Add one utterance without its texts."""
        utterance, recording = f"{self.prefix}-{name}", f"{self.prefix}-{segment.recording}"
        data.wav_scp[recording] = self.recordings[segment.recording]
        data.segments[utterance] = segment._replace(recording=recording)
        data.utt2spk[utterance] = recording
        data.conditions.setdefault("utt2lang", {})[utterance] = self.source
        if self.translates:
            data.conditions.setdefault("utt2tgtlang", {})[utterance] = self.target

    def _fault(self, name: str, value: str, listed: Path, line: int) -> Fault | None:
        """The fault of an utterance and its segment."""
        reasons = entry_faults("segments", name, value)
        if not reasons and (talk := parse_segment(value).recording) not in self.recordings:
            reasons = [f"its audio {talk} is not in {self.folder / 'wav'}; get it"]
        return Fault(str(listed), line, reasons[0]) if reasons else None

    def _words(self, text: str) -> str:
        return for_wer(without_notes(text), self.source) if self.selection.transcripts == "scored" else text


def _yaml_lines(path: Path, faults: list[Fault]) -> Lines | None:
    """The lines of `segments` made from a yaml list; utterances are numbered within their talk, from 0000."""
    try:
        entries = read_list(path, "its content")
    except FileNotFoundError:
        faults.append(Fault(str(path), None, "no such file, and no file segments in its folder; get the corpus again"))
        return None
    except DataError as error:
        faults.append(Fault(str(path), None, f"{error}; get it again"))
        return None
    lines, count = Lines(path, [], {}), Counter[str]()
    for number, entry in enumerate(entries if isinstance(entries, list) else [entries], start=1):
        try:
            talk, start = Path(str(entry["wav"])).stem, float(entry["offset"])
            end = start + float(entry["duration"])
        except (TypeError, KeyError, ValueError, OverflowError):
            reason = f"entry {entry!r} is wrong; an entry is {{wav: talk.wav, offset: 1.5, duration: 2.0}} (seconds)"
            lines.faults[number] = Fault(str(path), number, reason)
            lines.texts.append("")
            continue
        lines.texts.append(f"{talk}_{count[talk]:04d} {talk} {round(start, 3)} {round(end, 3)}")
        count[talk] += 1
    return lines
