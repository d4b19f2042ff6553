"""The section `repulsion` of the configuration, see `repulsion.py`; equations in `functional/particles.py`."""

from collections.abc import Sequence
from dataclasses import dataclass

from espnet_diverse.functional.particles import BANDWIDTHS
from espnet_diverse.option_checks import Options, choice, flag, listed, number, read

PROJECTIONS = ("q", "k", "v")
WITHOUT_NOISE = ("svgd", "cosine")
MODULES = ("encoder_self", "decoder_self", "cross", "pooling")


@dataclass(frozen=True)
class RepulsionOptions(Options):
    """The section `repulsion` of the configuration.

    Attributes:
        method: "svgd" (4); "spos" (5), which adds noise; "sgld", only noise, without a kernel; "cosine" (14), whose
            kernel is the cosine; "none".
        alpha: Weight of the repulsion.
        alpha_mode: "absolute", or "relative" to the norm of the smoothed gradients, for any scale of the loss.
        smooth: Whether the kernel of "cosine" weighs the gradients of other heads too; without it, it only repels.
        bandwidth: "paper", "official" or a number, see `functional.particles.svgd_direction`.
        epsilon: Step size of the particles.
        beta: Inverse temperature of SPOS.
        num_data: Size of the training data, over which the task's loss is a mean: for a loss per sentence the number of
            training sentences. It divides noise and prior, because (5) is for the sum of losses.
        prior: Prior distribution of particles, "uniform" (paper) or "gaussian".
        sigma: Standard deviation of the Gaussian prior.
        layout: Whether the rows of a head in linear_q, linear_k and linear_v are a particle each, "separate", or one
            particle together, "joint".
        projections: The projections whose weights are particles, of q, k, v. Pooling has q, the queries of its heads.
        modules: The attentions, of encoder_self, decoder_self (of a decoder or a language model), cross and pooling.
        layers: "all" layers of each net, the "first" or the "last".
    """

    method: str = choice("svgd", "spos", "sgld", "cosine", "none")
    alpha: float = number(0.01, least=0)
    alpha_mode: str = choice("absolute", "relative")
    smooth: bool = flag(True)
    bandwidth: str | float = number("paper", above=0, words=BANDWIDTHS)
    epsilon: float = number(0.1, above=0)
    beta: float = number(1.0, above=0)
    num_data: int = number(1, least=1)
    prior: str = choice("uniform", "gaussian")
    sigma: float = number(1.0, above=0)
    layout: str = choice("separate", "joint")
    projections: Sequence[str] = listed(PROJECTIONS, of=choice(*PROJECTIONS))
    modules: Sequence[str] = listed(MODULES, of=choice(*MODULES))
    layers: str = choice("all", "first", "last")


def read_repulsion(section: object) -> RepulsionOptions | None:
    """Read the section `repulsion` of a configuration; None if there is none, or its method is "none".

    Raises:
        ConfigError: The section is not a mapping, or an option is unknown or not allowed.
    """
    if section is None:
        return None
    options = read(RepulsionOptions, section, "repulsion")
    return None if options.method == "none" else options
