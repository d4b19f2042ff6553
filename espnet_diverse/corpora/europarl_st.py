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
direction as it is. A speaker is given as the address of a page, whose last part is the name. Without speakers.lst each
speech has its own speaker. Utterances left without text are dropped and listed.
"""

from pathlib import Path

from espnet_diverse.audio.segments import Segment, milliseconds
from espnet_diverse.corpora import EVERYTHING, Selection, split_pair
from espnet_diverse.corpora.shared.directions import refuse_untrained, spoken_languages, translated_directions
from espnet_diverse.corpora.shared.download import download as fetch
from espnet_diverse.corpora.shared.row_faults import Lines, RowFaults, parallel, read_lines
from espnet_diverse.data.characters import safe_name
from espnet_diverse.data.faults import Fault
from espnet_diverse.data.files.atomic_files import staged_directory
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.data.normalisation import for_wer, subtitle
from espnet_diverse.data.tables import entry_faults, parse_segment
from espnet_diverse.errors import DataError
from espnet_diverse.untrusted.tar_files import unpack

SETS = ("train", "dev", "test")
OPTIONS = ("task", "languages", "pairs", "zero_shot", "transcripts")
LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "pl", "ro", "nl")
SUFFIXES = (".wav", ".flac", ".mp3", ".ogg", ".opus", ".m4a")
URL = "https://www.mllp.upv.es/europarl-st/v1.1.tar.gz"


def prepare(corpus_dir: Path, selection: Selection = EVERYTHING) -> dict[str, DataDir]:
    """Read the official tree.

    Args:
        corpus_dir: The folder that holds v1.1, or v1.1 itself.
        selection: Languages or directions; by default all in the folder. Segments without audio and faulty lines are
            errors unless `on_bad="drop"`.

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
    pairs = [f"{s}-{t}" for s in LANGUAGES for t in LANGUAGES if (root / s / t).is_dir()]
    if not pairs:
        raise DataError(f"no Europarl-ST in {root}: there is no folder such as en/de; unpack v1.1.tar.gz there")
    sets, faults = {name: DataDir() for name in selection.wanted(SETS)}, RowFaults(selection)
    if selection.task == "asr":
        wanted = spoken_languages(selection, list(dict.fromkeys(split_pair(pair)[0] for pair in pairs)), root)
        for language in wanted:
            _add_language(sets, root, language, pairs, faults)
        trained = wanted
    else:
        directions = translated_directions(selection, pairs, root)
        for pair, train in directions.items():
            for name in sets if train else sets.keys() & {"test"}:
                _Direction(root, pair, faults).add_to(sets[name], name, f"{pair}-")
        trained = [pair for pair, train in directions.items() if train]
    faults.refuse()
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


def _add_language(sets: dict[str, DataDir], root: Path, language: str, pairs: list[str], faults: RowFaults) -> None:
    """Add the speeches in one language, each with the segments of one direction."""
    taken: set[str] = set()
    for name in ("test", "dev", "train"):
        for pair in pairs:
            if split_pair(pair)[0] == language:
                direction = _Direction(root, pair, faults, frozenset(taken))
                if name in sets:
                    direction.add_to(sets[name], name, "")
                # Speeches of a set that is not prepared are kept out of the sets after it, too.
                listed = direction.listed(name)
                taken |= {line.split()[0] for line in listed.texts if line} if listed else set()


class _Direction:
    """The folder <src>/<tgt>; speeches in `taken` are not added to the data."""

    def __init__(self, root: Path, pair: str, faults: RowFaults, taken: frozenset[str] = frozenset()):
        self.source, self.target = split_pair(pair)
        self.folder = root / self.source / self.target
        self.audios = root / self.source / "audios"
        self.faults, self.selection = faults, faults.selection
        self.taken = taken
        self._listed: dict[str, Lines | None] = {}

    def add_to(self, data: DataDir, name: str, prefix: str) -> None:
        """Add the segments of one split, with ids that begin with `prefix`."""
        folder = self.folder / self.selection.name_of(name)
        if not folder.is_dir():
            return
        refused = self.faults.refused
        sides = [read_lines(folder / f"segments.{code}", refused, subtitle) for code in (self.source, self.target)]
        rows = parallel([self.listed(name), *sides], refused)
        speakers = self._speakers(folder)
        for line, (value, *texts), fault in rows:
            segment = parse_segment(value)
            if segment.recording in self.taken:
                continue
            fault = fault or self._fault(segment, value, folder / "segments.lst", line)
            utterance = f"{self.source}-{self.target}-{name}-line{line}"
            if not fault:
                made = f"{prefix}{segment.recording}_{milliseconds(segment.start)}_{milliseconds(segment.end)}"
                if made in data.segments:
                    reason = "this segment occurs twice; remove one from all parallel files"
                    fault = Fault(str(folder / "segments.lst"), line, reason)
                else:
                    utterance = made
            if fault:
                self.faults.add(data, utterance, fault)
            else:
                self._add(data, utterance, segment, texts, speakers.get(segment.recording, segment.recording))

    def listed(self, name: str) -> Lines | None:
        """The lines of segments.lst of one split; the file is read once, and its faults are added at that time."""
        path = self.folder / self.selection.name_of(name) / "segments.lst"
        if name not in self._listed:
            self._listed[name] = read_lines(path, self.faults.refused) if path.parent.is_dir() else None
        return self._listed[name]

    def _add(self, data: DataDir, utterance: str, segment: Segment, texts: list[str], speaker: str) -> None:
        """Add one utterance with its transcript and translation, or list it as dropped if one is empty."""
        (transcript, translation), scored = texts, self.selection.transcripts == "scored"
        translates, words = self.selection.task == "st", for_wer(transcript, self.source) if scored else transcript
        if not words or (translates and not translation):
            data.dropped[utterance] = "empty translation" if words else f"no words in transcript {transcript!r}"
            return
        data.wav_scp[segment.recording] = str(self._audio(segment.recording))
        data.segments[utterance] = segment
        data.text[utterance] = translation if translates else words
        data.utt2spk[utterance] = speaker
        data.conditions.setdefault("utt2lang", {})[utterance] = self.source
        if translates:
            data.src_text[utterance] = words
            data.conditions.setdefault("utt2tgtlang", {})[utterance] = self.target

    def _fault(self, segment: Segment, value: str, listed: Path, line: int) -> Fault | None:
        """The fault of a line of segments.lst."""
        reasons = entry_faults("segments", "", value)
        if not reasons and self._audio(segment.recording) is None:
            reasons = [f"the audio {segment.recording} is not in {self.audios}; get it"]
        return Fault(str(listed), line, reasons[0]) if reasons else None

    def _speakers(self, folder: Path) -> dict[str, str]:
        """Speaker of each speech, for speeches in speakers.lst."""
        if not (folder / "speakers.lst").is_file():
            return {}
        files = [read_lines(folder / name, self.faults.refused) for name in ("speeches.lst", "speakers.lst")]
        rows = parallel(files, self.faults.refused)
        return {
            speech: safe_name(speaker.rstrip("/").rpartition("/")[2]) or speech
            for _, (speech, speaker), fault in rows
            if not fault
        }

    def _audio(self, speech: str) -> Path | None:
        """The audio of a speech, if there is any."""
        files = (self.audios / f"{speech}{suffix}" for suffix in SUFFIXES)
        return next((file for file in files if file.is_file()), None)
