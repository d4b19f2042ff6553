"""The auxiliary losses (20)-(24) of SMA and SDMA, for one module or for several modules at once.

A sentence has about twenty tokens, and the losses over its posteriors take less time than the overhead of calling their
operations. The modules of a model with the same options and with inputs of the same shape are therefore computed in one
call, see `Scope.add_losses`. Every loss is a mean over all dimensions but the tokens, so with one more leading
dimension it is the mean over the modules.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import torch
from torch import Tensor

from espnet_diverse.attention.mixtures.mixture import Clustering, Mixture
from espnet_diverse.attention.mixtures.sdma_options import SDMAOptions, SMAOptions
from espnet_diverse.functional.information import (
    Valid,
    cluster_kl,
    diversity,
    head_mi_upper,
    query_mi_lower,
    valid_tokens,
)
from espnet_diverse.scope import current


class Side(NamedTuple):
    """Clustered tokens of one side of an attention.

    Attributes:
        clustering: The tokens and their clustering.
        mask: The tokens that losses are computed over, True = valid, (B, 1, T), or None (all).
        variance: Variance of the variational Gaussian in (20), a number or (B, H, T).
    """

    clustering: Clustering
    mask: Tensor | Valid | None
    variance: float | Tensor


#: A function of options, of the mixture's log prior and log variance, and of the sides.
LossesOf = Callable[[Any, tuple[Tensor, Tensor], Sequence[Side]], dict[str, Tensor]]


def collect_losses(losses: LossesOf, options: SMAOptions, mixture: Mixture, sides: Sequence[Side]) -> None:
    """Add the losses of one module to the open scope, which computes the losses of similar modules in one call.

    Args:
        losses: `token_losses` or `query_losses`.
        options: Options of the core.
        mixture: The mixture that clusters all sides.
        sides: Queries and keys, or one of them.
    """
    log_prior, _, log_var = mixture.components()
    tensors = [log_prior.unsqueeze(0), log_var.unsqueeze(0)]
    for (_, joint, p), _, variance in sides:
        tensors += [joint.transpose(-2, -1), p.transpose(-2, -1)]  # narrow rows are slow
        tensors += [variance] if isinstance(variance, Tensor) else []

    def compute(log_prior: Tensor, log_var: Tensor, *of_sides: Tensor) -> Mapping[str, Tensor]:
        with torch.autocast(log_var.device.type, enabled=False):
            return losses(options, (log_prior, log_var), list(_unpacked(sides, iter(of_sides))))

    key = losses, options, *(id(side.mask) for side in sides), *(type(side.variance) for side in sides)
    current().add_losses(key, compute, *tensors)


def token_losses(options: SMAOptions, components: tuple[Tensor, Tensor], sides: Sequence[Side]) -> dict[str, Tensor]:
    """Compute the weighted losses (20) and (23) of tokens, (), which sum over the sides."""
    both = [_kl_and_diversity(options, components, side) for side in sides]
    return dict(
        zip(("kl_z", "diversity_z"), (reduce(torch.add, terms) for terms in zip(*both, strict=True)), strict=True)
    )


def query_losses(options: SDMAOptions, components: tuple[Tensor, Tensor], sides: Sequence[Side]) -> dict[str, Tensor]:
    """Compute the weighted losses (20)-(23) of queries, ()."""
    (side,) = sides
    x, joint, p = side.clustering
    kl, spread = _kl_and_diversity(options, components, side)
    head_mi = head_mi_upper(joint, p, x.size(-1), side.mask, options.mi_density, options.mi_bound)
    query_mi = -options.lambda_x * query_mi_lower(p, side.mask)
    return {"kl_q": kl, "diversity_q": spread, "head_mi": options.lambda_q * head_mi, "query_mi": query_mi}


def _kl_and_diversity(options: SMAOptions, components: tuple[Tensor, Tensor], side: Side) -> tuple[Tensor, Tensor]:
    x, joint, p = side.clustering
    log_prior, log_var = components
    kl = cluster_kl(joint, p, x.size(-1), log_prior, log_var, side.variance, side.mask, options.kl_direction)
    spread = diversity(p, options.alpha, options.beta, options.dv_form, side.mask)
    return options.lambda_k * kl, options.lambda_d * spread


def _unpacked(sides: Sequence[Side], of_sides: Iterator[Tensor]) -> Iterator[Side]:
    """Yield the sides with the tensors of N modules; of the tokens only the width and the type matter."""
    for (x, _, _), mask, variance in sides:
        clustering = Clustering(x, *(next(of_sides).transpose(-2, -1) for _ in range(2)))
        yield Side(clustering, valid_tokens(mask, x), next(of_sides) if isinstance(variance, Tensor) else variance)
