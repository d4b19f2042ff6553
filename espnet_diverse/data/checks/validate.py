"""Checks of a data directory that report all of its faults in one pass.

Tables are compared with each other; the header of every recording is read, and on request all samples. Each fault has a
kind; `faults.ACTIONS` has the action for it.
"""

import os
from array import array
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from math import nan
from pathlib import Path
from typing import NamedTuple

from espnet_diverse.audio.ark import CODED
from espnet_diverse.audio.features import features_shape, read_features
from espnet_diverse.audio.libsndfile import AudioInfo, Powers
from espnet_diverse.audio.reading import open_file
from espnet_diverse.audio.segments import segment_fault
from espnet_diverse.data.checks.audio_statistics import Survey
from espnet_diverse.data.checks.limits import Limits
from espnet_diverse.data.checks.plausibility import CANCELLED, Measures, length_findings, measure, text_findings
from espnet_diverse.data.checks.recording_faults import Formats, SameAudio, sound_faults
from espnet_diverse.data.checks.repetitions import DIGEST, alike, most_of
from espnet_diverse.data.faults import Fault, decisive, refuse
from espnet_diverse.data.kaldi import DataTables, column, scan_tables
from espnet_diverse.data.table_views import in_order, items_in_order, lacking
from espnet_diverse.data.tables import entry_faults
from espnet_diverse.data.threads import Workers, map_in_parallel
from espnet_diverse.errors import DataError, UserError

_OFTEN = 10  # utterances of one text, if they are more than half of all
_LIMITS = Limits()


def validate(
    source: DataTables | Path,
    read_audio: bool = True,
    nj: int | Workers = 4,
    rate: int | None = None,
    decode: bool = True,
    features: int | None = None,
) -> None:
    """Raise one error for all faults of a data directory whose action is not `warn`; return if it has none.

    Args:
        source: A data directory, on disk or in memory.
        read_audio: Whether every audio file, or entry of feats.scp, is opened.
        nj: Number of threads that read audio, or workers that do so.
        rate: Sampling rate in Hz of a model that will be trained with the data. Audio that training cannot read without
            conversion, such as m4a, several channels or another rate, is then a fault.
        decode: Whether all samples are read, not only headers.
        features: Size of the features that feats.scp has instead of audio; 0 for any size. By default audio is read.

    Raises:
        FaultsError: There are faults; its message names the first few and counts the rest, see `find_faults`.
    """
    faults = decisive(find_faults(source, read_audio, nj, rate, decode, features))
    of_model = features or any(fault.kind == "rate" for fault in faults)  # which the command `validate` does not check
    listed = isinstance(source, Path) and not of_model
    refuse(faults, f"espnet-diverse validate {source} lists all" if listed else "")


def find_faults(
    source: DataTables | Path,
    read_audio: bool = True,
    nj: int | Workers = 4,
    rate: int | None = None,
    decode: bool = True,
    features: int | None = None,
    limits: Limits = _LIMITS,
    survey: Survey | None = None,
) -> list[Fault]:
    """List the faults of each table, between the tables, of the audio, and of texts.

    Takes the same arguments as `validate`; `limits` bounds lengths and texts; `survey` collects measures.
    """
    scp = "wav.scp" if features is None else "feats.scp"
    data: DataTables
    if isinstance(source, DataTables):
        data, folder, faults = source, "", _table_faults(source)
    else:
        data, faults = scan_tables(source, scp)
        folder = f"{source}/"
    faults += _key_faults(data, folder, scp)
    heard: Mapping[str, float] = {}
    if read_audio and features is not None:
        faults += _feature_faults(data, folder, nj, features, decode)
    elif read_audio:
        audio_faults, heard = _audio_faults(data, folder, nj, rate, decode, survey)
        faults += audio_faults
    faults += _utterance_faults(data, folder, heard, limits)
    if survey is not None:
        survey.data, survey.seconds = data, heard
    return faults


def _table_faults(data: DataTables) -> list[Fault]:
    """The faults that `scan_tables` finds in files, for tables in memory."""
    faults = []
    for name, table in data.tables().items():
        if name in data.required() and not table:
            faults.append(Fault(name, None, "is empty"))
        faults += [
            Fault(name, key, reason) for key, value in table.items() for reason in entry_faults(name, key, value)
        ]
    return faults


def _key_faults(data: DataTables, folder: str, scp: str) -> list[Fault]:
    """Ids that are not in all tables; an empty table is reported elsewhere."""

    def faults(table: str, keys: Iterable[str], what: str) -> list[Fault]:
        return [Fault(f"{folder}{table}", key, what, "missing") for key in keys]

    source = "text" if data.is_text else "segments" if data.segments else scp
    spoken = data.by_utterance()
    problems: list[Fault] = []
    if spoken and data.text:
        add_or_remove = "or remove the line"
        strange = f"transcript without audio in {source}; add it {add_or_remove}"
        problems += faults("text", lacking(spoken, data.text), strange)
        missing = f"audio without transcript in text; add it {add_or_remove}"
        problems += faults(source, lacking(data.text, spoken), missing)
    for name, table in (("utt2spk", data.utt2spk), ("src_text", data.src_text), *data.conditions.items()):
        if spoken and table:
            problems += faults(name, lacking(table, spoken), "has no line in this table; add one")
            problems += faults(name, lacking(spoken, table), f"is not in {source}; remove the line")
    if data.segments and data.wav_scp:
        used = {segment.recording for segment in data.segments.values()}
        unknown = {recording for recording in used if recording not in data.wav_scp}
        of_unknown = sorted(u for u, s in data.segments.items() if s.recording in unknown) if unknown else []
        problems += faults("segments", of_unknown, "its recording is not in wav.scp; add it or remove the line")
        unused = (recording for recording in in_order(data.wav_scp) if recording not in used)
        problems += faults("wav.scp", unused, "no segment uses this recording; remove it")
    return problems


class _Heard(NamedTuple):
    """Findings in a recording: its header, if readable, faults by kind, a digest, and measures of its samples."""

    recording: str
    info: AudioInfo | None = None
    findings: Sequence[tuple[str, str]] = ()
    digest: bytes = bytes(DIGEST)
    measures: Measures | None = None


def _hear(item: tuple[str, str], rate: int | None, decode: bool) -> _Heard:
    recording, path = item
    if entry_faults("wav.scp", *item):  # a pipe or an empty path, which is already listed and must not be opened
        return _Heard(recording)
    named = blake2b(os.fsencode(path), digest_size=DIGEST).digest()
    try:
        with open_file(Path(path)) as file:
            file.check_header()
            unread = _unread(file.info, rate) if rate is not None else ""
            findings = [("rate", f"{path}: {unread}")] if unread else []
            if not decode:
                return _Heard(recording, file.info, findings, named)
            powers = Powers()
            measures = measure(file.blocks(powers=powers))
            findings += [(kind, f"{path}: {reason}") for kind, reason in sound_faults(measures, powers)]
            return _Heard(recording, file.info, findings, measures.digest, measures)
    except DataError as error:
        return _unheard(item, error)


def _unheard(item: tuple[str, str], error: UserError) -> _Heard:
    recording, path = item
    return _Heard(recording, None, [("audio", str(error) if isinstance(error, DataError) else f"{path}: {error}")])


def _audio_faults(
    data: DataTables, folder: str, nj: int | Workers, rate: int | None, decode: bool, survey: Survey | None
) -> tuple[list[Fault], Mapping[str, float]]:
    """Faults of every recording, and segments past the end of a recording; and the seconds of each utterance."""
    hear = partial(_hear, rate=rate, decode=decode)
    table = f"{folder}wav.scp"
    faults: list[Fault] = []
    formats, same, lengths, channels = Formats(), SameAudio(), array("d"), array("d")
    for one in map_in_parallel(hear, items_in_order(data.wav_scp), nj, "check audio", _unheard):
        faults += [Fault(table, one.recording, reason, kind) for kind, reason in one.findings]
        lengths.append(nan if one.info is None else one.info.seconds)
        if data.segments:
            channels.append(nan if one.info is None else one.info.channels)
        if survey is not None:
            survey.add(one.info, one.measures)
        if one.info is not None:
            formats.add(one.recording, one.info)
            same.add(len(lengths) - 1, one.digest)
    if data.segments and any(fault.what.endswith(CANCELLED) for fault in faults):
        averaged = {segment.recording for segment in data.segments.values() if segment.channel is None}
        faults = [fault for fault in faults if fault.where in averaged or not fault.what.endswith(CANCELLED)]
    faults += same.faults(table, in_order(data.wav_scp))
    if rate is None:
        faults += formats.faults(table)
    seconds = column(data.wav_scp, lengths)
    if not data.segments:
        return faults, seconds
    counts, parts = column(data.wav_scp, channels), array("d")
    for utterance in in_order(data.segments):
        segment = data.segments[utterance]
        duration = seconds.get(segment.recording)
        past = None
        if duration is not None:
            past = segment_fault(segment, duration, int(counts[segment.recording]))
        if past:
            faults.append(Fault(f"{folder}segments", utterance, past, "audio"))
        length = nan if duration is None else segment.length(duration)
        parts.append(length if length > 0 else nan)  # other lengths are faults of the table
    return faults, column(data.segments, parts)


def _utterance_faults(data: DataTables, folder: str, seconds: Mapping[str, float], limits: Limits) -> list[Fault]:
    """Faults of lengths and texts, and ids that differ in case alone."""
    faults: list[Fault] = []
    table = f"{folder}{'text' if data.is_text else 'segments' if data.segments else 'wav.scp'}"
    for utterance, length in seconds.items():
        faults += [Fault(table, utterance, reason, kind) for kind, reason in length_findings(length, limits)]
    for utterance, text in data.text.items():
        findings = text_findings(text, seconds.get(utterance), limits) if text else ()
        faults += [Fault(f"{folder}text", utterance, reason, kind) for kind, reason in findings]
    text, count = most_of(data.text.values())
    if count >= _OFTEN and count > len(data.text) / 2:
        reason = f"{count} of {len(data.text)} utterances have the text {text[:40]!r}; check the transcripts"
        faults.append(Fault(f"{folder}text", None, reason, "same_text"))
    for utterance, first in alike(in_order(data.by_utterance()), str.casefold):
        reason = f"differs from {first} in case alone; rename it for disks that ignore case"
        faults.append(Fault(table, utterance, reason, "case"))
    return faults


def _feature_faults(data: DataTables, folder: str, nj: int | Workers, size: int, decode: bool) -> list[Fault]:
    """Faults of the entries of feats.scp, which are in `wav_scp`."""
    faults = []
    check = partial(_feature_size, decode=decode)
    for utterance, actual, reason in map_in_parallel(
        check, items_in_order(data.wav_scp), nj, "check features", _unread_features
    ):
        if actual is None:  # listed already
            continue
        size = size or actual
        if not reason and actual != size:
            reason = f"has features of size {actual}, and {size} is expected; compute them alike"
        faults += [Fault(f"{folder}feats.scp", utterance, reason, "audio")] if reason else []
    return faults


def _feature_size(item: tuple[str, str], decode: bool) -> tuple[str, int | None, str]:
    """An utterance, the size of its features, and their fault; the size is None where the entry is listed already."""
    utterance, entry = item
    if entry_faults("feats.scp", *item):
        return utterance, None, ""
    try:
        size = features_shape(entry)[1]
        if decode:
            read_features(entry)
    except DataError as error:
        return utterance, 0, str(error)
    return utterance, size, ""


def _unread_features(item: tuple[str, str], error: UserError) -> tuple[str, int, str]:
    return item[0], 0, f"{item[1]}: {error}"


def _unread(info: AudioInfo, rate: int) -> str:
    """The reason why a model that reads `rate` Hz cannot be trained with a file; "" if it can."""
    if info.converted_from and info.converted_from != CODED:
        return f"training does not read {info.converted_from}; convert it with espnet-diverse prepare"
    if (info.rate, info.channels) == (rate, 1):
        return ""
    has = f"has {info.rate} Hz and {info.channels} channel{'s' * (info.channels > 1)}"
    convert = f"convert it with espnet-diverse prepare --rate {rate}, or set frontend_conf.fs to the rate of the data"
    return f"{has}, and the model reads {rate} Hz and 1 channel; {convert}"
