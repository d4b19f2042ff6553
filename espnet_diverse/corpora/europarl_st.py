"""Europarl-ST 1.1: speeches held in the European Parliament in nine languages, and their translations (CC BY-NC 4.0).

Iranzo-Sánchez et al., "Europarl-ST: A Multilingual Corpus for Speech Translation of Parliamentary Debates", ICASSP
2020. Official layout, of v1.1.tar.gz unpacked:

    v1.1/<src>/audios/<speech>.m4a
    v1.1/<src>/<tgt>/{train,train-noisy,dev,test}/segments.lst      "<speech> <start> <end>", in seconds
    v1.1/<src>/<tgt>/{train,train-noisy,dev,test}/segments.<src>    one transcript a line, parallel to segments.lst
    v1.1/<src>/<tgt>/{train,train-noisy,dev,test}/segments.<tgt>    one translation a line, parallel to it
    v1.1/<src>/<tgt>/{train,train-noisy,dev,test}/speeches.lst      "<speech>"
    v1.1/<src>/<tgt>/{train,train-noisy,dev,test}/speakers.lst      one speaker a line, parallel to speeches.lst

m4a is read through ffmpeg, or the extra `media`; a wav, flac, mp3, ogg or opus of the same name is preferred.

train-noisy, whose transcripts differ from the audio, is not used. The directions from one language share speeches and
segment them differently. Speech recognition takes each speech from one direction only, the first that has it in the
order of `LANGUAGES`, and never trains on a speech that any direction has in test or dev. Translation takes every
direction as it is. Without speakers.lst each speech has its own speaker. Utterances left without text are dropped and
listed.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from espnet_diverse.audio.segments import Segment, milliseconds
from espnet_diverse.corpora import EVERYTHING, GET_OR_DROP, Selection, split_pair
from espnet_diverse.corpora.shared.directions import refuse_untrained, spoken_languages, translated_directions
from espnet_diverse.corpora.shared.download import download as fetch
from espnet_diverse.corpora.shared.download import unpack
from espnet_diverse.data.characters import safe_name
from espnet_diverse.data.checks.faults import Fault, refuse
from espnet_diverse.data.files.atomic_files import staged_directory
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.data.normalisation import for_wer
from espnet_diverse.data.tables import entry_faults, parse_segment, scan_lines
from espnet_diverse.errors import DataError

SETS = ("train", "dev", "test")
OPTIONS = ("task", "languages", "pairs", "zero_shot", "transcripts", "on_bad")
LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "pl", "ro", "nl")
SUFFIXES = (".wav", ".flac", ".mp3", ".ogg", ".opus", ".m4a")
URL = "https://www.mllp.upv.es/europarl-st/v1.1.tar.gz"


class Entry(NamedTuple):
    """One segment of a direction: its line in segments.lst, its position, transcript, translation and speaker."""

    line: int
    segment: Segment
    transcript: str
    translation: str
    speaker: str


def prepare(corpus_dir: Path, selection: Selection = EVERYTHING) -> dict[str, DataDir]:
    """Read the official tree.

    Args:
        corpus_dir: The folder that holds v1.1, or v1.1 itself.
        selection: Languages or directions; by default all in the folder. Segments without audio are faults unless
            `on_missing="drop"`.

    Returns:
        The sets train, dev and test with segments, utt2lang and, for ST, utt2tgtlang and src_text. Ids are
        <speech>_<start>_<end> in milliseconds, for ST after the direction: en-de-<speech>_<start>_<end>.

    Raises:
        ConfigError: A language or direction is missing; the message lists the existing ones.
        DataError: A file is faulty, parallel files differ in length, or a direction has no training data. The message
            names file and line.
    """
    root = corpus_dir.absolute()
    root = root if root.name == "v1.1" or not (root / "v1.1").is_dir() else root / "v1.1"
    there = [f"{s}-{t}" for s in LANGUAGES for t in LANGUAGES if (root / s / t).is_dir()]
    if not there:
        raise DataError(f"no Europarl-ST in {root}: there is no folder such as en/de; unpack v1.1.tar.gz there")
    sets = {name: DataDir() for name in selection.wanted(SETS)}
    if selection.task == "asr":
        wanted = spoken_languages(selection, list(dict.fromkeys(split_pair(pair)[0] for pair in there)), root)
        faults = [fault for language in wanted for fault in _add_language(sets, root, language, there, selection)]
        trained = wanted
    else:
        directions = translated_directions(selection, there, root)
        faults = []
        for pair, train in directions.items():
            for name in sets if train else sets.keys() & {"test"}:
                faults += _Direction(root, pair, selection).add_to(sets[name], name, f"{pair}-")
        trained = [pair for pair, train in directions.items() if train]
    refuse(faults)
    if "train" in sets:
        refuse_untrained(sets["train"], trained, root)
    return sets


def download(target_dir: Path, selection: Selection = EVERYTHING, url: str = URL) -> Path:
    """Fetch and unpack the release (20 GB) into `target_dir`; it publishes no checksum."""
    corpus_dir = target_dir / "europarl_st"
    if not corpus_dir.is_dir():
        archive = fetch(url, target_dir / "europarl_st_v1.1.tar.gz")
        with staged_directory(corpus_dir) as staging:
            unpack(archive, staging, "unpack Europarl-ST")
    return corpus_dir


def _add_language(
    sets: dict[str, DataDir], root: Path, language: str, there: list[str], selection: Selection
) -> list[Fault]:
    """Add the speeches in one language, each with the segments of one direction; return the faults."""
    faults: list[Fault] = []
    taken: set[str] = set()
    for name in ("test", "dev", "train"):
        for pair in there:
            if split_pair(pair)[0] == language:
                direction = _Direction(root, pair, selection, frozenset(taken))
                faults += direction.add_to(sets[name], name, "") if name in sets else []
                # Speeches of a set that is not prepared are kept out of the sets after it, too.
                taken |= {line.split()[0] for line in direction.listed(name, faults) if line}
    return faults


class _Direction:
    """The folder <src>/<tgt>; speeches in `taken` are not added to the data."""

    def __init__(self, root: Path, pair: str, selection: Selection, taken: frozenset[str] = frozenset()):
        self.source, self.target = split_pair(pair)
        self.folder = root / self.source / self.target
        self.audios = root / self.source / "audios"
        self.selection = selection
        self.taken = taken
        self._listed: dict[str, list[str]] = {}

    def add_to(self, data: DataDir, name: str, prefix: str) -> list[Fault]:
        """Add the segments of one split, with ids that begin with `prefix`; return the faults."""
        faults: list[Fault] = []
        for entry in self._entries(name, faults):
            speech = entry.segment.recording
            if speech in self.taken:
                continue
            utterance = f"{prefix}{speech}_{milliseconds(entry.segment.start)}_{milliseconds(entry.segment.end)}"
            audio, missing = self._audio(speech)
            where = str(self.folder / self.selection.name_of(name) / "segments.lst")
            if missing and self.selection.on_missing == "error":
                faults.append(Fault(where, entry.line, f"{missing}; {GET_OR_DROP}"))
            elif utterance in data.segments:
                faults.append(Fault(where, entry.line, "this segment occurs twice; remove one from all parallel files"))
            reason = missing or self._add(data, utterance, entry, audio)
            if reason:
                data.dropped[utterance] = reason
        return faults

    def listed(self, name: str, faults: list[Fault]) -> list[str]:
        """The lines of segments.lst of one split; the file is read once, and its faults are added at that time."""
        path = self.folder / self.selection.name_of(name) / "segments.lst"
        if name not in self._listed:
            self._listed[name] = _lines(path, faults) if path.parent.is_dir() else []
        return self._listed[name]

    def _add(self, data: DataDir, utterance: str, entry: Entry, audio: str) -> str:
        """Add one utterance, or return the reason why it is dropped."""
        scored, translates = self.selection.transcripts == "scored", self.selection.task == "st"
        words = for_wer(entry.transcript, self.source) if scored else entry.transcript
        if not words or (translates and not entry.translation):
            return "empty translation" if words else f"no words in transcript {entry.transcript!r}"
        data.wav_scp[entry.segment.recording] = audio
        data.segments[utterance] = entry.segment
        data.text[utterance] = entry.translation if translates else words
        data.utt2spk[utterance] = entry.speaker
        data.conditions.setdefault("utt2lang", {})[utterance] = self.source
        if translates:
            data.src_text[utterance] = words
            data.conditions.setdefault("utt2tgtlang", {})[utterance] = self.target
        return ""

    def _entries(self, name: str, faults: list[Fault]) -> Iterator[Entry]:
        """The segments of one split; none if a file is faulty."""
        folder = self.folder / self.selection.name_of(name)
        if not folder.is_dir():
            return
        listed = self.listed(name, faults)
        transcripts = _lines(folder / f"segments.{self.source}", faults, folder / "segments.lst", listed)
        translations = _lines(folder / f"segments.{self.target}", faults, folder / "segments.lst", listed)
        speakers = self._speakers(folder, faults)
        for line, value in enumerate(listed, start=1):
            faults += [Fault(str(folder / "segments.lst"), line, what) for what in entry_faults("segments", "", value)]
        if not faults:
            for line, row in enumerate(zip(listed, transcripts, translations, strict=True), start=1):
                segment = parse_segment(row[0])
                yield Entry(line, segment, *row[1:], speakers.get(segment.recording, segment.recording))

    def _speakers(self, folder: Path, faults: list[Fault]) -> dict[str, str]:
        """Speaker of each speech, for speeches in speakers.lst."""
        if not (folder / "speakers.lst").is_file():
            return {}
        speeches = _lines(folder / "speeches.lst", faults)
        speakers = _lines(folder / "speakers.lst", faults, folder / "speeches.lst", speeches)
        return {speech: safe_name(speaker) or speech for speech, speaker in zip(speeches, speakers, strict=False)}

    def _audio(self, speech: str) -> tuple[str, str]:
        """Path of the audio of a speech, and a message if there is no audio."""
        for suffix in SUFFIXES:
            if (path := self.audios / f"{speech}{suffix}").is_file():
                return str(path), ""
        return "", f"the audio {speech} is not in {self.audios}"


def _lines(path: Path, faults: list[Fault], parallel: Path | None = None, beside: Sequence[str] = ()) -> list[str]:
    """Read lines and add their faults to `faults`; if the file `parallel` exists, its number of lines must be equal."""
    lines, found = scan_lines(path)
    if parallel and parallel.is_file() and not found and len(lines) != len(beside):
        expected = len(beside)
        what = f"has {len(lines)} lines, and {parallel.name} has {expected}; parallel files are equally long"
        found = [Fault(str(path), None, f"{what}: get both again")]
    faults += found
    return lines
