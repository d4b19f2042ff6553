"""What a loss needs to know of the batches of other processes, where several train one model."""

import torch
from torch import Tensor, distributed


def token_count(tokens: Tensor, sentences: int) -> Tensor:
    """Return the number of tokens, (), by which a sum over the tokens of a batch is divided.

    In a single process it is `tokens`. ESPnet averages the losses of several processes with their numbers of sentences
    as weights; so that the average is the mean over the tokens of all processes, it is `sentences` times their mean
    number of tokens in a sentence. All processes must call this together.

    Args:
        tokens: Number of tokens of the batch of this process, ().
        sentences: Number of sentences of this batch.
    """
    if not (distributed.is_available() and distributed.is_initialized()):
        return tokens
    totals = torch.stack([tokens.double(), tokens.new_tensor(sentences).double()])
    distributed.all_reduce(totals)
    return (sentences * totals[0] / totals[1]).float()
