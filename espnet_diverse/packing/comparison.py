"""Comparison of two models by their outputs on random input."""

from collections.abc import Mapping, Sequence
from math import inf

import torch
from torch import Tensor, nn

from espnet_diverse.scope import scope

_SAMPLES, _FRAMES, _TOKENS = 16_000, 120, 12


@torch.no_grad()
def largest_difference(
    first: nn.Module, second: nn.Module, task: str, conditions: Mapping[str, Sequence[str]], features: int | None = None
) -> float:
    """Largest absolute difference of the log-probabilities of two models, in evaluation, over all conditions.

    It is infinite if one of them gives NaN. Both are left in evaluation mode. The seed is fixed, and the random state
    of the caller stays as it is.

    Args:
        first: A model.
        second: A model of the same task and vocabulary.
        task: "asr", "st", "mt", "lm", "cls", "s2t" or "s2t_ctc".
        conditions: Values of the conditions that either depends on; each value is tried.
        features: Number of features of a frame, for models of speech that read features.
    """
    largest = 0.0
    with torch.random.fork_rng(devices=[]):
        for index in range(max(map(len, conditions.values()), default=1)):
            ids = {name: torch.tensor([min(index, len(values) - 1)]) for name, values in conditions.items()}
            outputs = []
            for model in (first, second):
                torch.manual_seed(0)
                with scope(ids, collect=False):
                    outputs.append(_log_probabilities(model.eval(), task, features))
            differences = (outputs[0] - outputs[1]).abs().nan_to_num(inf, inf)
            largest = max(largest, float(differences.masked_fill(outputs[0] == outputs[1], 0).max()))
    return largest


def _log_probabilities(model: nn.Module, task: str, features: int | None) -> Tensor:
    if task == "cls":
        texts = [_random_tokens(model.classifier.embed.num_embeddings - 1) for _ in range(1 + model.classifier.pairs)]
        given = [each for text in texts for each in (text, torch.tensor([text.size(1)]))]
        return model.classifier(*given).scores.log_softmax(-1)
    tokens = torch.cat([torch.tensor([[model.sos]]), _random_tokens(model.sos)], 1)
    if task == "lm":
        return model.lm(tokens, None)[0].log_softmax(-1)
    if task == "mt":
        source = _random_tokens(model.src_sos)
    else:
        source = torch.randn(1, _SAMPLES) if features is None else torch.randn(1, _FRAMES, features)
    prompt = _prompt(model) if task == "s2t_ctc" else {}
    frames, lengths = model.encode(source, torch.tensor([source.size(1)]), **prompt)[:2]
    frames = frames[0] if isinstance(frames, tuple) else frames  # with the frames of intermediate layers
    found = []
    if getattr(model, "decoder", None) is not None:  # a model of CTC alone has none
        found.append(model.decoder(frames, lengths, tokens, torch.tensor([tokens.size(1)]))[0].log_softmax(-1))
    modules = (getattr(model, name, None) for name in ("ctc", "st_ctc"))  # over the source, and over the translation
    found += [ctc.log_softmax(frames) for ctc in modules if ctc is not None]
    return torch.cat([each.flatten() for each in found])


def _prompt(model: nn.Module) -> dict[str, Tensor]:
    """A random prompt of a model that reads it in its encoder: two symbols, and previous text."""
    tokens = _random_tokens(model.sos)
    given = {"text_prev": tokens, "prefix": tokens[:, :2]}
    return given | {f"{name}_lengths": torch.tensor([each.size(1)]) for name, each in given.items()}


def _random_tokens(last: int) -> Tensor:
    """Tokens that are neither special nor the last, <sos/eos>."""
    return torch.randint(min(2, last - 1), last, (1, _TOKENS))
