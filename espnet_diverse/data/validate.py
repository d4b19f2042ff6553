"""Checks of a data directory that report all of its faults in one pass."""

from collections.abc import Iterable
from pathlib import Path

from espnet_diverse.audio.ark import CODED
from espnet_diverse.audio.features import features_shape, read_features
from espnet_diverse.audio.libsndfile import AudioInfo
from espnet_diverse.audio.reading import check_audio, inspect_audio
from espnet_diverse.audio.segments import segment_fault
from espnet_diverse.data.faults import Fault, refuse
from espnet_diverse.data.kaldi import DataDir, scan_data_dir
from espnet_diverse.data.tables import entry_faults
from espnet_diverse.data.threads import map_in_threads
from espnet_diverse.errors import DataError


def validate(
    source: DataDir | Path,
    read_audio: bool = True,
    nj: int = 4,
    rate: int | None = None,
    decode: bool = True,
    features: int | None = None,
) -> None:
    """Raise one error for all faults of a data directory; return if it has none.

    Args:
        source: A data directory, on disk or in memory.
        read_audio: Whether every audio file is opened.
        nj: Number of threads that read audio.
        rate: Sampling rate in Hz of a model that is to be trained with the data. Audio that training cannot read as it
            is, such as m4a, several channels or another rate, is then a fault.
        decode: Whether audio that is opened is decoded where its header cannot show all faults.
        features: Size of the features that feats.scp has in place of audio; 0 for any size. Without it audio is read.

    Raises:
        FaultsError: There are faults; its message names the first few and counts the rest, see `find_faults`.
    """
    refuse(find_faults(source, read_audio, nj, rate, decode, features))


def find_faults(
    source: DataDir | Path,
    read_audio: bool = True,
    nj: int = 4,
    rate: int | None = None,
    decode: bool = True,
    features: int | None = None,
) -> list[Fault]:
    """List the faults of each table, between the tables, and of the audio; arguments are those of `validate`."""
    if isinstance(source, DataDir):
        data, folder, faults = source, "", _table_faults(source)
    else:
        data, faults = scan_data_dir(source, "wav.scp" if features is None else "feats.scp")
        folder = f"{source}/"
    faults += _key_faults(data, folder, "wav.scp" if features is None else "feats.scp")
    if features is not None:
        faults += _feature_faults(data, folder, nj, features, decode)
    elif read_audio:
        faults += _audio_faults(data, folder, nj, rate, decode)
    return faults


def _table_faults(data: DataDir) -> list[Fault]:
    """The faults that `scan_data_dir` finds in files, for tables in memory."""
    faults = []
    for name, table in data.tables().items():
        if name in data.required() and not table:
            faults.append(Fault(name, None, "is empty"))
        faults += [Fault(name, key, what) for key, value in table.items() for what in entry_faults(name, key, value)]
    return faults


def _key_faults(data: DataDir, folder: str, scp: str) -> list[Fault]:
    """Ids that are not in all tables; an empty table is reported elsewhere."""

    def faults(table: str, keys: Iterable[str], what: str) -> list[Fault]:
        return [Fault(f"{folder}{table}", key, what) for key in sorted(keys)]

    source = "text" if data.is_text else "segments" if data.segments else scp
    spoken = set(data.utterances())
    found: list[Fault] = []
    if spoken and data.text:
        add_or_remove = "or remove the line"
        found += faults(
            "text", data.text.keys() - spoken, f"transcript without audio in {source}; add it {add_or_remove}"
        )
        found += faults(source, spoken - data.text.keys(), f"audio without transcript in text; add it {add_or_remove}")
    for name, table in (("utt2spk", data.utt2spk), ("src_text", data.src_text), *data.conditions.items()):
        if spoken and table:
            found += faults(name, spoken - table.keys(), "has no line in this table; add one")
            found += faults(name, table.keys() - spoken, f"is not in {source}; remove the line")
    if data.segments and data.wav_scp:
        used = {segment.recording for segment in data.segments.values()}
        strange = [u for u, segment in data.segments.items() if segment.recording not in data.wav_scp]
        found += faults("segments", strange, "its recording is not in wav.scp; add it or remove the line")
        found += faults("wav.scp", data.wav_scp.keys() - used, "no segment uses this recording; remove it")
    return found


def _audio_faults(data: DataDir, folder: str, nj: int, rate: int | None, decode: bool) -> list[Fault]:
    """Faults of every recording, and segments that lie past the end of one."""

    def check(item: tuple[str, str]) -> tuple[str, float, str]:
        recording, path = item
        try:
            info = check_audio(Path(path)) if decode else inspect_audio(Path(path))
        except DataError as error:
            return recording, 0.0, str(error)
        unread = _unread(info, rate) if rate is not None else ""
        return recording, info.seconds, f"{path}: {unread}" if unread else ""

    # A faulty path (a pipe, an empty one) is already listed and must not be opened.
    readable = [item for item in sorted(data.wav_scp.items()) if not entry_faults("wav.scp", *item)]
    seconds: dict[str, float] = {}
    faults: list[Fault] = []
    for recording, length, what in map_in_threads(check, readable, nj, "check audio"):
        if what:
            faults.append(Fault(f"{folder}wav.scp", recording, what))
        else:
            seconds[recording] = length
    for utterance, segment in sorted(data.segments.items()):
        past = segment_fault(segment, seconds[segment.recording]) if segment.recording in seconds else None
        if past:
            faults.append(Fault(f"{folder}segments", utterance, past))
    return faults


def _feature_faults(data: DataDir, folder: str, nj: int, size: int, decode: bool) -> list[Fault]:
    """Faults of the entries of feats.scp, which are in `wav_scp`."""

    def check(item: tuple[str, str]) -> tuple[str, int, str]:
        utterance, entry = item
        try:
            found = features_shape(entry)[1]
            if decode:
                read_features(entry)
        except DataError as error:
            return utterance, 0, str(error)
        return utterance, found, ""

    readable = [item for item in sorted(data.wav_scp.items()) if not entry_faults("feats.scp", *item)]
    faults = []
    for utterance, found, what in map_in_threads(check, readable, nj, "check features"):
        size = size or found
        if not what and found != size:
            what = f"has features of size {found}, and {size} is expected; compute them alike"
        faults += [Fault(f"{folder}feats.scp", utterance, what)] if what else []
    return faults


def _unread(info: AudioInfo, rate: int) -> str:
    """Why a model that reads `rate` Hz cannot be trained with a file; "" where it can."""
    if info.converted_from and info.converted_from != CODED:
        return f"training does not read {info.converted_from}; convert it with espnet-diverse prepare"
    if (info.rate, info.channels) == (rate, 1):
        return ""
    has = f"has {info.rate} Hz and {info.channels} channel{'s' * (info.channels > 1)}"
    convert = f"convert it with espnet-diverse prepare --rate {rate}, or set frontend_conf.fs to the rate of the data"
    return f"{has}, and the model reads {rate} Hz and 1 channel; {convert}"
