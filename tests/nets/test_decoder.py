"""The decoder at the softmax-equivalent setting equals ESPnet's, in a full pass and step by step."""

import pytest
import torch
from references.cached import assert_cached_equals_full
from references.espnet_twin import pair
from references.memories import MEMORIES

from espnet_diverse.errors import ConfigError
from espnet_diverse.nets import DECODERS
from espnet_diverse.scope import scope


def test_decoder_equals_espnet_in_full_pass_and_cached_steps():
    options = {"attention_heads": 2, "linear_units": 24, "num_blocks": 2}
    reference, net = pair(DECODERS["diverse_transformer"], 11, 16, **options)
    memory, hlens = torch.randn(2, 13, 16), torch.tensor([13, 8])
    ys, ylens = torch.randint(1, 11, (2, 6)), torch.tensor([6, 4])
    expected, _ = reference(memory, hlens, ys, ylens)
    with scope(keep_attention=True):
        exact, _ = net(memory, hlens, ys, ylens)
    assert torch.equal(exact, expected)
    states = [None, None]
    for t in range(1, 7):
        logp, states = net.batch_score(ys[:, :t], states, memory)
        their_logp = reference.batch_score(ys[:, :t], [None, None], memory)[0]
        torch.testing.assert_close(logp, their_logp, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("attention", "cross_attention"),
    [
        *(({"core": core},) * 2 for core in ("sma", "sdma", "luna")),
        ({"head_patterns": [{"window": 1}, "previous"], "qk_norm": {}}, {"qk_norm": {}, "relaxed": {}}),
        ({}, {"head_patterns": ["next", {"window": 1}]}),
        ({"position": "rotary"}, {}),
        ({"core": "sma", "position": "alibi"}, {}),
        ({"position": "transformer_xl", "qk_norm": {}}, {}),
        ({"core": "sdma", "head_patterns": ["start", "global"], "drop_heads": {}}, {"core": "sma", "qk_norm": {}}),
        ({"dex": {"steps": 3}}, {"core": "sma", "dex": {"steps": 3}}),
        ({"routing": {"active": 1}}, {"core": "sdma", "routing": {"shared": 0, "active": 1}}),
    ],
    ids=str,
)
def test_cached_decoding_equals_the_full_pass(attention, cross_attention):
    """The released SDMA code loses the semantic mask at each cached step; ours gives the full pass, step by step."""
    torch.manual_seed(0)
    net = DECODERS["diverse_transformer"](
        11, 16, attention_heads=2, num_blocks=2, attention=attention, cross_attention=cross_attention
    )
    for name, buffer in net.named_buffers():
        if name.endswith("updates.count"):
            buffer.fill_(5000.0)
    net = net.double().eval()
    memory, ys = torch.randn(2, 13, 16, dtype=torch.double), torch.randint(1, 11, (2, 6))
    assert_cached_equals_full(net, memory, ys)


@pytest.mark.parametrize("collect", [True, False])
def test_the_scope_is_told_which_targets_are_padding(collect):
    """Only where statistics are collected; the mask of cross-attention does not tell."""
    net = DECODERS["diverse_transformer"](11, 16, attention_heads=2, linear_units=24, num_blocks=1).eval()
    with scope(collect=collect) as shared:
        net(torch.randn(2, 5, 16), torch.tensor([5, 5]), torch.randint(1, 11, (2, 4)), torch.tensor([4, 2]))
    expected = [[True] * 4, [True, True, False, False]] if collect else None
    assert (shared.query_mask.tolist() if collect else shared.query_mask) == expected


def test_adapters_need_a_step_that_applies_them():
    adapter = {"by": "lang", "bottleneck": 4, "conditions": {"lang": ["de"]}}
    net = DECODERS["diverse_transformer"](11, 16, attention_heads=2, linear_units=24, num_blocks=1, adapter=adapter)
    said = "^partially autoregressive decoding does not apply adapters; set partial_ar to false$"
    with pytest.raises(ConfigError, match=said):
        net.forward_partially_AR(None, None, None, None, None)


def test_patterns_in_cross_attention_need_the_position_of_a_query_and_of_keys():
    patterns, small = {"head_patterns": ["global", "previous"]}, {"attention_heads": 2, "num_blocks": 1}
    net = DECODERS["diverse_transformer"](11, 16, **small, cross_attention=patterns)
    with pytest.raises(ConfigError, match="^partially autoregressive decoding does not apply patterns of heads; set"):
        net.forward_partially_AR(None, None, None, None, None)
    for memory in ({"memory": MEMORIES["xl"]} | {"attention": patterns}, {"cross_memory": SOURCE["xl"]}):
        given = {"cross_attention": patterns} | {
            name: {"segment": 4} | each if "memory" in name else each for name, each in memory.items()
        }
        with pytest.raises(ConfigError, match="layer 1: head_patterns do not fit a memory, whose slots have no"):
            DECODERS["diverse_transformer"](11, 16, **small, **given)


SMALL = {"attention_heads": 2, "linear_units": 12, "num_blocks": 2}
SOURCE = {
    "cdt": {"kind": "cdt", "slots": 3},
    "xl": {"kind": "xl", "slots": 3},
    "compressive": {"kind": "compressive", "slots": 2, "ratio": 2, "compression": "mean"},
}
BOTH = {
    **{f"target {name}": {"memory": each} for name, each in MEMORIES.items()},
    **{f"source {name}": {"cross_memory": each} for name, each in SOURCE.items()},
    "both": {"memory": MEMORIES["cdt"], "cross_memory": SOURCE["cdt"]},
    **{
        f"{name} {position}": {"memory": MEMORIES[name], "attention": {"core": "softmax", "position": position}}
        for name, position in (("compressive", "transformer_xl"), ("xl", "rotary"), ("xl_shared", "alibi"))
    },
}
each_memory = pytest.mark.parametrize("options", BOTH.values(), ids=BOTH)


def with_memory(options, **more):
    torch.manual_seed(0)
    given = {name: {"segment": 4} | each if "memory" in name else each for name, each in options.items()}
    return DECODERS["diverse_transformer"](11, 8, **SMALL | given | more).double().eval()


def batch():
    """Encoder output and its lengths, tokens and their lengths, of three sentences."""
    torch.manual_seed(1)
    ys, lengths = torch.randint(1, 11, (3, 14)), torch.tensor([14, 9, 3])
    return torch.randn(3, 13, 8, dtype=torch.double), torch.tensor([13, 8, 2]), ys, lengths


class TestWithMemory:
    @each_memory
    def test_a_batch_equals_its_sentences_alone(self, options):
        net, (source, frames, ys, lengths) = with_memory(options), batch()
        together = net(source, frames, ys, lengths)[0]
        for row, (n, m) in enumerate(zip(frames, lengths, strict=True)):
            one = source[row : row + 1, :n], n.view(1), ys[row : row + 1, :m], m.view(1)
            torch.testing.assert_close(net(*one)[0][0], together[row, :m], rtol=1e-12, atol=1e-12)

    @each_memory
    def test_no_token_sees_a_later_one(self, options):
        net, (source, frames, ys, _) = with_memory(options), batch()
        full = torch.tensor([14, 14, 14])
        for changed_at in (6, 8):
            changed = ys.clone()
            changed[:, changed_at] = 1 + changed[:, changed_at] % 10
            first, second = net(source, frames, ys, full)[0], net(source, frames, changed, full)[0]
            torch.testing.assert_close(first[:, :changed_at], second[:, :changed_at], rtol=1e-12, atol=1e-12)
            assert not torch.allclose(first[:, changed_at], second[:, changed_at])

    @pytest.mark.parametrize("memory", MEMORIES.values(), ids=MEMORIES)
    def test_an_earlier_segment_reaches_the_next_through_slots_alone(self, memory):
        net, (source, frames, ys, _) = with_memory({"memory": memory}), batch()
        changed = ys.clone()
        changed[:, 2] = 1 + changed[:, 2] % 10
        outputs = []
        hook = net.decoders[0].self_attn.register_forward_hook(lambda _module, _given, out: outputs.append(out))
        for tokens in (ys, changed):
            net(source, frames, tokens, torch.tensor([14, 14, 14]))
        hook.remove()
        if memory.get("update") != "mask":  # which may drop all of a segment
            assert not torch.allclose(outputs[0][:, 4:8], outputs[1][:, 4:8])
        if memory["kind"] == "xl":  # three slots hold positions 1 to 3, and later ones 5 to 7
            same = slice(8, 12) if memory["slots"] == 3 else slice(12, 14)
            torch.testing.assert_close(outputs[0][:, same], outputs[1][:, same], rtol=1e-12, atol=1e-12)

    @each_memory
    def test_a_segment_as_long_as_the_sentence_is_a_decoder_without_memory(self, options):
        memories = {name: each | {"segment": 14} for name, each in options.items() if "memory" in name}
        net, plain = with_memory(options | memories), with_memory({"attention": options.get("attention")})
        missing, unexpected = plain.load_state_dict(net.state_dict(), strict=False)
        assert not missing and all("memory." in name for name in unexpected)  # a decoder without one loads into it
        source, frames, ys, lengths = batch()
        valid = torch.arange(14) < lengths.unsqueeze(1)
        found, expected = net(source, frames, ys, lengths)[0][valid], plain(source, frames, ys, lengths)[0][valid]
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)

    @each_memory
    @pytest.mark.parametrize("form", [{}, {"concat_after": True, "normalize_before": False}], ids=str)
    def test_cached_steps_equal_the_full_pass(self, options, form):
        net, (source, frames, ys, _) = with_memory(options, **form), batch()
        full = net(source, frames, ys, torch.tensor([14, 14, 14]))[0].log_softmax(-1)
        states, state = [None] * 3, None
        mask = (torch.arange(13) < frames.unsqueeze(1)).unsqueeze(1)
        for length in range(1, 15):
            scores, states = net.batch_score(ys[:, :length], states, source, xs_mask=mask)
            one, state = net.score(ys[0, :length], state, source[0])
            torch.testing.assert_close(scores, full[:, length - 1], rtol=1e-12, atol=1e-12)
            torch.testing.assert_close(one, full[0, length - 1], rtol=1e-12, atol=1e-12)

    @each_memory
    @pytest.mark.parametrize("core", ["softmax", "sdma"])
    def test_all_parameters_learn_and_gradients_reach_all_of_the_source(self, options, core):
        options = {"attention": {}} | options
        options["attention"] = options["attention"] | {"core": core}
        net = with_memory(options, cross_attention={"core": core}).train()
        source, frames, ys, lengths = batch()
        source.requires_grad_()
        with scope() as shared:
            out = net(source, frames, ys, lengths)[0]
            (out.square().mean() + shared.total_loss()).backward()
        assert all(torch.isfinite(loss) for loss in shared.losses().values())
        for name, parameter in net.named_parameters():
            assert parameter.grad is not None and torch.isfinite(parameter.grad).all(), name
        reached = source.grad.abs().sum(-1) > 1e-12  # padding has rounding errors
        whole = torch.arange(13) < frames.unsqueeze(1)
        if options.get("cross_memory", {}).get("kind") == "xl":  # three slots and the last segment
            whole &= torch.arange(13) >= (frames.unsqueeze(1) - 1) // 4 * 4 - 3
        assert torch.equal(reached, whole)

    def test_losses_of_cross_attention_leave_out_padding(self):
        """Segments of self-attention leave the scope as the decoder has set it."""
        net = with_memory({"memory": MEMORIES["xl"]}, cross_attention={"core": "sdma"})
        source, frames, ys, lengths = batch()
        inside, found = torch.arange(14) < lengths.unsqueeze(1), []
        for tokens in (ys, torch.where(inside, ys, 1 + ys % 10)):
            with scope() as shared:
                net(source, frames, tokens, lengths)
            assert torch.equal(shared.query_mask, inside)
            found.append(shared.losses())
        assert found[0]
        torch.testing.assert_close(*found, rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize("memory", [MEMORIES["xl"], MEMORIES["xl_shared"]], ids=["layer", "shared"])
    def test_layers_computed_again_have_the_same_gradients(self, memory):
        gradients = []
        for layers in ([], [1, 2]):
            net = with_memory({"memory": memory}, gradient_checkpoint_layers=layers, dropout_rate=0.0)
            net.train()(*batch())[0].square().mean().backward()
            gradients.append([parameter.grad for parameter in net.parameters()])
        torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-12)

    def test_weights_over_slots_are_not_given_to_plots(self):
        net = with_memory(BOTH["both"])
        with scope(keep_attention=True):
            net(*batch())
        assert all(part.attn is None for layer in net.decoders for part in (layer.self_attn, layer.src_attn))

    @pytest.mark.parametrize("options", [{"memory": MEMORIES["xl"]}, {"cross_memory": SOURCE["xl"]}])
    def test_partially_autoregressive_steps_are_refused(self, options):
        with pytest.raises(ConfigError, match="decoding does not apply memories; set partial_ar to false$"):
            with_memory(options).forward_partially_AR(None, None, None, None, None)

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"memory": {"kind": "lru"}}, "DiverseTransformerDecoder: unknown kind of memory 'lru'; known: cdt xl"),
            ({"cross_memory": {"kind": "lru"}}, "DiverseTransformerDecoder: unknown kind of memory 'lru'; known: cdt"),
            (
                {"cross_memory": {"kind": "xl", "scope": "layer"}},
                "cross_memory has no scope: one memory serves all layers, and .* leave it out",
            ),
            ({"cross_memory": {"kind": "cdt", "bptt_segments": 0}}, "cross_memory has no bptt_segments: "),
            (
                {"cross_memory": {"kind": "compressive"}},
                "queries of the same sequence; set compression to mean or max",
            ),
            (
                {"cross_memory": {"kind": "xl"}, "cross_attention": {"core": "softmax", "position": "rotary"}},
                "src_attn of layer 1: position rotary does not fit cross-attention, whose keys have other positions",
            ),
            (
                {"memory": {"kind": "xl"}, "attention": {"core": "softmax", "selection": {"strategy": "group"}}},
                "head selection does not fit a memory; leave out one of them",
            ),
        ],
    )
    def test_invalid_memory_options_are_refused(self, options, said):
        with pytest.raises(ConfigError, match=said):
            DECODERS["diverse_transformer"](11, 8, **SMALL, **options)
