"""AISHELL-1: 178 hours of read Mandarin, 400 speakers, 16 kHz (OpenSLR 33, Apache License 2.0).

Bu et al., "AISHELL-1: An open-source Mandarin speech corpus and a speech recognition baseline", O-COCOSDA 2017.

Official layout, after unpacking data_aishell.tgz and the archives of speakers in it:

    data_aishell/wav/{train,dev,test}/<speaker>/<utterance>.wav
    data_aishell/transcript/aishell_transcript_v0.8.txt     "<utterance> <words separated by spaces>"
    utt2domain                                              optional, not in the release: "<utterance> <domain>"

The spaces between words, an annotation of the corpus, are removed from transcripts.

The release has 141,925 recordings and 141,600 transcripts. Most recipes silently leave out the 325 untranscribed
recordings and have 120,098 / 14,326 / 7,176 utterances for train / dev / test. Here an unmatched utterance is an error
unless `on_missing="drop"`, which lists each one as dropped; the full corpus needs this option.
"""

from collections.abc import Iterable
from pathlib import Path

from espnet_diverse.corpora import EVERYTHING, Selection
from espnet_diverse.corpora.shared.download import download as fetch
from espnet_diverse.corpora.shared.download import unpack
from espnet_diverse.data.checks.faults import Fault, refuse
from espnet_diverse.data.files.atomic_files import staged_directory
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.data.tables import EMPTY_TRANSCRIPT, read_table, scan_table
from espnet_diverse.errors import DataError
from espnet_diverse.progress import progress

SETS = ("train", "dev", "test")
OPTIONS = ("on_bad",)
TRANSCRIPT = Path("transcript", "aishell_transcript_v0.8.txt")
URL = "https://www.openslr.org/resources/33/data_aishell.tgz"
MD5 = "2f494334227864a8a8fec932999db9d8"
# With a larger share of unmatched utterances, the copy counts as damaged; the release has 0.23 %.
MOST_MISSING = 0.01
# The share is not checked for up to this number of unmatched utterances.
FEW_MISSING = 10


def prepare(corpus_dir: Path, selection: Selection = EVERYTHING) -> dict[str, DataDir]:
    """Read the official files.

    Args:
        corpus_dir: The folder that holds data_aishell, or data_aishell itself.
        selection: Options. `on_missing` applies to recordings without transcript, transcripts without recording and
            empty transcripts: "error", or "drop", which lists them in `DataDir.dropped`; more than 1 % of the corpus is
            an error as well.

    Returns:
        The sets train, dev and test, or those selected. Transcripts without recording are listed as dropped from train.

    Raises:
        DataError: A folder is missing, an utterance is unmatched, or a line is faulty.
    """
    folders = {name: selection.name_of(name) for name in selection.wanted(SETS)}
    root = _root(corpus_dir, folders.values())
    wavs = {name: _recordings(root / "wav" / folder) for name, folder in folders.items()}
    _refuse_twice(wavs)
    transcripts, faults = scan_table(root / TRANSCRIPT, "text")
    spoken = {utterance: wav for paths in wavs.values() for utterance, wav in paths.items()}
    # One table has the transcripts of all sets: recordings of sets that are left out are not searched for.
    no_audio = sorted(transcripts.keys() - spoken.keys()) if len(folders) == len(SETS) else []
    no_transcript = sorted(spoken.keys() - transcripts.keys())
    if selection.on_missing == "drop":
        faults = [fault for fault in faults if fault.what != EMPTY_TRANSCRIPT]
        empty = [u for u, text in transcripts.items() if not text and (u in spoken or u in no_audio)]
        _check_share(no_audio + no_transcript + empty, len(spoken))
    else:
        todo = "add it, or leave such utterances out with --on_missing drop"
        faults += [Fault(str(spoken[u]), u, f"audio without transcript in {TRANSCRIPT}; {todo}") for u in no_transcript]
        faults += [Fault(str(root / TRANSCRIPT), u, f"transcript without audio in wav/; {todo}") for u in no_audio]
    refuse(faults)
    domains = _domains(root.parent / "utt2domain", spoken)
    sets = {name: _data_dir(paths, transcripts, domains) for name, paths in wavs.items()}
    next(iter(sets.values())).dropped |= dict.fromkeys(no_audio, "transcript without audio")
    return sets


def download(target_dir: Path, selection: Selection = EVERYTHING, url: str = URL, md5: str | None = MD5) -> Path:
    """Fetch and unpack the release (15 GB, then 19 GB more) into `target_dir`."""
    corpus_dir = target_dir / "aishell"
    if corpus_dir.is_dir():
        return corpus_dir
    archive = fetch(url, target_dir / "data_aishell.tgz", md5=md5)
    with staged_directory(corpus_dir) as staging:
        unpack(archive, staging, "unpack AISHELL-1")
        speakers = sorted((staging / "data_aishell" / "wav").glob("*.tar.gz"))
        for speaker in progress(speakers, "unpack its speakers", unit="archive"):
            unpack(speaker, speaker.parent)
            speaker.unlink()
    return corpus_dir


def _root(corpus_dir: Path, sets: Iterable[str]) -> Path:
    """The folder data_aishell as an absolute path; checks that the files of the release exist."""
    corpus_dir = corpus_dir.absolute()
    root = corpus_dir if (corpus_dir / "wav").is_dir() else corpus_dir / "data_aishell"
    for needed in (root, root / TRANSCRIPT, *(root / "wav" / name for name in sets)):
        if not needed.exists():
            packed = any((root / "wav").glob("*.tar.gz"))
            todo = "unpack the archives in wav/" if packed else "give the folder that holds data_aishell"
            there = [name for name in SETS if (root / "wav" / name).is_dir()]
            if needed.parent.name == "wav" and there and not packed:
                todo = f"unpack that set, or prepare what is there: --sets {' '.join(there)}"
            raise DataError(f"no AISHELL-1 corpus in {corpus_dir}: there is no {needed}; {todo}")
    return root


def _recordings(folder: Path) -> dict[str, Path]:
    """The wav files <speaker>/<utterance>.wav of one set."""
    wavs: dict[str, Path] = {}
    faults = []
    for wav in sorted(folder.glob("*/*.[wW][aA][vV]")):
        if wav.stem in wavs:
            faults.append(Fault(str(wav), None, f"utterance {wav.stem} is also {wavs[wav.stem]}; an id must be unique"))
        wavs[wav.stem] = wav
    if not wavs:
        faults.append(Fault(str(folder), None, "holds no <speaker>/<utterance>.wav; get the corpus again"))
    refuse(faults)
    return wavs


def _refuse_twice(wavs: dict[str, dict[str, Path]]) -> None:
    """Refuse an utterance that is in two sets, such as train and test."""
    owner: dict[str, Path] = {}
    faults = []
    for paths in wavs.values():
        for utterance in sorted(paths.keys() & owner.keys()):
            what = f"utterance {utterance} is also {owner[utterance]}; it may be in one set only"
            faults.append(Fault(str(paths[utterance]), None, what))
        owner |= paths
    refuse(faults)


def _check_share(unmatched: list[str], total: int) -> None:
    if len(unmatched) > max(FEW_MISSING, MOST_MISSING * total):
        what = f"{len(unmatched)} of {total} utterances lack audio or transcript, the first is {unmatched[0]}"
        raise DataError(f"{what}; up to {MOST_MISSING:.0%} can be dropped: the copy is incomplete, get it again")


def _domains(file: Path, spoken: dict[str, Path]) -> dict[str, str]:
    if not file.exists():
        return {}
    domains = read_table(file)
    refuse([Fault(str(file), u, "has no domain; add a line or remove the file") for u in spoken if u not in domains])
    return domains


def _data_dir(wavs: dict[str, Path], transcripts: dict[str, str], domains: dict[str, str]) -> DataDir:
    """One set; utterances without transcript, or with an empty one, are dropped."""
    data = DataDir()
    for utterance, wav in wavs.items():
        text = transcripts.get(utterance)
        if not text:
            data.dropped[utterance] = "audio without transcript" if text is None else "empty transcript"
            continue
        data.wav_scp[utterance] = str(wav)
        data.text[utterance] = text.replace(" ", "")
        data.utt2spk[utterance] = wav.parent.name
        if domains:
            data.conditions.setdefault("utt2domain", {})[utterance] = domains[utterance]
    return data
