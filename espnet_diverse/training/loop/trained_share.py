"""The share of the parameters of a model that is trained."""

from collections import Counter

from torch import nn


def trained_share(model: nn.Module) -> str:
    """Say in one line how many parameters are trained, of the whole model and of each of its parts.

    Parts are the children of the model, such as encoder and ctc, and `adapter`: the adapters in them.
    """
    whole: Counter[str] = Counter()
    trained: Counter[str] = Counter()
    for name, parameter in model.named_parameters():
        part = "adapter" if ".adapter." in name or ".lora_" in name else name.partition(".")[0]
        whole[part] += parameter.numel()
        trained[part] += parameter.numel() if parameter.requires_grad else 0
    total, count = whole.total(), trained.total()
    if count == total:
        return f"trained: all {total:,} parameters"
    parts = ", ".join(f"{part} {_of(trained[part], number)}" for part, number in whole.items())
    return f"trained: {count:,} of {total:,} parameters ({100 * count / total:.2g} %): {parts}"


def _of(trained: int, whole: int) -> str:
    return f"all {whole:,}" if trained == whole else f"{trained:,} of {whole:,}"
