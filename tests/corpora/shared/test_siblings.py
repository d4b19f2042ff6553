"""Files that a table names in another way."""

import pytest

from espnet_diverse.corpora.shared.siblings import sibling


@pytest.mark.parametrize(
    ("given", "there"),
    [
        *[("A.wav", "a.wav"), ("a", "a.wav"), ("a.flac", "a.wav"), ("one", "wavs/one.mp3"), ("b.wav", "Clips/B.WAV")],
        *[("clips/b.wav", "Clips/B.WAV"), (r"clips\b.wav", "Clips/B.WAV"), (r"C:\x\Clips\B.WAV", "Clips/B.WAV")],
        *[("/data/set/clips/b.mp3", "Clips/B.WAV"), ("notes.wav", ""), ("c.wav", ""), ("", ""), ("/", ""), ("..", "")],
        ("a" * 300, ""),
    ],
)
def test_the_file_that_is_meant_is_found(tmp_path, given, there):
    for name in ("a.wav", "wavs/one.mp3", "Clips/B.WAV", "notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert sibling(given, tmp_path) == there
