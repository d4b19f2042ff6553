"""Every option of SMA and SDMA: what it changes, and that a wrong value is named."""

import dataclasses

import pytest
import torch
from references.posteriors import kl_of, mi_of, responsibility

from espnet_diverse.attention import build_attention, build_core
from espnet_diverse.attention.mixtures.sdma_options import SDMAOptions, SMAOptions
from espnet_diverse.functional.information import diversity
from espnet_diverse.option_checks import OptionError
from espnet_diverse.scope import scope

SIZE, HEADS, WIDTH = 16, 4, 4
STATE = [f"core.{m}_mixture.{p}" for m in ("token", "query") for p in ("log_prior", "mean", "log_var")]


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.randn(2, 9, SIZE, dtype=torch.double)


def make(core="sdma", updates=0.0, **options):
    torch.manual_seed(1)
    module = build_attention(core, SIZE, HEADS, **options).double()
    module.core.updates.count.fill_(updates)
    return module


def run(module, x, memory=None, mask=None):
    """Forward; what each part of the module was given, by name, and the losses."""
    seen = {}
    parts = {name: getattr(module, f"linear_{name}") for name in "qkv"}
    parts |= {name: getattr(module.core, name) for name in ("token_mixture", "query_mixture")}
    hooks = [
        part.register_forward_pre_hook(lambda _, given, name=name: seen.setdefault(name, given[0]))
        for name, part in parts.items()
    ]
    key = x if memory is None else memory
    with scope() as shared:
        module(x, key, key, mask)
    for hook in hooks:
        hook.remove()
    return seen, shared.losses()


def split(x):
    return x.unflatten(-1, (HEADS, WIDTH)).transpose(1, 2)


# Presets and values


def test_defaults_keep_their_names_in_the_state_dict():
    names = [name for name in make().state_dict() if name.startswith("core.")]
    assert sorted(names) == sorted([*STATE, "core.updates.count"])


def test_explicit_options_override_a_preset():
    released = build_core("sdma", SIZE, HEADS, {"preset": "released", "lambda_q": 3.0}).options
    assert (released.q_gmm_input, released.lambda_q, released.lambda_x) == ("scaled", 3.0, 1.0)
    paper = build_core("sma", SIZE, HEADS, {"preset": "paper", "nu": 0.5}).options
    assert (paper.scale_s, paper.noise_std, paper.nu) == ("anneal", 0.01, 0.5)
    assert build_core("sdma", SIZE, HEADS, {"preset": None}).options == SDMAOptions()


@pytest.mark.parametrize("core", ["sma", "sdma"])
def test_every_preset_builds_and_is_documented(core):
    for preset in ("paper", "released"):
        build_core(core, SIZE, HEADS, {"preset": preset})
    for option in dataclasses.fields(SDMAOptions):
        assert f"  {option.name}: " in SDMAOptions.__doc__ + SMAOptions.__doc__


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"preset": "published"}, "attention 'sdma' has no preset 'published'; known: paper released"),
        ({"noise_order": "first"}, "noise_order must be one of after before, but is 'first'"),
        ({"noise_on": "keys"}, "noise_on must be one of all queries, but is 'keys'"),
        ({"kl_direction": "forward"}, "kl_direction must be one of paper released, but is 'forward'"),
        ({"dv_form": "square"}, "dv_form must be one of paper code balanced, but is 'square'"),
        ({"losses_over": "padding"}, "losses_over must be one of valid all, but is 'padding'"),
        ({"mi_density": "flat"}, "mi_density must be one of paper tempered, but is 'flat'"),
        ({"q_gmm_input": 1}, "q_gmm_input must be one of raw scaled, but is 1"),
        ({"query_variance_from": "keys"}, "query_variance_from must be one of tokens queries, but is 'keys'"),
        ({"gmm_init": "kmeans"}, "gmm_init must be one of normal xavier, but is 'kmeans'"),
        ({"decoder_test_mask": "no"}, "decoder_test_mask must be true or false, but is 'no'"),
        ({"scale_s": 0}, "scale_s must be above 0 or anneal, but is 0"),
        ({"scale_s": "annealed"}, "scale_s must be a number or anneal, but is 'annealed'"),
        ({"approx_var": 0.0}, "approx_var must be above 0 or learned, but is 0.0"),
        ({"gamma_updates": 0}, "gamma_updates must be above 0, but is 0"),
        ({"gamma_updates": "0.1"}, "gamma_updates must be a number, but is '0.1'"),
        (
            {"gamma_updates": 0.1, "nu": 1.0},
            "gamma_updates 0.1 cannot be combined with nu 1",
        ),
        ({"gamma_rate": "5e-4"}, "gamma_rate must be a number, but is '5e-4'; YAML reads 5e-4 as text, write 5.0e-4"),
        ({"n_clusters_q": 2.5}, "n_clusters_q must be a whole number, but is 2.5"),
        ({"n_clusters_z": 0}, "n_clusters_z must be at least 1, but is 0"),
        ({"noise_std": -1.0}, "noise_std must be at least 0, but is -1.0"),
        ({"lambda_q": -30}, "lambda_q must be at least 0, but is -30"),
        ({"nu": 1.5}, "nu must be at least 0 and at most 1, but is 1.5"),
        ({"centroid_learning_rate_scale": 0}, "centroid_learning_rate_scale must be above 0, but is 0"),
    ],
)
def test_a_wrong_value_is_named(options, text):
    with pytest.raises(ValueError, match=text):
        build_attention("sdma", SIZE, HEADS, **options)


@pytest.mark.parametrize("preset", ["published", ["paper"]])
def test_the_error_of_a_preset_has_its_name_so_that_its_line_is_found(preset):
    with pytest.raises(OptionError) as caught:
        build_core("sdma", SIZE, HEADS, {"preset": preset})
    assert caught.value.name == "preset"


def test_softmax_has_no_presets():
    with pytest.raises(ValueError, match="unknown option 'preset' of .*; known: selection disagreement qk_norm"):
        build_attention("softmax", SIZE, HEADS, preset="paper")


# What is clustered


def test_tokens_and_queries_are_divided_by_s(x):
    module = make(scale_s=10.0, noise_std=0.0)
    seen, _ = run(module, x)
    torch.testing.assert_close(seen["token_mixture"], split(x) / 10)
    torch.testing.assert_close(seen["query_mixture"], split(module.linear_q(x)) / 10)


@pytest.mark.parametrize(("updates", "scale"), [(0.0, 10.0), (1386.2943611, 5.0), (4605.17, 1.0), (1e6, 1.0)])
def test_the_scale_anneals_from_ten_to_one(x, updates, scale):
    module = make(scale_s="anneal", updates=updates).eval()
    assert float(module.core.scale()) == pytest.approx(scale, rel=1e-5)
    p = module.core.token_mixture(split(x) / scale).p
    expected = responsibility(split(x) / scale, *module.core.token_mixture.components())
    torch.testing.assert_close(p, expected)
    torch.testing.assert_close(run(module, x)[0]["token_mixture"], split(x) / scale, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("nu", [0.0, 0.5, 0.9])
@pytest.mark.parametrize(("updates", "scale"), [(0.0, 10.0), (100.0, 10**0.5), (200.0, 1.0), (1e6, 1.0)])
def test_the_scale_anneals_in_gamma_updates_whatever_the_bound_of_gamma_is(nu, updates, scale):
    """With nu 0, the mask left out, the rate of gamma is 0."""
    module = make(scale_s="anneal", gamma_updates=200, nu=nu, updates=updates)
    assert float(module.core.scale()) == pytest.approx(scale, rel=1e-5)


def test_queries_may_be_clustered_after_scaling_by_the_root_of_their_width(x):
    module = make(q_gmm_input="scaled", noise_std=0.0)
    torch.testing.assert_close(run(module, x)[0]["query_mixture"], split(module.linear_q(x)) / WIDTH**0.5)


# The noise


@pytest.mark.parametrize("on", ["all", "queries"])
def test_which_projections_are_noisy(x, on):
    module = make(noise_on=on)
    seen, _ = run(module, x)
    assert not torch.equal(seen["q"], x)
    assert torch.equal(seen["k"], x) == (on == "queries")
    assert torch.equal(seen["v"], x) == (on == "queries")
    memory = torch.randn_like(x)
    seen, _ = run(module, x, memory)
    assert not torch.equal(seen["q"], x) and not torch.equal(seen["k"], memory)
    assert torch.equal(seen["v"], memory) == (on == "queries")


@pytest.mark.parametrize("order", ["after", "before"])
def test_noise_comes_after_or_before_the_clustering(x, order):
    module = make(noise_order=order)
    seen, _ = run(module, x)
    clustered = {"after": x, "before": seen["q"]}[order]
    assert torch.equal(seen["token_mixture"], split(clustered))
    queries = split(module.linear_q(seen["q"]))
    assert torch.equal(seen["query_mixture"], queries) == (order == "after")


@pytest.mark.parametrize(("times", "std"), [(True, 1.0), (False, 0.1)])
def test_noise_is_multiplied_by_s_with_the_tokens(times, std):
    x = torch.zeros(8, 400, SIZE, dtype=torch.double)
    module = make(scale_s=10.0, noise_times_s=times)
    assert float(run(module, x)[0]["q"].std()) == pytest.approx(std, rel=0.02)


@pytest.mark.parametrize(
    ("options", "std"),
    [
        ({}, 0.1),
        ({"q_gmm_input": "scaled"}, 0.1),
        ({"q_gmm_input": "scaled", "query_noise_scale": "clustered"}, 0.2),
        ({"query_noise_scale": "clustered"}, 0.1),
        ({"scale_s": 3.0}, 0.3),
    ],
)
def test_the_noise_of_queries_may_follow_the_scale_on_which_they_are_clustered(options, std):
    module = make(noise_order="before", **options)
    x = torch.zeros(8, 400, SIZE, dtype=torch.double)
    module.linear_q.weight.data.zero_()
    module.linear_q.bias.data.zero_()
    seen, _ = run(module, x)
    unit = module.core.query_scale * module.core.scale()
    assert float((seen["query_mixture"].detach() * unit).std()) == pytest.approx(std, rel=0.02)


def test_learned_variance_of_queries_may_come_from_their_projections(x):
    given = []
    for source in ("tokens", "queries"):
        module = make(approx_var="learned", query_variance_from=source).eval()
        module.core.query_variance.register_forward_pre_hook(lambda _, args: given.append(args[0]))
        run(module, x)
    assert torch.equal(given[0], x)
    torch.testing.assert_close(given[1], module.linear_q(x))


# The losses


@pytest.mark.parametrize(
    ("option", "value", "loss", "compute", "argument"),
    [
        ("kl_direction", "released", "kl_z", kl_of, "direction"),
        ("dv_form", "code", "diversity_z", diversity, "form"),
        ("dv_form", "balanced", "diversity_q", diversity, "form"),
        ("mi_density", "tempered", "head_mi", mi_of, "mi_density"),
        ("mi_bound", "leave_one_out", "head_mi", mi_of, "mi_bound"),
    ],
)
def test_the_form_of_each_loss(x, option, value, loss, compute, argument):
    lambdas = {"lambda_k": 1.0, "lambda_q": 1.0}
    module = make(**lambdas).eval()
    core = module.core
    tokens = loss.endswith("_z")
    z = split(x) if tokens else split(module.linear_q(x))
    mixture = (core.token_mixture if tokens else core.query_mixture).components()
    arguments = (responsibility(z, *mixture),) if compute is diversity else (z, *mixture)
    arguments += (0.1,) if compute is kl_of else ()
    for options, extra in (({}, {}), ({option: value}, {argument: value})):
        actual = run(make(**lambdas, **options).eval(), x)[1][loss]
        torch.testing.assert_close(actual, compute(*arguments, **extra))
    assert compute(*arguments) != compute(*arguments, **extra)


def test_losses_may_be_taken_over_padding_too(x):
    mask = torch.arange(9) < torch.tensor([[[9]], [[5]]])
    over = {name: run(make(losses_over=name).eval(), x, mask=mask)[1] for name in ("valid", "all")}
    unmasked = run(make().eval(), x)[1]
    for loss in unmasked:
        torch.testing.assert_close(over["all"][loss], unmasked[loss])
        assert over["valid"][loss] != unmasked[loss]


# Decoding


def test_the_decoder_may_disregard_the_mask_in_evaluation(x):
    mask = torch.ones(1, 9, 9, dtype=torch.bool).tril()
    softmax = build_attention("softmax", SIZE, HEADS).double()

    def equals_softmax(training, **options):
        module = make("sma", updates=2000.0, noise_std=0.0, **options).train(training)
        softmax.load_state_dict({k: v for k, v in module.state_dict().items() if not k.startswith("core.")})
        return torch.allclose(module(x, x, x, mask), softmax(x, x, x, mask))

    assert equals_softmax(training=False, decoder_test_mask=False, causal=True)
    assert not equals_softmax(training=True, decoder_test_mask=False, causal=True)
    assert not equals_softmax(training=False, decoder_test_mask=False, causal=False)
    assert not equals_softmax(training=False, causal=True)
