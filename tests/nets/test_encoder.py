"""Encoders at the softmax-equivalent setting equal ESPnet's: strict state dict, difference 0."""

import pytest
import torch
from espnet2.asr.ctc import CTC
from references.espnet_twin import ENCODER_CASES, OPTIONS, PROMPTED, SMALL, cases_of_cores, pair
from torch.profiler import ProfilerActivity, profile

from espnet_diverse.attention import CORES
from espnet_diverse.errors import ConfigError
from espnet_diverse.nets import ENCODERS, PROMPTED_ENCODERS
from espnet_diverse.nets.replace_attention import Attention
from espnet_diverse.scope import scope
from espnet_diverse.upstream.layers import TooShortUttError

ABSOLUTE = {
    "diverse_conformer": {"pos_enc_layer_type": "abs_pos", "selfattention_layer_type": "selfattn"},
    **dict.fromkeys(
        ("diverse_branchformer", "diverse_e_branchformer", "diverse_e_branchformer_ctc"),
        {"pos_enc_layer_type": "abs_pos", "attention_layer_type": "selfattn"},
    ),
}


@pytest.mark.parametrize(("name", "options"), ENCODER_CASES)
def test_encoder_equals_espnet(name, options):
    reference, net = pair(ENCODERS[name], 20, **options)
    speech, lengths = torch.randn(2, 90, 20), torch.tensor([90, 61])
    expected, olens, _ = reference(speech, lengths)
    with scope(keep_attention=True):
        exact, our_olens, _ = net(speech, lengths)
    assert torch.equal(exact, expected)
    assert torch.equal(our_olens, olens)
    fused, _, _ = net(speech, lengths)
    for n, (a, b) in zip(olens, zip(fused, expected, strict=True), strict=True):
        torch.testing.assert_close(a[:n], b[:n], rtol=1e-5, atol=1e-5)


def prompted(*nets):
    """Calls of encoders that read a prompt, with the same CTC, conditioning on it, prompt and previous text."""
    torch.manual_seed(0)
    ctc, conditioning = CTC(odim=7, encoder_output_size=16), torch.nn.Linear(7, 16)
    given = {"prefix_embeds": torch.randn(2, 2, 16), "memory": torch.randn(2, 3, 16)}
    given["memory_mask"] = torch.tensor([[[True] * 3], [[True, False, False]]])
    speech, lengths = torch.randn(2, 90, 20), torch.tensor([90, 61])
    for net in nets:
        net.conditioning_layer = conditioning
    return [lambda net=net: net(speech, lengths, ctc=ctc, **given) for net in nets]


@pytest.mark.parametrize("layer", ["conv2d", "conv2d8"])
def test_an_encoder_with_a_prompt_equals_espnet(layer):
    reference, net = pair(PROMPTED_ENCODERS["diverse_e_branchformer_ctc"], 20, **PROMPTED, input_layer=layer)
    assert type(net.encoders[0].attn) is Attention
    theirs, ours = prompted(reference, net)
    (expected, between), olens, _ = theirs()
    with scope(keep_attention=True):
        (exact, our_between), our_olens, _ = ours()
    assert torch.equal(exact, expected) and torch.equal(our_olens, olens) and expected.size(1) > 2
    assert [number for number, _ in our_between] == [number for number, _ in between] == [1, 2]
    assert all(torch.equal(a[1], b[1]) for a, b in zip(our_between, between, strict=True))
    (fused, _), _, _ = ours()
    for n, a, b in zip(olens, fused, expected, strict=True):
        torch.testing.assert_close(a[:n], b[:n], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("core", CORES)
def test_every_core_trains_in_an_encoder_with_a_prompt(core):
    torch.manual_seed(0)
    options = PROMPTED
    if not CORES[core].supports.relative_position:
        options = {k: v for k, v in PROMPTED.items() if k != "rel_pos_type"} | ABSOLUTE["diverse_e_branchformer_ctc"]
    net = PROMPTED_ENCODERS["diverse_e_branchformer_ctc"](20, attention={"core": core}, input_layer="conv2d", **options)
    (call,) = prompted(net)
    with scope() as shared:
        (out, _), _, _ = call()
        (out.square().mean() + shared.total_loss()).backward()
    assert all(p.grad is None or torch.isfinite(p.grad).all() for p in net.parameters())
    assert net.encoders[0].attn.linear_q.weight.grad.abs().sum() > 0


def test_gated_subsampling_has_no_place_for_a_prompt():
    with pytest.raises(ConfigError, match="input_layer conv1d4_glu does not fit DiverseEBranchformerCTCEncoder, which"):
        PROMPTED_ENCODERS["diverse_e_branchformer_ctc"](20, **PROMPTED, input_layer="conv1d4_glu")


def test_building_draws_espnets_initial_weights():
    """Replacing attention keeps ESPnet's modules, so one seed gives one start whatever the toolkit."""
    theirs = ENCODERS["diverse_transformer"].__mro__[2]
    torch.manual_seed(7)
    reference = theirs(20, **SMALL)
    torch.manual_seed(7)
    net = ENCODERS["diverse_transformer"](20, **SMALL)
    assert all(torch.equal(v, net.state_dict()[k]) for k, v in reference.state_dict().items())


@pytest.mark.parametrize(
    ("core", "name", "options"),
    [case for case in cases_of_cores(CORES) if case[0] != "value_residual" or "block" not in case[1]],
)
def test_every_core_trains_in_every_encoder(core, name, options):
    """A core without relative position in the same encoder with absolute position."""
    torch.manual_seed(0)
    if not CORES[core].supports.relative_position:
        options = ABSOLUTE.get(name, {}) | {k: v for k, v in options.items() if k != "rel_pos_type"}
    alone = {"contextual": False} if core == "luna" and "block" in name else {}  # blocks hand on no state
    net = ENCODERS[name](20, attention={"core": core, **alone}, **options)
    with scope() as shared:
        out, olens, _ = net(torch.randn(2, 90, 20), torch.tensor([90, 61]))
        (out.square().mean() + shared.total_loss()).backward()
    for parameter_name, parameter in net.named_parameters():
        assert parameter.grad is None or torch.isfinite(parameter.grad).all(), parameter_name
    attention = net.encoders[0].get_submodule(net.attribute)
    assert attention.linear_q.weight.grad.abs().sum() > 0
    if core == "sdma":
        assert attention.core.query_mixture.mean.grad.abs().sum() > 0


def test_attention_is_known_to_espnets_plots():
    from espnet_diverse.upstream.layers import MultiHeadedAttention

    net = ENCODERS["diverse_transformer"](20, **SMALL).eval()
    attention = net.encoders[0].self_attn
    assert isinstance(attention, Attention) and isinstance(attention, MultiHeadedAttention)
    seen = []
    attention.register_forward_hook(lambda module, *_: seen.append(module.attn.shape))
    net(torch.randn(2, 90, 20), torch.tensor([90, 61]))
    assert len(seen) == 1 and seen[0][:2] == (2, 2)


@pytest.mark.parametrize(
    ("encoder", "options", "text"),
    [
        ("diverse_transformer", {"attention": {"core": "sdmaa"}}, "unknown attention 'sdmaa'; did you mean 'sdma'"),
        ("diverse_transformer", {"attention": {"core": "sma", "clusters": 3}}, "unknown option 'clusters' of"),
        ("diverse_conformer", {"rel_pos_type": "latest", "zero_triu": True}, "zero_triu: true is not supported"),
        (
            "diverse_e_branchformer",
            {"attention_layer_type": "fast_selfattn", "pos_enc_layer_type": "abs_pos"},
            "attention of type FastSelfAttention cannot be replaced",
        ),
    ],
)
def test_unknown_and_unsupported_attention_is_refused(encoder, options, text):
    with pytest.raises(ConfigError, match=text):
        ENCODERS[encoder](20, **{**OPTIONS[encoder], **options})


def test_options_are_shown_to_espnets_print_config():
    from espnet2.utils.get_default_kwargs import get_default_kwargs

    shown = get_default_kwargs(ENCODERS["diverse_conformer"])
    assert shown["cnn_module_kernel"] == 31 and "attention" in shown


@pytest.mark.parametrize(
    "name", ["diverse_transformer", "diverse_conformer", "diverse_branchformer", "diverse_e_branchformer"]
)
def test_no_allocation_grows_with_the_square_of_the_length(name):
    """Of ESPnet's function that makes the mask of padding, and of the attention."""
    net = ENCODERS[name](20, attention={"core": "window", "window": 4}, **OPTIONS[name]).eval()
    frames = 12_000  # so that all that is linear is small beside it
    with torch.no_grad(), profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as record:
        net(torch.randn(1, frames, 20), torch.tensor([frames]))
    pairs = (frames // 4) ** 2  # after subsampling; a mask takes a byte for each
    assert max(event.cpu_memory_usage for event in record.events()) < pairs / 2


def test_a_mask_that_is_given_is_used():
    net = ENCODERS["diverse_transformer"](20, **SMALL).eval()
    speech, lengths = torch.randn(1, 90, 20), torch.tensor([90])
    padding = torch.arange(90).unsqueeze(0) >= 61
    masked, olens, _ = net(speech, lengths, masks=padding)
    positional, _, _ = net(speech, lengths, None, padding)
    assert olens.tolist() == [14] and torch.equal(masked, positional)


def test_a_branchformer_refuses_frames_that_are_too_few():
    net = ENCODERS["diverse_branchformer"](20, output_size=16, attention_heads=2, num_blocks=1)
    with pytest.raises(TooShortUttError, match="^5 frames are too short for subsampling, which needs 7$"):
        net(torch.randn(1, 5, 20), torch.tensor([5]))


def test_a_branchformer_without_attention_has_none_to_replace():
    options = {"output_size": 16, "attention_heads": 2, "num_blocks": 1, "use_attn": False}
    with pytest.raises(ConfigError, match="the layer has no attention to replace; set use_attn: true and cgmlp_weight"):
        ENCODERS["diverse_branchformer"](20, **options)
