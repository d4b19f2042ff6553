"""Rescoring: hypotheses that `decode --nbest N` wrote are ranked again with the scores of another model.

    score = (score of the search) + weight * log p(text)

log p(text) includes the end of the sentence. It is that of a language model, or that of another model of the same task
by its attention decoder. Either may have another vocabulary than the model of the search.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import torch
from torch.nn.utils.rnn import pad_sequence

from espnet_diverse.data.tables import read_table, write_table
from espnet_diverse.decoding.condition_ids import KnownConditions, condition_indices
from espnet_diverse.decoding.perplexity import Scorer
from espnet_diverse.decoding.predictor import Predictor
from espnet_diverse.decoding.results import NBEST, rounded_score, write_nbest
from espnet_diverse.decoding.search import BeamSearch
from espnet_diverse.errors import DataError, ModelError
from espnet_diverse.progress import progress
from espnet_diverse.scope import scope
from espnet_diverse.vocabulary import Vocabulary


class TextScorer(Protocol):
    """What gives the log probabilities of the hypotheses of an utterance.

    Attributes:
        conditions: The conditions that the model depends on.
    """

    conditions: KnownConditions

    def score(self, utterance: str, texts: Sequence[str], conditions: Mapping[str, int]) -> list[float]:
        """Return the log probability of each text of an utterance, given its condition indices."""


class LanguageModel:
    """Log probabilities by a language model, of any class.

    Args:
        scorer: The language model.
    """

    def __init__(self, scorer: Scorer):
        self.scorer, self.conditions = scorer, scorer.conditions

    def score(self, utterance: str, texts: Sequence[str], conditions: Mapping[str, int]) -> list[float]:
        """See `TextScorer.score`."""
        encoded = [self.scorer.vocabulary.encode(text) for text in texts]
        return self.scorer(encoded, [conditions] * len(texts))


class OtherModel:
    """Log probabilities by the attention decoder of a model of speech recognition or translation.

    Args:
        predictor: The model.
        vocabulary: Its vocabulary.
        data_dir: Data directory of the utterances.

    Raises:
        DataError: The table of the inputs is missing or faulty.
        ModelError: The model has no attention decoder.
    """

    def __init__(self, predictor: Predictor, vocabulary: Vocabulary, data_dir: Path):
        self.predictor, self.vocabulary, self.conditions = predictor, vocabulary, predictor.conditions
        self.model = predictor.encoding.model
        if not isinstance(predictor.search, BeamSearch) or predictor.search.decoder is None:
            raise ModelError("a model without an autoregressive decoder gives texts no probability; give another")
        self.inputs = read_table(data_dir / predictor.table)

    @torch.inference_mode()
    def score(self, utterance: str, texts: Sequence[str], conditions: Mapping[str, int]) -> list[float]:
        """See `TextScorer.score`.

        Raises:
            DataError: The utterance is not in the data directory, or cannot be read.
        """
        if utterance not in self.inputs:
            table = self.predictor.table
            raise DataError(f"{utterance} is not in {table} of the data directory; give that of the texts")
        source, _ = self.predictor.read(self.inputs[utterance])
        device, eos = self.predictor.device, self.model.eos
        ids = {name: torch.tensor([index], device=device) for name, index in conditions.items()}
        tokens = [torch.tensor(self.vocabulary.encode(text), dtype=torch.long, device=device) for text in texts]
        first, last = torch.tensor([self.model.sos], device=device), torch.tensor([eos], device=device)
        lengths = torch.tensor([len(each) + 1 for each in tokens], device=device)
        read = pad_sequence([torch.cat([first, each]) for each in tokens], batch_first=True, padding_value=eos)
        written = pad_sequence([torch.cat([each, last]) for each in tokens], batch_first=True, padding_value=-1)
        frames, frame_lengths = self.predictor.encoding.encode([source], ids)
        with scope(ids, collect=False):
            frames = frames.expand(len(texts), -1, -1)
            scores, _ = self.model.decoder(frames, frame_lengths.expand(len(texts)), read, lengths)
        chosen = scores.log_softmax(-1).gather(-1, written.clamp(min=0).unsqueeze(-1)).squeeze(-1)
        return chosen.masked_fill(written < 0, 0.0).double().sum(1).tolist()


def read_nbest(path: Path) -> dict[str, list[tuple[str, float]]]:
    """Read the hypotheses that `decode --nbest N` wrote: texts with their scores, best first, by utterance.

    Raises:
        DataError: The file is missing or malformed.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file; decode with --nbest 2 or more first")
    found = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            entry = json.loads(line)
            found[str(entry["utterance"])] = [(str(each["text"]), float(each["score"])) for each in entry["hypotheses"]]
        except (ValueError, TypeError, KeyError) as error:
            raise DataError(f"{path}:{number}: is not a line of n-best hypotheses; decode again") from error
    if not found:
        raise DataError(f"{path}: is empty; decode again")
    return found


def rescore(
    scorer: TextScorer,
    nbest: Mapping[str, Sequence[tuple[str, float]]],
    weight: float,
    data_dir: Path | None,
    output_dir: Path,
    conditions: Mapping[str, str] | None = None,
) -> int:
    """Rank hypotheses again, and write text, score and nbest.jsonl.

    Args:
        scorer: The other model.
        nbest: What `read_nbest` returned.
        weight: Weight of its log probabilities.
        data_dir: Data directory with the tables of the conditions that the scorer depends on, if there are any.
        output_dir: Directory to write to.
        conditions: Values by condition that hold for all utterances, in place of the tables.

    Returns:
        The number of utterances with another best text than before.

    Raises:
        DataError: An utterance has a missing or unknown condition, or cannot be read.
    """
    indices = condition_indices(scorer.conditions, data_dir or output_dir, nbest, conditions or {})
    ranked = {}
    for utterance, hypotheses in progress(nbest.items(), "rescore", len(nbest), "utterance"):
        texts = [text for text, _ in hypotheses]
        added = scorer.score(utterance, texts, indices[utterance]) if texts else []
        scored = [(text, score + weight * more) for (text, score), more in zip(hypotheses, added, strict=True)]
        ranked[utterance] = sorted(scored, key=lambda one: -one[1])
    output_dir.mkdir(parents=True, exist_ok=True)
    best = {utterance: scored[0] if scored else ("", float("-inf")) for utterance, scored in ranked.items()}
    write_table(output_dir / "text", {utterance: text for utterance, (text, _) in best.items()})
    write_table(
        output_dir / "score", {utterance: f"{rounded_score(score):g}" for utterance, (_, score) in best.items()}
    )
    write_nbest(output_dir / NBEST, ranked)
    return sum(bool(hypotheses) and best[name][0] != hypotheses[0][0] for name, hypotheses in nbest.items())
