"""Files that a beam search uses with the model: a language model and hotwords (shallow fusion), and a shortlist."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from espnet_diverse.decoding.condition_ids import KnownConditions, known_conditions
from espnet_diverse.decoding.options import LM_SEARCHES
from espnet_diverse.decoding.search.hotwords import Hotwords
from espnet_diverse.decoding.search.ngram import NgramScorer, is_ngram, is_usable
from espnet_diverse.errors import ModelError
from espnet_diverse.runs.model_files import INSIDE, NGRAM, find_weights
from espnet_diverse.runs.tasks import load_model, read_config

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Fusion:
    """Files of a language model, hotwords and a shortlist that are added to a search.

    Attributes:
        language_model: Directory of a run of task lm, over the same tokens as the model, or a file of KenLM.
        weights: Its weights, as a path or a name in the directory; by default valid.loss.ave.pth.
        hotwords: Phrases, or the path of a file with one a line.
        shortlist: Lexical table from which the tokens of a translation are chosen, see `shortlist.py`; for models that
            translate text.
    """

    language_model: str | Path | None = None
    weights: str | Path | None = None
    hotwords: Hotwords | None = None
    shortlist: str | Path | None = None


def language_model_of(
    model_dir: Path, fusion: Fusion, search: str, decoder: str | None = None, streams: bool = False
) -> Path | None:
    """The language model to use: the one that the user names, else the model's own if the search supports one.

    Args:
        model_dir: Directory of the run of the model.
        fusion: What the user names.
        search: The option `search`.
        decoder: Decoder of the model, from its config.yaml.
        streams: Whether the search is for streaming. As with a transducer, the model's own n-gram model is then not
            used, and a warning says so.

    Returns:
        The directory of a run, a file of KenLM, or None.
    """
    folder = model_dir / INSIDE
    if fusion.language_model is not None or search not in LM_SEARCHES:
        return None if fusion.language_model is None else Path(fusion.language_model)
    if (folder / "config.yaml").is_file():
        return folder
    if not (folder / NGRAM).is_file():
        return None
    if streams or decoder == "transducer":
        how = "while streaming" if streams else "with a transducer"
        log.warning("%s: its n-gram model is not used %s; scores and texts are as without it", model_dir, how)
        return None
    return folder / NGRAM if is_usable(folder / NGRAM) else None


def used_language_model(folder: Path | None, fusion: Fusion, weight: float | None) -> dict[str, str | float]:
    """Path and weight of a language model, as written next to results; warns where the user did not name it.

    Args:
        folder: What `language_model_of` returned.
        fusion: What the user names.
        weight: The option `lm_weight`, resolved.

    Returns:
        Entries for decode.json; empty where no language model is used.
    """
    if folder is None or not weight:
        return {}
    if fusion.language_model is None:
        message = (
            "the language model %s, which is part of the model, counts with lm_weight %g; set lm_weight 0 without it"
        )
        log.warning(message, folder, weight)
    return {"language_model": str(folder), "lm_weight": weight}


def language_model_files(model_dir: Path, weights: str | Path | None = None) -> tuple[Path, Path]:
    """Paths of config.yaml and of the weights of a language model.

    Raises:
        ModelError: A file is missing or damaged, or the model is not a language model.
    """
    config = model_dir / "config.yaml"
    of_run = read_config(config)
    if (task := of_run.get("task")) != "lm":
        raise ModelError(f"{model_dir}: is a model of task {task}, not a language model; give a run of task lm")
    return config, find_weights(model_dir, weights, of_run)


def load_language_model(
    model_dir: Path,
    weights: str | Path | None,
    tokens: Sequence[str],
    conditions: KnownConditions,
    device: str = "cpu",
) -> nn.Module | NgramScorer:
    """Load a language model for a search.

    Args:
        model_dir: Directory of its run, or a file of KenLM.
        weights: Its weights, see `Fusion`.
        tokens: Tokens of the model that is searched with.
        conditions: The conditions that this model depends on.
        device: "cpu", "cuda" or "cuda:N".

    Raises:
        ConfigError: The file is a KenLM file, and kenlm is not installed.
        ModelError: A file is missing or damaged, or the model is not a language model, has other tokens, or depends on
            conditions that the model that is searched with does not know.
    """
    if is_ngram(model_dir):
        return NgramScorer(model_dir, list(tokens))
    _, path = language_model_files(model_dir, weights)
    model, args = load_model(model_dir, path, device, "lm")
    lm_tokens = list(args.token_list)
    if lm_tokens != list(tokens):
        at = next((i for i, pair in enumerate(zip(lm_tokens, tokens, strict=False)) if pair[0] != pair[1]), None)
        differ = f"{len(lm_tokens)} tokens and the model {len(tokens)}"
        if at is not None and len(lm_tokens) == len(tokens):
            differ = f"{lm_tokens[at]!r} as token {at} and the model {tokens[at]!r}"
        raise ModelError(f"{model_dir}: the language model has {differ}; train it with the vocabulary of the model")
    for condition, names in known_conditions(model).names.items():
        if conditions.names.get(condition) != names:
            expected = " ".join(conditions.names.get(condition, ())) or "none"
            raise ModelError(
                f"{model_dir}: the language model knows the {condition} {' '.join(names)}, and the model {expected}; "
                "train both with the same values"
            )
    return model.lm.eval()
