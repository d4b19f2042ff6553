import pytest
import torch

from espnet_diverse.functional.dropout import dropout


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9])
def test_the_share_of_dropped_elements(rate):
    torch.manual_seed(1)
    count = 400_000
    kept = dropout(torch.ones(count), rate) != 0
    deviation = (rate * (1 - rate) / count) ** 0.5
    assert abs((~kept).double().mean() - rate) < 4 * deviation
    both = (kept[1:] & kept[:-1]).double().mean()  # neighbours come from one draw
    assert abs(both - (1 - rate) ** 2) < 4 * deviation


@pytest.mark.parametrize("shape", [(), (1,), (3,), (5, 7), (2, 3, 4), (0, 3)])
def test_elements_are_dropped_or_scaled(shape):
    torch.manual_seed(2)
    x = torch.rand(shape) + 1
    y = dropout(x, 0.25)
    assert y.shape == x.shape
    assert torch.allclose(y[y != 0], x[y != 0] / 0.75)


def test_every_position_is_dropped_at_times():
    torch.manual_seed(3)
    drops = torch.stack([dropout(torch.ones(11), 0.5) == 0 for _ in range(400)]).double().mean(0)
    assert (drops - 0.5).abs().max() < 0.125  # 5 standard deviations


def test_a_rate_next_to_one_drops_nearly_all():
    torch.manual_seed(7)
    y = dropout(torch.ones(400_000), 1 - 1e-7)
    assert y.isfinite().all() and (y != 0).sum() < 30  # 6 of them in the mean


def test_the_gradient_goes_where_values_went():
    torch.manual_seed(4)
    x = torch.ones(50, requires_grad=True)
    y = dropout(x, 0.4)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach()) and 0 < (y == 0).sum() < 50


def test_a_half_type_stays():
    y = dropout(torch.ones(64, dtype=torch.bfloat16), 0.5)
    assert y.dtype == torch.bfloat16 and set(y.tolist()) == {0.0, 2.0}


def test_the_seed_decides():
    results = []
    for seed in (5, 5, 6):
        torch.manual_seed(seed)
        results.append(dropout(torch.ones(64), 0.5))
    assert torch.equal(results[0], results[1]) and not torch.equal(results[0], results[2])


def test_a_rate_of_nothing_changes_nothing():
    x = torch.ones(3)
    assert dropout(x, 0.0) is x


@pytest.mark.parametrize("rate", [-0.1, 1.0, float("nan")])
def test_an_invalid_rate_is_refused(rate):
    with pytest.raises(ValueError, match=f"dropout rate {rate} is not allowed; give 0 <= rate < 1"):
        dropout(torch.ones(3), rate)
