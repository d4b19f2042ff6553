"""Measures everything that `espnet-diverse analyse` reports, in one pass over a data directory with teacher forcing."""

import logging
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from espnet2.train.abs_espnet_model import AbsESPnetModel

from espnet_diverse.analysis.collect import Observation, observe
from espnet_diverse.analysis.measures.attention_distance import SELF_ATTENTION, AttentionDistance
from espnet_diverse.analysis.measures.clusters import ClusterUse
from espnet_diverse.analysis.measures.query_map import QuerySample
from espnet_diverse.analysis.measures.redundancy import Redundancy
from espnet_diverse.analysis.samples import read_source, source_text
from espnet_diverse.audio.resampling import RATE
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.decoding.token_text import TokenText
from espnet_diverse.errors import ConfigError, DataError, ModelError
from espnet_diverse.progress import progress
from espnet_diverse.text.vocabulary import Vocabulary
from espnet_diverse.upstream.layers import TooShortUttError

log = logging.getLogger(__name__)


@dataclass
class Survey:
    """Results over a data directory.

    Attributes:
        utterances: Ids of the utterances that were measured.
        skipped: The reason for each utterance that could not be measured, by id.
        redundancy: Redundancy by kind of attention, a key of `collect.KINDS`.
        distances: Mean attention distance by kind of attention and by the name of a matrix.
        clusters: Use of clusters by kind of attention and by clustered tensor.
        queries: Sample of the queries of the last layer that has some, by kind of attention.
    """

    utterances: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    redundancy: dict[str, Redundancy] = field(default_factory=lambda: defaultdict(Redundancy))
    distances: dict[tuple[str, str], AttentionDistance] = field(default_factory=lambda: defaultdict(AttentionDistance))
    clusters: dict[tuple[str, str], ClusterUse] = field(default_factory=lambda: defaultdict(ClusterUse))
    queries: dict[str, QuerySample] = field(default_factory=dict)

    def leave_out(self, kind: str) -> None:
        """Forget a kind of attention, for example if its weights were kept only for some utterances."""
        self.redundancy.pop(kind)
        self.queries.pop(kind, None)
        for table in (self.distances, self.clusters):
            for key in [key for key in table if key[0] == kind]:
                del table[key]


def choose_utterances(data: DataDir, count: int | None) -> list[str]:
    """Choose utterances, evenly spread over the sorted ids, so that as many speakers as possible are included.

    Args:
        data: The data directory.
        count: Number of utterances; None chooses all.

    Raises:
        ConfigError: `count` is below 1.
    """
    utterances = sorted(data.text)
    if count is None or count >= len(utterances):
        return utterances
    if count < 1:
        raise ConfigError(f"--utterances {count} is not allowed; give at least 1")
    return [utterances[index] for index in np.linspace(0, len(utterances) - 1, count).round().astype(int)]


def observe_utterance(
    model: AbsESPnetModel,
    vocabulary: Vocabulary | TokenText,
    data: DataDir,
    utterance: str,
    conditions: Mapping[str, int] | None = None,
    source_vocabulary: Vocabulary | TokenText | None = None,
    rate: int | None = RATE,
) -> dict[str, Observation]:
    """Observe the attentions of a model on one utterance of a data directory.

    Args:
        model: The model, in evaluation mode.
        vocabulary: Vocabulary of the model.
        data: The data directory.
        utterance: Id of the utterance.
        conditions: Index of the value of each condition that the model needs.
        source_vocabulary: Vocabulary of the source text of a model of text translation; by default audio is read.
        rate: Sampling rate in Hz of the audio that the model reads.

    Returns:
        Observations by kind of attention, a key of `collect.KINDS`.

    Raises:
        DataError: The utterance has no transcript, or no audio or source text, or it is too short for the model.
        ModelError: The model has no attention that keeps its weights.
    """
    source = read_source(data, utterance, rate, source_vocabulary)
    try:
        observations = observe(model, source, vocabulary.encode(data.text[utterance]), conditions)
    except TooShortUttError as error:
        raise DataError(f"utterance {utterance!r}: {error}") from error
    if not observations:
        raise ModelError("neither encoder nor decoder has an attention that keeps one matrix of weights for each head")
    return observations


def survey(
    model: AbsESPnetModel,
    vocabulary: Vocabulary | TokenText,
    data: DataDir,
    conditions: Mapping[str, Mapping[str, int]],
    source_vocabulary: Vocabulary | TokenText | None = None,
    rate: int | None = RATE,
) -> Survey:
    """Measure utterances of a data directory one by one, and list those that cannot be measured as skipped.

    Args:
        model: The model, in evaluation mode.
        vocabulary: Vocabulary of the model.
        data: The data directory.
        conditions: For each utterance to measure, the index of the value of each condition that the model needs.
        source_vocabulary, rate: As in `observe_utterance`.

    Raises:
        DataError: No utterance could be measured.
        ModelError: The model has no attention that keeps its weights.
    """
    result = Survey()
    for utterance in progress(conditions, "analyse", unit="utterance"):
        try:
            observations = observe_utterance(
                model, vocabulary, data, utterance, conditions[utterance], source_vocabulary, rate
            )
        except DataError as error:
            result.skipped[utterance] = str(error)
            log.warning("%s was left out: %s", utterance, error)
            continue
        result.utterances.append(utterance)
        read = {"tokens": ["<sos>", *vocabulary.tokenise(data.text[utterance])]}
        if source_vocabulary is not None:
            read["source tokens"] = ["<sos>", *source_vocabulary.tokenise(source_text(data, utterance))]
        for kind, observation in observations.items():
            result.redundancy[kind].add(observation.weights, observation.outputs)
            if kind in SELF_ATTENTION:
                result.distances[kind, "attention"].add(observation.weights)
                for name, shown in observation.maps.items():
                    result.distances[kind, name].add(shown.values)
            for clustered, posteriors in observation.posteriors.items():
                tokens = read.get(clustered, ())
                result.clusters[kind, clustered].add(posteriors, tokens if len(tokens) == posteriors.size(-2) else ())
            if observation.queries is not None:
                result.queries.setdefault(kind, QuerySample(len(conditions))).add(observation.queries)
    for kind in [kind for kind, stats in result.redundancy.items() if len(stats.heads) < len(result.utterances)]:
        log.warning("%s attention is left out: some utterances have no weights for it", kind)
        result.leave_out(kind)
    if not result.utterances:
        utterance, reason = next(iter(result.skipped.items()))
        raise DataError(f"none of {len(conditions)} utterances could be analysed; first {utterance}: {reason}")
    if not result.redundancy:
        raise ModelError("no attention keeps its weights for all utterances; give utterances of similar length")
    return result
