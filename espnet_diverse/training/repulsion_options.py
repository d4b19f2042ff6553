"""The section `repulsion` of the configuration, see `repulsion.py`; equations in `functional/particles.py`."""

from collections.abc import Sequence
from dataclasses import dataclass

from espnet_diverse.errors import ConfigError
from espnet_diverse.functional.particles import BANDWIDTHS
from espnet_diverse.option_checks import OptionError, check_fields, is_number, one_of, read

PROJECTIONS = ("q", "k", "v")
WITHOUT_NOISE = ("svgd", "cosine")
MODULES = ("encoder_self", "decoder_self", "cross", "pooling")


@dataclass(frozen=True)
class RepulsionOptions:
    """The section `repulsion` of the configuration.

    Attributes:
        method: "svgd" (4); "spos" (5), which adds noise; "sgld", noise alone, without a kernel; "cosine" (14), whose
            kernel is the cosine; "none".
        alpha: Weight of the repulsion.
        alpha_mode: "absolute", or "relative" to the norm of the smoothed gradients, whatever the scale of the loss is.
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

    method: str = one_of("svgd", "spos", "sgld", "cosine", "none")
    alpha: float = 0.01
    alpha_mode: str = one_of("absolute", "relative")
    smooth: bool = True
    bandwidth: str | float = "paper"
    epsilon: float = 0.1
    beta: float = 1.0
    num_data: int = 1
    prior: str = one_of("uniform", "gaussian")
    sigma: float = 1.0
    layout: str = one_of("separate", "joint")
    projections: Sequence[str] = PROJECTIONS
    modules: Sequence[str] = MODULES
    layers: str = one_of("all", "first", "last")

    def __post_init__(self):
        check_fields(self, "bandwidth", "projections", "modules")
        for name in ("epsilon", "beta", "num_data", "sigma"):
            if getattr(self, name) == 0:
                raise OptionError(name, f"{name} 0 would divide by zero; give a number above 0")
        if self.bandwidth not in BANDWIDTHS and not (is_number(self.bandwidth) and self.bandwidth > 0):
            known = " ".join(BANDWIDTHS)
            raise OptionError("bandwidth", f"bandwidth {self.bandwidth!r} is not allowed; give {known} or a number")
        for name, known in (("projections", PROJECTIONS), ("modules", MODULES)):
            chosen = getattr(self, name)
            if not isinstance(chosen, list | tuple) or not chosen or not all(each in known for each in chosen):
                raise OptionError(name, f"{name} {chosen!r} is not allowed; give a list of some of {' '.join(known)}")


def read_repulsion(section: object) -> RepulsionOptions | None:
    """Read the section `repulsion` of a configuration; None if there is none, or its method is "none".

    Raises:
        ConfigError: The section is not a mapping, or an option is unknown or not allowed.
    """
    if section is None:
        return None
    if not isinstance(section, dict):
        raise ConfigError(f"{section!r} is not a mapping of options; write repulsion: {{method: {section}}}")
    options = read(RepulsionOptions, section, "repulsion")
    return None if options.method == "none" else options
