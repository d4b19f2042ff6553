"""Gradient norms of auxiliary losses relative to the task's, at the parameters that both share.

The value of a loss does not show its effect on training: a large loss may be almost constant. Its gradient does. Here
the gradient norm of each auxiliary loss is divided by the norm of the task's. Both are taken over the weight matrices
of one kind, such as `linear_q` of all layers, outside attention cores and memories; the result is the largest ratio of
all kinds. The ratio over all parameters together would hide the effect: most of the task's gradient is in feed-forward
and output layers and in projections of values, while the losses of SDMA act on the queries, and may affect `linear_q`
several times as strongly as the task. Vectors are left out: a shift of all keys changes no softmax, so that the task
has no gradient in their bias, and little in some gains.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from espnet_diverse.attention import Core
from espnet_diverse.nets.memory import Memory
from espnet_diverse.scope import current

#: Ratio above which training warns. With initial weights text translation by SDMA is well below it at the strength of
#: the paper, and above it 16.9 times as strong, as in the first runs of egs/multi30k/mt1/RESULTS.md.
STRONG = 3.0


def is_due(model: nn.Module, interval: int) -> bool:
    """Return whether the ratios should be measured in this batch.

    They are measured in the first batch of training, and in the first one after each further `interval` updates, by the
    step in the open scope; never in evaluation or without gradients, nor for compiled layers, whose backward pass can
    run only once.

    Args:
        model: The model.
        interval: Number of optimizer updates from one measurement to the next; 0 never measures. One measurement takes
            a backward pass for the task and one for each auxiliary loss.
    """
    step = current().step
    if not interval or step is None or not step.is_first or step.updates % interval:
        return False
    if not (model.training and torch.is_grad_enabled()):
        return False
    return all(module._compiled_call_impl is None for module in model.modules())


def gradient_ratios(model: nn.Module, task: Tensor, auxiliary: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the gradient norm of each loss relative to the task's, where it is largest: () each, by name of the loss.

    A ratio is over the matrices of one kind in which both losses have a gradient; it is 0 if there are none. A model
    without matrices has no ratios.

    Args:
        model: The model; its parameters get no gradients from this.
        task: Loss of the task, one value.
        auxiliary: Weighted auxiliary losses by name, one value each.
    """
    kinds, matrices = shared_matrices(model)
    if not matrices:
        return {}
    of_task = gradient_norms(task, matrices)
    ratios = {}
    for name, loss in auxiliary.items():
        both = defaultdict(list)
        for kind, norm, of_same in zip(kinds, gradient_norms(loss, matrices), of_task, strict=True):
            if norm is not None and of_same is not None:
                both[kind].append(torch.stack([norm, of_same]))
        norms = [torch.stack(pairs).norm(dim=0) for pairs in both.values()]
        # A kind in which the task's gradient is zero, as behind a matrix that begins as zeros, cannot be compared.
        by_kind = [torch.where(of_same == 0, 0, norm / of_same) for norm, of_same in norms]
        ratios[name] = torch.stack(by_kind).max() if by_kind else loss.new_zeros(())
    return ratios


def shared_matrices(model: nn.Module) -> tuple[list[str], list[Tensor]]:
    """Trainable parameters of two or more dimensions outside attention cores and memories, and the kind of each.

    A kind is the last two parts of a parameter's name that are no numbers: "linear_q.weight" in any layer.
    """
    parts = [module for module in model.modules() if isinstance(module, Core | Memory)]
    skipped = {parameter for part in parts for parameter in part.parameters()}
    matrices = {name: p for name, p in model.named_parameters() if p.requires_grad and p.dim() > 1 and p not in skipped}
    kinds = [".".join([part for part in name.split(".") if not part.isdigit()][-2:]) for name in matrices]
    return kinds, list(matrices.values())


def gradient_norms(loss: Tensor, parameters: Sequence[Tensor]) -> list[Tensor | None]:
    """Euclidean norm () of the gradient of `loss` for each parameter, None without one; the graph of `loss` is kept."""
    if not loss.requires_grad:
        return [None] * len(parameters)
    gradients = torch.autograd.grad(loss.sum(), parameters, retain_graph=True, allow_unused=True)
    return [None if gradient is None else gradient.float().norm() for gradient in gradients]
