"""Recordings that are not split: features of the whole, and greedy CTC.

Beam search of an hour would add thousands of tokens one by one, each at a cost that grows with the length of the
recording, by a decoder that was trained on single sentences. CTC decides frame by frame. What an encoder may read at
once depends on its attention: time and memory of most grow with the square of the length.
"""

import logging

from numpy.typing import NDArray

from espnet_diverse.audio.sources import Audio
from espnet_diverse.decoding.long_audio import check_long_audio
from espnet_diverse.decoding.options import Options
from espnet_diverse.decoding.predictor import Predictor
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.transcription.segmentation_options import SegmentationOptions

_QUADRATIC_SECONDS = 120
"""Greatest length for an encoder whose cost grows with its square."""


def check_whole(search: Predictor, segmentation: SegmentationOptions, word_timestamps: bool, options: Options) -> None:
    """Refuse what is not possible without segmentation, and warn that long recordings are decoded by CTC.

    Args:
        search: Search with a model of speech recognition or translation.
        segmentation: Options of splitting recordings.
        word_timestamps: Whether words with times are asked for.
        options: Search options.

    Raises:
        ConfigError: The model has no CTC, or words with times are asked for.
        ModelError: The model's features of a frame depend on more than the samples near it.
    """
    if not segmentation.whole:
        return
    if search.ctc is None:
        raise ConfigError("no_segmentation is not possible: it decodes by CTC, which the model lacks")
    if word_timestamps:
        raise ConfigError("word_timestamps is not possible with no_segmentation; leave out one of them")
    check_long_audio(search.encoding.model)
    if options.search != "greedy":
        seconds = segmentation.max_seconds
        logging.warning("no segmentation: recordings longer than %g s are decoded by greedy CTC alone", seconds)


def features_of_whole(search: Predictor, audio: Audio) -> NDArray:
    """Compute features (T, F) of a recording of any length.

    Raises:
        DataError: The recording is too long for an encoder whose cost grows with the square of the length.
    """
    if audio.duration > _QUADRATIC_SECONDS and not search.encoding.is_linear:
        raise DataError(
            f"{audio.name}: {audio.duration:.0f} s are too long without segmentation: at most {_QUADRATIC_SECONDS} s "
            "with an encoder whose cost grows with the square of the length; leave out no_segmentation, or use a model "
            "with attention of linear cost (a conformer with rel_pos_type latest) or a memory"
        )
    return search.features_of_blocks(audio.blocks())
