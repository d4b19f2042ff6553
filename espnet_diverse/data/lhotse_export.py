"""A data directory as manifests of lhotse: recordings and supervisions, written through the library (extra lhotse)."""

from pathlib import Path
from types import ModuleType

from espnet_diverse.audio.reading import inspect_audio
from espnet_diverse.audio.segments import Segment
from espnet_diverse.data.kaldi import DataDir, read_data_dir
from espnet_diverse.data.threads import map_in_threads
from espnet_diverse.errors import ConfigError, DataError


def manifest_paths(data_dir: Path, output_dir: Path) -> list[Path]:
    """The manifests of recordings and supervisions; the split in their names is the name of the data directory."""
    return [output_dir / f"{kind}_{data_dir.absolute().name}.jsonl.gz" for kind in ("recordings", "supervisions")]


def export(data_dir: Path, output_dir: Path, nj: int = 4) -> list[Path]:
    """Write the manifests of a data directory; audio is not copied.

    Args:
        data_dir: A data directory with audio.
        output_dir: Folder of the manifests. Those of several sets have different names.
        nj: Number of threads that read headers of audio.

    Returns:
        The manifests of recordings and supervisions.

    Raises:
        ConfigError: The library is not installed.
        DataError: The data directory is faulty or has no audio, or audio needs a conversion.
    """
    library = _library()
    recordings, supervisions = manifests(read_data_dir(data_dir), nj)
    output_dir.mkdir(parents=True, exist_ok=True)
    paths = manifest_paths(data_dir, output_dir)
    library.RecordingSet.from_dicts(recordings).to_file(str(paths[0]))
    library.SupervisionSet.from_dicts(supervisions).to_file(str(paths[1]))
    return paths


def manifests(data: DataDir, nj: int = 4) -> tuple[list[dict], list[dict]]:
    """Recordings and supervisions as lhotse serialises them.

    A translation and its language are custom fields of a supervision, whose text is the transcript.

    Raises:
        DataError: The data has no audio, or audio needs a conversion.
    """
    if data.is_text:
        raise DataError("the data directory is text alone; lhotse's manifests are of recordings")
    recordings = map_in_threads(_recording, sorted(data.wav_scp.items()), nj, "read audio")
    by_id = {recording["id"]: recording for recording in recordings}
    return recordings, [_supervision(data, utterance, by_id) for utterance in data.utterances()]


def _recording(item: tuple[str, str]) -> dict:
    name, path = item
    info = inspect_audio(Path(path))
    if info.converted_from:
        raise DataError(f"{path}: is {info.converted_from}; write the data with espnet-diverse prepare first")
    source = {"type": "file", "channels": list(range(info.channels)), "source": str(Path(path).absolute())}
    length = {"sampling_rate": info.rate, "num_samples": info.frames, "duration": info.seconds}
    return {"id": name, "sources": [source], **length}


def _supervision(data: DataDir, utterance: str, recordings: dict[str, dict]) -> dict:
    segment = data.segments.get(utterance) or Segment(utterance, 0.0, recordings[utterance]["duration"])
    recording = recordings[segment.recording]
    translated = {"translation": data.text[utterance]} if data.src_text else {}
    custom = {"domain": _value(data, "utt2domain", utterance), **translated}
    custom["target_language"] = _value(data, "utt2tgtlang", utterance)
    custom = {name: value for name, value in custom.items() if value}
    channels = recording["sources"][0]["channels"]
    values = {
        "id": utterance,
        "recording_id": recording["id"],
        "start": segment.start,
        "duration": round(min(segment.end, recording["duration"]) - segment.start, 6),
        "channel": channels[0] if len(channels) == 1 else channels,
        "text": (data.src_text or data.text)[utterance],
        "speaker": data.speaker(utterance),
        "language": _value(data, "utt2lang", utterance),
        "custom": custom,
    }
    return {name: value for name, value in values.items() if value not in (None, {})}


def _value(data: DataDir, table: str, utterance: str) -> str | None:
    return data.conditions.get(table, {}).get(utterance)


def _library() -> ModuleType:
    try:
        import lhotse
    except ImportError as error:
        raise ConfigError("export lhotse needs lhotse; run: pip install 'espnet_diverse[lhotse]'") from error
    return lhotse
