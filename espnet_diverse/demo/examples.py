"""Examples of the page: recordings, or texts to translate, which are read once and kept in memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from espnet_diverse.audio.reading import read_audio
from espnet_diverse.audio.writing import flac_bytes
from espnet_diverse.data.kaldi import DataDir, evenly_spaced, read_data_dir, spaced
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.serve.limits import Limits
from espnet_diverse.transcription.inputs import find_recordings
from espnet_diverse.untrusted.whole_files import read_bytes

_OF_FOLDER = 3
_MOST = 12


@dataclass(frozen=True)
class Example:
    """An example.

    Attributes:
        name: Name of the recording, with the suffix of its format, or of the text.
        content: Content of an audio file, or a text in UTF-8.
        reference: Expected text; "" if it is not known.
    """

    name: str
    content: bytes
    reference: str = ""


def read_examples(sources: Sequence[Path], task: str, limits: Limits) -> list[Example]:
    """Read the examples of a page.

    Args:
        sources: Files; data directories, or folders of audio, for three examples of each, evenly spaced.
        task: Task of the model: "mt" translates texts.
        limits: Limits of one request.

    Raises:
        ConfigError: There are more than 12 examples, or an example is larger than a request may be.
        DataError: A source cannot be read, or has no example.
    """
    examples = [example for source in sources for example in _of_source(source, task)]
    if len(examples) > _MOST:
        raise ConfigError(f"--examples gives {len(examples)} examples; at most {_MOST} are shown: name fewer")
    for example in examples:
        if len(example.content) > limits.bytes:
            size = len(example.content) / 1e6
            raise ConfigError(f"example {example.name} has {size:.1f} MB, and --max_megabytes is {limits.megabytes:g}")
    return examples


def _of_source(source: Path, task: str) -> Iterator[Example]:
    if any((source / table).is_file() for table in ("wav.scp", "src_text", "text")):
        yield from _of_data(source, task)
    elif task == "mt":
        yield Example(source.stem, _content(source))
    else:
        paths = [Path(recording.path) for recording in find_recordings([str(source)])]
        for path in spaced(paths, _OF_FOLDER) if source.is_dir() else paths:
            yield Example(path.name, _content(path))


def _of_data(source: Path, task: str) -> Iterator[Example]:
    data = evenly_spaced(read_data_dir(source), _OF_FOLDER)
    table, entries = ("src_text", data.src_text) if task == "mt" else ("wav.scp", data.wav_scp)
    if not entries:
        raise DataError(f"{source}: has no {table} to take examples from; give another directory or files")
    for utterance in data.utterances():
        reference = data.text.get(utterance, "")
        if task == "mt":
            yield Example(utterance, data.src_text.get(utterance, "").encode(), reference)
        else:
            yield Example(f"{utterance}.flac", _heard(data, utterance), reference)


def _heard(data: DataDir, utterance: str) -> bytes:
    """The audio of an utterance, as flac."""
    segment = data.segments.get(utterance)
    path = Path(data.wav_scp[segment.recording if segment else utterance])
    return flac_bytes(*read_audio(path, segment))


def _content(path: Path) -> bytes:
    try:
        return read_bytes(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); correct the path of --examples") from error
