"""Outputs of encoder layers that are kept while windows of later layers are tried.

The output of a layer depends on the utterance and on the windows of this layer and those below it. The outputs with the
windows that the search has taken are kept; a trial with another window in one layer computes from that layer on.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves


class LayerCache:
    """The kept outputs of the layers of one encoder.

    Args:
        encoder: The encoder, whose layers are `encoders`, and what precedes them is `embed`.
        most: Greatest number of bytes to keep.

    Attributes:
        utterance: Number of the utterance that is encoded.
        levels: Levels of the windows (N, H) that it is encoded with; None keeps and uses nothing.
        taken: Levels of the windows that the search has taken.
    """

    def __init__(self, encoder: nn.Module, most: float = 2**30):
        self.encoder, self.most, self.bytes = encoder, most, 0
        self.utterance = 0
        self.levels: NDArray | None = None
        self.taken: NDArray | None = None
        self._kept: dict[tuple[int, int], tuple[bytes, Any]] = {}

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Use the cache for calls of the encoder within the block."""
        parts = [getattr(self.encoder, "embed", None), *self.encoder.encoders]  # type: ignore[misc]  # modules
        for number, part in enumerate(parts):
            if part is not None:
                part.forward = partial(self._output, number, part.forward)
        try:
            yield
        finally:
            for part in parts:
                if part is not None:
                    del part.forward  # that of the class
            self._kept.clear()

    def _output(self, number: int, compute: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Return the output of a part: 0 is what precedes the layers, whose numbers begin with 1."""
        if self.levels is None or self.taken is None:
            return compute(*args, **options)
        below, place = self.levels[:number].tobytes(), (self.utterance, number)
        known, output = self._kept.get(place, (None, None))
        if known == below:
            return output
        output = compute(*args, **options)
        if below == self.taken[:number].tobytes():
            self._keep(place, below, output)
        return output

    def _keep(self, place: tuple[int, int], below: bytes, output: Any) -> None:
        size = sum(leaf.numel() * leaf.element_size() for leaf in tree_leaves(output) if isinstance(leaf, Tensor))
        if place not in self._kept:
            if self.bytes + size > self.most:
                return
            self.bytes += size
        self._kept[place] = below, output
