"""The frozen part of a model, which the directory of a run has once, in a file frozen.DIGEST.pth.

Checkpoints and epoch files of a run with frozen parameters hold the rest of the model, and two entries besides:

    frozen    the SHA-256 digest of each tensor of the frozen part; the name of its file is a digest of these
    low_rank  the maps whose weight, in the frozen part, lacks the product of its adapter, see `with_product`

All other files of weights are whole: averages, and models that are packed, exported or adopted.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

FROZEN, LOW_RANK = "frozen", "low_rank"
PATTERN = "frozen.*.pth"
"""Files with the frozen part of a model."""
_DIGITS = 16  # of a digest, in the name of the file


def tensor_digests(tensors: Mapping[str, object]) -> dict[str, str]:
    """SHA-256 digests of tensors by name: of their type, shape and content."""
    return {name: _digest(tensor) for name, tensor in tensors.items() if isinstance(tensor, Tensor)}


def whole_digest(digests: Mapping[str, str]) -> str:
    """A digest of tensors, given their digests by name."""
    return hashlib.sha256("".join(f"{digests[name]} {name}\n" for name in sorted(digests)).encode()).hexdigest()


def file_beside(path: Path, digests: Mapping[str, str]) -> Path:
    """The file with a frozen part in the folder of `path`, a checkpoint or an epoch file."""
    return path.with_name(PATTERN.replace("*", whole_digest(digests)[:_DIGITS]))


def with_product(weights: Mapping[str, Tensor], name: str, factor: float, transposed: bool) -> Tensor:
    """Return the weight of a map plus the product of its adapter, as in evaluation; see `nets/adapters/low_rank.py`.

    Args:
        weights: Parameters by name.
        name: Name of the map.
        factor: Factor of the product, alpha / r.
        transposed: Whether the product is transposed, as that of an embedding is.

    Raises:
        KeyError: A parameter of the map or of its adapter is missing.
        RuntimeError: They do not fit each other.
    """
    weight, a, b = (weights[f"{name}.{key}"] for key in ("weight", "lora_A", "lora_B"))
    product = factor * (b @ a)
    return weight.clone().add_(product.T if transposed else product)


def _digest(tensor: Tensor) -> str:
    hasher = hashlib.sha256(f"{tensor.dtype} {tuple(tensor.shape)}\n".encode())
    hasher.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return hasher.hexdigest()
