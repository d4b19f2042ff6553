"""Recordings that are not split: features or samples of the whole recording, and greedy CTC.

Beam search over an hour would add thousands of tokens one by one, each at a cost that grows with the length of the
recording, with a decoder that was trained on single sentences. CTC decides frame by frame. How much an encoder can read
at once depends on its attention: for most encoders time and memory grow with the square of the length. Models of task
s2t_ctc read overlapping windows, so they split long recordings only on request.
"""

import logging
from functools import cache

import numpy as np
from numpy.typing import NDArray

from espnet_diverse.audio.sources import Audio
from espnet_diverse.decoding.encoder.long_audio import check_long_audio
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.predictor import Predictor
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.transcription.segmentation_options import SegmentationOptions

log = logging.getLogger(__name__)

_QUADRATIC_SECONDS = 120
"""Greatest length for an encoder whose cost grows with its square."""


def stays_whole(search: Predictor, segmentation: SegmentationOptions, word_timestamps: bool) -> bool:
    """Return whether recordings of more than `max_seconds` stay whole; arguments as in `check_whole`."""
    by_windows = search.encoding.reads_windows and segmentation.vad == "auto" and not word_timestamps
    return segmentation.whole or by_windows


def check_whole(
    search: Predictor, segmentation: SegmentationOptions, word_timestamps: bool, options: SearchOptions
) -> None:
    """Refuse options that need segmentation, and warn that long recordings are decoded by CTC.

    Args:
        search: Search with a model of speech recognition or translation.
        segmentation: Options of splitting recordings.
        word_timestamps: Whether words with times are requested.
        options: Search options.

    Raises:
        ConfigError: The model has no CTC, or words with times are requested.
        ModelError: The model's features of a frame depend on more than the samples near it.
    """
    if not segmentation.whole:
        return
    if search.ctc is None:
        raise ConfigError(
            "whole (--no_segmentation) is not possible: it decodes by CTC, which the model lacks; leave it out"
        )
    if word_timestamps:
        raise ConfigError("word_timestamps is not possible with whole (--no_segmentation); leave out one of them")
    if not search.encoding.reads_windows:
        check_long_audio(search.encoding.model)
    if options.search != "greedy":
        _warn("no segmentation: recordings longer than %g s are decoded by greedy CTC alone", segmentation.max_seconds)


def input_of_whole(
    search: Predictor, audio: Audio, segmentation: SegmentationOptions, options: SearchOptions
) -> NDArray[np.float32]:
    """The input of `Predictor.find_long` for a recording of any length: its features (T, F), or its samples (L,).

    Raises:
        DataError: The recording is too long for an encoder whose cost grows with the square of the length.
    """
    if search.encoding.reads_windows:
        if not segmentation.whole and options.search != "greedy":
            todo = "--vad energy, or vad of SegmentationOptions, splits them for the search"
            message = f"recordings longer than %g s are read in windows and decoded by greedy CTC alone; {todo}"
            _warn(message, segmentation.max_seconds)
        return audio.samples()
    if audio.duration > _QUADRATIC_SECONDS and not search.encoding.is_linear:
        raise DataError(
            f"{audio.name}: {audio.duration:.0f} s are too long without segmentation: at most {_QUADRATIC_SECONDS} s "
            "with an encoder whose cost grows with the square of the length; leave out whole (--no_segmentation), or "
            "use a model with attention of linear cost (a conformer with rel_pos_type latest) or a memory"
        )
    return search.features_of_blocks(audio.blocks())


@cache
def _warn(message: str, seconds: float) -> None:
    """Warn once how recordings of more than `seconds` are decoded; programs may transcribe one after the other."""
    log.warning(message, seconds)
