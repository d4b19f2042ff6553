"""One teacher-forced pass over a data directory: everything that `espnet-diverse analyse` reports is measured in it."""

import logging
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from espnet.nets.pytorch_backend.transformer.subsampling import TooShortUttError
from espnet2.train.abs_espnet_model import AbsESPnetModel

from espnet_diverse.analysis.clusters import ClusterUse
from espnet_diverse.analysis.collect import Observation, observe
from espnet_diverse.analysis.query_map import QuerySample
from espnet_diverse.analysis.redundancy import Redundancy
from espnet_diverse.audio.reading import read_audio
from espnet_diverse.audio.resampling import resample
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.errors import ConfigError, DataError, ModelError
from espnet_diverse.progress import progress
from espnet_diverse.vocabulary import Vocabulary


@dataclass
class Survey:
    """What was measured.

    Attributes:
        utterances: Ids of the utterances that were measured.
        skipped: Why others were not.
        redundancy: Under the keys of `collect.KINDS`.
        clusters: Under (kind, what is clustered).
        queries: Of the last layer, under the keys of `collect.KINDS`.
    """

    utterances: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    redundancy: dict[str, Redundancy] = field(default_factory=lambda: defaultdict(Redundancy))
    clusters: dict[tuple[str, str], ClusterUse] = field(default_factory=lambda: defaultdict(ClusterUse))
    queries: dict[str, QuerySample] = field(default_factory=dict)


def choose(data: DataDir, count: int | None) -> list[str]:
    """Ids of `count` utterances, evenly spread over the sorted ids so that all speakers have a part; all by default.

    Raises:
        ConfigError: `count` is below 1.
    """
    utterances = sorted(data.text)
    if count is None or count >= len(utterances):
        return utterances
    if count < 1:
        raise ConfigError(f"--utterances {count} is no number of utterances; give at least 1")
    return [utterances[index] for index in np.linspace(0, len(utterances) - 1, count).round().astype(int)]


def look(
    model: AbsESPnetModel,
    vocabulary: Vocabulary,
    data: DataDir,
    utterance: str,
    conditions: Mapping[str, int] | None = None,
) -> dict[str, Observation]:
    """What the model's attentions do on one utterance of a data directory, under the keys of `collect.KINDS`.

    `conditions` has the utterance's index by condition, where the model needs one.

    Raises:
        DataError: The utterance has no transcript or no audio, or it is too short for the model.
        ModelError: There is no attention to look at.
    """
    segment = data.segments.get(utterance)
    recording = segment.recording if segment else utterance
    if utterance not in data.text or recording not in data.wav_scp:
        raise DataError(f"utterance {utterance!r} is not in text and wav.scp; text has {min(data.text)!r}")
    speech = resample(*read_audio(Path(data.wav_scp[recording]), segment))
    try:
        seen = observe(model, speech, vocabulary.encode(data.text[utterance]), conditions)
    except TooShortUttError as error:
        raise DataError(f"utterance {utterance!r}: {error}") from error
    if not seen:
        raise ModelError("neither encoder nor decoder has an attention that keeps one matrix of weights a head")
    return seen


def survey(
    model: AbsESPnetModel, vocabulary: Vocabulary, data: DataDir, conditions: Mapping[str, Mapping[str, int]]
) -> Survey:
    """Measure utterances of a data directory one by one; one that cannot be measured costs no other.

    `conditions` has the utterances to measure, each with its indices by condition (none where the model needs none).

    Raises:
        DataError: None of them could be measured.
        ModelError: There is no attention to look at.
    """
    result = Survey()
    for utterance in progress(conditions, "analyse", unit="utterance"):
        try:
            seen = look(model, vocabulary, data, utterance, conditions[utterance])
        except DataError as error:
            result.skipped[utterance] = str(error)
            logging.warning("%s was left out: %s", utterance, error)
            continue
        result.utterances.append(utterance)
        for kind, observation in seen.items():
            result.redundancy[kind].add(observation.weights)
            for clustered, posteriors in observation.posteriors.items():
                result.clusters[kind, clustered].add(posteriors)
            result.queries.setdefault(kind, QuerySample(len(conditions))).add(observation.queries)
    if not result.utterances:
        utterance, reason = next(iter(result.skipped.items()))
        raise DataError(f"none of {len(conditions)} utterances could be analysed; first {utterance}: {reason}")
    return result
