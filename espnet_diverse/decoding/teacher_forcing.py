"""Teacher forcing: predictions of an attention decoder for each token of given texts, from the tokens before it."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from espnet_diverse.decoding.encoder.encoding import Encoded
from espnet_diverse.errors import ModelError
from espnet_diverse.functional.copies import copied
from espnet_diverse.functional.sentence_ends import add_sos_eos
from espnet_diverse.scope import scope


def check_predicts_tokens(model: nn.Module) -> None:
    """Refuse a model that predicts no tokens.

    Raises:
        ModelError: The model has CTC alone, or is a transducer.
    """
    if not reads_tokens(model):
        kind = "CTC alone" if getattr(model, "decoder", None) is None else "a transducer"
        raise ModelError(
            f"the model has {kind}, and tokens are predicted by a decoder; give one with an attention decoder"
        )


def reads_tokens(model: nn.Module) -> bool:
    """Return whether a model has a decoder that predicts each token of a text; a transducer has none."""
    return getattr(model, "decoder", None) is not None and not getattr(model, "use_transducer_decoder", False)


@torch.inference_mode()
def token_log_probs(
    model: Any, encoded: Encoded, texts: Sequence[Sequence[int]], keep_attention: bool = False
) -> tuple[Tensor, Tensor]:
    """Run the decoder over the token indices of B texts.

    Args:
        model: The model.
        encoded: Output of its encoder for B utterances.
        texts: Token indices of each text.
        keep_attention: Whether attention modules keep their weights.

    Returns:
        Log probabilities (n, V) at the n tokens of all texts, each with its end, one text after the other; and these
        tokens (n,).
    """
    check_predicts_tokens(model)
    device = encoded.output.device
    tokens = [copied(text, device, torch.long) for text in texts]
    lengths = copied([len(text) + 1 for text in texts], device)
    padded = pad_sequence(tokens, batch_first=True, padding_value=model.ignore_id)
    read, written = add_sos_eos(padded, model.sos, model.eos, model.ignore_id)
    with scope(encoded.conditions, keep_attention, collect=False):
        scores, _ = model.decoder(encoded.output, encoded.lengths, read, lengths)
    width = written.size(1)
    places = [row * width + place for row, text in enumerate(texts) for place in range(len(text) + 1)]
    index = copied(places, device, torch.long)  # reading a mask would wait for a GPU
    return scores.flatten(0, 1)[index].float().log_softmax(-1), written.flatten()[index]
