"""Synthetic AISHELL: the official layout, the same bytes every time, nothing half-made."""

import numpy as np
import pytest
import soundfile
from references.data_fixtures import digests

from espnet_diverse.corpora.synthetic import aishell, utterances
from espnet_diverse.corpora.synthetic.aishell import COUNTS, SPEAKERS
from espnet_diverse.errors import DataError


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return aishell.make(tmp_path_factory.mktemp("corpus") / "aishell", size="tiny", nj=1)


def _transcript(folder):
    table = folder / "data_aishell" / "transcript" / "aishell_transcript_v0.8.txt"
    return dict(line.split(" ", 1) for line in table.read_text(encoding="utf-8").splitlines())


def test_tree_is_the_official_one(tiny):
    transcript = _transcript(tiny)
    assert list(transcript) == sorted(transcript)
    found = {}
    for split, count in COUNTS["tiny"].items():
        wavs = sorted((tiny / "data_aishell" / "wav" / split).glob("S????/BAC009S????W????.wav"))
        assert len(wavs) == count
        assert {path.parent.name for path in wavs} <= set(SPEAKERS[split])
        assert all(path.stem[6:11] == path.parent.name for path in wavs)
        found |= {path.stem: path for path in wavs}
    assert found.keys() == transcript.keys()
    assert len(list(tiny.rglob("*.wav"))) == len(found)
    assert "BAC009S0002W0121" in found


def test_transcripts_have_words_of_hanzi(tiny):
    for text in _transcript(tiny).values():
        words = text.split(" ")
        assert len(words) > 2
        assert all("\u4e00" <= character <= "\u9fff" for word in words for character in word)


def test_domains_lie_beside_the_corpus(tiny):
    rows = dict(line.split(" ") for line in (tiny / "utt2domain").read_text(encoding="utf-8").splitlines())
    assert rows.keys() == _transcript(tiny).keys()
    assert {"home", "travel", "weather", "market"} <= set(rows.values())


def test_audio_is_16_khz_mono_16_bit_speech(tiny):
    for path in tiny.rglob("*.wav"):
        info = soundfile.info(path)
        assert (info.samplerate, info.channels, info.subtype) == (16_000, 1, "PCM_16")
        assert 1.0 < info.duration < 4.0
        samples, _ = soundfile.read(path)
        assert 0.45 < np.abs(samples).max() < 0.55
        assert -30 < 20 * np.log10(np.sqrt(np.mean(samples**2))) < -15
        loud = np.flatnonzero(np.abs(samples) > 0.05)
        assert loud[0] < 0.25 * 16_000
        assert len(samples) - loud[-1] < 0.35 * 16_000


def test_bytes_do_not_depend_on_the_number_of_jobs(tiny, tmp_path):
    assert digests(aishell.make(tmp_path / "again", size="tiny", nj=2)) == digests(tiny)


def test_finished_corpus_is_left_alone(tiny, monkeypatch):
    monkeypatch.setattr(aishell, "synthesize", None)
    before = {path: path.stat().st_mtime_ns for path in tiny.rglob("*")}
    assert aishell.make(tiny, size="tiny") == tiny
    assert {path: path.stat().st_mtime_ns for path in tiny.rglob("*")} == before


def test_other_settings_replace_the_corpus(tmp_path, monkeypatch):
    def silence(lines, nj):
        yield from (np.zeros(1600, np.float32) for _ in lines)

    monkeypatch.setattr(aishell, "synthesize", silence)
    target = tmp_path / "aishell"
    first = _transcript(aishell.make(target, seed=1, size="tiny"))
    second = _transcript(aishell.make(target, seed=2, size="tiny"))
    assert first.keys() == second.keys()
    assert first != second
    assert [path.name for path in tmp_path.iterdir()] == ["aishell"]


def test_failure_leaves_nothing(tmp_path, monkeypatch):
    def fail(lines, nj):
        yield np.zeros(1600, np.float32)
        raise DataError("no sound")

    monkeypatch.setattr(aishell, "synthesize", fail)
    with pytest.raises(DataError, match="^no sound$"):
        aishell.make(tmp_path / "aishell", size="tiny")
    assert list(tmp_path.iterdir()) == []


def test_foreign_directory_is_refused(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(
        DataError, match=r": has files that are not a synthetic corpus; give an empty or new directory$"
    ):
        aishell.make(tmp_path, size="tiny")
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize("seed", range(3))
def test_demo_is_learnable(seed):
    texts = {
        split: [utterance.sentence.texts[0] for utterance in utterances(["zh"], split, count, seed, SPEAKERS[split])]
        for split, count in COUNTS["demo"].items()
    }
    assert not set(texts["train"]) & set(texts["test"])
    assert set("".join(texts["train"])) >= set("".join(texts["dev"] + texts["test"]))
    rarest = min("".join(texts["train"]).count(character) for character in set("".join(texts["train"])))
    assert rarest >= 5
