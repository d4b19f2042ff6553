"""Semantic mask attention (SMA).

Semantic and disentangled mask attention, TPAMI (the SDMA paper), sections III-A and III-B.

    P = posterior cluster probabilities of the tokens, per head                        (9)
    M_ij = sum_c P_ic P_jc / sum_j' sum_c P_ic P_j'c                                   (10)
    A = softmax(Q K^T / sqrt(D)),  Abar = (M * A) / sum_j (M * A)                      (1), (2)
    Ahat = (1 - gamma) A + gamma Abar,  gamma = 1 - max(1 - nu, exp(-rate * t))        (11)
    loss = lambda_k KL_z + lambda_d DV_z                                               (20), (23), (24)

The tokens' latent z is the input of the attention, as in Algorithm 1; in training it is sampled by adding noise before
the projections (8). The exponent in (11) has its sign repaired: as printed, gamma would be negative.

Null setting: nu = 0 (gamma stays 0), noise_std = 0 and the lambdas 0 make it softmax attention.
Cost: softmax plus O(T C (D + C)); the mixed weights are computed in row blocks and never stored whole.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from espnet_diverse.attention.mixture import Clustering, Mixture
from espnet_diverse.attention.sampling import LearnedVariance, sample
from espnet_diverse.attention.shell import Core, Heads
from espnet_diverse.attention.update_counter import UpdateCounter
from espnet_diverse.functional.blockwise import dense, sdma_attention
from espnet_diverse.functional.information import cluster_kl, diversity
from espnet_diverse.functional.semantic import gamma_schedule, semantic_mask
from espnet_diverse.scope import current


class SMA(Core):
    """Attention re-weighted by a semantic mask of clustered tokens.

    Attributes:
        semantic: The semantic mask (10) of the last call, (B, H, Tq, Tk), kept where weights are.
    """

    @dataclass(frozen=True)
    class Options:
        """Options of SMA; the values are those of the paper's section IV and Table I (Aishell).

        Attributes:
            n_clusters_z: Clusters of the token mixture, one mixture a head.
            noise_std: Standard deviation of the sampling noise (8); the paper's sigma^2 = 0.01 is its square.
            approx_var: Variance of the variational Gaussian q(z|x) in the KL term (20), or "learned": predicted from
                each token, and then the variance of the sampling noise too, unless `noise_std` is 0.
            lambda_k: Weight of the KL terms (20).
            lambda_d: Weight of the diversity terms (23).
            nu: Upper bound of gamma (11).
            gamma_rate: Rate at which gamma nears its bound, per optimizer update.
            alpha, beta: Diagonal and off-diagonal weights of the diversity mask (23).
        """

        n_clusters_z: int = 8
        noise_std: float = 0.1
        approx_var: float | str = 0.1
        lambda_k: float = 0.001
        lambda_d: float = 1.0
        nu: float = 0.9
        gamma_rate: float = 5e-4
        alpha: float = 1.25
        beta: float = 0.75

    def __init__(self, size: int, heads: int, options: "SMA.Options | None" = None, cross: bool = False):
        super().__init__(size, heads, options)
        _check_options(self.options)
        self.token_mixture = Mixture(heads, self.options.n_clusters_z, self.width)
        self.updates = UpdateCounter()
        self.semantic: Tensor | None = None
        learned = self.options.approx_var == "learned"
        self.token_variance = LearnedVariance(size, heads) if learned else None
        self.memory_variance = LearnedVariance(size, heads) if learned and cross else None

    def perturb(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Sample z around the inputs (8), once for each different input: (B, T, M) -> the same shapes."""
        if not self.training or self.options.noise_std == 0:
            return query, key, value
        noisy_query = self._sample_tokens(query, self.token_variance)
        if key is query:
            return noisy_query, noisy_query, noisy_query
        noisy_key = self._sample_tokens(key, self.memory_variance)
        return noisy_query, noisy_key, noisy_key

    def forward(self, heads: Heads) -> tuple[Tensor, Tensor | None]:
        """Heads -> context (B, H, Tq, D), weights Ahat (B, H, Tq, Tk) or None."""
        query = self.token_mixture(self._split(heads.query))  # (9)
        key = query if heads.key is heads.query else self.token_mixture(self._split(heads.key))
        self._collect_token_losses(heads, query, key)
        return self._attend(heads, query.p, key.p)

    def _attend(self, heads: Heads, p_query: Tensor, p_key: Tensor) -> tuple[Tensor, Tensor | None]:
        arguments = (heads.q, heads.k, heads.v, p_query, p_key, self.gamma(), heads.mask)
        self.semantic = semantic_mask(p_query, p_key, heads.mask).detach() if heads.need_weights else None
        if not heads.need_weights and heads.dropout == 0:
            return sdma_attention(*arguments, bias=heads.scaled_position()), None
        context, weights = dense(*arguments, bias=heads.scaled_position())
        if heads.dropout > 0:
            context = F.dropout(weights, heads.dropout) @ heads.v
        return context, weights if heads.need_weights else None

    def gamma(self) -> Tensor:
        """The mixing rate (11) at the current number of optimizer updates, ()."""
        count = self.updates(self.token_mixture.mean)
        return gamma_schedule(count, self.options.nu, self.options.gamma_rate)

    def _collect_token_losses(self, heads: Heads, query: Clustering, key: Clustering) -> None:
        scope = current()
        if not scope.collect:
            return
        sides = [(query, query_side_mask(heads), self._variance(heads.query, self.token_variance))]
        if key is not query:  # cross-attention clusters the tokens of both sides with one mixture
            sides.append((key, key_side_mask(heads), self._variance(heads.key, self.memory_variance)))
        scope.add_loss("kl_z", self.options.lambda_k * sum(self._kl(self.token_mixture, *side) for side in sides))
        scope.add_loss("diversity_z", self.options.lambda_d * sum(self._spread(c, mask) for c, mask, _ in sides))
        scope.add_stat("gamma", gamma_schedule(self.updates.count, self.options.nu, self.options.gamma_rate))
        scope.add_stat("clusters_z", used_clusters(key.p, key_side_mask(heads)))

    def _kl(self, mixture: Mixture, clustering: Clustering, mask: Tensor | None, variance: float | Tensor) -> Tensor:
        return cluster_kl(clustering.x, *mixture.components(), variance, mask, log_joint=clustering.log_joint)

    def _spread(self, clustering: Clustering, mask: Tensor | None) -> Tensor:
        return diversity(clustering.p, self.options.alpha, self.options.beta, mask=mask)

    def _variance(self, x: Tensor, learned: LearnedVariance | None) -> float | Tensor:
        return self.options.approx_var if learned is None else learned(x)

    def _sample_tokens(self, x: Tensor, learned: LearnedVariance | None) -> Tensor:
        if learned is None:
            return sample(x, self.options.noise_std)
        std = learned(x).sqrt().transpose(1, 2)  # (B, T, H)
        return sample(x, std.repeat_interleave(self.width, dim=-1))

    def _split(self, x: Tensor) -> Tensor:
        return x.view(len(x), -1, self.heads, self.width).transpose(1, 2)  # (B, T, M) -> (B, H, T, D)


def used_clusters(p: Tensor, valid: Tensor | None) -> Tensor:
    """Perplexity of the mean cluster usage, averaged over heads: between 1 (collapsed) and C (all used alike).

    p (B, H, T, C), valid (B, 1, T) or None -> ().
    """
    p = p.detach().float()
    if valid is not None:
        p = p * valid.unsqueeze(-1)
    usage = p.sum(dim=(0, 2))
    usage = usage / usage.sum(dim=-1, keepdim=True).clamp_min(1e-8)  # (H, C)
    return torch.special.entr(usage).sum(dim=-1).exp().mean()


def key_side_mask(heads: Heads) -> Tensor | None:
    """Keys that any query may attend are tokens, the others padding: -> (B, 1, Tk), or None (all valid)."""
    return None if heads.mask is None else heads.mask.any(dim=-2)


def query_side_mask(heads: Heads) -> Tensor | None:
    """Queries that are tokens, not padding: -> (B, 1, Tq), or None (all valid).

    In self-attention they are the keys; of cross-attention's queries its mask says nothing, but the scope does.
    """
    if heads.query is heads.key:
        return key_side_mask(heads)
    mask = current().query_mask
    return None if mask is None else mask.unsqueeze(1)


def _check_options(option) -> None:
    if not 0 <= option.nu <= 1:
        raise ValueError(f"nu {option.nu} is out of range; the bound of the mixing rate lies between 0 and 1")
    if option.noise_std < 0:
        raise ValueError(f"noise_std {option.noise_std} is negative; give 0 for no noise")
    if option.approx_var != "learned" and not (isinstance(option.approx_var, (int, float)) and option.approx_var > 0):
        raise ValueError(f"approx_var {option.approx_var!r} is no variance; give a number above 0, or learned")
