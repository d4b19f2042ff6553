"""Where somebody speaks, frame by frame: the network silero-vad, or loudness where it is not installed.

A detector is called with the frames of one recording in their order, some at a time: (n, FRAME) float32 at 16 kHz in,
how likely each is speech, (n,), out. What it says does not depend on how many it is given at a time.
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

FRAME = 512  # samples, 32 ms: what silero-vad takes
_CONTEXT = 64  # samples before each frame that it sees as well
_STATE = 128


class Detector(Protocol):
    """What finds speech."""

    def __call__(self, frames: NDArray) -> NDArray:
        """How likely each frame is speech: (n, FRAME) -> (n,)."""


def decibels(frames: NDArray) -> NDArray:
    """Loudness of frames in dB of full scale, without their constant part, at least -100: (n, FRAME) -> (n,)."""
    centred = frames - frames.mean(axis=1, keepdims=True)
    return 10 * np.log10((centred.astype(np.float64) ** 2).mean(axis=1) + 1e-10)


class Silero:
    """silero-vad 6, whose network lies in its wheel. Its form for sequences has no state of its own, so that all
    recordings and threads share one copy.

    Raises:
        ConfigError: It is not installed.
    """

    def __init__(self) -> None:
        if not silero_is_installed():
            need = "vad silero needs silero-vad and onnxruntime, which are not installed"
            raise ConfigError(f"{need}; install espnet_diverse[vad], or choose vad energy")
        self._network = _network()
        self._state = [np.zeros((1, 1, _STATE), np.float32)] * 2
        self._before = np.zeros(_CONTEXT, np.float32)

    def __call__(self, frames: NDArray) -> NDArray:
        """How likely each frame is speech: (n, FRAME) -> (n,)."""
        contexts = np.vstack([self._before, frames[:-1, -_CONTEXT:]])
        self._before = frames[-1, -_CONTEXT:].copy()
        inputs = {"input": np.hstack([contexts, frames]), "h": self._state[0], "c": self._state[1]}
        probabilities, *self._state = self._network.run(["speech_probs", "hn", "cn"], inputs)
        return probabilities.reshape(-1)


class Loudness:
    """Speech is what stands `ABOVE` dB over the noise.

    The level of the noise falls with that of the frame at once and rises slowly, so that it stays at that of pauses
    between words. Speech is never looked for under `QUIETEST` dB of full scale, and what is louder than `LOUDEST`
    always counts: music and loud noise are taken for speech, which only a network can tell apart.
    """

    ABOVE = 10.0
    QUIETEST, LOUDEST = -55.0, -35.0
    RISE = 3.0 * FRAME / 16_000  # dB a frame: 3 dB a second

    def __init__(self) -> None:
        self._noise = 0.0

    def __call__(self, frames: NDArray) -> NDArray:
        """1 for frames of speech, 0 for others: (n, FRAME) -> (n,)."""
        levels = decibels(frames)
        noise = np.empty_like(levels)
        for index, level in enumerate(levels):
            self._noise = min(level, self._noise + self.RISE)
            noise[index] = self._noise
        return (levels > np.clip(noise + self.ABOVE, self.QUIETEST, self.LOUDEST)).astype(np.float32)


class Always:
    """Takes everything for speech, so that a recording is cut by its length alone."""

    def __call__(self, frames: NDArray) -> NDArray:
        """1 for each frame: (n, FRAME) -> (n,)."""
        return np.ones(len(frames), np.float32)


def silero_is_installed() -> bool:
    """Whether the packages of the extra `vad` are there."""
    return all(find_spec(name) is not None for name in ("silero_vad", "onnxruntime"))


@lru_cache(maxsize=1)
def _network() -> "InferenceSession":
    onnxruntime = import_onnxruntime()
    # Importing silero_vad would set torch to one thread.
    folder = Path(find_spec("silero_vad").submodule_search_locations[0])
    options = onnxruntime.SessionOptions()
    options.inter_op_num_threads = options.intra_op_num_threads = 1
    file = folder / "data" / "silero_vad_16k_sequence.onnx"
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
