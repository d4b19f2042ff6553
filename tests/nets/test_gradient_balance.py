import pytest
import torch
from torch import nn

from espnet_diverse.attention import build_attention
from espnet_diverse.errors import ConfigError
from espnet_diverse.nets.encoder import DiverseTransformerEncoder
from espnet_diverse.nets.gradient_balance import GradientBalance, gradient_norm, shared_parameters
from espnet_diverse.nets.models import Diverse
from espnet_diverse.scope import current, scope


class Plain(nn.Module):
    """Stands in for a model of ESPnet: a task whose gradient has norm 5, and a loss of SDMA's kind."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([1.0, 2.0]))

    def forward(self, slope):
        current().add_loss("kl", 0.5 * (slope * self.weight).sum())
        current().add_loss("constant", torch.tensor(7.0))
        loss = (torch.tensor([3.0, 4.0]) * self.weight).sum()[None]
        return loss, {"loss": loss.detach()}, torch.tensor([2])


class DiversePlain(Diverse, Plain):
    pass


SLOPE = torch.tensor([6.0, 8.0])


def test_ratios_of_gradient_norms_are_measured_at_intervals_and_reported_in_between():
    model = DiversePlain(balance_interval=2)
    for slope, kl in ((1, 1.0), (2, 1.0), (2, 2.0), (1, 2.0)):  # measured in the first and third batch
        stats = model(slope * SLOPE)[1]
        assert stats["gradient_kl"].item() == pytest.approx(kl)
        assert stats["gradient_constant"].item() == 0


def test_nothing_is_measured_without_an_interval_in_evaluation_or_without_gradients():
    assert "gradient_kl" not in DiversePlain(balance_interval=0)(SLOPE)[1]
    assert "gradient_kl" not in DiversePlain().eval()(SLOPE)[1]
    with torch.no_grad():
        assert "gradient_kl" not in DiversePlain()(SLOPE)[1]
    compiled = DiversePlain()
    compiled.layer = nn.Linear(1, 1)
    compiled.layer.compile(backend="eager")
    assert "gradient_kl" not in compiled(SLOPE)[1]


@pytest.mark.parametrize("interval", [-1, 2.5])
def test_an_interval_is_a_whole_number(interval):
    with pytest.raises(ConfigError, match=f"balance_interval {interval} is not allowed; give a whole number"):
        DiversePlain(balance_interval=interval)


def test_measuring_changes_no_gradient():
    gradients = []
    for interval in (0, 1):
        model = DiversePlain(balance_interval=interval)
        model(SLOPE)[0].backward()
        gradients.append(model.weight.grad)
    assert torch.equal(*gradients)


def test_measuring_changes_no_gradient_of_sdma():
    torch.manual_seed(0)
    attention = build_attention("sdma", 16, 4, noise_std=0.0)
    x = torch.randn(2, 5, 16)
    gradients = []
    for measured in (False, True):
        attention.zero_grad()
        with scope() as shared:
            task = attention(x, x, x, None).square().sum()
        if measured:
            balance = GradientBalance(1)
            balance.measure(attention, task, shared.losses())
            assert set(balance.ratios) == {"kl_z", "diversity_z", "kl_q", "diversity_q", "head_mi", "query_mi"}
            assert balance.ratios["head_mi"] > 0
        (task + shared.total_loss()).backward()
        gradients.append([parameter.grad.clone() for parameter in attention.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


def test_parameters_of_cores_are_not_shared():
    attention = build_attention("sdma", 16, 4)
    attention.linear_v.requires_grad_(False)
    shared = {id(parameter) for parameter in shared_parameters(attention)}
    assert shared == {
        id(p) for name, p in attention.named_parameters() if name.startswith(("linear_q", "linear_k", "linear_o"))
    }


def test_parameters_of_memories_are_not_shared():
    net = DiverseTransformerEncoder(20, output_size=8, attention_heads=2, num_blocks=1, memory={"kind": "cdt"})
    shared = {id(parameter) for parameter in shared_parameters(net)}
    assert shared == {id(p) for name, p in net.named_parameters() if ".memory." not in name}


def test_the_norm_is_of_all_parameters_together():
    one, two, unused = (torch.tensor(value, requires_grad=True) for value in (1.0, 2.0, 3.0))
    assert gradient_norm(3 * one + 4 * two, [one, two, unused]).item() == 5
    assert gradient_norm(torch.tensor(1.0), [one]).item() == 0
    assert gradient_norm(3 * one, [two]).item() == 0
