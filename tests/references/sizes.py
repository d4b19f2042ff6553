"""Growth of the cost of a computation with the length of its input: counted, not timed."""

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode


class _Elements(TorchDispatchMode):
    """Counts the elements of all tensors that are computed; views and results in place are not new."""

    def __init__(self):
        super().__init__()
        self.counts = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        given = {tensor.untyped_storage().data_ptr() for tensor in _tensors((args, kwargs))}
        self.counts += [t.numel() for t in _tensors(result) if t.untyped_storage().data_ptr() not in given]
        return result


def growth(compute, time=512):
    """Factors by which a computation grows when the length doubles.

    Args:
        compute: Function of the length that returns a tensor; what it computes is counted, and the backward pass from
            its sum.
        time: The shorter length.

    Returns:
        Factors of the multiplications, of the elements of all tensors, and of those of the largest tensor. Fused
        attention is computed step by step, so that its scores count.
    """
    counts = []
    for length in (time, 2 * time):
        steps = sdpa_kernel(SDPBackend.MATH)
        with steps, FlopCounterMode(display=False) as operations, _Elements() as elements:
            compute(length).sum().backward()
        counts.append((operations.get_total_flops(), sum(elements.counts), max(elements.counts)))
    return [long / short for short, long in zip(*counts, strict=True)]


def _tensors(tree):
    return [leaf for leaf in tree_leaves(tree) if torch.is_tensor(leaf)]
