"""Random tensors in double precision, the same in every run."""

import pytest
import torch


class Draw:
    """Draws from one seeded generator; every tensor may be differentiated."""

    def __init__(self, seed: int):
        self.generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=self.generator, dtype=torch.float64).requires_grad_()

    def posterior(self, *shape: int, sharpness: float = 2.0) -> torch.Tensor:
        """Rows that sum to one."""
        return (sharpness * self.normal(*shape)).softmax(-1).detach().requires_grad_()

    def mixture(self, groups: int, clusters: int, width: int) -> tuple[torch.Tensor, ...]:
        """Unnormalised log priors (G, C), means (G, C, D), log variances (G, C, D)."""
        return self.normal(groups, clusters), self.normal(groups, clusters, width), self.normal(groups, clusters, width)


@pytest.fixture
def draw() -> Draw:
    return Draw(seed=0)
