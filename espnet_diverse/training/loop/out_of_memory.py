"""Retries of updates that ran out of memory of a GPU, with the batch in two halves.

An interrupted backward pass has added an unknown part of its gradients to the gradients of earlier batches. Therefore
the whole update begins again, with the same noise, and with `halved_batch` for the batch that did not fit. The result
is the update of whole batches. Running statistics of batch normalisation see these batches more than once.

With several processes, all of them begin the update again. They exchange after every forward pass and every backward
pass whether memory was enough. DistributedDataParallel adds up gradients during the backward pass, and the others wait
in it for a process whose backward pass was interrupted; this process hands on zeros for the rest.
"""

import logging
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from espnet_diverse.errors import TrainingError
from espnet_diverse.nets.reductions import OutOfMemoryElsewhereError, summed
from espnet_diverse.training.loop.epoch_batches import Batch
from espnet_diverse.training.loop.ranks import Ranks

log = logging.getLogger(__name__)


def out_of_memory(error: torch.OutOfMemoryError) -> str:
    """The beginning of a message, with the first line of an error."""
    return f"the GPU is out of memory ({str(error).partition(chr(10))[0]})"


class SecondTries:
    """Computes the batches of an update, again from the first one where memory was too small.

    Args:
        model: The model.
        ranks: The processes that train together.
    """

    def __init__(self, model: nn.Module, ranks: Ranks):
        self.ranks = ranks
        self._device = next(model.parameters()).device
        self._backward: Tensor | None = None  # the loss whose backward pass may be interrupted
        self._ready: set[Tensor] = set()  # parameters whose gradients DistributedDataParallel has
        if not ranks.alone:
            for parameter in model.parameters():
                if parameter.requires_grad:
                    parameter.register_post_accumulate_grad_hook(self._ready.add)

    def run[Result](
        self, group: Sequence[Batch], begin: Callable[[], None], compute: Callable[[Batch, bool], Result]
    ) -> list[Result]:
        """Compute all batches of an update, and return the results.

        Args:
            group: The batches.
            begin: Called before the first batch of each try; it clears the gradients.
            compute: Adds the gradients of a batch, in halves or not; it calls `end_forward` and `end_backward`.

        Raises:
            TrainingError: Memory is too small for half a batch or a single utterance.
        """
        halved: set[int] = set()
        while True:
            begin()
            results: list[Result] = []
            try:
                for number, batch in enumerate(group):
                    results.append(compute(batch, number in halved))
                return results
            except torch.OutOfMemoryError as error:
                elsewhere = isinstance(error, OutOfMemoryElsewhereError)
                message = f"{out_of_memory(error)} with {batch.described()}"
            self._prepare("" if elsewhere else message, batch, number in halved)  # now that the error holds no frames
            halved.add(number)

    def end_forward(self, loss: Tensor) -> None:
        """Note the end of a forward pass.

        Raises:
            OutOfMemoryElsewhereError: Memory was too small for it in another process.
        """
        if not self.ranks.alone:
            summed(torch.zeros(2, device=self._device))
            self._ready.clear()
            self._backward = loss

    def end_backward(self) -> None:
        """Note the end of a backward pass.

        Raises:
            OutOfMemoryElsewhereError: Memory was too small for it in another process.
        """
        if not self.ranks.alone:
            summed(torch.zeros(2, device=self._device))
            self._backward = None

    def _prepare(self, reason: str, batch: Batch, was_halved: bool) -> None:
        """Prepare the second try of an update, in all processes.

        Args:
            reason: What to report; "" if memory was too small in another process.
            batch: The batch that was computed.
            was_halved: Whether it was computed in halves.
        """
        torch.cuda.empty_cache()
        if reason and not self.ranks.alone:
            if self._backward is not None:
                self._hand_on_zeros()
            summed(torch.zeros(2, device=self._device), failed=True)
        self._backward = None
        advice = _why_not_halved(batch, was_halved) if reason else ""
        reasons, hopeless = (next(filter(None, self.ranks.gathered(text)), "") for text in (reason, advice))
        if hopeless:
            raise TrainingError(f"{reasons}{hopeless}")
        log.warning("%s; they are tried in two halves", reasons)

    def _hand_on_zeros(self) -> None:
        """End the backward pass that was interrupted: with gradients of zero for parameters that have none yet."""
        remaining = [parameter for parameter in _parameters_of(self._backward) if parameter not in self._ready]
        self._backward = None  # with the memory that it holds
        torch.cuda.empty_cache()
        if remaining:
            torch.stack([parameter.sum() for parameter in remaining]).sum().mul(0).backward()


def _why_not_halved(batch: Batch, was_halved: bool) -> str:
    """The reason why a batch cannot be halved, with advice; "" if it can."""
    if not was_halved and len(batch.utterances) > 1:
        return ""
    halved = " although the batch was halved" if was_halved else ""
    return f"{halved}; lower batch_bins or batch_size, or leave out long utterances"


def _parameters_of(loss: Tensor) -> list[Tensor]:
    """The parameters that a loss depends on."""
    parameters, nodes, stack = [], set(), [loss.grad_fn]
    while stack:
        node = stack.pop()
        if node is not None and node not in nodes:
            nodes.add(node)
            stack += [function for function, _ in node.next_functions]
            parameters += [node.variable] if hasattr(node, "variable") else []
    return parameters
