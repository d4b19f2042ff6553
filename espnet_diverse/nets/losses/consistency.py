"""Losses of consistency: each batch passes twice, with other dropout and masks, and the predictions should agree.

R-Drop (Liang, Wu et al. 2021) compares the predictions of an attention decoder, CR-CTC (Yao et al. 2025) the
predictions of CTC; equations in `functional/consistency.py`. The two passes are one: the batch is repeated once, so
that encoder and decoder run over 2 B samples, each with its own dropout and its own masks of SpecAugment.

    loss = mean of the losses of both passes + r_drop (1) + cr_ctc (2)

(1) is a sum over target tokens, and (2) one over frames. Each has the divisor and the weight of the loss of its decoder
or CTC: the weights are 1 - ctc_weight and ctc_weight in a hybrid model. With intermediate CTC, (2) is the mean over all
layers with CTC. Frames are compared one by one, so both halves get the same time warping.

Without the section, or with weights of 0, nothing is computed. Evaluation never is. Cost: as twice the batch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from espnet2.asr.ctc import CTC
from espnet2.layers.time_warp import TimeWarp
from torch import Tensor, nn

from espnet_diverse.errors import ConfigError
from espnet_diverse.functional.consistency import consistency
from espnet_diverse.functional.masks import lengths_to_mask
from espnet_diverse.nets.losses.label_smoothing import LabelSmoothingLoss
from espnet_diverse.nets.whisper.byte_ctc import ByteCTC
from espnet_diverse.option_checks import Options, needs, number, read
from espnet_diverse.scope import current

_CTC_TYPES = ("builtin", "builtin2")


@dataclass(frozen=True)
class ConsistencyOptions(Options):
    """Options of consistency, the keys of `model_conf.consistency`.

    Attributes:
        r_drop: Weight of R-Drop relative to the loss of the attention decoder. The code of its authors for translation
            adds up the losses of both passes; here it is their mean: its `reg-alpha` of 5 is 2.5 here.
        cr_ctc: Weight of CR-CTC relative to the loss of CTC, which is the mean of both passes as in icefall.
    """

    r_drop: float = number(0.0, least=0)
    cr_ctc: float = number(0.0, least=0)


class Branches(NamedTuple):
    """The losses of a model that consistency may apply to: weights in the loss of the task, by attribute of the model.

    Attributes:
        decoders: Criteria of attention decoders.
        ctcs: CTC modules.
    """

    decoders: Mapping[str, float]
    ctcs: Mapping[str, float]


def add_consistency(
    model: nn.Module, settings: Mapping[str, Any] | None, branches: Branches | None
) -> "Consistency | None":
    """Let the losses of a model compare the halves of a paired batch.

    Args:
        model: A model of ESPnet with our `LabelSmoothingLoss`; parts of it are replaced, with the same parameters.
        settings: `ConsistencyOptions` by name; None is no consistency.
        branches: The losses that it may apply to, or None where the model supports none.

    Returns:
        What weighs these losses, or None with weights of 0.

    Raises:
        ConfigError: An option is unknown or has a value that is not allowed, or the model has no such loss.
    """
    options = None if settings is None else read(ConsistencyOptions, settings, "consistency")
    if options is None or not (options.r_drop or options.cr_ctc):
        return None
    if branches is None:
        raise ConfigError(
            f"consistency does not fit {type(model).__name__} or its decoder: it is for asr, st, mt and s2t with "
            "attention decoders and CTC, without transducers; leave it out"
        )
    weights: dict[str, dict[str, float]] = {"r_drop": {}, "cr_ctc": {}}
    for name, weight in branches.decoders.items() if options.r_drop else ():
        if weight:
            setattr(model, name, _paired_criterion(getattr(model, name), f"r_drop.{name}"))
            weights["r_drop"][f"r_drop.{name}"] = options.r_drop * weight
    for name, weight in branches.ctcs.items() if options.cr_ctc else ():
        if weight:
            setattr(model, name, _paired_ctc(getattr(model, name), f"cr_ctc.{name}"))
            weights["cr_ctc"][f"cr_ctc.{name}"] = options.cr_ctc * weight
    if options.r_drop and not weights["r_drop"]:
        raise needs(options, "r_drop", "the loss of an attention decoder; set ctc_weight below 1")
    if options.cr_ctc and not weights["cr_ctc"]:
        raise needs(options, "cr_ctc", "a loss of CTC; set ctc_weight above 0 where the task has it")
    share_time_warp(getattr(model, "specaug", None))
    return Consistency(weights)


class Consistency:
    """Weighs the losses that parts of a model find between the halves of a batch.

    Args:
        weights: Weights of the terms by name, by name of the loss ("r_drop", "cr_ctc").
    """

    def __init__(self, weights: Mapping[str, Mapping[str, float]]):
        self.weights = weights

    def take(self, losses: dict[str, Tensor]) -> dict[str, Tensor]:
        """Remove the terms from the losses () of a scope, and return the weighted losses () that are there."""
        weighted = {}
        for name, weights in self.weights.items():
            terms = [weight * losses.pop(term) for term, weight in weights.items() if term in losses]
            if terms:
                weighted[name] = torch.stack(terms).sum()
        return weighted


def doubled(value: Any) -> Any:
    """Repeat the samples of a batch: tensors (B, ...) -> (2 B, ...), and lists; anything else stays as it is.

    Mappings and tuples are arguments, whose values are repeated.
    """
    if isinstance(value, Tensor):
        return torch.cat([value, value])
    if isinstance(value, list):
        return value * 2
    if isinstance(value, Mapping):
        return {name: doubled(argument) for name, argument in value.items()}
    return tuple(map(doubled, value)) if isinstance(value, tuple) else value


def doubled_conditions(conditions: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Repeat conditions (B,) of a scope -> (2 B,); (1,), which may hold for all samples, stays as it is."""
    return {name: ids if len(ids) == 1 else doubled(ids) for name, ids in conditions.items()}


class PairedLabelSmoothingLoss(LabelSmoothingLoss):
    """The loss of an attention decoder that adds R-Drop, unweighted, to the scope of a paired batch.

    Args:
        name: Name of the loss in the scope.
        ignored, smoothing, by_token: See `LabelSmoothingLoss`.
    """

    def __init__(self, name: str, ignored: int, smoothing: float, by_token: bool):
        super().__init__(ignored, smoothing, by_token)
        self.name = name

    def forward(self, scores: Tensor, targets: Tensor) -> Tensor:
        """Compute the loss () of scores (B, T, V) and targets (B, T)."""
        total, number = self.total(scores, targets), self.number(targets)
        if current().paired:
            divergence = consistency(scores, targets.chunk(2)[0] != self.ignored).sum()
            current().add_loss(self.name, divergence / (number / 2))  # `number` counts both halves
        return total / number


class PairedCTC(CTC):
    """CTC that adds CR-CTC, unweighted, to the scope of a paired batch.

    Args:
        ctc: The CTC whose parts it takes over.
        name: Name of the loss in the scope.
    """

    def __init__(self, ctc: CTC, name: str):
        nn.Module.__init__(self)
        self.__dict__.update(ctc.__dict__)
        self.name = name

    def loss_fn(self, th_pred: Tensor, th_target: Tensor, th_ilen: Tensor, th_olen: Tensor) -> Tensor:
        """Compute the loss () of scores (T, B, V) of sequences of th_ilen (B,) frames, as ESPnet's method."""
        if current().paired:
            scores = th_pred.transpose(0, 1)
            valid = lengths_to_mask(th_ilen.chunk(2)[0].to(scores.device), scores.size(1))
            current().add_loss(self.name, consistency(scores, valid, constant_targets=True).mean())
        return super().loss_fn(th_pred, th_target, th_ilen, th_olen)


class PairedByteCTC(ByteCTC, PairedCTC):
    """CTC over bytes that adds CR-CTC; its arguments are those of `PairedCTC`."""

    __init__ = PairedCTC.__init__


class SharedTimeWarp(TimeWarp):
    """ESPnet's time warping, the same for the halves of a paired batch."""

    def forward(self, x: Tensor, x_lengths: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Warp x (B, ..., T, F) of sequences of x_lengths (B,) frames."""
        if not current().paired:
            return super().forward(x, x_lengths)
        # Interpolation along time keeps features apart, so the halves go side by side.
        beside, lengths = torch.cat(x.chunk(2), -1), None if x_lengths is None else x_lengths.chunk(2)[0]
        warped, _ = super().forward(beside, lengths)
        return torch.cat(warped.chunk(2, -1)), x_lengths


def share_time_warp(specaug: Any) -> None:
    """Give SpecAugment of ESPnet, if there is one with time warping, one that both halves of a batch share."""
    warp = getattr(specaug, "time_warp", None)
    if isinstance(warp, TimeWarp):
        specaug.time_warp = SharedTimeWarp(warp.window, warp.mode)


def _paired_criterion(criterion: nn.Module, name: str) -> PairedLabelSmoothingLoss:
    if not isinstance(criterion, LabelSmoothingLoss):
        raise ConfigError("consistency.r_drop needs a loss of smoothed labels; set lsm_weight below 1")
    return PairedLabelSmoothingLoss(name, criterion.ignored, criterion.smoothing, criterion.by_token)


def _paired_ctc(ctc: CTC, name: str) -> PairedCTC:
    if ctc.ctc_type not in _CTC_TYPES:
        allowed = " or ".join(_CTC_TYPES)
        raise ConfigError(f"consistency.cr_ctc does not fit ctc_type {ctc.ctc_type}; set ctc_conf.ctc_type {allowed}")
    return (PairedByteCTC if isinstance(ctc, ByteCTC) else PairedCTC)(ctc, name)
