"""Speech synthesis: the same bits every time, clean edges, the right noise, and voices that read their language."""

import ctypes
import re
import sys
import time

import espeakng_loader
import numpy as np
import pytest

from espnet_diverse.audio import speech_synthesis
from espnet_diverse.audio.resampling import RATE
from espnet_diverse.audio.speech_synthesis import (
    PEAK,
    VOICES,
    Line,
    Voice,
    check_voice,
    phonemes,
    synthesize,
)
from espnet_diverse.corpora.synthetic.grammar import LANGUAGES, sentences
from espnet_diverse.errors import DataError

VOICE = Voice("m3", 180, 50)
# The noise of f3 and f5 comes from a generator that espeak-ng seeds by the clock, that of Reed from libc's.
LINES = [
    Line("今天下午我妈妈去公园", "zh", Voice(variant, 180, 50), 35.0, number)
    for number, variant in enumerate(("m1", "f3", "f5", "Reed", "m7"))
]


@pytest.fixture(scope="module")
def recordings():
    return list(synthesize(LINES, nj=1))


def test_bits_depend_on_the_line_alone(recordings):
    time.sleep(1.1)  # another second of the clock
    again = list(synthesize(LINES[::-1] * 3, nj=2))
    for first, second in zip(recordings[::-1] * 3, again, strict=True):
        np.testing.assert_array_equal(first, second)


def test_bits_do_not_depend_on_the_generator_of_libc(recordings):
    ctypes.CDLL(None).srand(12345)
    np.testing.assert_array_equal(speech_synthesis._record(LINES[3]), recordings[3])


def test_form_of_a_recording(recordings):
    for line, samples in zip(LINES, recordings, strict=True):
        assert samples.dtype == np.float32
        assert samples.ndim == 1
        assert 1.5 < len(samples) / RATE < 3.5
        assert PEAK - 0.03 < np.abs(samples).max() < PEAK + 0.03
        edges = round(0.095 * RATE)
        noise = np.concatenate([samples[:edges], samples[-edges:]])
        speech = samples[round(0.1 * RATE) : -round(0.1 * RATE)]
        measured = 20 * np.log10(np.sqrt(np.mean(speech**2)) / np.sqrt(np.mean(noise**2)))
        assert measured == pytest.approx(line.snr, abs=0.5)
        # Speech begins and ends at once after the margins.
        softest = 4 * np.sqrt(np.mean(noise**2))
        assert np.abs(speech[: RATE // 20]).max() > softest
        assert np.abs(speech[-RATE // 20 :]).max() > softest


def test_text_speed_pitch_and_seed_change_the_recording():
    def line(**changes):
        values = {"text": "我爸爸在厨房喝茶", "language": "zh", "voice": VOICE, "snr": 35.0, "seed": 0} | changes
        return Line(**values)

    plain, other, fast, high, noisy = synthesize(
        [
            line(),
            line(text="我妈妈在厨房喝茶"),
            line(voice=Voice("m3", 200, 50)),
            line(voice=Voice("m3", 180, 75)),
            line(seed=1),
        ],
        nj=1,
    )
    assert len(fast) < 0.95 * len(plain)
    assert not np.array_equal(plain, noisy)
    np.testing.assert_allclose(plain, noisy, atol=0.05)
    for changed in (other, high):
        length = min(len(plain), len(changed))
        assert np.abs(plain[:length] - changed[:length]).max() > 0.1


@pytest.mark.parametrize("language", LANGUAGES)
def test_voice_reads_the_grammar_in_its_own_phonemes(language):
    check_voice(language, VOICE)
    for sentence in sentences([language], 100, 0, "test"):
        assert "(" not in phonemes(sentence.texts[0], language), sentence.texts


def test_every_language_of_the_grammar_has_a_voice():
    assert VOICES.keys() == set(LANGUAGES)


def test_mandarin_has_tones():
    assert re.findall("[0-9]+", phonemes("妈 麻 马 骂", "zh")) == ["55", "35", "214", "51"]
    assert re.findall("[0-9]+", phonemes("银行在学校的对面", "zh"))[1] == "35"  # háng, not xíng


ALLOWED = "speeds are 80 to 450 words a minute, pitches 0 to 99"


@pytest.mark.parametrize(
    ("language", "voice", "message"),
    [
        ("fi", VOICE, "no voice speaks language 'fi'; there are zh en de es fr it pt ru el ar$"),
        ("zh", Voice("m99", 180, 50), "no voice variant 'm99'; espeak-ng has .*f1 f2"),
        ("zh", Voice("m3", 20, 50), f"no voice of speed 20 and pitch 50; {ALLOWED}$"),
        ("zh", Voice("m3", 180, 100), f"no voice of speed 180 and pitch 100; {ALLOWED}$"),
    ],
)
def test_unknown_voices_are_refused(language, voice, message):
    with pytest.raises(DataError, match=f"^{message}"):
        list(synthesize([Line("你好", language, voice, 35.0, 0)], nj=1))


@pytest.mark.parametrize(
    ("voice", "message"),
    [
        (("ru", "妈 麻 马 骂"), r"espeak-ng's voice ru cannot read '妈 麻 马 骂' \(says .*\); install espeak"),
        (("nowhere", "妈"), "espeak-ng has no voice 'nowhere'; install espeakng-loader"),
    ],
)
def test_voices_that_do_not_read_their_language_are_refused(monkeypatch, voice, message):
    monkeypatch.setitem(VOICES, "zh", voice)
    with pytest.raises(DataError, match=f"^{message}"):
        check_voice("zh", VOICE)


def test_toneless_voice_is_refused(monkeypatch):
    monkeypatch.setattr(speech_synthesis, "phonemes", lambda text, language: "ma ma ma ma")
    message = r"reads '妈 麻 马 骂' without tones \(says 'ma ma ma ma'\); install espeak"
    with pytest.raises(DataError, match=f"^espeak-ng's voice cmn-latn-pinyin {message}"):
        check_voice("zh", VOICE)


def test_text_without_sound_is_refused():
    with pytest.raises(DataError, match=r"^espeak-ng gives no sound for the zh text ' '; take the text out$"):
        list(synthesize([Line(" ", "zh", VOICE, 35.0, 0)], nj=1))


def test_failing_child_gives_no_sound(monkeypatch):
    def fail(espeak, line):
        raise MemoryError

    monkeypatch.setattr(speech_synthesis, "_synth", fail)
    with pytest.raises(DataError, match=r"^espeak-ng gives no sound for the zh text '你好'; take the text out$"):
        speech_synthesis._record(Line("你好", "zh", VOICE, 35.0, 0))


@pytest.fixture
def unloaded():
    """The library is loaded again in this test and after it."""
    speech_synthesis._espeak.cache_clear()
    yield
    speech_synthesis._espeak.cache_clear()


@pytest.mark.usefixtures("unloaded")
def test_a_missing_wheel_names_the_package_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "espeakng_loader", None)
    message = r"^speech synthesis needs espeak-ng; run: pip install 'espeakng-loader>=0.2.4'$"
    with pytest.raises(DataError, match=message):
        check_voice("zh", VOICE)


@pytest.mark.usefixtures("unloaded")
def test_torn_library_is_refused(monkeypatch, tmp_path):
    torn = tmp_path / "libespeak-ng.so"
    torn.write_bytes(b"torn")
    monkeypatch.setattr(espeakng_loader, "get_library_path", lambda: str(torn))
    with pytest.raises(
        DataError, match=r"^espeak-ng cannot be loaded \(.*libespeak-ng.so.*\); install espeakng-loader"
    ):
        check_voice("zh", VOICE)


@pytest.mark.usefixtures("unloaded")
def test_library_without_its_data_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(espeakng_loader, "get_data_path", lambda: str(tmp_path))
    with pytest.raises(DataError, match=r"^espeak-ng's voice de cannot read 'Morgen' \(says ''\); install espeakng-lo"):
        check_voice("de", VOICE)


@pytest.mark.usefixtures("unloaded")
def test_library_of_another_rate_is_refused(monkeypatch):
    monkeypatch.setattr(speech_synthesis, "_ESPEAK_RATE", 16_000)
    with pytest.raises(DataError, match=r"^espeak-ng starts at 22050 Hz and not at 16000; install espeakng-loader"):
        check_voice("zh", VOICE)
