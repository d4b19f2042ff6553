"""A bad recording among twelve is named and changes no byte of what the other eleven give.

They are in the same batches without it, so the same kernels sum the same numbers. `pytest --row-sums` shows that this
holds where the order of a sum depends on the size of its batch.
"""

import argparse
import json
import re

import numpy as np
import pytest
import soundfile
from references.bad_audio import KINDS, RATE, sound

from espnet_diverse.bin.options.arguments import from_args
from espnet_diverse.bin.use import transcribe
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.inference import Recognizer, SegmentationOptions
from espnet_diverse.transcription.inputs import find_recordings

SUFFIXES = ("wav", "flac", "mp3", "ogg", "opus", "aiff")


@pytest.fixture(scope="module")
def recognizer(tiny_run):
    """A model that always writes something, in batches of several recordings."""
    options = SearchOptions(beam_size=2, nbest=2, batch_size=4, minlenratio=-2, maxlenratio=-5)
    return Recognizer(tiny_run.model_dir, options=options, segmentation=SegmentationOptions(vad="none"))


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """Eleven sound recordings of different lengths, rates and formats."""
    folder = tmp_path_factory.mktemp("good")
    for index in range(11):
        rate = (RATE, 8000, 48_000)[index % 3]
        samples = np.roll(sound((0.25 + 0.02 * index) * rate / RATE), 100 * index)
        suffix = SUFFIXES[index % len(SUFFIXES)]
        soundfile.write(folder / f"g{index:02}.{suffix}", samples, rate, format="OGG" if suffix == "opus" else None)
    return sorted(map(str, folder.iterdir()))


def run(recognizer, sources, output_dir):
    """Exit code and content of the outputs by name."""
    parser = argparse.ArgumentParser()
    transcribe.add_arguments(parser)
    output_dir.mkdir()
    args = parser.parse_args(["model", "--output_dir", str(output_dir), "--output_format", "json"])
    options = from_args(transcribe.CommandOptions, args)
    code = transcribe.transcribe(recognizer, find_recordings(sources), options)
    return code, {path.name: path.read_bytes() for path in output_dir.iterdir()}


@pytest.fixture(scope="module")
def clean(recognizer, good, tmp_path_factory):
    """What the eleven give by themselves."""
    code, outputs = run(recognizer, good, tmp_path_factory.mktemp("clean") / "out")
    assert code == 0 and "failures.json" not in outputs
    assert len(outputs) == 11 and all(json.loads(content)["text"] for content in outputs.values())
    return outputs


def test_there_are_kinds_enough():
    assert len(KINDS) >= 40


TRUNCATED = [
    kind
    for kind in KINDS
    if kind.partition(" ")[2] in ("truncated", "truncated at the last sample", "that claims more")
]
READABLE = [kind for kind in TRUNCATED if kind.split()[0] in ("wav", "mp3", "aiff", "au", "sph", "w64")]
"""Of which there are samples; the ogg files here end within their only page, and decoders do not read flac."""


@pytest.mark.parametrize("kind", READABLE)
def test_a_truncated_recording_is_transcribed_as_far_as_it_goes(recognizer, good, clean, tmp_path, caplog, kind):
    cut = tmp_path / "cut.wav"
    KINDS[kind](cut)
    code, outputs = run(recognizer, [*good, str(cut)], tmp_path / "out")
    found = {name: json.loads(content) for name, content in outputs.items()}
    assert code == 0 and 0.3 < found.pop("cut.json")["duration"] <= 1
    assert {name: each["text"] for name, each in found.items()} == {
        name: json.loads(content)["text"] for name, content in clean.items()
    }
    (said,) = [message for message in caplog.messages if message.startswith(str(cut))]
    assert re.search(r"; the file is truncated, and the [01]\.\d s that are there are read$", said)


def test_truncated_kinds_are_found():
    assert len(READABLE) >= 6


@pytest.mark.parametrize("kind", sorted({*KINDS} - {*READABLE}))
def test_a_bad_recording_costs_no_other(recognizer, good, clean, tmp_path, capsys, kind):
    bad = tmp_path / "bad.wav"
    KINDS[kind](bad)
    place = len(kind) % 12  # not always the same
    code, outputs = run(recognizer, [*good[:place], str(bad), *good[place:]], tmp_path / "out")
    failures = json.loads(outputs.pop("failures.json"))
    assert code == 2 and outputs == clean
    assert list(failures) == [str(bad)]
    assert failures[str(bad)].startswith(f"{bad}: ") and "\n" not in failures[str(bad)]
    assert f"skipped {failures[str(bad)]}" in capsys.readouterr().err
