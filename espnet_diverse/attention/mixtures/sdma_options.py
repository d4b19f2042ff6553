"""Options of SMA and SDMA: the choices of each, and their sources.

Where the SDMA paper and the code that its authors released differ, both forms are available; the first name is the
default. "Released" means that code: its ESPnet and SpeechBrain modules have s = 1, its Fairseq module s = 1 or 10.
The two cores are the two methods of the paper: `sma` is SDMA without head disentanglement.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from espnet_diverse.attention.core import Core
from espnet_diverse.option_checks import choice, conflict, flag, number


@dataclass(frozen=True)
class SMAOptions(Core.Options):
    """Options of SMA; the defaults are the values of the paper's section IV and Table I (Aishell).

    Attributes:
        n_clusters_z: Number of clusters of the token mixture (5); each head has a mixture.
        scale_s: s by which tokens and queries are divided before they are clustered (Algorithm 1): a number, or
            "anneal": from 10 to 1 (section IV-A), as max(10 exp(-gamma_rate t), 1), or in `gamma_updates` updates.
            Released: 1, or 10 throughout.
        noise_std: Standard deviation of the sampling noise (8): 0.1 as released. The paper prints sigma^2 = 0.01 where
            the standard deviation belongs; 0.01 is the printed value.
        noise_order: "after": the noise is added to clustered tokens (Algorithm 1); "before": the clustering, the mask
            and the KL term see the noisy tokens (released for s = 1).
        noise_on: "all": queries, keys and values are projected from noisy tokens (Algorithm 1); "queries": only the
            query side and, in cross-attention, the keys (released).
        noise_times_s: Whether the noise is multiplied by s with the tokens (Algorithm 1), or not (released for s = 10).
        approx_var: Variance of the variational Gaussian q(z|x) in (20): a number, 0.1 in section IV-A and 0.01 as
            released; or "learned": predicted from each token, and then the variance of the noise too, unless
            `noise_std` is 0 (released for Aishell).
        kl_direction: Categorical part of (20): "paper" is KL(q(c) || p(c)); "released" is KL(p(c) || q(c)).
        dv_form: Mask of (23): "paper" squares alpha and beta; "code" does not (released); "balanced" (ours) averages
            the diagonal and the other entries separately, because otherwise long sequences favour uniform posteriors.
        losses_over: Tokens that losses are computed over: "valid" tokens, as in the paper, or "all", with padding
            (released).
        lambda_k: Weight of the KL terms (20) in (24).
        lambda_d: Weight of the diversity terms (23) in (24).
        alpha: Weight of the diagonal of the diversity mask (23).
        beta: Weight of the other entries of the diversity mask (23).
        nu: Upper bound of gamma (11).
        gamma_rate: Rate at which gamma approaches its bound (11), per optimizer update.
        gamma_updates: Number of updates after which gamma has reached its bound, instead of `gamma_rate`; a number
            below 1 is a share of all updates of the run (ours). With the paper's rate it is 0.014 to 0.084 of its
            translation runs, and 0.23 of its Aishell run (Table I).
        decoder_test_mask: Whether causal self-attention uses the semantic mask in evaluation. If false, its weights are
            A, as in section IV-A and in the cached decoder of the released code.
        gmm_init: "normal": centroids N(0, 1/D), unit variances, equal weights (ours); "xavier": all three by Xavier's
            normal distribution (released), with which the initial posteriors are almost uniform.
        centroid_gradient_scale: c_g, factor of the centroids' gradients (section IV-A; 5 for Aishell). With Adam it
            acts only through gradient clipping, where it reduces the steps of all other parameters.
        centroid_learning_rate_scale: Factor of the centroids' steps with Adam, which is the purpose of c_g (ours). The
            stored parameter is the centroid divided by this factor.
    """

    n_clusters_z: int = number(8, least=1)
    scale_s: float | str = number(1.0, above=0, words=["anneal"])
    noise_std: float = number(0.1, least=0)
    noise_order: str = choice("after", "before")
    noise_on: str = choice("all", "queries")
    noise_times_s: bool = flag(True)
    approx_var: float | str = number(0.1, above=0, words=["learned"])
    kl_direction: str = choice("paper", "released")
    dv_form: str = choice("paper", "code", "balanced")
    losses_over: str = choice("valid", "all")
    lambda_k: float = number(0.001, least=0)
    lambda_d: float = number(1.0, least=0)
    alpha: float = number(1.25, least=0)
    beta: float = number(0.75, least=0)
    nu: float = number(0.9, least=0, most=1)
    gamma_rate: float = number(5e-4, least=0)
    gamma_updates: float | None = number(None, above=0)
    decoder_test_mask: bool = flag(True)
    gmm_init: str = choice("normal", "xavier")
    centroid_gradient_scale: float = number(1.0, least=0)
    centroid_learning_rate_scale: float = number(1.0, above=0)

    #: "paper" follows the paper exactly where the defaults differ from it. "released" is the released ESPnet module for
    #: Aishell, except for `n_clusters_*` and `approx_var: learned`, which its configuration sets.
    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "paper": {"scale_s": "anneal", "noise_std": 0.01, "decoder_test_mask": False, "centroid_gradient_scale": 5.0},
        "released": {
            "noise_order": "before",
            "noise_on": "queries",
            "noise_times_s": False,
            "approx_var": 0.01,
            "kl_direction": "released",
            "dv_form": "code",
            "losses_over": "all",
            "decoder_test_mask": False,
            "gmm_init": "xavier",
            "centroid_gradient_scale": 5.0,
        },
    }

    def __post_init__(self):
        super().__post_init__()
        if self.gamma_updates is not None and self.nu == 1:
            raise conflict(self, "gamma_updates", "nu 1, which gamma only approaches")


@dataclass(frozen=True)
class SDMAOptions(SMAOptions):
    """Options of SDMA, in addition to the options of SMA.

    Attributes:
        n_clusters_q: Number of clusters of the query mixture (18), which all heads share.
        q_gmm_input: Input of the clustering: "raw", x W_q + b_q (Algorithm 1), or "scaled", over sqrt(D) (released).
        query_noise_scale: Scale on which the noise of the queries is drawn: "raw" (ours), so that `noise_std` means the
            same for both values of `q_gmm_input`; or "clustered", the scale on which they are clustered, which with
            `q_gmm_input: scaled` makes the noise sqrt(D) times as large, about as large as the queries (released).
        query_variance_from: Input that predicts a learned variance of the queries: "tokens" (ours), or "queries", their
            projections (released).
        mi_density: p(q) in (17): "paper", or "tempered" (ours), to the power 1/D, because otherwise a few tokens
            dominate.
        mi_bound: Bound on the information shared by heads: "approximate" (21), or "leave_one_out" (14), which (21)
            approximates by its first term.
        lambda_q: Weight of (21), the upper bound on the information shared by heads, in (24). Released: 10 lambda_x.
        lambda_x: Weight of (22), the lower bound on the information that queries have of their tokens, in (24).
    """

    n_clusters_q: int = number(4, least=1)
    q_gmm_input: str = choice("raw", "scaled")
    query_noise_scale: str = choice("raw", "clustered")
    query_variance_from: str = choice("tokens", "queries")
    mi_density: str = choice("paper", "tempered")
    mi_bound: str = choice("approximate", "leave_one_out")
    lambda_q: float = number(30.0, least=0)
    lambda_x: float = number(4.0, least=0)

    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "paper": SMAOptions.PRESETS["paper"],
        "released": SMAOptions.PRESETS["released"]
        | {
            "q_gmm_input": "scaled",
            "query_noise_scale": "clustered",
            "query_variance_from": "queries",
            "lambda_q": 10.0,
            "lambda_x": 1.0,
        },
    }
