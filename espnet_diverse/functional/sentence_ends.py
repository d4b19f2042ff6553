"""Token sequences with the mark of a sentence's begin, and with that of its end."""

from torch import Tensor
from torch.nn import functional


def add_sos_eos(tokens: Tensor, sos: int, eos: int, ignored: int, repeat: int = 1) -> tuple[Tensor, Tensor]:
    """What a decoder reads and what it is to write: as ESPnet's function of this name, without a loop over sequences,
    each of which would make the CPU wait for the GPU.

    Args:
        tokens: (B, T), padded at the end with `ignored`, at least one sequence not at all.
        sos, eos: Marks of begin and end.
        ignored: Mark of padding; in what is read, it becomes `eos`.
        repeat: How often a mark stands.

    Returns:
        Two of (B, T + repeat).
    """
    inside = tokens != ignored
    read = functional.pad(tokens.masked_fill(~inside, eos), (repeat, 0), value=sos)
    written = functional.pad(tokens, (0, repeat), value=ignored)
    for step in range(repeat):
        written = written.scatter(1, inside.sum(1, keepdim=True) + step, eos)
    return read, written
