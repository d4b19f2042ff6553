"""Disagreement as a loss of any attention, against loops."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from references import repulsion as oracle

from espnet_diverse.attention import PARTS, Core, Supports, build_attention, build_disagreement
from espnet_diverse.attention.cores.softmax import Softmax
from espnet_diverse.attention.modifiers.disagreement import Disagreement, DisagreementOptions
from espnet_diverse.functional.disagreement import disagreement, frobenius_of_queries
from espnet_diverse.nets.encoder import DiverseTransformerEncoder
from espnet_diverse.scope import scope

SIZE, HEADS, TIME = 8, 2, 5
LENGTHS = [5, 3]
MASK = torch.arange(TIME) < torch.tensor(LENGTHS)[:, None, None]


def attention(core="softmax", **options):
    torch.manual_seed(0)
    given = {key: options.pop(key) for key in ("selection",) if key in options}
    return build_attention(core, SIZE, HEADS, disagreement={"weight": 2.0} | options, **given).double().eval()


def tokens():
    return torch.randn(2, TIME, SIZE, generator=torch.Generator().manual_seed(1), dtype=torch.double)


def loss_of(module, x, memory=None, mask=MASK):
    """The loss of a call, and its heads, outputs and weights."""
    seen = []
    attend = module._attend
    module._attend = lambda heads: seen.append((heads, *(result := attend(heads)))) or result
    with scope() as shared:
        shared.query_mask = None if memory is None else MASK[:, 0]
        module(x, *([x, x] if memory is None else [memory, memory]), mask)
    return shared.losses()["disagreement"].item(), *seen[0]


def mean_of(term, *arrays):
    """Mean over samples of a term of the oracle."""
    return np.mean([term(*(array[b] for array in arrays), valid) for b, valid in enumerate(LENGTHS)])


@pytest.mark.parametrize("per", ["sequence", "position"])
@pytest.mark.parametrize("cross", [False, True], ids=["self", "cross"])
def test_of_outputs_and_values_equals_loops(per, cross):
    for of in ("output", "subspace"):
        x, memory = tokens(), tokens().flip(1) if cross else None
        loss, heads, context, weights = loss_of(attention(of=of, per=per), x, memory)
        compared = (context if of == "output" else heads.v).detach().numpy()
        expected = mean_of(lambda sample, valid: oracle.disagreement(sample, valid, per), compared)  # noqa: B023
        assert loss == pytest.approx(-2 * expected) and weights is None


@pytest.mark.parametrize("of", ["output", "subspace", "position", "frobenius"])
def test_samples_of_padding_alone_do_not_count(of):
    x = tokens()
    module, mask = attention(of=of), MASK & torch.tensor([False, True]).view(2, 1, 1)
    assert loss_of(module, x, mask=mask)[0] == pytest.approx(loss_of(module, x[1:], mask=MASK[1:])[0])


@pytest.mark.parametrize("core", ["softmax", "sma", "sdma"])
def test_of_weights_equals_loops(core):
    loss, _, _, weights = loss_of(attention(core, of="position"), tokens())
    array = weights.detach().numpy()
    assert loss == pytest.approx(-2 * mean_of(oracle.position_disagreement, array))
    loss, *_ = loss_of(attention(core, of="frobenius"), tokens())

    def frobenius(sample, valid):
        return np.mean([oracle.frobenius(sample[:, t]) for t in range(valid)])

    assert loss == pytest.approx(2 * mean_of(frobenius, array))


@pytest.mark.parametrize("pool", [None, 4])
def test_of_parameters_equals_loops(pool):
    options = {"strategy": "group", "pool": 4, "conditions": {"lang": ["a"]}, "default_condition": {"lang": "a"}}
    module = attention(of="parameters", **({"selection": options} if pool else {}))
    loss, *_ = loss_of(module, tokens())
    weights = [getattr(module, f"linear_{name}").weight.detach().numpy() for name in "qkv"]
    blocks = [weight.reshape(pool or HEADS, 1, -1) for weight in weights]
    assert loss == pytest.approx(-2 * np.mean([oracle.disagreement(heads, 1, "sequence") for heads in blocks]))


def test_nothing_is_computed_or_kept_outside_training():
    module, x = attention(of="position"), tokens()
    assert module(x, x, x, None).shape == x.shape and module.attn is None
    with scope() as shared:
        module(x, x, x, None)
    assert module.attn is None and set(shared.losses()) == set(Disagreement.LOSSES)
    with scope(keep_attention=True):
        module(x, x, x, None)
    assert module.attn.shape == (2, HEADS, TIME, TIME)
    assert attention(weight=0.0).disagreement is None


def test_kept_weights_do_not_change_the_loss_of_outputs():
    module, x = attention(of="output"), tokens()
    expected, *_ = loss_of(module, x)
    with scope(keep_attention=True) as shared:
        module(x, x, x, MASK)
    assert shared.losses()["disagreement"].item() == pytest.approx(expected)


def test_heads_move_apart():
    module, x = attention(of="output").train(), tokens()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.2)
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        with scope() as shared:
            module(x, x, x, MASK)
        shared.total_loss().backward()
        optimizer.step()
        losses.append(shared.total_loss().item())
    assert losses[-1] < 0.98 * losses[0]


def test_under_autocast_the_loss_is_computed_in_full_precision():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        values, heads, *_ = loss_of(attention(of="subspace").float(), tokens().float())
        weighted, *_, weights = loss_of(attention(of="frobenius").float(), tokens().float())
    assert heads.v.dtype == torch.bfloat16
    expected = -2 * disagreement(heads.v.float(), MASK[:, 0]).mean()
    assert values == pytest.approx(expected.item(), rel=1e-5)
    expected = 2 * frobenius_of_queries(weights.float(), MASK[:, 0]).mean()
    assert weighted == pytest.approx(expected.item(), rel=1e-5)


def test_a_net_takes_it_with_its_attention():
    options = {"output_size": SIZE, "attention_heads": HEADS, "linear_units": 8, "num_blocks": 2}
    given = {"core": "sma", "disagreement": {"of": "subspace"}}
    encoder = DiverseTransformerEncoder(8, attention=given, input_layer=None, **options)
    with scope() as shared:
        encoder(torch.randn(2, TIME, 8), torch.tensor(LENGTHS))
    assert set(shared.losses()) == {"kl_z", "diversity_z", "disagreement"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("output", "disagreement must be a mapping of options, such as {of: ...}, but is 'output'"),
        ({"on": "output"}, "unknown option 'on' of disagreement; known: of weight per"),
        ({"of": "outputs"}, "of must be one of output subspace position frobenius parameters, but is 'outputs'"),
        ({"weight": -1}, "weight must be at least 0, but is -1"),
        (
            {"of": "position"},
            "disagreement of position is not possible, because attention 'Softmax' gives no weights; choose output, "
            "subspace or parameters",
        ),
    ],
)
def test_invalid_options_and_a_core_without_weights_are_refused(given, said):
    core = Softmax(SIZE, HEADS)
    core.supports = replace(Supports(), explicit_weights=False)
    with pytest.raises(ValueError, match=said):
        build_disagreement(PARTS["disagreement"](given), core)


def test_without_the_section_there_is_none():
    assert build_disagreement(None, Core(SIZE, HEADS)) is None
    assert DisagreementOptions() == DisagreementOptions("output", 1.0, "sequence")


@pytest.mark.parametrize("length", [3, 5])  # the second as long as the input
def test_values_that_a_core_has_shortened_have_no_padding(length):
    torch.manual_seed(0)
    chosen = {"of": "subspace", "weight": 2.0}
    module = (
        build_attention("linformer", SIZE, HEADS, disagreement=chosen, compressed_length=length, max_length=8)
        .double()
        .eval()
    )
    value, heads, *_ = loss_of(module, tokens())
    assert heads.v.size(-2) == length
    assert value == pytest.approx(-2 * disagreement(heads.v, None, "sequence").mean().item())
