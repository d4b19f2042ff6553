"""Rescoring: hypotheses that `decode --nbest N` wrote are ranked again with the scores of another model.

    score = (score of the search) + weight * log p(text)

log p(text) includes the end of the sentence. It comes from a language model, or from the attention decoder of another
model of the same task. Either may have a different vocabulary than the model of the search.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Protocol

from espnet_diverse.conditions import CONDITIONS
from espnet_diverse.data.characters import id_fault
from espnet_diverse.data.files.locks import folder_lock
from espnet_diverse.data.lines import read_utf8
from espnet_diverse.data.tables import write_table
from espnet_diverse.decoding.condition_ids import (
    KnownConditions,
    completed,
    condition_indices,
    indices_of,
    warn_of_unused,
)
from espnet_diverse.decoding.directory.decode_dir import list_jobs
from espnet_diverse.decoding.directory.perplexity import Scorer
from espnet_diverse.decoding.directory.results import NBEST, write_nbest
from espnet_diverse.decoding.prediction import rounded_score
from espnet_diverse.decoding.predictor import Predictor
from espnet_diverse.decoding.search.beam_search import BeamSearch
from espnet_diverse.decoding.teacher_forcing import token_log_probs
from espnet_diverse.errors import ConfigError, DataError, ModelError
from espnet_diverse.progress import progress
from espnet_diverse.upstream.layers import TooShortUttError

_UNWRITABLE = re.compile("[\n\ud800-\udfff]")


class TextScorer(Protocol):
    """A function that gives the log probabilities of the hypotheses of an utterance."""

    def score(self, utterance: str, texts: Sequence[str]) -> list[float]:
        """Return the log probability of each text of an utterance."""


class LanguageModel:
    """Log probabilities by a language model, of any class.

    Args:
        scorer: The language model.
        utterances: Ids of the utterances.
        data_dir: Data directory with the tables of the conditions that the language model depends on, if there are any.
        conditions: Values by condition that hold for all utterances, instead of the tables.

    Raises:
        ConfigError: There is no data directory, and a condition has no value.
        DataError: An utterance has a missing or unknown condition.
    """

    def __init__(
        self, scorer: Scorer, utterances: Collection[str], data_dir: Path | None, conditions: Mapping[str, str]
    ):
        self.scorer = scorer
        if data_dir is not None:
            self.indices = condition_indices(scorer.conditions, data_dir, utterances, conditions)
        else:
            self.indices = dict.fromkeys(utterances, _without_tables(scorer.conditions, conditions))

    def score(self, utterance: str, texts: Sequence[str]) -> list[float]:
        """See `TextScorer.score`."""
        encoded = [self.scorer.vocabulary.encode(text) for text in texts]
        return self.scorer(encoded, [self.indices[utterance]] * len(texts))


class OtherModel:
    """Log probabilities by the attention decoder of a model of speech recognition or translation.

    Args:
        predictor: The model.
        data_dir: Data directory of the utterances, as `decode` reads it.
        conditions: Values by condition that hold for all utterances, instead of the tables.

    Raises:
        DataError: A table is missing or faulty, or an utterance has a missing or unknown condition.
        ModelError: The model has no transformer decoder.
    """

    def __init__(self, predictor: Predictor, data_dir: Path, conditions: Mapping[str, str]):
        self.predictor, self.data_dir = predictor, data_dir
        if not isinstance(predictor.search, BeamSearch) or predictor.search.decoder is None:
            decoder = predictor.encoding.model.decoder
            has = "none" if decoder is None else type(decoder).__name__
            raise ModelError(
                f"rescoring needs a model with a transformer decoder, and this one has {has}; give another"
            )
        self.jobs = {job.utterance: job for job in list_jobs(predictor, data_dir, conditions)}

    def score(self, utterance: str, texts: Sequence[str]) -> list[float]:
        """See `TextScorer.score`.

        Raises:
            DataError: The utterance is not in the data directory, or cannot be read.
        """
        if utterance not in self.jobs:
            raise DataError(f"{self.data_dir}: has no utterance {utterance}; give the data directory of the texts")
        job = self.jobs[utterance]
        if job.fault:
            raise DataError(f"{self.data_dir}: {utterance}: {job.fault}")
        try:
            source, _ = self.predictor.read(job.source, job.segment)
        except TooShortUttError as error:  # the model of the search may need fewer frames
            raise DataError(f"{self.data_dir}: {utterance}: {error}; leave its line out of nbest.jsonl") from error
        one = self.predictor.encode([source], [job.conditions])
        expanded = one._replace(output=one.output.expand(len(texts), -1, -1), lengths=one.lengths.expand(len(texts)))
        tokens = [self.predictor.tokens.encode(text) for text in texts]
        log_probs, targets = token_log_probs(self.predictor.encoding.model, expanded, tokens)
        chosen = log_probs.gather(1, targets.unsqueeze(1)).squeeze(1).double()
        return [part.sum().item() for part in chosen.split([len(text) + 1 for text in tokens])]


def _without_tables(known: KnownConditions, values: Mapping[str, str]) -> dict[str, int]:
    """Condition indices of all utterances where there is no data directory."""
    warn_of_unused(known, values, same_language=True)
    names = completed(known, values, same_language=True)
    for condition in known.names.keys() - names.keys():
        label, option = CONDITIONS[condition].label, CONDITIONS[condition].option
        raise ConfigError(f"the language model needs the {label} of each utterance; give --data_dir, or {option}")
    return indices_of(known, names)


def read_nbest(path: Path) -> dict[str, list[tuple[str, float]]]:
    """Read the hypotheses that `decode --nbest N` wrote: texts with their scores, best first, by utterance.

    Raises:
        DataError: The file is missing or malformed, or has an utterance twice, a score that cannot be ranked, or a text
            that cannot be a line of a table.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file; decode with --nbest 2 or more first")
    lines = read_utf8(path, advice="decode again").split("\n")  # JSON may hold U+2028, where splitlines() splits too
    nbest: dict[str, list[tuple[str, float]]] = {}
    for number, line in enumerate(lines[:-1] if lines[-1] == "" else lines, start=1):
        try:
            entry = json.loads(line)
            utterance = str(entry["utterance"])
            hypotheses = [(str(hypothesis["text"]), float(hypothesis["score"])) for hypothesis in entry["hypotheses"]]
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            raise DataError(f"{path}:{number}: is not a line of n-best hypotheses; decode again") from error
        reason = f"utterance {utterance!r} is there twice" if utterance in nbest else id_fault(utterance)
        reason = reason or next(filter(None, (_hypothesis_fault(*hypothesis) for hypothesis in hypotheses)), None)
        if reason:
            raise DataError(f"{path}:{number}: {reason}; decode again")
        nbest[utterance] = hypotheses
    if not nbest:
        raise DataError(f"{path}: is empty; decode again")
    return nbest


def _hypothesis_fault(text: str, score: float) -> str | None:
    """The reason why a hypothesis cannot be ranked and written to a table, or None."""
    if not score < inf:  # nor is NaN
        return f"score {score} is no log probability"
    return f"text {text!r} is not a line of text" if _UNWRITABLE.search(text) else None


def rescore(
    scorer: TextScorer, nbest: Mapping[str, Sequence[tuple[str, float]]], weight: float, output_dir: Path
) -> int:
    """Rank hypotheses again, and write text, score and nbest.jsonl.

    Args:
        scorer: The other model.
        nbest: Output of `read_nbest`.
        weight: Weight of the other model's log probabilities.
        output_dir: Directory to write to.

    Returns:
        The number of utterances with another best text than before.

    Raises:
        DataError: An utterance cannot be read, or another process writes to the directory.
    """
    ranked = {}
    for utterance, hypotheses in progress(nbest.items(), "rescore", len(nbest), "utterance"):
        texts = [text for text, _ in hypotheses]
        added = scorer.score(utterance, texts) if texts else []
        scored = [(text, score + weight * log_prob) for (text, score), log_prob in zip(hypotheses, added, strict=True)]
        ranked[utterance] = sorted(scored, key=lambda one: -one[1])
    best = {utterance: scored[0] if scored else ("", float("-inf")) for utterance, scored in ranked.items()}
    scores = {utterance: f"{rounded_score(score):g}" for utterance, (_, score) in best.items()}
    with folder_lock(output_dir):
        write_table(output_dir / "score", scores)  # before the text, which alone would look like a data directory's
        write_table(output_dir / "text", {utterance: text for utterance, (text, _) in best.items()})
        write_nbest(output_dir / NBEST, ranked)
    return sum(bool(hypotheses) and best[name][0] != hypotheses[0][0] for name, hypotheses in nbest.items())
