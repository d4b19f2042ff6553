"""The loss of attention decoders against ESPnet's."""

import pytest
import torch
from torch import nn

from espnet_diverse.nets.losses.label_smoothing import LabelSmoothingLoss, replace_losses
from espnet_diverse.upstream.layers import LabelSmoothingLoss as Theirs


@pytest.mark.parametrize("by_token", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_and_gradient_are_espnets(by_token, smoothing):
    generator = torch.manual_seed(2)
    scores = torch.randn(3, 5, 11, generator=generator, dtype=torch.float64)
    targets = torch.randint(0, 11, (3, 5), generator=generator)
    targets[0, 3:] = targets[2, 1:] = -1
    model = nn.Module()
    model.criterion = theirs = Theirs(11, -1, smoothing, by_token)
    replace_losses(model)
    assert type(model.criterion) is LabelSmoothingLoss and not model.state_dict()
    losses, gradients = [], []
    for loss in (theirs, model.criterion):
        x = scores.clone().requires_grad_()
        losses.append(loss(x, targets))
        losses[-1].backward()
        gradients.append(x.grad)
    torch.testing.assert_close(*losses, atol=1e-12, rtol=0)
    torch.testing.assert_close(*gradients, atol=1e-12, rtol=0)
