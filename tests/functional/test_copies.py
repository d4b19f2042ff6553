import numpy as np
import pytest
import torch

from espnet_diverse.functional.copies import copied


@pytest.mark.parametrize("values", [[3, 1], [[0.5], [2.0]], np.arange(4, dtype=np.float32)])
def test_numbers_become_a_tensor_of_their_own(values):
    made, expected = copied(values, "cpu"), torch.tensor(values)
    values[-1] = values[0]
    assert torch.equal(made, expected) and made.dtype == expected.dtype


def test_a_type_can_be_given():
    assert copied([], torch.device("cpu"), torch.long).dtype == torch.long


def test_a_gpu_gets_a_copy_of_pinned_memory_that_does_not_block(monkeypatch):
    asked = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda x: asked.append("pinned") or x)
    monkeypatch.setattr(torch.Tensor, "to", lambda x, device, **options: asked.append((device, options)) or x)
    copied([1], "cuda:1")
    assert asked == ["pinned", ("cuda:1", {"non_blocking": True})]
