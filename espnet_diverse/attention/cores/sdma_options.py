"""Options of SMA and SDMA: the choices of each, and their sources.

Where the SDMA paper and the code that its authors released differ, both forms are available; the first name is the
default. "Released" means that code: its ESPnet and SpeechBrain modules have s = 1, its Fairseq module s = 1 or 10.
The two cores are the two methods of the paper: `sma` is SDMA without head disentanglement.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from espnet_diverse.attention.core import Core
from espnet_diverse.option_checks import OptionError, check_fields, is_number, one_of


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
        gamma_updates: Number of updates after which gamma has reached its bound, in place of `gamma_rate`; a number
            below 1 is a share of all updates of the run (ours). With the paper's rate it is 0.014 to 0.084 of its runs
            of translation, and 0.23 of that of Aishell (Table I).
        decoder_test_mask: Whether causal self-attention uses the semantic mask in evaluation. If false, its weights are
            A, as in section IV-A and in the cached decoder of the released code.
        gmm_init: "normal": centroids N(0, 1/D), unit variances, equal weights (ours); "xavier": all three by Xavier's
            normal distribution (released), with which the initial posteriors are almost uniform.
        centroid_gradient_scale: c_g, factor of the centroids' gradients (section IV-A; 5 for Aishell). With Adam it
            acts only through gradient clipping, where it reduces the steps of all other parameters.
        centroid_learning_rate_scale: Factor of the centroids' steps with Adam, which is the purpose of c_g (ours). The
            stored parameter is the centroid divided by this factor.
    """

    n_clusters_z: int = 8
    scale_s: float | str = 1.0
    noise_std: float = 0.1
    noise_order: str = one_of("after", "before")
    noise_on: str = one_of("all", "queries")
    noise_times_s: bool = True
    approx_var: float | str = 0.1
    kl_direction: str = one_of("paper", "released")
    dv_form: str = one_of("paper", "code", "balanced")
    losses_over: str = one_of("valid", "all")
    lambda_k: float = 0.001
    lambda_d: float = 1.0
    alpha: float = 1.25
    beta: float = 0.75
    nu: float = 0.9
    gamma_rate: float = 5e-4
    gamma_updates: float | None = None
    decoder_test_mask: bool = True
    gmm_init: str = one_of("normal", "xavier")
    centroid_gradient_scale: float = 1.0
    centroid_learning_rate_scale: float = 1.0

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
        check_fields(self, "scale_s", "approx_var")  # a number or a name
        if self.scale_s != "anneal" and not _is_positive(self.scale_s):
            raise OptionError("scale_s", f"scale_s {self.scale_s!r} is no scale; give a number above 0, or anneal")
        if self.approx_var != "learned" and not _is_positive(self.approx_var):
            message = f"approx_var {self.approx_var!r} is no variance; give a number above 0, or learned"
            raise OptionError("approx_var", message)
        if self.nu > 1:
            raise OptionError("nu", f"nu {self.nu} is out of range; the bound of the mixing rate lies between 0 and 1")
        if self.gamma_updates == 0:
            message = "gamma_updates 0 is no length; give a number of updates, or a share below 1"
            raise OptionError("gamma_updates", message)
        if self.gamma_updates is not None and self.nu == 1:
            raise OptionError("gamma_updates", "gamma_updates with nu 1 has no rate, for gamma only approaches 1")
        if self.centroid_learning_rate_scale == 0:
            name = "centroid_learning_rate_scale"
            raise OptionError(name, f"{name} 0 would divide by zero; give a number above 0")


@dataclass(frozen=True)
class SDMAOptions(SMAOptions):
    """Options of SDMA in addition to those of SMA.

    Attributes:
        n_clusters_q: Number of clusters of the query mixture (18), which all heads share.
        q_gmm_input: What is clustered: "raw", x W_q + b_q (Algorithm 1), or "scaled", the same over sqrt(D) (released).
        query_noise_scale: Scale on which the noise of the queries is drawn: "raw" (ours), so that `noise_std` means the
            same for both values of `q_gmm_input`; or "clustered", that on which they are clustered, which with
            `q_gmm_input: scaled` makes the noise sqrt(D) times as large, about as large as the queries (released).
        query_variance_from: What a learned variance of the queries is predicted from: "tokens" (ours), or "queries",
            their projections (released).
        mi_density: p(q) in (17): "paper", or "tempered" (ours), to the power 1/D, because otherwise a few tokens
            dominate.
        lambda_q: Weight of (21), the upper bound on the information shared by heads, in (24). Released: 10 lambda_x.
        lambda_x: Weight of (22), the lower bound on the information that queries have of their tokens, in (24).
    """

    n_clusters_q: int = 4
    q_gmm_input: str = one_of("raw", "scaled")
    query_noise_scale: str = one_of("raw", "clustered")
    query_variance_from: str = one_of("tokens", "queries")
    mi_density: str = one_of("paper", "tempered")
    lambda_q: float = 30.0
    lambda_x: float = 4.0

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


def _is_positive(value: Any) -> bool:
    return is_number(value) and value > 0
