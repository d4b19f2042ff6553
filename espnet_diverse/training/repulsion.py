"""Repulsive attention: the heads of an attention are particles that repel each other in every optimizer step.

An et al. 2020, "Repulsive Attention: Rethinking Multi-head Attention as Bayesian Inference", section 4 and Algorithm 1;
equations (4) and (5) in `functional/particles.py`. A particle is the block of rows that a head has in a weight of its
attention: of linear_q, linear_k or linear_v, or, in self-attentive pooling, the row that is the head's query. Biases
and all other parameters keep their gradients. The gradients of particles become

    grad_i = -epsilon phi_i

in each optimizer step, after gradients have been accumulated and averaged over processes, and before they are clipped.
phi therefore belongs to the whole step and does not depend on `accum_grad`, the scale of the loss or the processes.
Noise is drawn once for each step from its number and the seed, so that it is the same in all processes and in a resumed
run.

Adam divides epsilon out again: with it only alpha, beta and num_data have an effect.
Cost: O(M^2) of the weights of an attention for M heads, for any batch.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from espnet_diverse.attention import MultiHeadAttention
from espnet_diverse.errors import ConfigError
from espnet_diverse.functional.particles import cosine_direction, noise_std, spos_direction, svgd_direction
from espnet_diverse.nets.memory import Memory
from espnet_diverse.training.repulsion_options import WITHOUT_NOISE, RepulsionOptions

log = logging.getLogger(__name__)


@runtime_checkable
class HeadedAttention(Protocol):
    """An attention whose heads can be repelled.

    Attributes:
        pool: Number of heads.
    """

    pool: int

    def head_weights(self) -> Mapping[str, Tensor]:
        """Weights whose rows are divided among the heads, one after another, by projection: q, k or v."""


class Repulsion:
    """Changes the gradients of the heads of a model before each optimizer step.

    Args:
        model: The model.
        options: Options of the repulsion.
        seed: Random seed of the noise.

    Attributes:
        particles: The heads of each attention, by the name of its module. Frozen weights are left out.

    Raises:
        ConfigError: The model has no attention that `options` select, or its weights are frozen, or it has one head.
    """

    def __init__(self, model: nn.Module, options: RepulsionOptions, seed: int = 0):
        self.options, self.seed = options, seed
        self.particles = _find(model, options)
        self._is_noise_checked = options.method in WITHOUT_NOISE

    @torch.no_grad()
    def __call__(self, step: int) -> None:
        """Replace the gradients of all particles by -epsilon phi.

        An attention without gradients, because it was not used, stays as it is.

        Args:
            step: A number that no other optimizer step of the training has.
        """
        seed = int(np.random.SeedSequence((self.seed, step)).generate_state(1)[0])
        generator: torch.Generator | None = None
        used = [heads for heads in self.particles.values() if all(weight.grad is not None for weight in heads.weights)]
        if used and not self._is_noise_checked:
            self._check_noise(torch.cat([heads.gradients().flatten() for heads in used]))
        for particles in used:
            x, grad = particles.values(), particles.gradients()
            generator = generator or torch.Generator(x.device).manual_seed(seed)
            particles.set_gradients(self._direction(x, grad, generator).mul_(-self.options.epsilon))

    def _check_noise(self, gradients: Tensor) -> None:
        """Warn once of noise that is larger than gradients (N,): an optimizer then follows the noise."""
        self._is_noise_checked = True
        noise, size = self._noise_std(), float(gradients.square().mean().sqrt())
        if noise > size > 0:
            option = self.options
            remedy = f"num_data ({option.num_data})"
            remedy = remedy if option.method == "sgld" else f"beta ({option.beta:g}) or {remedy}"
            message = (
                "repulsion: the noise of %s is %.3g times as large as the gradients of the heads (root mean squares "
                "%.2g and %.2g); raise %s"
            )
            log.warning(message, option.method, noise / size, noise, size, remedy)

    def _noise_std(self) -> float:
        option = self.options
        return noise_std(option.epsilon, option.beta if option.method == "spos" else 1.0, option.num_data)

    def _direction(self, x: Tensor, grad: Tensor, generator: torch.Generator) -> Tensor:
        """Particles and gradients (N, M, D) -> phi (N, M, D)."""
        option = self.options
        if option.prior == "gaussian":
            grad = grad + x / (option.sigma**2 * option.num_data)
        if option.method == "svgd":
            return svgd_direction(x, grad, option.alpha, option.bandwidth, option.alpha_mode)
        if option.method == "cosine":
            return cosine_direction(x, grad, option.alpha, option.smooth, option.alpha_mode)
        noise = torch.randn(x.shape, generator=generator, dtype=x.dtype, device=x.device).mul_(self._noise_std())
        if option.method == "sgld":
            return noise - grad
        return spos_direction(x, grad, option.alpha, option.bandwidth, option.beta, noise, option.alpha_mode)


class HeadParticles:
    """The heads of one attention as particles.

    Args:
        weights: Weights of the same shape whose rows are divided among the heads, one after another.
        heads: Number of heads M; with head selection, the number in the pool.
        joint: Whether the rows of a head in all weights are one particle.
    """

    def __init__(self, weights: Sequence[Tensor], heads: int, joint: bool):
        self.weights, self.heads, self.joint = list(weights), heads, joint

    def values(self) -> Tensor:
        """Return the particles (N, M, D) of N sets that do not repel each other."""
        return self._divided(self.weights)

    def gradients(self) -> Tensor:
        """Return the gradients of `values()`, (N, M, D)."""
        return self._divided([weight.grad for weight in self.weights])

    def set_gradients(self, gradients: Tensor) -> None:
        """Set the gradients of `values()`, (N, M, D), in place."""
        if self.joint:
            gradients = gradients[0].unflatten(-1, (len(self.weights), -1)).transpose(0, 1)
        for weight, gradient in zip(self.weights, gradients, strict=True):
            weight.grad.copy_(gradient.reshape(weight.shape))

    def _divided(self, tensors: Sequence[Tensor]) -> Tensor:
        heads = torch.stack([tensor.reshape(self.heads, -1) for tensor in tensors])
        return heads.transpose(0, 1).flatten(1).unsqueeze(0) if self.joint else heads


def _find(model: nn.Module, options: RepulsionOptions) -> dict[str, HeadParticles]:
    """Return the particles of the attentions that options select, by the name of the module."""
    particles = {}
    for name, attention in _attentions(model, options).items():
        weights = attention.head_weights()
        chosen = [weights[projection] for projection in options.projections if projection in weights]
        trained = [weight for weight in chosen if weight.requires_grad]
        if attention.pool == 1 and trained and options.method != "sgld":
            raise ConfigError(f"repulsion: {name} has one head, which nothing repels; give more, or other modules")
        if trained:
            particles[name] = HeadParticles(trained, attention.pool, options.layout == "joint")
    if not particles:
        where = f"{' '.join(options.modules)} ({options.layers} layers)"
        raise ConfigError(
            f"repulsion: the model has no trained head in {where}; choose other modules, nets called diverse_..., or "
            "method none"
        )
    return particles


def _attentions(model: nn.Module, options: RepulsionOptions) -> dict[str, HeadedAttention]:
    """Return the attentions of the kinds and layers that options select, by the name of the module."""
    nets: dict[tuple[str, str], list[str]] = {}
    modules = {name: module for name, module in model.named_modules() if isinstance(module, HeadedAttention)}
    memories = [name for name, module in model.named_modules() if isinstance(module, Memory)]
    for name, module in modules.items():
        if any(name.startswith(f"{other}.") for other in (*modules, *memories)):
            continue  # part of another attention, or of a memory
        *net, _, attribute = ["", "", *name.split(".")]  # such as decoder.decoders, 0, src_attn
        if _kind(module, net, attribute) in options.modules:
            nets.setdefault((".".join(net), attribute), []).append(name)
    layers = {"all": slice(None), "first": slice(1), "last": slice(-1, None)}[options.layers]
    return {name: modules[name] for names in nets.values() for name in names[layers]}


def _kind(attention: HeadedAttention, net: Sequence[str], attribute: str) -> str:
    """Return the kind, one of `MODULES`, of an attention that the net of that name has as `attribute`."""
    if not isinstance(attention, MultiHeadAttention):
        return "pooling"
    if attribute == "src_attn":
        return "cross"
    return "decoder_self" if attention.core.causal or "decoder" in net else "encoder_self"  # FlowSeq's is not causal
