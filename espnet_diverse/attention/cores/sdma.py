"""Semantic and disentangled mask attention (SDMA).

Chien and Huang 2024, "Latent Semantic and Disentangled Attention", IEEE TPAMI, doi:10.1109/TPAMI.2024.3432631 (the SDMA
paper), section III-C: SMA with disentangled heads.

    P^q = posterior cluster probabilities of the queries under one mixture that all heads share       (9), (18)
    loss = SMA's + lambda_k KL_q + lambda_q D_qq - lambda_x D_xq + lambda_d DV_q                       (20)-(24)

D_qq (21) is an upper bound on the mutual information between the queries of two heads, D_xq (22) a lower bound on the
mutual information between a query and its token. Minimising the first and maximising the second makes the heads differ.

With relative position the noise of the queries (8) enters only the content terms, not the position terms.

Softmax-equivalent setting: nu = 0, noise_std = 0 and lambda_k = lambda_d = lambda_q = lambda_x = 0.
Cost: as SMA plus, in training only, O(T C (D + H^2)) and the log-sum-exp over token pairs of D_xq, O(T^2 C) in blocks
of rows.
"""

import math
from dataclasses import replace

from torch import Tensor

from espnet_diverse.attention.core import Heads
from espnet_diverse.attention.cores.sma import SMA, divided
from espnet_diverse.attention.inspection import AuxiliaryLoss
from espnet_diverse.attention.mixtures.cluster_losses import collect_losses, query_losses
from espnet_diverse.attention.mixtures.cluster_usage import cluster_diagnoses
from espnet_diverse.attention.mixtures.mixture import Clustering
from espnet_diverse.attention.mixtures.noise import LearnedVariance, gaussian_noise, noise_diagnosis, noise_share
from espnet_diverse.attention.mixtures.sdma_options import SDMAOptions
from espnet_diverse.attention.token_masks import query_side_mask
from espnet_diverse.scope import current


class SDMA(SMA):
    """Semantic mask attention with mutual-information losses on the queries, which make the heads differ."""

    Options = SDMAOptions
    options: SDMAOptions
    SOFTMAX_EQUIVALENT = SMA.SOFTMAX_EQUIVALENT | {"lambda_q": 0.0, "lambda_x": 0.0}
    DIAGNOSES = (
        *SMA.DIAGNOSES,
        *cluster_diagnoses("q", "queries"),
        noise_diagnosis("queries", "lower noise_std, set query_noise_scale: raw, or noise_times_s: false"),
    )
    LOSSES = SMA.LOSSES | {
        "kl_q": AuxiliaryLoss("lambda_k"),
        "diversity_q": AuxiliaryLoss("lambda_d"),
        "head_mi": AuxiliaryLoss("lambda_q"),
        # (22) estimates the bound (15), from which it differs by the logarithm of the length, most of its size.
        "query_mi": AuxiliaryLoss("lambda_x"),
    }

    def build(self) -> None:
        super().build()
        self.query_mixture = self._mixture(1, self.options.n_clusters_q)
        self.query_variance = LearnedVariance(self.size, self.heads) if self.options.approx_var == "learned" else None
        self.query_scale = math.sqrt(self.width) if self.options.q_gmm_input == "scaled" else 1.0

    def forward(self, heads: Heads) -> tuple[Tensor, Tensor | None]:
        """Compute the context (B, H, Tq, D), and the weights Ahat (B, H, Tq, Tk) if needed, else None."""
        noise, collect = self._query_noise(heads), current().collect
        if collect or heads.need_weights:
            noisy = self.options.noise_order == "before"
            q = heads.raw_q if noise is None or not noisy else heads.raw_q + noise
            queries = self.query_mixture(divided(q, self.query_scale * self.scale()))
        if collect:
            self._collect_query_losses(heads, queries)
        if noise is not None:
            heads = replace(heads, q=heads.q + noise)
        context, weights = super().forward(heads)
        if heads.need_weights:
            self._seen = replace(self._seen, posteriors={**self._seen.posteriors, "queries": queries.p.detach()})
        return context, weights

    def _collect_query_losses(self, heads: Heads, queries: Clustering) -> None:
        mask = query_side_mask(heads)
        variance = self._variance(self._variance_input(heads), self.query_variance)
        side = self._side(queries, mask, variance)
        collect_losses(query_losses, self.options, self.query_mixture, [side])
        self._collect_usage("q", queries, mask)

    def _query_noise(self, heads: Heads) -> Tensor | None:
        """Return the noise of the queries (8), (B, H, Tq, D), or None without noise."""
        if not self.training or self.options.noise_std == 0:
            return None
        std: float | Tensor = self.options.noise_std
        if self.query_variance is not None:
            std = self.query_variance(self._variance_input(heads)).sqrt().unsqueeze(-1)  # (B, H, Tq, 1)
        scale = self.query_scale if self.options.query_noise_scale == "clustered" else 1.0
        std = std * scale * self._noise_scale()
        if current().statistics:
            current().add_stat("noise_queries", noise_share(std, heads.raw_q))
        return gaussian_noise(heads.q, std)

    def _variance_input(self, heads: Heads) -> Tensor:
        """Return what the variances of the queries are predicted from, (B, Tq, M)."""
        if self.options.query_variance_from == "tokens":
            return heads.query
        return heads.raw_q.transpose(1, 2).flatten(2)
