"""Semantic mask attention (SMA).

Chien and Huang 2024, "Latent Semantic and Disentangled Attention", IEEE TPAMI, doi:10.1109/TPAMI.2024.3432631 (the SDMA
paper), sections III-A and III-B.

    P = posterior cluster probabilities of the tokens, per head                        (9)
    M_ij = sum_c P_ic P_jc / sum_j' sum_c P_ic P_j'c                                   (10)
    A = softmax(Q K^T / sqrt(D)),  Abar = (M * A) / sum_j (M * A)                      (1), (2)
    Ahat = (1 - gamma) A + gamma Abar,  gamma = 1 - max(1 - nu, exp(-rate * t))        (11)
    loss = lambda_k KL_z + lambda_d DV_z                                               (20), (23), (24)

The latent z of the tokens is the input of the attention divided by s, as in Algorithm 1. In training it is sampled by
adding noise before the projections (8). The exponent of (11) is negative here; with the printed sign gamma would be
negative. Where the paper and its released code differ, an option selects the form, see `mixtures.sdma_options`.

Softmax-equivalent setting: nu = 0 (gamma stays 0), noise_std = 0, lambda_k = 0 and lambda_d = 0.
Cost: as softmax attention plus O(T C (D + C)); the mixed weights are computed in blocks of rows and never stored whole.
Training with attention dropout stores several matrices (T, T) for each head.
"""

import math
from dataclasses import replace
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from espnet_diverse.attention.core import Core, Heads, Inputs
from espnet_diverse.attention.cores.softmax import softmax_attention
from espnet_diverse.attention.inspection import AuxiliaryLoss, Diagnosis, HeadMap, Inspection
from espnet_diverse.attention.mixtures.cluster_losses import Side, collect_losses, token_losses
from espnet_diverse.attention.mixtures.cluster_usage import cluster_diagnoses, cluster_usage
from espnet_diverse.attention.mixtures.mixture import Clustering, Mixture
from espnet_diverse.attention.mixtures.noise import LearnedVariance, gaussian_noise, noise_diagnosis, noise_share
from espnet_diverse.attention.mixtures.sdma_options import SMAOptions
from espnet_diverse.attention.supports import EVERYTHING
from espnet_diverse.attention.token_masks import key_side_mask, query_side_mask
from espnet_diverse.attention.update_counter import UpdateCounter
from espnet_diverse.functional.blockwise import sdma_attention
from espnet_diverse.functional.mixed_attention import mixed_weights
from espnet_diverse.functional.precision import in_full_precision
from espnet_diverse.functional.semantic import gamma_schedule, semantic_mask
from espnet_diverse.scope import current


class SMA(Core):
    """Attention re-weighted by a semantic mask of clustered tokens."""

    Options = SMAOptions
    options: SMAOptions
    supports = replace(EVERYTHING, half_precision=False)  # log densities are too coarse in half precision
    SOFTMAX_EQUIVALENT = {"nu": 0.0, "noise_std": 0.0, "lambda_k": 0.0, "lambda_d": 0.0}
    DIAGNOSES: ClassVar[tuple[Diagnosis, ...]] = (
        *cluster_diagnoses("z", "tokens"),
        noise_diagnosis("tokens", "lower noise_std, or set noise_times_s: false if scale_s is above 1"),
    )
    LOSSES = {"kl_z": AuxiliaryLoss("lambda_k"), "diversity_z": AuxiliaryLoss("lambda_d")}

    def build(self) -> None:
        self.token_mixture = self._mixture(self.heads, self.options.n_clusters_z)
        self.updates = UpdateCounter(self.options.gamma_updates or math.inf)  # gamma_rate has no end
        learned = self.options.approx_var == "learned"
        self.token_variance = LearnedVariance(self.size, self.heads) if learned else None
        self.memory_variance = LearnedVariance(self.size, self.heads) if learned and self.cross else None
        self._seen = Inspection()

    def perturb(self, query: Tensor, key: Tensor, value: Tensor) -> Inputs:
        """Sample z around the inputs (8), once for each different input: (B, T, M) -> the same shapes."""
        if not self.training or self.options.noise_std == 0:
            return Inputs(query, key, value)
        noisy_query = query + self._token_noise(query, self.token_variance)
        noisy_key = noisy_query if key is query else key + self._token_noise(key, self.memory_variance)
        if self.options.noise_on == "all":
            same = value is key
            return Inputs(
                noisy_query, noisy_key, noisy_key if same else value + self._token_noise(value, self.memory_variance)
            )
        return Inputs(noisy_query, key if key is query else noisy_key, value)

    def key_features(self, key: Tensor, k: Tensor) -> Tensor:
        """Compute the posteriors of the keys (9): (B, T, M) -> (B, H, T, C)."""
        with torch.autocast(key.device.type, enabled=False):
            return self._cluster(in_full_precision(key)).p

    def forward(self, heads: Heads) -> tuple[Tensor, Tensor | None]:
        """Compute the context (B, H, Tq, D), and the weights Ahat (B, H, Tq, Tk) if needed, else None."""
        if heads.key_features is not None:
            self._seen = Inspection()
            return self._attend(heads, self._cluster(heads.query).p, heads.key_features)
        clustered: Heads | Inputs = heads
        if heads.perturbed is not None and self.options.noise_order == "before":
            clustered = heads.perturbed
        query = self._cluster(clustered.query)
        key = query if heads.key is heads.query else self._cluster(clustered.key)
        self._collect_token_losses(heads, query, key)
        self._seen = self._inspection(heads, query, key) if heads.need_weights else Inspection()
        return self._attend(heads, query.p, key.p)

    def inspect(self) -> Inspection:
        """Return the semantic mask (10) and the posteriors (9) of the last call, if it needed weights."""
        return self._seen

    def _inspection(self, heads: Heads, query: Clustering, key: Clustering) -> Inspection:
        semantic = HeadMap(
            "semantic mask M",
            "The semantic mask is what the clusters alone would choose, the attention what the model uses.",
            semantic_mask(query.p, key.p, heads.mask).detach(),
        )
        posteriors = {"query inputs": query.p.detach()}
        if key is not query:
            posteriors["key inputs"] = key.p.detach()
        return Inspection({"semantic": semantic}, posteriors)

    def _cluster(self, x: Tensor) -> Clustering:
        """Cluster tokens (B, T, M) divided by s, by heads (9)."""
        heads = x.view(x.size(0), -1, self.heads, self.width).transpose(1, 2)
        return self.token_mixture(divided(heads, self.scale()))

    def _attend(self, heads: Heads, p_query: Tensor, p_key: Tensor) -> tuple[Tensor, Tensor | None]:
        gamma = self.gamma()
        if not (self.training or gamma.is_cuda or torch.jit.is_tracing()) and gamma == 0:
            return softmax_attention(heads)  # to the bit; on a GPU the comparison would wait for it
        bias, allowed = heads.scaled_position(), heads.allowed()
        if not heads.need_weights and heads.dropout == 0:
            return sdma_attention(heads.q, heads.k, heads.v, p_query, p_key, gamma, allowed, bias=bias), None
        weights = mixed_weights(heads.q, heads.k, p_query, p_key, gamma, allowed, bias=bias)
        context = F.dropout(weights, heads.dropout) @ heads.v
        return context, weights if heads.need_weights else None

    def gamma(self) -> Tensor:
        """Return the mixing rate (11) at the current number of optimizer updates, (); 0 if the mask is not used."""
        gamma = gamma_schedule(self._count(), self.options.nu, self._rate(self.options.nu))
        unmasked = self.causal and not self.training and not self.options.decoder_test_mask
        return gamma.new_zeros(()) if unmasked else gamma

    def scale(self) -> float | Tensor:
        """Return s of Algorithm 1; with `scale_s: anneal` it falls from 10 to 1 while gamma with nu 0.9 grows to nu."""
        if not isinstance(self.options.scale_s, str):  # the only text that is allowed is "anneal"
            return self.options.scale_s
        return 10 * (1 - gamma_schedule(self._count(), 0.9, self._rate(0.9)))

    def _rate(self, nu: float) -> float | Tensor:
        """Return the rate of (11): exp(-rate t) is 1 - nu after `gamma_updates`."""
        option = self.options
        if option.gamma_updates is None:
            return option.gamma_rate
        return -math.log(1 - nu) / self.updates.length(option.gamma_updates)

    def _collect_token_losses(self, heads: Heads, query: Clustering, key: Clustering) -> None:
        scope = current()
        if not scope.collect:
            return
        sides = [self._side(query, query_side_mask(heads), self._variance(heads.query, self.token_variance))]
        if key is not query:  # cross-attention clusters the tokens of both sides with one mixture
            sides.append(self._side(key, key_side_mask(heads), self._variance(heads.key, self.memory_variance)))
        collect_losses(token_losses, self.options, self.token_mixture, sides)
        if scope.statistics:
            scope.add_stat("gamma", self.gamma())
            self._collect_usage("z", key, key_side_mask(heads))

    def _side(self, clustering: Clustering, mask: Tensor | None, variance: float | Tensor) -> Side:
        return Side(clustering, mask if self.options.losses_over == "valid" else None, variance)

    def _collect_usage(self, suffix: str, clustering: Clustering, mask: Tensor | None) -> None:
        if current().statistics and clustering.p.size(-1) > 1:
            for name, value in cluster_usage(clustering.p, mask).items():
                current().add_stat(f"{name}_{suffix}", value)

    def _variance(self, x: Tensor, learned: LearnedVariance | None) -> float | Tensor:
        return float(self.options.approx_var) if learned is None else learned(x)

    def _token_noise(self, x: Tensor, learned: LearnedVariance | None) -> Tensor:
        std: float | Tensor = self.options.noise_std
        if learned is not None:
            std = learned(x).sqrt().transpose(1, 2).repeat_interleave(self.width, dim=-1)  # (B, H, T) -> (B, T, M)
        std = std * self._noise_scale()
        if current().statistics:
            current().add_stat("noise_tokens", noise_share(std, x))
        return gaussian_noise(x, std)

    def _noise_scale(self) -> float | Tensor:
        return self.scale() if self.options.noise_times_s else 1.0

    def _mixture(self, groups: int, clusters: int) -> Mixture:
        option = self.options
        scales = option.centroid_gradient_scale, option.centroid_learning_rate_scale
        return Mixture(groups, clusters, self.width, option.gmm_init, *scales)

    def _count(self) -> Tensor:
        return self.updates(self.token_mixture.mean)


def divided(x: Tensor, by: float | Tensor) -> Tensor:
    """Return x / by; for the number 1 this is x itself."""
    return x if isinstance(by, (int, float)) and by == 1 else x / by
