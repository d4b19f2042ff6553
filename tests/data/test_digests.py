"""Digests of inputs: what changes them, and what does not."""

import os
from pathlib import Path

import pytest

from espnet_diverse.data.digests import digest, is_data_directory


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with the Kaldi data directory `data`."""
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    Path("a.wav").write_bytes(b"audio")
    Path("data/wav.scp").write_text(f"utt {tmp_path}/a.wav\n")
    Path("data/text").write_text("utt hello\n")
    return tmp_path


def test_digests_tell_kinds_of_inputs_apart(folder):
    assert digest(Path("absent")) is None
    assert is_data_directory(Path("data"))
    assert not is_data_directory(folder)
    Path("corpus/sub").mkdir(parents=True)
    empty = digest(Path("corpus"))
    Path("corpus/sub/x").write_text("1")
    one = digest(Path("corpus"))
    Path("corpus/sub/x").write_text("22")
    two = digest(Path("corpus"))
    os.utime("corpus/sub/x", (1, 1))
    assert len({empty, one, two, digest(Path("corpus"))}) == 4


def test_a_directory_of_text_alone_is_known_by_its_content(folder):
    Path("texts").mkdir()
    Path("texts/text").write_text("a one\n")
    assert is_data_directory(Path("texts"))
    before = digest(Path("texts"))
    os.utime("texts/text", (0, 0))
    assert digest(Path("texts")) == before
    Path("texts/text").write_text("a two\n")
    assert digest(Path("texts")) != before


@pytest.mark.parametrize("space", ["\t", "  ", " \t"])
def test_audio_counts_whatever_separates_the_columns(folder, space):
    Path("data/wav.scp").write_text(f"utt{space}{folder}/a.wav\n")
    before = digest(Path("data"))
    Path("a.wav").write_bytes(b"longer audio")
    assert digest(Path("data")) != before


@pytest.mark.parametrize(("table", "frames"), [("wav.scp", ""), ("feats.scp", ""), ("feats.scp", "[0:99]")])
def test_arks_count_by_their_size_even_beside_the_tables(folder, table, frames):
    ark = folder / "data" / "x.ark"
    ark.write_bytes(b"123456")
    Path("data", table).write_text(f"utt {ark}:2{frames}\n")
    before = digest(Path("data"))
    ark.write_bytes(b"654321")
    assert digest(Path("data")) == before
    ark.write_bytes(b"1234567")
    assert digest(Path("data")) != before


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "1b3f38764935"),
        (b"a", "1d2927562029"),
        (b"a gone.wav\n", "56c30ecbd4be"),
        (b"a gone.wav\r\nb\n\nc x.ark:7", "602e960fd4f2"),
        (b"a \xff.wav\n", "bdebd2ef31fa"),
    ],
)
def test_records_of_earlier_versions_hold(folder, content, expected):
    (folder / "new").mkdir()
    (folder / "new" / "wav.scp").write_bytes(content)
    (folder / "new" / "text").write_text("a b\n")
    assert digest(folder / "new")[:12] == expected


def test_audio_that_is_missing_changes_the_digest_when_it_comes_back(folder):
    before = digest(Path("data"))
    Path("a.wav").rename("b.wav")
    missing = digest(Path("data"))
    assert missing not in (before, None)
    Path("b.wav").rename("a.wav")
    assert digest(Path("data")) == before
