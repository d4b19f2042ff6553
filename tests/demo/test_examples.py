"""Examples of the page, from files, folders and data directories."""

import io

import numpy as np
import pytest
import soundfile

from espnet_diverse.audio.segments import Segment
from espnet_diverse.data.kaldi import DataDir, write_data_dir
from espnet_diverse.demo.examples import Example, read_examples
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.serve.limits import Limits

LIMITS = Limits(megabytes=0.1)


@pytest.fixture
def folder(tmp_path):
    """Seven recordings of half a second, of which each has another level, and a file of another kind."""
    (tmp_path / "audio").mkdir()
    for number in range(7):
        soundfile.write(tmp_path / f"audio/r{number}.wav", np.full(4000, number / 10, np.float32), 8000)
    (tmp_path / "audio/notes.txt").write_text("no audio")
    return tmp_path / "audio"


def test_files_are_kept_as_they_are_and_of_a_folder_there_are_three(folder):
    content = {path.name: path.read_bytes() for path in folder.glob("*.wav")}
    given = [folder / "r5.wav", folder]
    assert read_examples(given, "asr", LIMITS) == [
        Example(name, content[name]) for name in ("r5.wav", "r0.wav", "r2.wav", "r4.wav")
    ]


def test_utterances_of_a_data_directory_have_their_texts(folder, tmp_path):
    texts = {f"u{number}": f"text {number}" for number in range(6)}
    segments = {name: Segment("r", 0.05 * number, 0.05 * number + 0.1) for number, name in enumerate(texts)}
    write_data_dir(DataDir({"r": str(folder / "r3.wav")}, texts, segments=segments), tmp_path / "data")
    examples = read_examples([tmp_path / "data"], "asr", LIMITS)
    names = [("u0.flac", "text 0"), ("u2.flac", "text 2"), ("u4.flac", "text 4")]
    assert [(each.name, each.reference) for each in examples] == names
    samples, rate = soundfile.read(io.BytesIO(examples[1].content))
    assert (rate, samples.shape) == (8000, (800,)) and np.allclose(samples, 0.3, atol=1e-4)


def test_texts_to_translate(tmp_path):
    write_data_dir(DataDir(text={"a": "one", "b": "two"}, src_text={"a": "eins", "b": "zwei"}), tmp_path / "data")
    (tmp_path / "mine.txt").write_text("drei\nvier\n")
    assert read_examples([tmp_path / "data", tmp_path / "mine.txt"], "mt", LIMITS) == [
        Example("a", b"eins", "one"),
        Example("b", b"zwei", "two"),
        Example("mine", b"drei\nvier\n"),
    ]


def test_too_many_too_large_and_missing_examples_are_refused(folder, tmp_path):
    with pytest.raises(ConfigError, match="--examples gives 13 examples; at most 12 are shown: name fewer"):
        read_examples([folder / "r0.wav"] * 13, "asr", LIMITS)
    with pytest.raises(ConfigError, match=r"example r0.wav has 0.0 MB, and --max_megabytes is 0.001"):
        read_examples([folder / "r0.wav"], "asr", Limits(megabytes=0.001))
    with pytest.raises(DataError, match=r"gone.wav: cannot be read \(No such file or directory\); correct the path"):
        read_examples([tmp_path / "gone.wav"], "asr", LIMITS)
    write_data_dir(DataDir(text={"a": "one"}), tmp_path / "data")
    for task, table in (("asr", "wav.scp"), ("mt", "src_text")):
        with pytest.raises(DataError, match=f"has no {table} to take examples from; give another"):
            read_examples([tmp_path / "data"], task, LIMITS)
