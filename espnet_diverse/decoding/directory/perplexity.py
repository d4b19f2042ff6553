"""Perplexity of texts under a language model.

    perplexity = exp(-1/N sum_n log p(w_n | w_1 ... w_{n-1}))

over the tokens and the end of every text. This number depends on the vocabulary. The same sum divided by the number of
words and ends of texts does not, so it can be compared between vocabularies.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch.nn.utils.rnn import pad_sequence

from espnet_diverse.data.files.locks import folder_lock
from espnet_diverse.data.tables import read_table, write_table
from espnet_diverse.decoding.condition_ids import condition_indices, known_conditions
from espnet_diverse.decoding.directory.results import write_json
from espnet_diverse.decoding.encoder.precision import check_device
from espnet_diverse.decoding.grouping import grouped
from espnet_diverse.decoding.prediction import rounded_score
from espnet_diverse.decoding.search.fusion import language_model_files
from espnet_diverse.decoding.token_text import TokenText
from espnet_diverse.progress import progress
from espnet_diverse.runs.tasks import load_model
from espnet_diverse.scope import scope

BATCH_TOKENS = 4000


class Scorer:
    """The language model of a run, with its vocabulary.

    Args:
        model_dir: Directory of the run.
        model_file: Weights, see `find_weights`.
        device: "cpu", "cuda" or "cuda:N".

    Raises:
        ConfigError: The device does not exist.
        ModelError: A file is missing or damaged, the weights do not fit, or the model is not a language model.
    """

    def __init__(self, model_dir: Path, model_file: str | Path | None = None, device: str = "cpu"):
        check_device(device)
        _, weights = language_model_files(model_dir, model_file)
        model, args = load_model(model_dir, weights, device, "lm")
        self.model, self.conditions = model.eval(), known_conditions(model)
        self.vocabulary, self.device = TokenText(args), device

    @torch.inference_mode()
    def __call__(self, texts: Sequence[Sequence[int]], conditions: Sequence[Mapping[str, int]]) -> list[float]:
        """Log probability of each text with its end, given its token indices and its condition indices."""
        tokens = [torch.tensor(text, dtype=torch.long, device=self.device) for text in texts]  # also of no token
        padded = pad_sequence(tokens, batch_first=True)
        lengths = torch.tensor([len(text) for text in texts], device=self.device)
        ids = {
            condition: torch.tensor([indices[condition] for indices in conditions], device=self.device)
            for condition in conditions[0]
        }
        with scope(conditions=ids, collect=False):
            return (-self.model.nll(padded, lengths)[0].double().sum(1)).tolist()


def perplexity(scorer: Scorer, data_dir: Path, output_dir: Path, conditions: Mapping[str, str] | None = None) -> dict:
    """Score the texts of a data directory, and write score (log probability of each text) and perplexity.json.

    Args:
        scorer: The language model.
        data_dir: Data directory; its text is read, and the tables of the conditions that the model depends on.
        output_dir: Directory to write to.
        conditions: Values by condition that hold for all texts, instead of the tables.

    Returns:
        The content of perplexity.json, rounded by `prediction.rounded_score`. A perplexity above e^709 is infinity, and
        null in the file.

    Raises:
        DataError: A table is malformed, a text has a missing or unknown condition, or another process writes to the
            directory.
    """
    texts = read_table(data_dir / "text")
    indices = condition_indices(scorer.conditions, data_dir, texts, conditions or {})
    encoded = {name: scorer.vocabulary.encode(text) for name, text in texts.items()}
    scores: dict[str, float] = {}
    batches = grouped(encoded, lambda name: len(encoded[name]), len(encoded), BATCH_TOKENS)
    for batch in progress(batches, "perplexity", unit="batch"):
        batch_scores = scorer([encoded[name] for name in batch], [indices[name] for name in batch])
        scores |= dict(zip(batch, batch_scores, strict=True))
    numbers = _summary(texts, encoded, sum(scores.values()))
    with folder_lock(output_dir):
        write_table(output_dir / "score", {name: f"{rounded_score(scores[name]):g}" for name in texts})
        write_json(output_dir / "perplexity.json", numbers)
    return numbers


def line(numbers: Mapping[str, float]) -> str:
    """The numbers of `perplexity` as one line of text."""
    return (
        "{texts} texts: perplexity {perplexity:.2f} of {tokens} tokens, {word_perplexity:.2f} of {words} words".format(
            **numbers
        )
    )


def _summary(texts: Mapping[str, str], encoded: Mapping[str, Sequence[int]], score: float) -> dict[str, float]:
    tokens = sum(len(indices) + 1 for indices in encoded.values())
    words = sum(len(text.split()) + 1 for text in texts.values())
    return {
        "texts": len(texts),
        "tokens": tokens,
        "unknown_tokens": sum(list(indices).count(1) for indices in encoded.values()),
        "words": words,
        "log_likelihood": rounded_score(score),
        "perplexity": rounded_score(_exp(-score / tokens)),
        "word_perplexity": rounded_score(_exp(-score / words)),
    }


def _exp(x: float) -> float:
    """exp(x), or infinity above the largest float, as for the perplexity by word of long texts without spaces."""
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf
