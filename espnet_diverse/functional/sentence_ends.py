"""Symbols for the beginning and the end of a sentence, added to sequences of tokens."""

from torch import Tensor
from torch.nn import functional


def add_sos_eos(tokens: Tensor, sos: int, eos: int, ignored: int, repeat: int = 1) -> tuple[Tensor, Tensor]:
    """Return the input and the target sequences of a decoder.

    The result equals ESPnet's function of this name, without its loop over sequences, in which the CPU waits for the
    GPU.

    Args:
        tokens: Token indices (B, T), padded at the end with `ignored`; at least one sequence has no padding.
        sos: Index of the beginning of a sentence.
        eos: Index of the end of a sentence.
        ignored: Index of padding; in the input it is replaced by `eos`.
        repeat: Number of times that `sos` and `eos` are added.

    Returns:
        Input and target, (B, T + repeat) each.
    """
    valid = tokens != ignored
    read = functional.pad(tokens.masked_fill(~valid, eos), (repeat, 0), value=sos)
    written = functional.pad(tokens, (0, repeat), value=ignored)
    for step in range(repeat):
        written = written.scatter(1, valid.sum(1, keepdim=True) + step, eos)
    return read, written
