"""Whole files of text."""

import pytest

from espnet_diverse.data.utf8 import read_utf8
from espnet_diverse.errors import ConfigError, DataError


def test_a_file_is_read_whole(tmp_path):
    (tmp_path / "a").write_bytes("é\nb".encode())
    assert read_utf8(tmp_path / "a") == "é\nb"


def test_a_message_names_the_byte_and_what_to_do(tmp_path):
    (tmp_path / "a").write_bytes(b"ab\xff")
    with pytest.raises(DataError) as error:
        read_utf8(tmp_path / "a")
    assert str(error.value) == f"{tmp_path / 'a'}: not UTF-8 at byte 2; save the file as UTF-8"
    with pytest.raises(ConfigError, match="^plan a: not UTF-8 at byte 2; write it again$"):
        read_utf8(tmp_path / "a", "plan a", "write it again", ConfigError)
