"""Second tries of updates for which the memory of a GPU was too small: the batch that did not fit comes in two halves.

An interrupted backward pass has added an unknown part of its gradients to those of the batches before. Therefore the
whole update begins again: ESPnet's loop is entered once more, with the batches of the update that were done, which draw
the same noise, and with `halved_batch` for the one that did not fit. The result is the update of whole batches. Running
statistics of batch normalisation see these batches more than once.

With several processes, all of them begin the update again. They tell each other after every forward pass and every
backward pass whether memory was enough. DistributedDataParallel adds up gradients during the backward pass, and the
others wait in it for a process whose backward pass was interrupted; that one hands on zeros for the rest.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from espnet2.train.reporter import SubReporter
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from espnet_diverse.errors import TrainingError
from espnet_diverse.nets.models import Diverse
from espnet_diverse.nets.processes import OutOfMemoryElsewhereError, summed
from espnet_diverse.training.epoch_steps import Steps
from espnet_diverse.training.halved_batch import Output, in_halves
from espnet_diverse.training.ranks import Ranks

_FORWARD, _BACKWARD = "forward_time", "backward_time"  # what ESPnet's loop measures their times as


class SecondTries:
    """Runs ESPnet's loop over the batches of an epoch, again from the last update where memory was too small.

    Args:
        model: The model, or what averages its gradients over processes.
        steps: The batches.
        reporter: ESPnet's reporter of the epoch.
        ranks: The processes that train together.
    """

    def __init__(self, model: nn.Module, steps: Steps, reporter: SubReporter, ranks: Ranks):
        self.model = model.module if isinstance(model, DistributedDataParallel) else model
        self.steps, self.reporter, self.ranks = steps, reporter, ranks
        self._forward: Callable[..., Output] = self.model.forward
        self._device = next(self.model.parameters()).device
        self._pass = ""  # that is computed, one of _FORWARD, _BACKWARD
        self._loss: Tensor | None = None  # of this process, while a backward pass may be interrupted
        self._ready: set[Tensor] = set()  # parameters whose gradients DistributedDataParallel has
        self._before: Callable[[], None] = lambda: None

    def run(self, loop: Callable[[], bool], clear: Callable[[], None]) -> bool:
        """Run the loop and return what it returns.

        Args:
            loop: ESPnet's loop over `steps`.
            clear: Clears the gradients.

        Raises:
            TrainingError: Memory is too small for half a batch or a single utterance, or was too small elsewhere than
                in a forward or backward pass.
        """
        with self._watched():
            while True:
                try:
                    return loop()
                except torch.OutOfMemoryError as error:
                    elsewhere = isinstance(error, OutOfMemoryElsewhereError)
                    said = f"the GPU is out of memory ({str(error).partition(chr(10))[0]})"
                self._begin_again("" if elsewhere else said, clear)  # now that the frames of the error are gone

    @contextmanager
    def _watched(self) -> Iterator[None]:
        parameters = [] if self.ranks.alone else [p for p in self.model.parameters() if p.requires_grad]
        hooks = [parameter.register_post_accumulate_grad_hook(self._ready.add) for parameter in parameters]
        self.model.forward, self.reporter.measure_time = self._compute, self._measure
        try:
            yield
        finally:
            del self.model.forward, self.reporter.measure_time
            for hook in hooks:
                hook.remove()

    def _compute(self, *args, **batch) -> Output:
        """The forward pass of the model."""
        self._pass = _FORWARD
        if self.steps.begun == 1:
            self._before = _what_passes_change(self.model)
        if self.steps.is_halved:
            output = in_halves(self.model, self._forward, batch, self.ranks.alone)
        else:
            output = self._forward(*args, **batch)
        if not self.ranks.alone:
            self._loss = output[0]
        return output

    @contextmanager
    def _measure(self, name: str) -> Iterator[float]:
        """ESPnet's measurement of the time of a forward or backward pass; then all processes know if memory was enough.

        Raises:
            OutOfMemoryElsewhereError: It was not in another process.
        """
        with SubReporter.measure_time(self.reporter, name) as start:
            yield start
        if name not in (_FORWARD, _BACKWARD):
            return
        if not self.ranks.alone:
            summed(torch.zeros(2, device=self._device))
        self._pass = _BACKWARD if name == _FORWARD else ""
        self._ready.clear()
        if name == _BACKWARD:
            self._loss = None

    def _begin_again(self, reason: str, clear: Callable[[], None]) -> None:
        """Prepare the second try of an update.

        Args:
            reason: What to tell; "" if memory was too small in another process.
            clear: Clears the gradients.
        """
        if reason and not self._pass:
            raise TrainingError(f"{reason} while parameters were updated; take a smaller model or batch_bins")
        torch.cuda.empty_cache()
        if reason and not self.ranks.alone:
            if self._pass == _BACKWARD:
                self._hand_on_zeros()
            summed(torch.zeros(2, device=self._device), failed=True)
        self._loss = None
        reasons = self.ranks.gathered(reason and self.steps.described(reason))
        advice = self.ranks.gathered(self.steps.why_not_halved() if reason else "")
        said, hopeless = (next(filter(None, each), "") for each in (reasons, advice))
        if hopeless:
            raise TrainingError(f"{said}{hopeless}")
        logging.warning("%s; they are tried in two halves", said)
        clear()
        self._before()
        _forget(self.reporter, self.steps.begun)
        self.steps.halve()

    def _hand_on_zeros(self) -> None:
        """End the backward pass that was interrupted: with gradients of zero for parameters that have none yet."""
        left = [parameter for parameter in _parameters_of(self._loss) if parameter not in self._ready]
        self._loss = None  # with the memory that it holds
        torch.cuda.empty_cache()
        if left:
            torch.stack([parameter.sum() for parameter in left]).sum().mul(0).backward()


def _parameters_of(loss: Tensor) -> list[Tensor]:
    """The parameters that a loss depends on."""
    found, nodes, left = [], set(), [loss.grad_fn]
    while left:
        node = left.pop()
        if node is not None and node not in nodes:
            nodes.add(node)
            left += [function for function, _ in node.next_functions]
            found += [node.variable] if hasattr(node, "variable") else []
    return found


def _what_passes_change(model: nn.Module) -> Callable[[], None]:
    """A function that sets back what a forward pass of training changes: generators of noise, what is measured next."""
    cpu, cuda = torch.get_rng_state(), torch.cuda.get_rng_state() if torch.cuda.is_initialized() else None
    measuring = model.measuring_state() if isinstance(model, Diverse) else None

    def set_back() -> None:
        torch.set_rng_state(cpu)
        if cuda is not None:
            torch.cuda.set_rng_state(cuda)
        if measuring is not None:
            model.load_measuring_state(measuring)

    return set_back


def _forget(reporter: SubReporter, number: int) -> None:
    """Take back the last `number` steps that a reporter has begun or counted."""
    reporter.count, reporter.total_count = reporter.count - number, reporter.total_count - number
    for name, values in list(reporter.stats.items()):
        del values[reporter.count :]
        if not values:
            del reporter.stats[name]
    reporter._seen_keys_in_the_step = set()
