"""Attention by segments with a memory: the golden arrays, and the properties of every memory in an encoder."""

import pytest
import torch
from references.espnet_twin import OPTIONS, SMALL
from references.golden import golden
from references.sizes import growth

from espnet_diverse.attention import CORES, build_core
from espnet_diverse.attention.modifiers.position import POSITIONS
from espnet_diverse.errors import ConfigError
from espnet_diverse.nets import ENCODERS
from espnet_diverse.nets.memory import MEMORIES, Memory, MemoryStream, SegmentAttention
from espnet_diverse.nets.memory.base import MemoryOptions, Slots
from espnet_diverse.nets.memory.segments import cut
from espnet_diverse.scope import scope

GOLDEN = golden("cdt")
LENGTHS = torch.tensor([23, 14, 5])
CASES = {
    "cdt": {"kind": "cdt", "slots": 3},
    "cdt_mask": {"kind": "cdt", "slots": 3, "update": "mask"},
    "cdt_fifo": {"kind": "cdt", "slots": 3, "update": "fifo", "bptt_segments": 0},
    "cdt_shared": {"kind": "cdt", "slots": 3, "scope": "shared"},
    "xl": {"kind": "xl", "slots": 9},
    "xl_shared": {"kind": "xl", "slots": 3, "scope": "shared"},
    "compressive": {"kind": "compressive", "slots": 2, "compressed_slots": 3, "ratio": 2},
    "compressive_shared": {"kind": "compressive", "slots": 8, "ratio": 2, "compression": "max", "scope": "shared"},
}
each_case = pytest.mark.parametrize("memory", CASES.values(), ids=CASES)


def encoder(memory, core="softmax", disagreement=None, position=None, **options):
    torch.manual_seed(0)
    attention = {"core": core, "disagreement": disagreement, "position": position}
    sizes = {"output_size": 8, "attention_heads": 2, "linear_units": 12, "num_blocks": 2, "input_layer": "linear"}
    given = None if memory is None else {"segment": 4} | memory
    return ENCODERS["diverse_transformer"](6, memory=given, attention=attention, **sizes | options)


def features(dtype=torch.double):
    torch.manual_seed(1)
    return torch.randn(3, 23, 6, dtype=dtype)


class Fixed(Memory):
    """A memory of given slots."""

    given: Slots
    begin = slots = update = None  # which `read` of the base class calls

    def read(self, segments, valid, attention, state):
        return Slots(self.given.values.unsqueeze(1), self.given.valid.unsqueeze(1)), None


@pytest.mark.parametrize("kind", ["masked", "fixed", "fifo", "nomem"])
def test_a_segment_equals_the_golden_array(kind):
    attention = SegmentAttention(6, 1, build_core("softmax", 6, 1, cross=True)).double()
    weights = {f"linear_{x}.weight": GOLDEN[f"W{x}"] for x in "qkv"} | {"linear_out.weight": torch.eye(6)}
    attention.load_state_dict(weights | {f"linear_{x}.bias": torch.zeros(6) for x in ("q", "k", "v", "out")})
    values = GOLDEN[{"masked": "M_masked", "fixed": "M_fixed_noisy", "fifo": "M_fifo", "nomem": "M_prev"}[kind]]
    valid = torch.full(values.shape[:2], kind != "nomem")
    valid = GOLDEN["hard_keep"].bool() if kind == "masked" else valid
    attention.memory, attention.segment, attention.causal = Fixed(6, 1, MemoryOptions()), 5, False
    attention.memory.given = Slots(values, valid)
    s = GOLDEN["S"]
    found = attention(s, s, s, torch.ones(2, 1, 5, dtype=torch.bool))
    torch.testing.assert_close(found, GOLDEN[f"H_{kind}"], rtol=1e-10, atol=1e-10)


def test_a_sequence_is_cut_into_the_golden_number_of_segments():
    x = torch.arange(23.0).view(1, 23, 1)
    segments, valid = cut(x, torch.ones(1, 23, dtype=torch.bool), 5)
    assert segments.shape == (1, int(GOLDEN["n_segments_T23_L5"]), 5, 1)
    assert segments[valid].flatten().tolist() == list(range(23)) and valid.sum(-1).tolist() == [[5, 5, 5, 5, 3]]


@each_case
@pytest.mark.parametrize("position", [None, *POSITIONS])
def test_a_batch_equals_its_sequences_alone(memory, position):
    net, x = encoder(memory, position=position).double().eval(), features()
    batch = net(x, LENGTHS)[0]
    for row, length in enumerate(LENGTHS):
        alone = net(x[row : row + 1, :length], length.view(1))[0][0]
        torch.testing.assert_close(alone, batch[row, :length], rtol=1e-12, atol=1e-12)


@each_case
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float, 1e-6), (torch.double, 1e-12)])
@pytest.mark.parametrize(("step", "position"), [(4, None), (8, None), (8, "transformer_xl")])
def test_encoding_part_by_part_equals_encoding_the_whole(memory, dtype, tolerance, step, position):
    net, x = encoder(memory, position=position).to(dtype).eval(), features(dtype)
    whole = net(x, LENGTHS)[0]
    valid = torch.arange(23) < LENGTHS.unsqueeze(-1)
    embedded, carried, parts = net.embed(x), None, []
    for begin in range(0, 23, step):
        part = slice(begin, begin + step)
        out, carried = net.encode_segments(embedded[:, part], carried, valid[:, part], last=begin + step >= 23)
        parts.append(out)
    found = torch.cat(parts, 1)
    for row, length in enumerate(LENGTHS):
        torch.testing.assert_close(found[row, :length], whole[row, :length], rtol=tolerance, atol=tolerance)


@each_case
def test_carried_state_does_not_grow(memory):
    net, x, carried, sizes = encoder(memory).eval(), torch.randn(1, 4, 8), None, set()
    for _ in range(6):
        _, carried = net.encode_segments(x, carried)
        sizes.add(sum(tensor.numel() for state in carried.values() for tensor in state))
    assert len(sizes) == 1 and len(carried) == (1 if memory.get("scope") == "shared" else 2)


@pytest.mark.recipes
@each_case
def test_time_and_memory_grow_linearly(memory):
    net = encoder({"segment": 8} | memory)
    assert max(growth(lambda time: net(torch.randn(1, time, 6), torch.tensor([time]))[0])) < 2.1


@each_case
def test_memory_reaches_later_segments_and_no_earlier_ones(memory):
    net, x = encoder(memory).double().eval(), features()[:1]
    changed = x.clone()
    changed[:, 5] += 1
    first, second = net(x, LENGTHS[:1])[0], net(changed, LENGTHS[:1])[0]
    assert torch.equal(first[:, :4], second[:, :4])
    assert not torch.allclose(first[:, 4:8], second[:, 4:8])
    if memory.get("update") != "mask":  # which may drop all of a segment
        assert not torch.allclose(first[:, 8:12], second[:, 8:12])


@each_case
@pytest.mark.parametrize("core", [name for name, core in CORES.items() if core.supports.cross_attention])
def test_every_core_for_keys_of_another_sequence_trains(memory, core):
    net = encoder(memory, core)
    with scope() as shared:
        out = net(features(torch.float), LENGTHS)[0]
        (out.square().mean() + shared.total_loss()).backward()
    assert all(torch.isfinite(loss) for loss in shared.losses().values())
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None and torch.isfinite(parameter.grad).all(), name
    kind = next(type(module) for module in net.modules() if isinstance(module, Memory))
    assert "compression" in memory or kind.LOSSES.keys() <= shared.losses().keys()
    assert {"memory_slots", "memory_diversity"} <= shared.stats().keys()


@each_case
def test_half_precision_gives_finite_losses_and_gradients(memory):
    net = encoder(memory)
    with torch.autocast("cpu", torch.bfloat16), scope() as shared:
        out = net(features(torch.float), LENGTHS)[0]
        loss = out.float().square().mean() + shared.total_loss()
    loss.backward()
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None and torch.isfinite(parameter.grad).all(), name


@pytest.mark.parametrize("position", [{}, *({"position": each} for each in POSITIONS)], ids=str)
def test_a_segment_as_long_as_the_sequence_is_attention_without_memory(position):
    net = encoder({"kind": "xl", "segment": 23}, **position).double().eval()
    plain, x = encoder(None, **position).double().eval(), features()
    plain.load_state_dict(net.state_dict(), strict=True)
    valid = torch.arange(23) < LENGTHS.unsqueeze(-1)
    torch.testing.assert_close(net(x, LENGTHS)[0][valid], plain(x, LENGTHS)[0][valid], rtol=1e-12, atol=1e-12)


def test_a_trained_encoder_loads_into_one_with_memory():
    missing, unexpected = encoder({"kind": "cdt"}).load_state_dict(encoder(None).state_dict(), strict=False)
    assert missing and not unexpected and all(".self_attn.memory." in name for name in missing)


def test_the_first_layer_alone_has_a_shared_memory():
    layers = encoder({"kind": "cdt", "scope": "shared"}).encoders
    assert [layer.self_attn.memory is None for layer in layers] == [False, True]


def test_a_layer_without_a_stream_begins_a_sequence():
    net, x = encoder({"kind": "cdt"}).eval(), torch.randn(2, 9, 8)
    mask = torch.ones(2, 1, 9, dtype=torch.bool)
    layer = net.encoders[0]
    assert torch.equal(layer(x, mask)[0], layer(x, MemoryStream(mask))[0])


@each_case
def test_no_mask_is_no_padding(memory):
    net, x = encoder(memory).double().eval(), features()
    out, mask = net.embed(x), None
    for layer in net.encoders:
        out, mask = layer(out, mask)
    torch.testing.assert_close(net.after_norm(out), net(x, torch.tensor([23] * 3))[0], rtol=1e-12, atol=1e-12)


def test_weights_of_segments_are_not_given_to_plots():
    net = encoder({"kind": "xl"})
    assert not any(layer.self_attn.core.supports.explicit_weights for layer in net.encoders)
    with scope(keep_attention=True):
        net(features(torch.float), LENGTHS)
    assert all(layer.self_attn.attn is None for layer in net.encoders)


@pytest.mark.parametrize("of", [None, "output", "subspace", "position", "frobenius", "parameters"])
def test_losses_of_attention_are_means_over_the_segments_of_all_sequences(of):
    """Segments that are padding, as a longer sequence is in the batch, do not count, nor does their memory."""
    given = {"disagreement": {"of": of}} if of else {"core": "sdma"}
    net, x = encoder(CASES["xl"], **given).double().eval(), features()
    lengths = torch.tensor([23, 14, 6])  # in no segment a single frame, which has no losses

    def losses(some, lengths):
        with scope() as shared:
            net(some, lengths)
        return torch.stack(list(shared.losses().values()))

    segments = (lengths + 3) // 4
    alone = [losses(x[b : b + 1, :n], lengths[b : b + 1]) * segments[b] for b, n in enumerate(lengths)]
    torch.testing.assert_close(losses(x, lengths), sum(alone) / segments.sum())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"memory": {"kind": "lru"}},
            "DiverseTransformerEncoder: unknown kind of memory 'lru'; known: cdt xl compressive",
        ),
        ({"memory": {"kind": "compresive"}}, "kind of memory 'compresive'; did you mean 'compressive'?"),
        ({"memory": {}}, "unknown kind of memory None"),
        ({"memory": {"kind": "xl", "beta": 1.0}}, "unknown option 'beta' of memory 'xl'"),
        (
            {"attention": {"core": "softmax", "selection": {"strategy": "group"}}},
            "head selection does not fit a memory; leave out one of them",
        ),
        ({"memory": {"kind": "cdt", "bptt_segments": 1.5}}, r"bptt_segments must be a whole number, but is 1\.5"),
        *(
            (
                {"attention": {"core": core}},
                f"attention '{core}' does not support cross-attention, which a memory needs; ",
            )
            for core in ("linformer", "window", "bigbird", "sinkhorn", "reformer")
        ),
    ],
)
def test_wrong_options_are_named(options, said):
    with pytest.raises(ConfigError, match=said):
        ENCODERS["diverse_transformer"](20, **SMALL, **{"memory": {"kind": "xl"}} | options)


def test_head_selection_that_is_off_fits_a_memory():
    off = {"core": "softmax", "selection": {"strategy": "none"}}
    assert ENCODERS["diverse_transformer"](20, memory={"kind": "xl"}, attention=off, **SMALL).by_segments


@pytest.mark.parametrize("name", ["diverse_e_branchformer", "diverse_contextual_block_transformer"])
def test_layers_that_do_not_fit_are_named(name):
    said = f"a memory does not fit the layers of {ENCODERS[name].__name__}; choose diverse_transformer or diverse_con"
    with pytest.raises(ConfigError, match=said):
        ENCODERS[name](20, memory={"kind": "xl"}, **OPTIONS[name])


def test_parts_that_cannot_be_encoded_are_named():
    x = torch.randn(1, 6, 8)
    with pytest.raises(ValueError, match="the encoder has no memory to carry; give encoder_conf.memory"):
        encoder(None).encode_segments(x)
    with pytest.raises(ValueError, match="6 frames end inside a segment of 4; give a multiple, or last=True"):
        encoder({"kind": "xl"}).encode_segments(x)
    with pytest.raises(ValueError, match="a convolution between layers sees beyond a part; set positionwise"):
        encoder({"kind": "xl"}, positionwise_layer_type="conv1d").encode_segments(x)


def test_memories_have_the_names_of_their_modules():
    assert all(memory.__module__.endswith(f".{name}") for name, memory in MEMORIES.items())
