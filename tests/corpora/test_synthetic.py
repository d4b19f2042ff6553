"""Synthetic corpora: the official layout, the same bytes every time, nothing half-made."""

import hashlib

import numpy as np
import pytest
import soundfile

from espnet_diverse.corpora import Selection
from espnet_diverse.corpora import mtedx as official_mtedx
from espnet_diverse.corpora.synthetic import VOICES, aishell, join, load_generator, mtedx, utterances
from espnet_diverse.corpora.synthetic.aishell import COUNTS, SPEAKERS
from espnet_diverse.corpora.synthetic.grammar import LANGUAGES
from espnet_diverse.data.normalisation import for_wer
from espnet_diverse.data.validate import validate
from espnet_diverse.errors import ConfigError, DataError


def _bytes(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


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
    assert _bytes(aishell.make(tmp_path / "again", size="tiny", nj=2)) == _bytes(tiny)


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


def test_unknown_size_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"^unknown size 'huge' of a synthetic corpus; choose one of tiny demo$"):
        aishell.make(tmp_path / "aishell", size="huge")


@pytest.mark.parametrize("names", [SPEAKERS, mtedx.SPEAKERS, VOICES], ids=["aishell", "mtedx", "voices"])
def test_speakers_and_voices_of_the_splits_are_disjoint(names):
    train, dev, test = (set(names[split]) for split in ("train", "dev", "test"))
    assert not train & dev
    assert not train & test
    assert not dev & test


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


def test_no_synthetic_corpus_for_this_corpus():
    assert load_generator("mtedx") is mtedx
    with pytest.raises(ConfigError, match="^there is no synthetic corpus for mls; give --corpus_dir$"):
        load_generator("mls")


def test_languages_say_the_same_things():
    """Sentences of a split are one set in all languages, so that nothing of a test leaks through a translation."""
    spoken = [
        utterances([language, "en"], "test", 12, 0, [str(number) for number in range(4)]) for language in LANGUAGES
    ]
    assert {tuple(utterance.sentence.texts[1] for utterance in each) for each in spoken} == {
        tuple(utterance.sentence.texts[0] for utterance in spoken[LANGUAGES.index("en")])
    }
    assert len({utterance.line.text for each in spoken for utterance in each}) == 12 * len(LANGUAGES)


def test_recordings_are_joined_to_one():
    samples, times = join([np.full(8000, 0.1, np.float32), np.full(4000, 0.2, np.float32)])
    assert samples.shape == (12000,)
    assert times == [(0.0, 0.5), (0.5, 0.75)]


@pytest.fixture(scope="module")
def tiny_mtedx(tmp_path_factory):
    return mtedx.make(tmp_path_factory.mktemp("corpus") / "mtedx", size="tiny", nj=2)


def test_mtedx_has_all_languages_and_directions(tiny_mtedx):
    folders = {path.name for path in tiny_mtedx.iterdir()} - {"synthetic.json"}
    assert folders == {f"{language}-{language}" for language in official_mtedx.LANGUAGES} | {
        *official_mtedx.TRAINED,
        *official_mtedx.ZERO_SHOT,
    }
    trained = {path.parent.parent.name for path in tiny_mtedx.glob("*/data/train")}
    assert folders - trained == set(official_mtedx.ZERO_SHOT)


@pytest.mark.parametrize("task", ["asr", "st"])
def test_mtedx_prepares_without_faults_or_drops(tiny_mtedx, task):
    sets = official_mtedx.prepare(tiny_mtedx, Selection(task))
    folders = {"asr": (8, 8, 8), "st": (11, 10, 13)}[task]
    for data, each, count in zip(sets.values(), (16, 4, 4), folders, strict=True):
        validate(data)
        assert len(data.text) == each * count
        assert not data.dropped


def test_mtedx_talks_hold_what_the_texts_say(tiny_mtedx):
    """es-en has the talks of es-es with the same sentences in English, and yaml and segments say the same."""
    st = official_mtedx.prepare(tiny_mtedx, Selection("st", pairs=("es-en",)))["train"]
    asr = official_mtedx.prepare(tiny_mtedx, Selection(languages=("es",)))["train"]
    sentences = {
        for_wer(utterance.sentence.texts[0]): utterance.sentence.texts[1]
        for utterance in utterances(["es", "en"], "train", 16, 0, mtedx.SPEAKERS["train"])
    }
    assert {st.src_text[name]: text for name, text in st.text.items()} == sentences
    assert sorted(asr.text.values()) == sorted(st.src_text.values())
    assert st.segments["es-en-es01talk00_0001"].start == st.segments["es-en-es01talk00_0000"].end
    txt = tiny_mtedx / "es-en/data/train/txt"
    (txt / "segments").rename(txt / "aside")
    try:
        assert official_mtedx.prepare(tiny_mtedx, Selection("st", pairs=("es-en",)))["train"] == st
    finally:
        (txt / "aside").rename(txt / "segments")


def test_mtedx_is_one_corpus_for_every_number_of_jobs(tmp_path, monkeypatch):
    def silence(lines, nj):
        yield from (np.zeros(1600, np.float32) for _ in lines)

    monkeypatch.setattr(mtedx, "synthesize", silence)
    made = [mtedx.make(tmp_path / str(nj), size="tiny", nj=nj) for nj in (1, 2)]
    assert _bytes(made[0]) == _bytes(made[1])
    assert _bytes(mtedx.make(tmp_path / "2", seed=1, size="tiny")) != _bytes(made[0])
    with pytest.raises(DataError, match=r"^unknown size 'huge' of a synthetic corpus; choose one of tiny demo$"):
        mtedx.make(tmp_path / "2", size="huge")
