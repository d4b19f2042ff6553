"""Reductions over processes and accumulated batches, which a loss needs for its weight."""

import torch
from torch import Tensor, distributed

from espnet_diverse.scope import current


class OutOfMemoryElsewhereError(torch.OutOfMemoryError):
    """Another process that trains the same model is out of memory, so this one aborts its batch too."""


def token_count(tokens: Tensor, sentences: int) -> Tensor:
    """Return the number of tokens, (), by which a sum over the tokens of a batch is divided.

    In a single process it is `tokens`. ESPnet averages the losses of several processes with their numbers of sentences
    as weights. To make this average the mean over the tokens of all processes, the number is then `sentences` times
    their mean number of tokens in a sentence. All processes must call this together. The same holds for the parts of a
    batch that are computed one after another; the open scope then has a function for it.

    Args:
        tokens: Number of tokens of the batch of this process, ().
        sentences: Number of sentences of this batch.

    Raises:
        OutOfMemoryElsewhereError: Another process is out of memory.
    """
    if (count := current().token_count) is not None:
        return count(tokens, sentences)
    if not (distributed.is_available() and distributed.is_initialized()):
        return tokens
    totals = summed(torch.stack([tokens.double(), tokens.new_tensor(sentences).double()]))
    return (sentences * totals[0] / totals[1]).float()


def summed(values: Tensor, failed: bool = False) -> Tensor:
    """Return the sums of two values over all processes, and let all know whether one is out of memory.

    Apart from ESPnet's averages and gradients, the processes of a training exchange nothing else from the beginning of
    a forward pass to the end of the backward pass. A process that is out of memory can therefore take part in the next
    exchange of the others without knowing which one it is.

    Args:
        values: Two numbers of this process, (2,).
        failed: Whether this process is out of memory.

    Raises:
        OutOfMemoryElsewhereError: Another process is out of memory, and this one is not.
    """
    totals = torch.cat([values.double(), values.new_tensor([failed], dtype=torch.float64)])
    distributed.all_reduce(totals)
    if totals[2] > 0 and not failed:
        raise OutOfMemoryElsewhereError("another process is out of memory")
    return totals[:2]
