"""How strongly auxiliary losses pull at the parameters that they share with the task: gradient norms as ratios.

The value of a loss does not say how strongly it acts: a large one may be almost constant. What acts is its gradient.
Here the gradient norm of each auxiliary loss is divided by that of the task's loss, over the parameters outside
attention cores and memories, which all losses share.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from espnet_diverse.attention import Core
from espnet_diverse.nets.memory import Memory


class GradientBalance:
    """Measures the ratios in some training batches, and remembers the last ones.

    Args:
        interval: Number of training batches from one measurement to the next; 0 never measures. One measurement takes
            a backward pass for the task and one for each auxiliary loss.
    """

    def __init__(self, interval: int):
        self.interval = interval
        self.ratios: dict[str, Tensor] = {}
        self._batches = 0

    def state(self) -> dict:
        """The number of training batches so far and the last ratios, for a checkpoint."""
        return {"batches": self._batches, "ratios": self.ratios}

    def load_state(self, state: Mapping) -> None:
        """Go on after the batches of `state`."""
        self._batches, self.ratios = state["batches"], dict(state["ratios"])

    def is_due(self, model: nn.Module) -> bool:
        """Count a training batch; return whether the ratios are to be measured in it.

        Never in evaluation or without gradients, nor for compiled layers, whose backward pass can run only once.
        """
        if not (self.interval and model.training and torch.is_grad_enabled()):
            return False
        self._batches += 1
        if (self._batches - 1) % self.interval:
            return False
        return all(module._compiled_call_impl is None for module in model.modules())

    def measure(self, model: nn.Module, task: Tensor, auxiliary: Mapping[str, Tensor]) -> None:
        """Set `ratios` by name of the loss, () each.

        Args:
            model: The model; its parameters get no gradients from this.
            task: Loss of the task, one value.
            auxiliary: Weighted auxiliary losses by name, one value each.
        """
        parameters = shared_parameters(model)
        if not parameters:
            return
        norm = gradient_norm(task, parameters)
        self.ratios = {name: gradient_norm(loss, parameters) / norm for name, loss in auxiliary.items()}


def shared_parameters(model: nn.Module) -> list[Tensor]:
    """Trainable parameters outside attention cores and memories."""
    parts = [module for module in model.modules() if isinstance(module, Core | Memory)]
    own = {parameter for part in parts for parameter in part.parameters()}
    return [parameter for parameter in model.parameters() if parameter.requires_grad and parameter not in own]


def gradient_norm(loss: Tensor, parameters: Sequence[Tensor]) -> Tensor:
    """Euclidean norm () of the gradient of `loss` for all `parameters` together; the graph of `loss` is kept."""
    if not loss.requires_grad:
        return loss.new_zeros(())
    found = torch.autograd.grad(loss.sum(), parameters, retain_graph=True, allow_unused=True)
    norms = [gradient.float().norm() for gradient in found if gradient is not None]
    return torch.stack(norms).norm() if norms else loss.new_zeros(())
