"""Speech synthesis by espeak-ng, whose library and voices are in the wheel `espeakng-loader`.

espeak-ng keeps state between calls that cannot be reset (the phase of the flutter) and seeds its random numbers with
the time, so that the same text gives a different signal each time. Here a worker loads the library once and forks for
each text: the child starts from the freshly loaded state and a fixed seed, speaks, sends its samples through a pipe and
exits. A recording thus depends on its `Line` alone, not on the order or the number of workers.

Formant synthesis is far cleaner and more uniform than human speech: error rates on it are not benchmark results.
"""

import ctypes
import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from espnet_diverse.audio.resampling import RATE, resample
from espnet_diverse.errors import DataError
from espnet_diverse.progress import progress

# The voice of each language, and a text to test that it reads the language. For Mandarin, the text is a syllable in
# four tones, because the voice `cmn` of some builds reads hanzi without tones.
VOICES = {
    "zh": ("cmn-latn-pinyin", "妈 麻 马 骂"),
    "en": ("en-us", "morning"),
    "de": ("de", "Morgen"),
    "es": ("es", "mañana"),
    "fr": ("fr", "demain"),
    "it": ("it", "domani"),
    "pt": ("pt-br", "amanhã"),
    "ru": ("ru", "завтра"),
    "el": ("el", "αύριο"),
    "ar": ("ar", "غدا"),
}
TONES = ("55", "35", "214", "51")
SPEEDS = range(80, 451)
PITCHES = range(100)
PEAK = 0.5
MARGIN_SECONDS = 0.1

_ESPEAK_RATE = 22_050
_REINSTALL = "install espeakng-loader 0.2.4"
# Values of espeak-ng's speak_lib.h.
_SYNCHRONOUS, _DO_NOT_EXIT, _UTF8, _SPEED, _PITCH = 2, 0x8000, 1, 1, 3
# Samples below this share of the maximum amplitude count as silence.
_SILENCE = 0.01


@dataclass(frozen=True)
class Voice:
    """A speaker; voices do not depend on the language.

    Attributes:
        variant: An espeak-ng voice variant, for example "m3" or "f2".
        speed: Words per minute, in `SPEEDS`.
        pitch: Base pitch, in `PITCHES`; 50 is the default of the variant.
    """

    variant: str
    speed: int
    pitch: int


@dataclass(frozen=True)
class Line:
    """A text, its language and voice, and the added white noise: signal-to-noise ratio in dB and random seed."""

    text: str
    language: str
    voice: Voice
    snr: float
    seed: int


def synthesize(lines: Sequence[Line], nj: int) -> Iterator[np.ndarray]:
    """Synthesise `lines` in `nj` worker processes, with a progress bar.

    Args:
        lines: The texts, with voice and noise.
        nj: Number of processes.

    Yields:
        For each line in order, samples (T,) float32 at 16 kHz. Before the noise is added, the speech peaks at `PEAK`
        and has `MARGIN_SECONDS` of silence at both ends.

    Raises:
        DataError: espeak-ng is not installed, a voice is unknown or cannot read its language, or a text gives no sound.
    """
    for language, voice in dict.fromkeys((line.language, line.voice) for line in lines):
        check_voice(language, voice)
    # Spawned, not forked: this process may have threads and a synthesiser that was used before.
    workers = ProcessPoolExecutor(nj, multiprocessing.get_context("spawn"))
    try:
        yield from progress(workers.map(_record, lines, chunksize=8), "speech synthesis", len(lines), "utterance")
    finally:
        workers.shutdown(cancel_futures=True)


def check_voice(language: str, voice: Voice) -> None:
    """Check that espeak-ng has the voice and reads the language with it.

    Raises:
        DataError: The language or a value of the voice is unknown, or espeak-ng misreads the language.
    """
    if language not in VOICES:
        raise DataError(f"no voice speaks language {language!r}; there are {' '.join(VOICES)}")
    if voice.speed not in SPEEDS or voice.pitch not in PITCHES:
        allowed = f"speeds are {SPEEDS[0]} to {SPEEDS[-1]} words a minute, pitches {PITCHES[0]} to {PITCHES[-1]}"
        raise DataError(f"no voice of speed {voice.speed} and pitch {voice.pitch}; {allowed}")
    name, text = VOICES[language]
    spoken = phonemes(text, language)
    # espeak-ng reads unsupported text with another voice, marked as in "(en)"; without voice data the result is empty.
    if "(" in spoken or not spoken:
        raise DataError(f"espeak-ng's voice {name} cannot read {text!r} (says {spoken!r}); {_REINSTALL}")
    if language == "zh" and not all(tone in spoken for tone in TONES):
        raise DataError(f"espeak-ng's voice {name} reads {text!r} without tones (says {spoken!r}); {_REINSTALL}")
    # espeak-ng silently ignores an unknown variant.
    variants = sorted(path.name for path in Path(_loader().get_data_path(), "voices", "!v").iterdir())
    if voice.variant not in variants:
        raise DataError(f"no voice variant {voice.variant!r}; espeak-ng has {' '.join(variants)}")


def phonemes(text: str, language: str) -> str:
    """The phonemes of `text` in espeak-ng's notation."""
    espeak = _espeak()
    _set_voice(espeak, VOICES[language][0])
    espeak.espeak_TextToPhonemes.restype = ctypes.c_char_p
    remaining = ctypes.c_char_p(text.encode())
    clauses = []
    while remaining.value:
        clauses.append(espeak.espeak_TextToPhonemes(ctypes.byref(remaining), _UTF8, 0).decode())
    return " ".join(clauses)


def _record(line: Line) -> np.ndarray:
    speech = np.frombuffer(_speak(line), np.int16).astype(np.float32)
    loud = np.flatnonzero(np.abs(speech) > _SILENCE * np.abs(speech).max(initial=0.0))
    if not len(loud):
        raise DataError(f"espeak-ng gives no sound for the {line.language} text {line.text!r}; take the text out")
    speech = resample(speech[loud[0] : loud[-1] + 1], _ESPEAK_RATE)
    speech *= PEAK / np.abs(speech).max()
    deviation = np.sqrt(np.mean(speech**2)) * 10 ** (-line.snr / 20)
    speech = np.pad(speech, round(MARGIN_SECONDS * RATE))
    noise = np.random.default_rng(line.seed).standard_normal(len(speech), np.float32)
    return speech + np.float32(deviation) * noise


def _speak(line: Line) -> bytes:
    """Synthesise in a forked child; returns 16-bit samples at `_ESPEAK_RATE`, or none if espeak-ng fails."""
    espeak = _espeak()
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            samples = _synth(espeak, line)
            with os.fdopen(sink, "wb") as pipe:
                pipe.write(samples)
            status = 0
        finally:
            os._exit(status)
    os.close(sink)
    with os.fdopen(source, "rb") as pipe:
        samples = pipe.read()
    return samples if os.waitpid(child, 0)[1] == 0 else b""


def _synth(espeak: ctypes.CDLL, line: Line) -> bytes:
    # Breath and aspiration noise comes from espeak-ng's generator in some voices and from libc's in others.
    espeak.espeak_ng_SetRandSeed(1)
    ctypes.CDLL(None).srand(1)
    _set_voice(espeak, f"{VOICES[line.language][0]}+{line.voice.variant}")
    espeak.espeak_SetParameter(_SPEED, line.voice.speed, 0)
    espeak.espeak_SetParameter(_PITCH, line.voice.pitch, 0)
    parts = []

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
    def receive(samples: int | None, count: int, events: int | None) -> int:
        if samples:
            parts.append(ctypes.string_at(samples, 2 * count))
        return 0

    espeak.espeak_SetSynthCallback(receive)
    text = line.text.encode()
    failed = espeak.espeak_Synth(text, ctypes.c_size_t(len(text) + 1), 0, 0, 0, _UTF8, None, None)
    return b"" if failed else b"".join(parts)


def _set_voice(espeak: ctypes.CDLL, name: str) -> None:
    if espeak.espeak_SetVoiceByName(name.encode()) != 0:
        raise DataError(f"espeak-ng has no voice {name!r}; {_REINSTALL}")


@cache
def _espeak() -> ctypes.CDLL:
    """The library, loaded once per process."""
    loader = _loader()
    try:
        espeak = ctypes.CDLL(loader.get_library_path())
    except OSError as error:
        raise DataError(f"espeak-ng cannot be loaded ({error}); {_REINSTALL} again") from error
    rate = espeak.espeak_Initialize(_SYNCHRONOUS, 0, loader.get_data_path().encode(), _DO_NOT_EXIT)
    if rate != _ESPEAK_RATE:
        raise DataError(f"espeak-ng starts at {rate} Hz and not at {_ESPEAK_RATE}; {_REINSTALL}")
    return espeak


def _loader():
    try:
        import espeakng_loader
    except ImportError as error:
        raise DataError("speech synthesis needs espeak-ng; run: pip install 'espeakng-loader>=0.2.4'") from error
    return espeakng_loader
