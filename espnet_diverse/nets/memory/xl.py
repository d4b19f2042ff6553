"""First-in first-out memory.

Dai et al., "Transformer-XL: Attentive Language Models beyond a Fixed-Length Context", ACL 2019:

    keys and values of segment t: sg(last N inputs of the layer before t) (+) S_t                    section 3.2

No gradient passes from a segment to earlier ones. The net gives the positions: absolute ones are added to the whole
sequence before it is cut; the paper's are `position: transformer_xl` of its attention. Cost: O(T (N + L)) time;
attention has no parameters of its own.
"""

from collections.abc import Sequence

from torch import Tensor

from espnet_diverse.functional.memory import choose_slots
from espnet_diverse.nets.memory.base import Memory, Slots, empty, joined


class XLMemory(Memory):
    """The last N inputs of a layer, without gradients."""

    def begin(self, batch: int, like: Tensor) -> Slots:
        """Return empty slots."""
        return empty(batch, self.options.slots, self.size, like)

    def slots(self, state: Slots) -> Slots:
        """Return the state itself."""
        return state

    def update(self, state: Slots, code: Sequence[Tensor], valid: Tensor) -> Slots:
        """Keep the last N frames that are not padding."""
        (segment,) = code
        frames = joined(state, Slots(segment, valid))
        picks, filled = choose_slots(frames.valid, self.options.slots, update="fifo")
        return Slots(frames.values.gather(1, picks.unsqueeze(-1).expand(-1, -1, self.size)), filled)
