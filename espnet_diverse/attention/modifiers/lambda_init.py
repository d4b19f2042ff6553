"""The number lambda_init of differential attention and of its extension: a constant, or by layer as in the papers.

A number by layer is kept with the weights, because earlier versions had 0.8 in all layers by default
(`runs/checkpoint.py`).
"""

import torch
from torch import nn

from espnet_diverse.functional.differential import initial_weight


class LambdaInit(nn.Module):
    """Holds lambda_init of a layer.

    Args:
        given: The constant, or None for the number of the layer, which is the first one until `set_layer`.

    Attributes:
        value: lambda_init.
    """

    def __init__(self, given: float | None):
        super().__init__()
        self.by_layer = given is None
        self.value = initial_weight(1) if given is None else float(given)

    def set_layer(self, layer: int) -> None:
        """Tell the number of the layer, from 1 on."""
        if self.by_layer:
            self.value = initial_weight(layer)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self.by_layer:
            destination[f"{prefix}value"] = torch.tensor(self.value, dtype=torch.float64)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, *args):
        if self.by_layer:
            self.value = float(state_dict.pop(f"{prefix}value", self.value))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *args)

    def extra_repr(self) -> str:
        return f"{self.value:.4g}"
