"""Self-attentive pooling: the positions of a sentence become one vector for each head.

Lin et al. 2017, "A Structured Self-attentive Sentence Embedding", section 2.1; equations in
`functional/self_attentive_pooling.py`:

    A = softmax(V^T tanh(W X^T)),  Z = A X                                                                  (9)

The weight of `linear_w` is W and the weight of `linear_v` is V^T: its rows are queries, one for each head, which are
learned and do not depend on the input. All heads share the keys tanh(W X^T) and the values X.

With equal rows in V the heads are one; An et al. 2020, "Repulsive Attention", repel them (`training/repulsion.py`), and
Lin et al. add a loss, weight ||A A^T - I||_F^2, the mean over samples.
Cost: O(B T D E + B T H (E + D)) for width E of the keys.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from espnet_diverse.attention.inspection import AuxiliaryLoss, Monitored
from espnet_diverse.functional.disagreement import frobenius
from espnet_diverse.functional.precision import in_full_precision
from espnet_diverse.functional.self_attentive_pooling import pooling_weights
from espnet_diverse.scope import current


class SelfAttentivePooling(Monitored):
    """Multi-head pooling over time.

    Args:
        size: Width D of the input.
        width: Width E of the keys.
        heads: Number of heads H.
        frobenius: Weight of the loss ||A A^T - I||_F^2, 0 for none.

    Raises:
        ValueError: A number is not possible.
    """

    LOSSES = {"frobenius": AuxiliaryLoss("classifier_conf.frobenius")}

    def __init__(self, size: int, width: int, heads: int, frobenius: float = 0.0):
        super().__init__()
        if width < 1 or heads < 1:
            raise ValueError(f"pooling of width {width} with {heads} heads is not possible; give 1 or more of both")
        if not frobenius >= 0:
            raise ValueError(f"frobenius {frobenius} is not possible; give a weight of 0 or more")
        self.linear_w = nn.Linear(size, width, bias=False)
        self.linear_v = nn.Linear(width, heads, bias=False)
        self.pool, self.penalty = heads, frobenius

    def head_weights(self) -> Mapping[str, Tensor]:
        """Weights whose rows belong to one head after another, by projection: the learned queries."""
        return {"q": self.linear_v.weight}

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """x (B, T, D), mask of valid positions (B, 1, T) bool, True = valid -> vectors of the heads (B, H, D)."""
        weights = self.weights(x, mask)
        if self.penalty:
            with torch.autocast(x.device.type, enabled=False):
                current().add_loss("frobenius", self.penalty * frobenius(in_full_precision(weights)).mean())
        return weights @ x

    def weights(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the weights A (B, H, T) of the positions; takes the same arguments as `forward`."""
        allowed = None if mask is None else mask.squeeze(1)
        return pooling_weights(x, self.linear_w.weight, self.linear_v.weight, allowed)
