import sys

import pytest
import torch

from espnet_diverse.functional.shapes import broadcast


@pytest.mark.parametrize(
    "shapes", [((2, 3),), ((), ()), ((3, 1), (4,)), ((1, 5), (2, 1, 1), (1,)), ((0, 1), (1, 1)), ((1,), (0,))]
)
def test_equals_torchs(shapes):
    assert broadcast(*map(torch.Size, shapes)) == torch.broadcast_shapes(*shapes)


def test_shapes_that_do_not_broadcast_are_refused():
    with pytest.raises(RuntimeError, match="must match"):
        broadcast(torch.Size([2]), torch.Size([3]))


def test_torch_symbolic_shapes_are_not_imported(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.fx.experimental.symbolic_shapes", None)
    with pytest.raises(ImportError):
        torch.broadcast_shapes((2, 1), (3,))
    assert broadcast(torch.Size([2, 1]), torch.Size([3])) == (2, 3)
