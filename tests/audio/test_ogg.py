"""Damage of ogg files that decoders pass over."""

import numpy as np
import pytest
import soundfile

from espnet_diverse.audio.ogg import check_ogg
from espnet_diverse.audio.reading import open_file
from espnet_diverse.errors import DataError


@pytest.fixture(params=["VORBIS", "OPUS"])
def ogg(tmp_path, request):
    path = tmp_path / "a.ogg"
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, 48_000)
    soundfile.write(path, noise, 16_000, format="OGG", subtype=request.param)
    return path


def test_whole_files_pass_and_concatenated_ones_are_told_apart(ogg, tmp_path):
    content, tag = ogg.read_bytes(), b"TAG" + bytes(125)
    for more, is_chained in ((b"", False), (content, True), (tag, False), (tag + content, True)):
        ogg.write_bytes(content + more)
        assert check_ogg(ogg, "x") == is_chained
    (tmp_path / "b").write_bytes(b"RIFF")
    assert not check_ogg(tmp_path / "b", "x")


def test_every_flip_and_every_cut_is_found(ogg):
    content, random = ogg.read_bytes(), np.random.default_rng(1)
    for place in random.integers(4, len(content), 100):
        flipped = bytearray(content)
        flipped[place] ^= 1 << int(random.integers(8))
        ogg.write_bytes(flipped)
        with pytest.raises(DataError, match="^x: (the ogg page at byte .* is damaged|ends inside an ogg page)"):
            check_ogg(ogg, "x")
    for place in random.integers(5, len(content), 100):
        ogg.write_bytes(content[:place])
        with pytest.raises(DataError, match="^x: .*truncated"):
            check_ogg(ogg, "x")
    last = content.rindex(b"OggS")
    ogg.write_bytes(content[:last])  # between two pages
    with pytest.raises(DataError, match="a.ogg: its ogg stream has no end; the file is truncated"), open_file(ogg):
        pass
