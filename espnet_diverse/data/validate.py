"""Checks of a data directory that report all of its faults in one pass.

Tables are compared with each other; the header of every recording is read, and all samples where that is asked for.
What is found has a kind, and `faults.ACTIONS` says what is done about it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from espnet_diverse.audio.ark import CODED, ark_entry
from espnet_diverse.audio.features import features_shape, read_features
from espnet_diverse.audio.libsndfile import AudioInfo
from espnet_diverse.audio.reading import open_file
from espnet_diverse.audio.riff import unread_bytes
from espnet_diverse.audio.segments import segment_fault
from espnet_diverse.data.faults import Fault, decisive, refuse
from espnet_diverse.data.kaldi import DataDir, scan_data_dir
from espnet_diverse.data.plausibility import Limits, length_findings, measure, sound_findings, text_findings
from espnet_diverse.data.tables import entry_faults
from espnet_diverse.data.threads import Workers, map_in_parallel
from espnet_diverse.errors import DataError, UserError

_OFTEN = 10  # utterances of one text, if they are more than half of all
_LIMITS = Limits()


def validate(
    source: DataDir | Path,
    read_audio: bool = True,
    nj: int | Workers = 4,
    rate: int | None = None,
    decode: bool = True,
    features: int | None = None,
) -> None:
    """Raise one error for all faults of a data directory that are not to be warned of; return if it has none.

    Args:
        source: A data directory, on disk or in memory.
        read_audio: Whether every audio file is opened.
        nj: Number of threads that read audio, or workers that do it.
        rate: Sampling rate in Hz of a model that is to be trained with the data. Audio that training cannot read as it
            is, such as m4a, several channels or another rate, is then a fault.
        decode: Whether all samples are read, and not only headers.
        features: Size of the features that feats.scp has in place of audio; 0 for any size. Without it audio is read.

    Raises:
        FaultsError: There are faults; its message names the first few and counts the rest, see `find_faults`.
    """
    refuse(decisive(find_faults(source, read_audio, nj, rate, decode, features)))


def find_faults(
    source: DataDir | Path,
    read_audio: bool = True,
    nj: int | Workers = 4,
    rate: int | None = None,
    decode: bool = True,
    features: int | None = None,
    limits: Limits = _LIMITS,
) -> list[Fault]:
    """List the faults of each table, between the tables, of the audio, and of texts.

    Arguments are those of `validate`; `limits` says what is expected of utterances.
    """
    scp = "wav.scp" if features is None else "feats.scp"
    if isinstance(source, DataDir):
        data, folder, faults = source, "", _table_faults(source)
    else:
        data, faults = scan_data_dir(source, scp)
        folder = f"{source}/"
    faults += _key_faults(data, folder, scp)
    heard: dict[str, float] = {}
    if features is not None:
        faults += _feature_faults(data, folder, nj, features, decode)
    elif read_audio:
        found, heard = _audio_faults(data, folder, nj, rate, decode)
        faults += found
    faults += _utterance_faults(data, folder, heard, limits)
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
        return [Fault(f"{folder}{table}", key, what, "missing") for key in sorted(keys)]

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


class _Heard(NamedTuple):
    """What was found in a recording: its header, if it can be read, faults by kind, and what tells it apart."""

    recording: str
    path: str
    info: AudioInfo | None
    findings: list[tuple[str, str]]
    digest: bytes | str


def _hear(item: tuple[str, str], rate: int | None, decode: bool) -> _Heard:
    recording, path = item
    try:
        with open_file(Path(path)) as file:
            lost = 0 if ark_entry(path) else unread_bytes(Path(path))
            if lost:
                what = f"{path}: its header leaves out {lost} bytes after the samples; write the header anew"
                return _Heard(recording, path, file.info, [("audio", what)], path)
            unread = _unread(file.info, rate) if rate is not None else ""
            if not decode:
                return _Heard(recording, path, file.info, [("rate", f"{path}: {unread}")] if unread else [], path)
            found = measure(file.blocks())
            findings = [("rate", f"{path}: {unread}")] if unread else []
            findings += [(kind, f"{path}: {what}") for kind, what in sound_findings(found)]
            return _Heard(recording, path, file.info, findings, found.digest)
    except DataError as error:
        return _unheard(item, error)


def _unheard(item: tuple[str, str], error: UserError) -> _Heard:
    recording, path = item
    what = str(error) if isinstance(error, DataError) else f"{path}: {error}"
    return _Heard(recording, path, None, [("audio", what)], path)


def _audio_faults(
    data: DataDir, folder: str, nj: int | Workers, rate: int | None, decode: bool
) -> tuple[list[Fault], dict[str, float]]:
    """Faults of every recording, and segments past the end of one; and the seconds of each utterance."""
    # A faulty path (a pipe, an empty one) is already listed and must not be opened.
    readable = [item for item in sorted(data.wav_scp.items()) if not entry_faults("wav.scp", *item)]
    heard = map_in_parallel(partial(_hear, rate=rate, decode=decode), readable, nj, "check audio", _unheard)
    table = f"{folder}wav.scp"
    faults = [Fault(table, one.recording, what, kind) for one in heard for kind, what in one.findings]
    faults += [Fault(table, where, what, "same_audio") for where, what in _same(heard)]
    if rate is None:
        faults += _formats(heard, table)
    seconds = {one.recording: one.info.seconds for one in heard if one.info is not None}
    for utterance, segment in sorted(data.segments.items()):
        past = segment_fault(segment, seconds[segment.recording]) if segment.recording in seconds else None
        if past:
            faults.append(Fault(f"{folder}segments", utterance, past, "audio"))
    if not data.segments:
        return faults, seconds
    parts = {u: s.end - s.start for u, s in data.segments.items() if s.recording in seconds}
    return faults, {u: length for u, length in parts.items() if length > 0}  # the others are faults of the table


def _same(heard: Iterable[_Heard]) -> Iterator[tuple[str, str]]:
    first: dict[bytes | str, str] = {}
    for one in heard:
        if one.info is not None and first.setdefault(one.digest, one.recording) != one.recording:
            yield one.recording, f"has the same audio as {first[one.digest]}; remove one of them"


def _formats(heard: Iterable[_Heard], table: str) -> list[Fault]:
    """One fault for each rate, number of channels and format but the most frequent one, if that can be trained with."""
    found: dict[tuple[int, int, str], list[str]] = {}
    for one in heard:
        if one.info is not None:
            kind = "" if one.info.converted_from == CODED else one.info.converted_from
            found.setdefault((one.info.rate, one.info.channels, kind), []).append(one.recording)
    usual = max(found, key=lambda each: len(found[each]), default=None)
    faults = []
    for (rate, channels, kind), some in found.items():
        if (rate, channels, kind) != usual or channels > 1 or kind:
            what = f"{len(some)} recording{'s have' if some[1:] else ' has'} {rate} Hz and {channels} channel"
            what += "s" if channels > 1 else ""
            what += f" as {kind}" if kind else ""
            todo = "training reads one rate and mono: convert them with espnet-diverse prepare kaldi"
            faults.append(Fault(table, some[0], f"{what}; the first is this one; {todo}", "format"))
    return faults


def _utterance_faults(data: DataDir, folder: str, seconds: dict[str, float], limits: Limits) -> list[Fault]:
    """What is implausible about lengths and texts, and ids that differ in case alone."""
    faults: list[Fault] = []
    table = f"{folder}{'text' if data.is_text else 'segments' if data.segments else 'wav.scp'}"
    for utterance, length in sorted(seconds.items()):
        faults += [Fault(table, utterance, what, kind) for kind, what in length_findings(length, limits)]
    for utterance, text in data.text.items():
        found = text_findings(text, seconds.get(utterance), limits) if text else ()
        faults += [Fault(f"{folder}text", utterance, what, kind) for kind, what in found]
    text, count = Counter(data.text.values()).most_common(1)[0] if data.text else ("", 0)
    if count >= _OFTEN and count > len(data.text) / 2:
        what = f"{count} of {len(data.text)} utterances have the text {text[:40]!r}; check the transcripts"
        faults.append(Fault(f"{folder}text", None, what, "same_text"))
    first: dict[str, str] = {}
    for utterance in data.utterances():
        if first.setdefault(utterance.casefold(), utterance) != utterance:
            what = f"differs from {first[utterance.casefold()]} in case alone; rename it for disks that ignore case"
            faults.append(Fault(table, utterance, what, "case"))
    return faults


def _feature_faults(data: DataDir, folder: str, nj: int | Workers, size: int, decode: bool) -> list[Fault]:
    """Faults of the entries of feats.scp, which are in `wav_scp`."""

    readable = [item for item in sorted(data.wav_scp.items()) if not entry_faults("feats.scp", *item)]
    faults = []
    checked = map_in_parallel(partial(_feature_size, decode=decode), readable, nj, "check features", _unread_features)
    for (utterance, _), (found, what) in zip(readable, checked, strict=True):
        size = size or found
        if not what and found != size:
            what = f"has features of size {found}, and {size} is expected; compute them alike"
        faults += [Fault(f"{folder}feats.scp", utterance, what, "audio")] if what else []
    return faults


def _feature_size(item: tuple[str, str], decode: bool) -> tuple[int, str]:
    """The size of the features of an entry, and what is wrong with it."""
    try:
        size = features_shape(item[1])[1]
        if decode:
            read_features(item[1])
    except DataError as error:
        return 0, str(error)
    return size, ""


def _unread_features(item: tuple[str, str], error: UserError) -> tuple[int, str]:
    return 0, f"{item[1]}: {error}"


def _unread(info: AudioInfo, rate: int) -> str:
    """Why a model that reads `rate` Hz cannot be trained with a file; "" where it can."""
    if info.converted_from and info.converted_from != CODED:
        return f"training does not read {info.converted_from}; convert it with espnet-diverse prepare"
    if (info.rate, info.channels) == (rate, 1):
        return ""
    has = f"has {info.rate} Hz and {info.channels} channel{'s' * (info.channels > 1)}"
    convert = f"convert it with espnet-diverse prepare --rate {rate}, or set frontend_conf.fs to the rate of the data"
    return f"{has}, and the model reads {rate} Hz and 1 channel; {convert}"
