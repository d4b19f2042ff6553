from espnet_diverse.audio.ark import CODED
from espnet_diverse.audio.libsndfile import AudioInfo
from espnet_diverse.data.checks.recording_faults import Formats, SameAudio


def info(rate=16000, channels=1, converted_from=""):
    return AudioInfo(
        rate=rate, channels=channels, frames=rate, container="WAV", subtype="PCM_16", converted_from=converted_from
    )


def test_the_first_of_equal_recordings_is_named():
    same = SameAudio()
    for row, digest in ((0, b"x"), (1, b"y"), (4, b"x"), (5, b"y"), (6, b"x")):
        same.add(row, digest * 16)
    found = [str(fault) for fault in same.faults("wav.scp", "abcdefg")]
    said = "has the same audio as {}; remove one of them"
    assert found == [f"wav.scp: {later}: {said.format(first)}" for later, first in (("e", "a"), ("f", "b"), ("g", "a"))]
    assert list(SameAudio().faults("wav.scp", [])) == []


def test_all_formats_but_the_usual_one_are_named():
    formats = Formats()
    for name, kind in (("a", info()), ("b", info(8000)), ("c", info()), ("d", info(8000, 2)), ("e", info(8000))):
        formats.add(name, kind)
    formats.add("f", info(converted_from=CODED))
    found = [(fault.where, fault.what.partition(";")[0]) for fault in formats.faults("wav.scp")]
    assert found == [("b", "2 recordings have 8000 Hz and 1 channel"), ("d", "1 recording has 8000 Hz and 2 channels")]


def test_a_usual_format_that_cannot_be_trained_with_is_named():
    formats = Formats()
    formats.add("a", info(converted_from="m4a"))
    assert [fault.what.partition(";")[0] for fault in formats.faults("wav.scp")] == [
        "1 recording has 16000 Hz and 1 channel as m4a"
    ]
    assert list(Formats().faults("wav.scp")) == []
