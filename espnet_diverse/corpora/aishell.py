"""AISHELL-1: 178 hours of read Mandarin, 400 speakers, 16 kHz (OpenSLR 33, Apache License 2.0).

Bu et al., "AISHELL-1: An open-source Mandarin speech corpus and a speech recognition baseline", O-COCOSDA 2017.

Official layout, after unpacking data_aishell.tgz and the archives of speakers in it:

    data_aishell/wav/{train,dev,test}/<speaker>/<utterance>.wav
    data_aishell/transcript/aishell_transcript_v0.8.txt     "<utterance> <words separated by spaces>"
    utt2domain                                              optional, not in the release: "<utterance> <domain>"

The spaces between words, an annotation of the corpus, are removed from transcripts.

The release has 141,925 recordings and 141,600 transcripts. Most recipes silently leave out the 325 untranscribed
recordings and have 120,098 / 14,326 / 7,176 utterances for train / dev / test. Here an unmatched utterance is an error
unless `on_bad="drop"`, which lists each one as dropped; the full corpus needs this option. Hidden files, such as those
that macOS adds, are passed over.
"""

from collections.abc import Iterable
from pathlib import Path

from espnet_diverse.corpora import EVERYTHING, Selection
from espnet_diverse.corpora.shared.download import download as fetch
from espnet_diverse.corpora.shared.row_faults import RowFaults
from espnet_diverse.data.faults import Fault, refuse
from espnet_diverse.data.files.atomic_files import staged_directory
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.data.tables import read_table, scan_table
from espnet_diverse.errors import DataError
from espnet_diverse.progress import progress
from espnet_diverse.untrusted.tar_files import unpack

SETS = ("train", "dev", "test")
OPTIONS = ()
TRANSCRIPT = Path("transcript", "aishell_transcript_v0.8.txt")
URL = "https://www.openslr.org/resources/33/data_aishell.tgz"
MD5 = "2f494334227864a8a8fec932999db9d8"


def prepare(corpus_dir: Path, selection: Selection = EVERYTHING) -> dict[str, DataDir]:
    """Read the official files.

    Args:
        corpus_dir: The folder that holds data_aishell, or data_aishell itself.
        selection: Options. Recordings without transcript, transcripts without recording and faulty lines are errors
            unless `on_bad="drop"`, which lists them in `DataDir.dropped`.

    Returns:
        The sets train, dev and test, or those selected. Transcripts without recording are listed as dropped from train.

    Raises:
        DataError: A folder is missing, an utterance is unmatched, or a line is faulty.
    """
    folders = {name: selection.name_of(name) for name in selection.wanted(SETS)}
    root = _root(corpus_dir, folders.values())
    sets, faults = {name: DataDir() for name in folders}, RowFaults(selection)
    wavs = {name: _recordings(root / "wav" / folder, sets[name], faults) for name, folder in folders.items()}
    _refuse_twice(wavs)
    transcripts, table_faults = scan_table(root / TRANSCRIPT, "text")
    spoken = {utterance: wav for paths in wavs.values() for utterance, wav in paths.items()}
    first = next(iter(sets.values()))
    has_all_sets = len(folders) == len(SETS)  # one table has the transcripts of all sets
    faulty: dict[str, Fault] = {}
    for fault in table_faults:
        if fault.entry in spoken:
            faulty.setdefault(fault.entry, fault)
        elif not fault.entry or selection.on_bad == "error":
            faults.refused.append(fault)
        elif has_all_sets:
            faults.add(first, fault.entry, fault)
    if has_all_sets:
        for utterance in sorted(transcripts.keys() - spoken.keys()):
            reason = "transcript without audio in wav/; add it or remove the line"
            faults.add(first, utterance, Fault(str(root / TRANSCRIPT), utterance, reason))
    domains = _domains(root.parent / "utt2domain")
    for data, paths in zip(sets.values(), wavs.values(), strict=True):
        for utterance, wav in paths.items():
            if fault := _fault(utterance, wav, transcripts, faulty, domains):
                faults.add(data, utterance, fault)
                continue
            data.wav_scp[utterance] = str(wav)
            data.text[utterance] = transcripts[utterance].replace(" ", "")
            data.utt2spk[utterance] = wav.parent.name
            if domains:
                data.conditions.setdefault("utt2domain", {})[utterance] = domains[utterance]
    faults.refuse()
    return sets


def download(target_dir: Path, selection: Selection = EVERYTHING, url: str = URL, md5: str | None = MD5) -> Path:
    """Fetch and unpack the release (15 GB, then 19 GB more) into `target_dir`."""
    corpus_dir = target_dir / "aishell"
    if corpus_dir.is_dir():
        return corpus_dir
    archive = fetch(url, target_dir / "data_aishell.tgz", md5=md5)
    with staged_directory(corpus_dir) as staging:
        unpack(archive, staging, "unpack AISHELL-1")
        speakers = sorted((staging / "data_aishell" / "wav").glob("[!.]*.tar.gz"))
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
            present = [name for name in SETS if (root / "wav" / name).is_dir()]
            if needed.parent.name == "wav" and present and not packed:
                todo = f"unpack that set, or prepare what is there: --sets {' '.join(present)}"
            raise DataError(f"no AISHELL-1 corpus in {corpus_dir}: there is no {needed}; {todo}")
    return root


def _recordings(folder: Path, data: DataDir, faults: RowFaults) -> dict[str, Path]:
    """The wav files <speaker>/<utterance>.wav of one set; of several with one name, the first."""
    wavs: dict[str, Path] = {}
    for wav in sorted(folder.glob("[!.]*/[!.]*.[wW][aA][vV]")):
        if (first := wavs.setdefault(wav.stem, wav)) != wav:
            reason = f"utterance {wav.stem} is also {first}; an id must be unique"
            faults.add(data, f"{wav.parent.name}-{wav.stem}", Fault(str(wav), None, reason))
    if not wavs:
        reason = "holds no <speaker>/<utterance>.wav; get the corpus again"
        faults.refused.append(Fault(str(folder), None, reason))
    return wavs


def _refuse_twice(wavs: dict[str, dict[str, Path]]) -> None:
    """Refuse an utterance that is in two sets, such as train and test."""
    owner: dict[str, Path] = {}
    faults = []
    for paths in wavs.values():
        for utterance in sorted(paths.keys() & owner.keys()):
            reason = f"utterance {utterance} is also {owner[utterance]}; it may be in one set only"
            faults.append(Fault(str(paths[utterance]), None, reason))
        owner |= paths
    refuse(faults)


def _domains(file: Path) -> dict[str, str] | None:
    """Domains by utterance; None if the file does not exist."""
    return read_table(file) if file.exists() else None


def _fault(
    utterance: str, wav: Path, transcripts: dict[str, str], faulty: dict[str, Fault], domains: dict[str, str] | None
) -> Fault | None:
    """The fault of a recording, or of its lines."""
    if utterance in faulty:
        return faulty[utterance]
    if utterance not in transcripts:
        return Fault(str(wav), utterance, f"audio without transcript in {TRANSCRIPT}; add it or remove the file")
    if domains is not None and utterance not in domains:
        return Fault("utt2domain", utterance, "has no domain; add a line or remove the file utt2domain")
    return None
