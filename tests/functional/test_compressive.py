"""The equations of compressed memory: naive loops, finite differences."""

import pytest
import torch

from espnet_diverse.functional.compressive import pooled, reconstruction_loss


@pytest.mark.parametrize("how", ["mean", "max"])
def test_pooling_equals_the_oracle(how):
    torch.manual_seed(0)
    x = torch.randn(2, 6, 3).double()
    for b in range(2):
        for group in range(2):
            rows = [x[b, 3 * group + i] for i in range(3)]
            expected = sum(rows) / 3 if how == "mean" else torch.stack(rows).max(0).values
            torch.testing.assert_close(pooled(x, 3, how)[b, group], expected)
    assert torch.autograd.gradcheck(lambda x: pooled(x, 3, how), x.requires_grad_())


def test_the_reconstruction_loss_equals_the_oracle():
    torch.manual_seed(0)
    expected, found = torch.randn(2, 3, 4, 5).double(), torch.randn(2, 3, 4, 5).double()
    counted = torch.tensor([[True, True, False, True], [False, False, False, True]])
    errors = [
        float((expected[b, h, t, d] - found[b, h, t, d]) ** 2)
        for b in range(2)
        for h in range(3)
        for t in range(4)
        for d in range(5)
        if counted[b, t]
    ]
    assert float(reconstruction_loss(expected, found, counted)) == pytest.approx(sum(errors) / len(errors), rel=1e-12)
    alone = torch.zeros_like(counted)
    assert reconstruction_loss(expected, found, alone) == 0
    alone[1, 2] = True  # one query is averaged over its own elements
    of_one = (expected - found)[1, :, 2].square().mean()
    torch.testing.assert_close(reconstruction_loss(expected, found, alone), of_one)
    assert torch.autograd.gradcheck(lambda x: reconstruction_loss(expected, x, counted), found.requires_grad_())


def test_an_unknown_compression_is_refused():
    with pytest.raises(ValueError, match="unknown compression 'min'; known: mean max"):
        pooled(torch.zeros(1, 4, 2), 2, "min")
