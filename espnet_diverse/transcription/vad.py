"""Voice activity detection, frame by frame: the network silero-vad, or loudness where it is not installed.

A detector is called with the frames of one recording in order, any number at a time: (n, FRAME) float32 at 16 kHz in,
probabilities of speech (n,) out. The number of frames per call does not change the results.
"""

from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from espnet_diverse.errors import ConfigError
from espnet_diverse.onnx_runtime import import_onnxruntime

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

FRAME = 512  # samples, 32 ms: the frame of silero-vad
_CONTEXT = 64  # samples before each frame that the network also reads
_STATE = 128


class Detector(Protocol):
    """A voice activity detector for one recording."""

    def __call__(self, frames: NDArray[np.float32]) -> NDArray[np.float32]:
        """Probability of speech in each frame: (n, FRAME) -> (n,)."""


def decibels(frames: NDArray[np.float32]) -> NDArray[np.float32]:
    """Loudness of frames in dB of full scale, without their mean, at least -100: (n, FRAME) -> (n,)."""
    centred = frames - frames.mean(axis=1, keepdims=True)
    return 10 * np.log10((centred.astype(np.float64) ** 2).mean(axis=1) + 1e-10)


class SileroDetector:
    """The network of the package silero-vad 6.

    The variant for sequences takes the state as an input, so that all recordings and threads share one copy.

    Raises:
        ConfigError: silero-vad or onnxruntime is not installed.
    """

    def __init__(self) -> None:
        if not silero_is_installed():
            need = "vad silero needs silero-vad and onnxruntime, which are not installed"
            raise ConfigError(f"{need}; install espnet_diverse[vad], or choose vad energy")
        self._network = _network()
        self._state = [np.zeros((1, 1, _STATE), np.float32)] * 2
        self._before = np.zeros(_CONTEXT, np.float32)

    def __call__(self, frames: NDArray[np.float32]) -> NDArray[np.float32]:
        """Probability of speech in each frame: (n, FRAME) -> (n,)."""
        contexts = np.vstack([self._before, frames[:-1, -_CONTEXT:]])
        self._before = frames[-1, -_CONTEXT:].copy()
        inputs = {"input": np.hstack([contexts, frames]), "h": self._state[0], "c": self._state[1]}
        probabilities, *self._state = self._network.run(["speech_probs", "hn", "cn"], inputs)
        return probabilities.reshape(-1)


class EnergyDetector:
    """Detects speech by loudness: frames `ABOVE` dB over the noise floor are speech.

    The noise floor falls at once to the level of a quieter frame and rises slowly, so that it stays at the level of the
    pauses between words. Frames below `QUIETEST` dB of full scale are never speech, and frames above `LOUDEST` always
    are: music and loud noise count as speech, because only a network can tell them apart.
    """

    ABOVE = 10.0
    QUIETEST, LOUDEST = -55.0, -35.0
    RISE = 3.0 * FRAME / 16_000  # dB a frame: 3 dB a second

    def __init__(self) -> None:
        self._floor = 0.0

    def __call__(self, frames: NDArray[np.float32]) -> NDArray[np.float32]:
        """1 for frames of speech, 0 for others: (n, FRAME) -> (n,)."""
        levels = decibels(frames)
        floor = np.empty_like(levels)
        for index, level in enumerate(levels):
            self._floor = min(level, self._floor + self.RISE)
            floor[index] = self._floor
        return (levels > np.clip(floor + self.ABOVE, self.QUIETEST, self.LOUDEST)).astype(np.float32)


class NoDetector:
    """Treats every frame as speech, so that a recording is split by its length alone."""

    def __call__(self, frames: NDArray[np.float32]) -> NDArray[np.float32]:
        """1 for each frame: (n, FRAME) -> (n,)."""
        return np.ones(len(frames), np.float32)


def silero_is_installed() -> bool:
    """Return whether the packages of the extra `vad` are installed."""
    return all(find_spec(name) is not None for name in ("silero_vad", "onnxruntime"))


@lru_cache(maxsize=1)
def _network() -> "InferenceSession":
    onnxruntime = import_onnxruntime()
    package = find_spec("silero_vad")  # importing it would set torch to one thread
    assert package is not None and package.submodule_search_locations is not None
    folder = Path(package.submodule_search_locations[0])
    options = onnxruntime.SessionOptions()
    options.inter_op_num_threads = options.intra_op_num_threads = 1
    file = folder / "data" / "silero_vad_16k_sequence.onnx"
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
