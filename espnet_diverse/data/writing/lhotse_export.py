"""A data directory as manifests of lhotse: recordings and supervisions, written through the library (extra lhotse)."""

from array import array
from collections.abc import Iterator
from pathlib import Path

from espnet_diverse.audio.reading import inspect_audio
from espnet_diverse.audio.segments import Segment, segment_fault
from espnet_diverse.data.checks.validate import find_faults
from espnet_diverse.data.faults import decisive, refuse
from espnet_diverse.data.files.atomic_files import scratch_directory
from espnet_diverse.data.kaldi import DataTables, column, scan_tables
from espnet_diverse.data.table_views import in_order, items_in_order
from espnet_diverse.data.threads import iterate_in_threads
from espnet_diverse.errors import DataError, optional_package


def manifest_paths(data_dir: Path, output_dir: Path) -> list[Path]:
    """The manifests of recordings and supervisions; the split in their names is the name of the data directory."""
    return [output_dir / f"{kind}_{data_dir.absolute().name}.jsonl.gz" for kind in ("recordings", "supervisions")]


def export(data_dir: Path, output_dir: Path, nj: int = 4) -> list[Path]:
    """Write the manifests of a data directory; audio is not copied.

    Args:
        data_dir: A data directory with audio.
        output_dir: Folder of the manifests. Manifests of several sets have different names.
        nj: Number of threads that read headers of audio.

    Returns:
        The manifests of recordings and supervisions.

    Raises:
        ConfigError: The library is not installed.
        DataError: The data directory is faulty or has no audio, or audio needs a conversion.
    """
    library = optional_package("lhotse", "export lhotse", "lhotse")
    data, faults = scan_tables(data_dir)
    refuse(faults or decisive(find_faults(data, read_audio=False)))
    kinds = (library.RecordingSet, library.Recording), (library.SupervisionSet, library.SupervisionSegment)
    paths = manifest_paths(data_dir, output_dir)
    recordings, supervisions = manifests(data, nj)
    output_dir.mkdir(parents=True, exist_ok=True)
    with scratch_directory(output_dir / "manifests") as staging:
        staged = [staging / path.name for path in paths]
        for (kind, item), rows, path in zip(kinds, (recordings, supervisions), staged, strict=True):
            with kind.open_writer(path) as writer:
                for row in rows:
                    writer.write(item.from_dict(row))
        for file, path in zip(staged, paths, strict=True):
            file.replace(path)
    return paths


def manifests(data: DataTables, nj: int = 4) -> tuple[Iterator[dict], Iterator[dict]]:
    """Recordings and supervisions as lhotse serialises them; the recordings must be read first.

    A translation and its language are custom fields of a supervision, whose text is the transcript.

    Raises:
        DataError: The data has no audio; or, while rows are read, audio needs a conversion or ends before a segment.
    """
    if data.is_text:
        raise DataError("the data directory is text alone; lhotse's manifests are of recordings")
    seconds, channels = array("d"), array("d")

    def recordings() -> Iterator[dict]:
        items = items_in_order(data.wav_scp)
        for recording in iterate_in_threads(_recording, items, nj, "read audio", len(items)):
            seconds.append(recording["duration"])
            channels.append(len(recording["sources"][0]["channels"]))
            yield recording

    def supervisions() -> Iterator[dict]:
        lengths, counts = column(data.wav_scp, seconds), column(data.wav_scp, channels)
        for utterance in in_order(data.by_utterance()):
            segment = data.segments.get(utterance) or Segment(utterance, 0.0, lengths[utterance])
            duration, count = lengths[segment.recording], int(counts[segment.recording])
            if past := segment_fault(segment, duration, count):
                raise DataError(f"{utterance}: {past}")
            yield _supervision(data, utterance, segment, duration, count)

    return recordings(), supervisions()


def _recording(item: tuple[str, str]) -> dict:
    name, path = item
    info = inspect_audio(Path(path))
    if info.converted_from:
        raise DataError(f"{path}: is {info.converted_from}; write the data with espnet-diverse prepare first")
    source = {"type": "file", "channels": list(range(info.channels)), "source": str(Path(path).absolute())}
    length = {"sampling_rate": info.rate, "num_samples": info.frames, "duration": info.seconds}
    return {"id": name, "sources": [source], **length}


def _supervision(data: DataTables, utterance: str, segment: Segment, seconds: float, channels: int) -> dict:
    """The supervision of a segment of a recording with the given length in seconds and number of channels."""
    translated = {"translation": data.text[utterance]} if data.src_text else {}
    custom = {"domain": _value(data, "utt2domain", utterance), **translated}
    custom["target_language"] = _value(data, "utt2tgtlang", utterance)
    custom = {name: value for name, value in custom.items() if value}
    values = {
        "id": utterance,
        "recording_id": segment.recording,
        "start": segment.start,
        "duration": round(segment.length(seconds), 6),
        "channel": segment.channel or 0 if channels == 1 or segment.channel is not None else list(range(channels)),
        "text": (data.src_text or data.text)[utterance],
        "speaker": data.utt2spk.get(utterance, utterance),
        "language": _value(data, "utt2lang", utterance),
        "custom": custom,
    }
    return {name: value for name, value in values.items() if value not in (None, {})}


def _value(data: DataTables, table: str, utterance: str) -> str | None:
    return data.conditions.get(table, {}).get(utterance)
