"""Head selection by learned logits: the strategies "group" and "subset" of the head-selection paper.

Gong et al. 2021, "Pay Better Attention to Attention: Head Selection in Multilingual and Multi-Domain Sequence
Modeling".

    y = sigmoid((phi + n_t (g1 - g2)) / tau_t),  g1, g2 ~ Gumbel(0, 1)            (4), phi a table of each layer
    subset: the H heads of highest y (5);  group: of each of H groups the head of highest y (6)
    context = concatenation of s_i head_i,  s_i = 1 in value with the gradient of y_i    (7), straight-through

With `all_candidates`, a group adds z_c head_c of its other heads, z_c = 0 in value with the gradient of y_c (ours).

The noise is drawn once in each forward pass for each value of a condition, so samples of one language select the same
heads. In evaluation there is none. The factor n_t (ours; 1 in the paper) and the temperature tau_t depend on the number
of optimizer updates, see `SelectionOptions`.
"""

from collections.abc import MutableMapping, Sequence
from functools import reduce

import torch
from torch import Tensor, nn

from espnet_diverse.attention.inspection import AuxiliaryLoss
from espnet_diverse.attention.selection.head_gather import SelectedHeads
from espnet_diverse.attention.selection.head_selection import HeadSelection, StaticSelection
from espnet_diverse.attention.selection.selection_options import SelectionOptions
from espnet_diverse.attention.update_counter import UpdateCounter
from espnet_diverse.functional.selection import (
    bernoulli_kl,
    group_gap,
    group_picks,
    group_rest,
    logistic_noise,
    official_kl,
    shared_heads,
    soft_sample,
    straight_through,
    subset_gap,
    subset_picks,
)
from espnet_diverse.scope import current

_FIRST, _LAST = -4.605170185988091, 0.0  # log 0.01 and log 1: where logits start, as released


def build_selection(options: SelectionOptions | None, heads: int) -> HeadSelection | None:
    """Build the head selection of an attention.

    Args:
        options: Options of the selection, or None.
        heads: Number of heads H that each sample selects.

    Returns:
        A `HeadSelection`, or None without options and for strategy "none".

    Raises:
        ValueError: An option does not fit the number of heads.
    """
    if options is None or options.strategy == "none":
        return None
    return StaticSelection(heads, options) if options.strategy == "static" else LearnedSelection(heads, options)


class LearnedSelection(HeadSelection):
    """Selection by learned logits, a parameter `logits_<condition>` (N, P) for each condition.

    The parameter holds the logits divided by `logits_learning_rate_scale` and has the gradient of the logits
    themselves: a step of any optimizer then moves the logits by this factor more, and gradients are clipped as without
    it. State dicts hold the logits themselves, so a checkpoint fits any factor.
    """

    LOSSES = {"head_kl": AuxiliaryLoss("selection.kl_weight")}

    def __init__(self, heads: int, options: SelectionOptions):
        super().__init__(heads, options)
        if self.pool <= heads:
            raise ValueError(
                f"a pool of {self.pool} leaves {heads} heads nothing to select; give more, or choose strategy none"
            )
        if options.strategy == "group" and self.pool % heads:
            raise ValueError(f"a pool of {self.pool} does not make {heads} groups; give a multiple of {heads}")
        for condition, names in self.names.items():
            self.register_parameter(f"logits_{condition}", nn.Parameter(torch.empty(len(names), self.pool)))
            self.register_buffer(f"_start_{condition}", torch.empty(len(names), self.pool), persistent=False)
        annealed = options.tau_steps if options.tau_schedule != "constant" else None
        warming = options.kl_warmup_steps if options.kl_weight else None
        self.updates = UpdateCounter(annealed, options.noise_steps, warming)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the logits uniformly between log 0.01 and log 1, as in the released code."""
        scale = self.options.logits_learning_rate_scale
        for condition in self.names:
            nn.init.uniform_(self._stored(condition), _FIRST / scale, _LAST / scale)
        self.mark_start()

    espnet_initialization_fn = reset_parameters  # ESPnet's `init` redraws all parameters, then calls this

    def mark_start(self) -> None:
        """Record the present logits as the start of training, for the statistic `logit_movement`.

        They are not in checkpoints: a resumed run is first built with the same seed, so it draws them again.
        """
        for condition in self.names:
            getattr(self, f"_start_{condition}").copy_(self.logits(condition).detach())

    def logits(self, condition: str) -> Tensor:
        """Return the logits of the N values of a condition, (N, P), phi of (4)."""
        stored, scale = self._stored(condition), self.options.logits_learning_rate_scale
        return stored if scale == 1 else (stored * scale).detach() + (stored - stored.detach())

    def _rows(self, condition: str, values: Sequence[int]) -> Tensor:
        logits = self.logits(condition)
        return logits[current().copied(values, logits.device)]

    @torch.no_grad()
    def set_logits(self, condition: str, logits: Tensor) -> None:
        """Set the logits of the N values of a condition, (N, P)."""
        self._stored(condition).copy_(logits / self.options.logits_learning_rate_scale)

    def places(self) -> Tensor:
        """See `HeadSelection.places`; each group of the strategy "group" has one place."""
        if (self.options.strategy, self.options.group_layout) == ("group", "contiguous"):
            return torch.arange(self.pool) // (self.pool // self.heads)
        return super().places()

    def _stored(self, condition: str) -> nn.Parameter:
        return getattr(self, f"logits_{condition}")

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        self._multiply_logits(destination, prefix, self.options.logits_learning_rate_scale)

    def _load_from_state_dict(self, state_dict, prefix, *args):
        self._multiply_logits(state_dict, prefix, 1 / self.options.logits_learning_rate_scale)
        super()._load_from_state_dict(state_dict, prefix, *args)

    def _multiply_logits(self, state: MutableMapping[str, Tensor], prefix: str, factor: float) -> None:
        for condition in self.names:
            name = f"{prefix}logits_{condition}"
            if name in state and factor != 1:
                state[name] = state[name] * factor

    def picks(self, condition: str | None = None) -> Tensor:
        """Return the heads of every value in evaluation, see `HeadSelection.picks`."""
        first, *others = self.names if condition is None else [condition]
        phi = self.logits(first).detach()
        for other in others:
            phi = phi.unsqueeze(-2) + self.logits(other).detach()
        return self._pick(phi)

    def tau(self, updates: Tensor) -> float | Tensor:
        """Return the temperature after a number of updates ()."""
        option = self.options
        if option.tau_schedule == "constant":
            return option.tau
        progress = (updates / self.updates.length(option.tau_steps)).clamp(max=1)
        if option.tau_schedule == "linear":
            return option.tau + (option.tau_final - option.tau) * progress
        return option.tau * (option.tau_final / option.tau) ** progress

    def noise_scale(self, updates: Tensor) -> float | Tensor:
        """Return the factor of the noise after a number of updates ()."""
        option = self.options
        if option.noise_steps is None:
            return 1.0
        remaining = (1 - updates / self.updates.length(option.noise_steps)).clamp(min=0)  # share of updates with noise
        return remaining if option.noise_schedule == "linear" else remaining.ceil()

    def _choose(
        self, values: Sequence[tuple[int, ...]], members: Sequence[int]
    ) -> tuple[Tensor, Tensor | None, Sequence[SelectedHeads]]:
        indices = zip(self.names, zip(*values, strict=True), strict=True)
        phi = reduce(torch.add, (self._rows(condition, index) for condition, index in indices))  # (G, P)
        if not self.training:
            return self._pick(phi), None, ()
        updates = self.updates(self._stored(next(iter(self.names))))
        noise = logistic_noise(phi) * self.noise_scale(updates)
        y = soft_sample(phi, noise, self.tau(updates))
        picks = self._pick(phi + noise)  # in the order of y, which may be 1 to the bit for several heads
        self._collect(phi, y, picks, updates, members)
        remaining = group_rest(picks, self.pool, self.options.group_layout) if self.options.all_candidates else ()
        unselected = [SelectedHeads(heads, self.pool, y.gather(-1, heads), members) for heads in remaining]
        return picks, straight_through(y, picks), unselected

    def _pick(self, scores: Tensor) -> Tensor:
        if self.options.strategy == "subset":
            return subset_picks(scores, self.heads, self.options.subset_order)
        return group_picks(scores, self.heads, self.options.group_layout)

    def _gap(self, scores: Tensor) -> Tensor:
        if self.options.strategy == "subset":
            return subset_gap(scores, self.heads)
        return group_gap(scores, self.heads, self.options.group_layout)

    def _movement(self) -> Tensor:
        moved = [(self.logits(name).detach() - getattr(self, f"_start_{name}")).abs().flatten() for name in self.names]
        return torch.cat(moved).mean()

    def _collect(self, phi: Tensor, y: Tensor, picks: Tensor, updates: Tensor, members: Sequence[int]) -> None:
        """Add the KL term of (3), mean over samples, and statistics: how far the logits decide, and have moved.

        `heads_by_noise` is the share of selected heads that the noise has changed, `logit_gap` how far selected heads
        are ahead of the best other ones, `logit_movement` the mean distance of the logits from their start.
        """
        shared, option = current(), self.options
        if not shared.collect:
            return
        if shared.statistics:
            phi_now = phi.detach()
            unchanged = shared_heads(picks, self._pick(phi_now)).float().mean()
            shared.add_stat("heads_by_noise", 1 - unchanged / self.heads)
            shared.add_stat("logit_gap", self._gap(phi_now).mean())
            shared.add_stat("logit_movement", self._movement())
        if option.kl_weight == 0:
            return
        prior = self.heads / self.pool
        kl = bernoulli_kl(phi, prior).sum(-1) if option.kl_form == "bernoulli" else official_kl(y, prior).mean(-1)
        warm = (updates / self.updates.length(option.kl_warmup_steps)).clamp(max=1) if option.kl_warmup_steps else 1.0
        shared.add_loss("head_kl", option.kl_weight * warm * kl[shared.copied(members, kl.device)].mean())
