"""Utterances of a data directory with their reference texts, as a model reads and predicts them."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from espnet_diverse.audio.reading import read_at
from espnet_diverse.conditions import language_tables
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.decoding.grouping import grouped
from espnet_diverse.decoding.predictor import Predictor
from espnet_diverse.decoding.token_text import TokenText
from espnet_diverse.errors import DataError
from espnet_diverse.progress import progress
from espnet_diverse.text.vocabulary import Vocabulary
from espnet_diverse.upstream.layers import TooShortUttError

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sample:
    """One utterance.

    Attributes:
        utterance: Id of the utterance.
        source: Input of the model: samples (L,), features (T, F), or the token indices (T,) of a source text.
        text: Reference text.
        tokens: Token indices of the reference text.
        conditions: Index of the value of each condition that the model needs.
        language: Language of the reference text, "" if it is unknown.
    """

    utterance: str
    source: NDArray
    text: str
    tokens: Sequence[int]
    conditions: Mapping[str, int]
    language: str = ""


def read_speech(data: DataDir, utterance: str, rate: int | None) -> NDArray:
    """Read the audio of an utterance that has a reference text: samples (L,) float32 at `rate` Hz.

    Raises:
        DataError: The utterance has no text or no audio, or the audio cannot be read.
    """
    segment = data.segments.get(utterance)
    recording = segment.recording if segment else utterance
    _check_known(data, utterance, recording, "wav.scp", data.wav_scp)
    return read_at(Path(data.wav_scp[recording]), rate, segment)[0]


def read_source(data: DataDir, utterance: str, rate: int | None, vocabulary: Vocabulary | TokenText | None) -> NDArray:
    """Read the input of a model: samples (L,) at `rate` Hz, or with a source vocabulary the token indices (T,).

    Raises:
        DataError: As for `read_speech` and `source_text`.
    """
    if vocabulary is None:
        return read_speech(data, utterance, rate)
    return np.array(vocabulary.encode(source_text(data, utterance)))


def source_text(data: DataDir, utterance: str) -> str:
    """Return the source text of a sentence that has a reference text.

    Raises:
        DataError: One of the two texts is missing.
    """
    _check_known(data, utterance, utterance, "src_text", data.src_text)
    return data.src_text[utterance]


def input_of(predictor: Predictor, data: DataDir, utterance: str) -> NDArray:
    """Read an input as `Predictor.batch` takes it: features (T, F), or the token indices (T,) of a source text.

    Raises:
        DataError: As for `read_speech` and `source_text`.
        TooShortUttError: The audio is too short for the model.
    """
    if predictor.table == "wav.scp":
        return predictor.features(read_speech(data, utterance, predictor.rate))
    return predictor.read(source_text(data, utterance))[0]


def read_samples(
    read: Callable[[DataDir, str], NDArray],
    vocabulary: Vocabulary | TokenText,
    data: DataDir,
    conditions: Mapping[str, Mapping[str, int]],
) -> tuple[list[Sample], dict[str, str]]:
    """Read utterances; those that cannot be read are left out.

    Args:
        read: Function from the data directory and the id of an utterance to its input.
        vocabulary: Vocabulary of the reference text.
        data: The data directory.
        conditions: For each utterance to read, the index of the value of each condition that the model needs.

    Returns:
        The utterances, and the reason for each one that was left out, by id.

    Raises:
        DataError: No utterance could be read.
    """
    samples, skipped = [], {}
    tables = language_tables(translated=bool(data.src_text))
    languages = {u: name for table in tables for u, name in data.conditions.get(table, {}).items()}
    for utterance in progress(conditions, "read", unit="utterance"):
        try:
            source = read(data, utterance)
        except (DataError, TooShortUttError) as error:
            skipped[utterance] = str(error)
            log.warning("%s was left out: %s", utterance, error)
            continue
        text = data.text[utterance]
        tokens, language = vocabulary.encode(text), languages.get(utterance, "")
        samples.append(Sample(utterance, source, text, tokens, conditions[utterance], language))
    if not samples:
        utterance, reason = next(iter(skipped.items()))
        raise DataError(f"none of {len(conditions)} utterances could be read; first {utterance}: {reason}")
    return samples, skipped


def batches(predictor: Predictor, samples: Sequence[Sample]) -> Iterator[list[Sample]]:
    """Group samples of similar length, as many in a batch as `predictor` allows."""
    return grouped(samples, lambda one: len(one.source), predictor.batch_size, predictor.batch_frames)


def _check_known(data: DataDir, utterance: str, entry: str, table: str, entries: Mapping[str, str]) -> None:
    if utterance not in data.text or entry not in entries:
        lacking = table if utterance in data.text else "text"
        raise DataError(f"utterance {utterance!r} is not in {lacking}; text has {min(data.text)!r}")
