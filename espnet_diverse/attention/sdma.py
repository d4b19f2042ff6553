"""Semantic and disentangled mask attention (SDMA).

Semantic and disentangled mask attention, TPAMI (the SDMA paper), section III-C; SMA plus disentangled heads.

    P^q = posterior cluster probabilities of the queries under one mixture that all heads share       (9), (18)
    loss = SMA's + lambda_k KL_q + lambda_q D_qq - lambda_x D_xq + lambda_d DV_q                       (20)-(24)

D_qq (21) bounds what the queries of two heads tell of each other, from above; D_xq (22) bounds what a query tells of
its token, from below. Minimising the first and maximising the second pulls the heads apart.

Null setting: nu = 0, noise_std = 0 and the lambdas 0 make it softmax attention.
Cost: SMA plus O(T C (D + H^2)) and the log-sum-exp over token pairs of D_xq, O(T^2 C) in row blocks, in training only.
"""

from dataclasses import dataclass, replace

from torch import Tensor

from espnet_diverse.attention.mixture import Mixture
from espnet_diverse.attention.sampling import LearnedVariance, sample
from espnet_diverse.attention.shell import Heads
from espnet_diverse.attention.sma import SMA, query_side_mask, used_clusters
from espnet_diverse.functional.information import head_mi_upper, query_mi_lower
from espnet_diverse.scope import current


class SDMA(SMA):
    """Semantic mask attention whose heads are kept apart by mutual-information losses on their queries."""

    @dataclass(frozen=True)
    class Options(SMA.Options):
        """Options of SDMA beside SMA's.

        Attributes:
            n_clusters_q: Clusters of the query mixture, shared by all heads.
            lambda_q: Weight of the upper bound on what heads share (21).
            lambda_x: Weight of the lower bound on what queries tell of their tokens (22).
        """

        n_clusters_q: int = 4
        lambda_q: float = 30.0
        lambda_x: float = 4.0

    def __init__(self, size: int, heads: int, options: "SDMA.Options | None" = None, cross: bool = False):
        super().__init__(size, heads, options, cross)
        self.query_mixture = Mixture(1, self.options.n_clusters_q, self.width)
        self.query_variance = LearnedVariance(size, heads) if self.options.approx_var == "learned" else None

    def forward(self, heads: Heads) -> tuple[Tensor, Tensor | None]:
        """Heads -> context (B, H, Tq, D), weights Ahat (B, H, Tq, Tk) or None."""
        self._collect_query_losses(heads)
        if self.training and self.options.noise_std > 0:
            heads = replace(heads, q=self._sample_queries(heads))
        return super().forward(heads)

    def _collect_query_losses(self, heads: Heads) -> None:
        scope = current()
        if not scope.collect:
            return
        option, mask = self.options, query_side_mask(heads)
        queries = self.query_mixture(heads.raw_q)
        variance = self._variance(heads.query, self.query_variance)
        head_mi = head_mi_upper(queries.x, *self.query_mixture.components(), mask, log_joint=queries.log_joint)
        scope.add_loss("kl_q", option.lambda_k * self._kl(self.query_mixture, queries, mask, variance))
        scope.add_loss("diversity_q", option.lambda_d * self._spread(queries, mask))
        scope.add_loss("head_mi", option.lambda_q * head_mi)
        scope.add_loss("query_mi", -option.lambda_x * query_mi_lower(queries.p, mask))
        scope.add_stat("clusters_q", used_clusters(queries.p, mask))

    def _sample_queries(self, heads: Heads) -> Tensor:
        """Queries are sampled like tokens, after they were clustered (Algorithm 1): -> (B, H, Tq, D)."""
        if self.query_variance is None:
            return sample(heads.q, self.options.noise_std)
        return sample(heads.q, self.query_variance(heads.query).sqrt().unsqueeze(-1))
