"""Attention in a net that a user compiles: losses, gradients and counts are those without the compiler."""

import subprocess
import sys

import pytest
import torch

from espnet_diverse.attention import build_attention
from espnet_diverse.scope import scope

SELECTION = {"strategy": "group", "pool": 8, "conditions": {"lang": ["de", "fr"]}}


class Net(torch.nn.Module):
    """Attention between two linear maps."""

    def __init__(self, **options):
        super().__init__()
        self.before, self.after = torch.nn.Linear(16, 16), torch.nn.Linear(16, 4)
        self.attention = build_attention(size=16, heads=4, dropout=0.1, **options)

    def forward(self, x):
        x = self.before(x).relu()
        return self.after(self.attention(x, x, x, torch.ones(2, 1, 9, dtype=torch.bool))).relu()


def trained(compiled, options):
    """Loss, gradients and number of updates after two optimizer steps."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    net = Net(**options).train()
    call = compiled(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    x = torch.randn(2, 9, 16)
    for step in range(3):
        torch.manual_seed(step)
        with scope({"lang": torch.tensor([0, 1])}) as shared:
            loss = call(x).square().sum() + shared.total_loss()
        optimizer.zero_grad()
        loss.backward()
        if step < 2:
            optimizer.step()
    counts = [buffer for name, buffer in net.named_buffers() if name.endswith("updates.count")]
    return [loss.detach(), *(parameter.grad for parameter in net.parameters()), *counts]


def by_module(net):
    net.attention.compile(backend="aot_eager")
    return net


@pytest.mark.parametrize("compiled", [lambda net: torch.compile(net, backend="aot_eager"), by_module])
@pytest.mark.parametrize("options", [{"core": "sdma"}, {"core": "softmax", "selection": SELECTION}])
def test_a_compiled_net_learns_what_it_learns_without_the_compiler(options, compiled):
    found, expected = trained(compiled, options), trained(lambda net: net, options)
    assert len(found) == len(expected) and float(found[-1]) == 2
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_the_compiler_is_not_imported_for_nothing():
    code = "import sys, espnet_diverse.attention; sys.exit('torch._dynamo' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
