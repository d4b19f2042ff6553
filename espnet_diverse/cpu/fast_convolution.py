"""Convolutions of a loaded model with oneDNN, each with the ReLU after it in one call and weights arranged once.

PyTorch's convolution rearranges its weights in every call, and ReLU then reads and writes the largest tensors of the
encoder, in the subsampling, once more. oneDNN, which is part of PyTorch, computes both at once. Results differ in the
order of sums. The rearranged copy takes as much memory as the weights.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from espnet_diverse.cpu.fast_linear import is_plain
from espnet_diverse.functional.linear import AVAILABLE


class FastConvolution(nn.Conv2d):
    """A convolution and ReLU, with the parameters of another, by oneDNN for inference in float32 on a CPU.

    In all other cases, and under a compiler, it computes `nn.Conv2d` and ReLU.

    Args:
        convolution: The convolution whose parameters are shared.
    """

    def __init__(self, convolution: nn.Conv2d):
        nn.Module.__init__(self)  # no parameters of its own
        self.__dict__ |= {key: value for key, value in vars(convolution).items() if key not in vars(self)}
        self.weight, self.bias = convolution.weight, convolution.bias
        places = self.padding, self.stride, self.dilation, self.groups
        weight = convolution.weight.detach()
        self.arranged = torch._C._nn.mkldnn_reorder_conv2d_weight(weight.to_mkldnn(), *places)
        self.train(convolution.training)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, in, H, W) -> (B, out, H', W')."""
        if is_plain(x):
            return F.relu(super().forward(x))
        places = self.padding, self.stride, self.dilation, self.groups
        convolve = torch.ops.mkldnn._convolution_pointwise.default  # which not every PyTorch has
        return convolve(x, self.arranged, self.bias, *places, "relu", [], "")


def fuse_convolutions(model: nn.Module) -> None:
    """Replace each convolution that ReLU follows by a `FastConvolution`, in place.

    Args:
        model: A model on a CPU or GPU; its parameters do not change any more.
    """
    for parent in list(model.modules()):
        if not isinstance(parent, nn.Sequential):
            continue
        for index, (layer, after) in enumerate(zip(parent, parent[1:], strict=False)):
            if type(layer) is nn.Conv2d and type(after) is nn.ReLU and _is_fit(layer):
                parent[index], parent[index + 1] = FastConvolution(layer), nn.Identity().train(after.training)


def _is_fit(layer: nn.Conv2d) -> bool:
    weight = layer.weight
    plain = layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
    return AVAILABLE and plain and weight.dtype == torch.float32 and not weight.is_cuda
