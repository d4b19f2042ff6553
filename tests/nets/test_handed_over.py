"""Cross-attention of a decoder that starts from the last packed rows of the encoder: Luna with `handed_over`."""

import numpy as np
import pytest
import torch
from references import luna as oracle
from references.espnet_twin import OPTIONS
from references.golden import golden
from torch.nn.functional import layer_norm

from espnet_diverse.attention import Stream, build_attention
from espnet_diverse.contrib.flowseq.transformer import ConditionedTransformer
from espnet_diverse.decoding.encoder.encoding import Encoding
from espnet_diverse.decoding.espnet.espnet_beam import ESPnetBeamSearch
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.search.beam_search import BeamSearch
from espnet_diverse.decoding.search.sampling import SamplingSearch
from espnet_diverse.decoding.search.scorers import DecoderScorer
from espnet_diverse.errors import ConfigError
from espnet_diverse.nets import DECODERS, ENCODERS
from espnet_diverse.runs.tasks import TASKS
from espnet_diverse.scope import scope

ROWS = 4
LUNA = {"core": "luna", "length": ROWS, "packed_dropout": 0.0, "handed_over": True}
PLAIN = {"dropout_rate": 0.0, "positional_dropout_rate": 0.0}
ABSOLUTE = {"pos_enc_layer_type": "abs_pos", "selfattention_layer_type": "selfattn"}
ENCODER_CASES = {
    "diverse_transformer": {},
    "diverse_conformer": ABSOLUTE,
    "diverse_e_branchformer": {"pos_enc_layer_type": "abs_pos", "attention_layer_type": "selfattn"},
}


def encoder(name="diverse_transformer", **options):
    torch.manual_seed(0)
    given = {k: v for k, v in OPTIONS[name].items() if k != "rel_pos_type"} | PLAIN | ENCODER_CASES[name]
    return ENCODERS[name](8, **{"attention": LUNA, "input_layer": "linear"} | given | options).double().eval()


def decoder(vocabulary=11, **options):
    torch.manual_seed(1)
    given = {"attention_heads": 2, "linear_units": 24, "num_blocks": 3, "cross_attention": LUNA} | PLAIN
    given |= {"self_attention_dropout_rate": 0.0, "src_attention_dropout_rate": 0.0}
    return DECODERS["diverse_transformer"](vocabulary, 16, **given | options).double().eval()


def inputs(*shape):
    torch.manual_seed(2)
    return torch.randn(*shape, dtype=torch.double)


TEXT = torch.tensor([[3, 5, 2, 7, 1, 4], [6, 6, 8, 9, 2, 3]])
FULL = torch.tensor([6, 6])


@pytest.mark.parametrize("case", ["tied", "untied"])
def test_rows_before_the_frames_are_p_of_the_released_code(case):
    arrays = golden("luna")
    rows, context = arrays["px"], arrays["ctx"]
    module = build_attention(
        "luna", 8, 2, length=rows.size(1), pack_heads=4, tied=case == "tied", cross=True, handed_over=True
    ).double()
    kept = {"pq": "core.linear_p", "q": "linear_q", "out": "linear_out"}
    kept |= {"pc": "linear_k", "c": "core.linear_packed_k"} if case == "tied" else {}
    kept |= {} if case == "tied" else {"pk": "linear_k", "pv": "linear_v"}
    kept |= {} if case == "tied" else {"k": "core.linear_packed_k", "v": "core.linear_packed_v"}
    for theirs, ours in kept.items():
        linear = module.get_submodule(ours)
        linear.weight.data, linear.bias.data = (arrays[f"{case}_cross_{theirs}_proj.{x}"] for x in ("weight", "bias"))
    module.core.norm = torch.nn.Identity()
    stream = Stream(torch.cat([torch.ones(*rows.shape[:2], dtype=torch.bool), ~arrays["ctx_pad"]], 1).unsqueeze(1))
    source = torch.cat([rows.expand(len(context), -1, -1), context], 1)
    out = module.eval()(arrays["x"], source, source, stream)
    torch.testing.assert_close(out, arrays[f"{case}_cross_out"])
    torch.testing.assert_close(stream.state - rows, arrays[f"{case}_cross_p_out"])


@pytest.mark.parametrize("contextual", [True, False])
def test_layers_start_from_the_rows_and_hand_them_on(contextual):
    """Loops, layer by layer: P of the first layer is given, P of each other layer is made by (6) or given."""
    net = decoder(cross_attention=LUNA | {"contextual": contextual, "pack_heads": 4})
    source, frames, merged, queries = inputs(2, ROWS + 9, 16), [9, 3], [], []
    for layer in net.decoders:
        layer.src_attn.linear_out.register_forward_pre_hook(lambda _, given: merged.append(given[0]))
        layer.src_attn.linear_q.register_forward_hook(lambda _, given, out: queries.append(out))
    net(source, torch.tensor(frames) + ROWS, TEXT, FULL)
    for b, length in enumerate(frames):
        rows, context = source[b, :ROWS], source[b, ROWS : ROWS + length]
        for index, layer in enumerate(net.decoders):
            attention, core = layer.src_attn, layer.src_attn.core
            given = [core.linear_p(rows), queries[index][b], attention.linear_k(context), attention.linear_v(context)]
            unpack = [
                lambda row, linear=linear: linear(torch.from_numpy(row)).detach().numpy() for linear in unpacking(core)
            ]
            arrays = [x.detach().numpy() for x in given]
            expected, packed = oracle.nested(*arrays, *unpack, 4, 2, np.ones(length, dtype=bool))
            torch.testing.assert_close(merged[index][b].detach(), torch.from_numpy(expected), rtol=1e-9, atol=1e-9)
            if contextual and index < 2:
                rows = layer_norm(rows + torch.from_numpy(packed), (16,), core.norm.weight, core.norm.bias, 1e-5)
            else:
                assert core.norm is None


def unpacking(core):
    return core.linear_packed_k, core.linear_packed_v


@pytest.mark.parametrize("name", ENCODER_CASES)
def test_an_encoder_puts_its_last_rows_before_its_frames(name):
    net, x, states = encoder(name), inputs(2, 9, 8), []
    layer = net.encoders[-1]
    attention = layer.get_submodule(net.attribute)
    attention.core.linear_packed_k.register_forward_pre_hook(lambda _, given: states.append(given[0]))
    attention.core.linear_p.register_forward_pre_hook(lambda _, given: states.append(given[0]))
    out, lengths, _ = net(x, torch.tensor([9, 5]))
    rows, packed, *_ = states  # values are keys, so Y_P is projected twice by one map
    assert lengths.tolist() == [9 + ROWS, 5 + ROWS] and out.shape == (2, 9 + ROWS, 16)
    torch.testing.assert_close(out[:, :ROWS], net.after_norm(attention.core.norm(rows + packed)))
    plain = encoder(name, attention=LUNA | {"handed_over": False})
    plain.load_state_dict(net.state_dict(), strict=False)
    expected, lengths, _ = plain(x, torch.tensor([9, 5]))
    torch.testing.assert_close(out[:, ROWS:], expected)


def test_a_batch_equals_its_samples_and_padding_changes_nothing():
    """One sample has fewer frames than P has rows."""
    net, reader, x, frames = encoder(), decoder(), inputs(3, 9, 8), [9, 6, 2]
    lengths, text = torch.tensor(frames), torch.cat([TEXT, TEXT[:1]])
    other = torch.where((torch.arange(9) < lengths[:, None]).unsqueeze(-1), x, 1e3)
    scores, same = (reader(*net(given, lengths)[:2], text, torch.tensor([6] * 3))[0] for given in (x, other))
    torch.testing.assert_close(scores, same)
    for b, length in enumerate(frames):
        alone = reader(*net(x[b : b + 1, :length], lengths[b : b + 1])[:2], text[b : b + 1], FULL[:1])[0]
        torch.testing.assert_close(alone, scores[b : b + 1])


@pytest.mark.parametrize("contextual", [True, False])
def test_cached_decoding_equals_the_full_pass(contextual):
    """ESPnet's steps, and ours over sources of different lengths, after utterances were dropped too."""
    net = decoder(cross_attention=LUNA | {"contextual": contextual, "pack_heads": 4})
    source, lengths = inputs(2, ROWS + 9, 16), torch.tensor([9, 3]) + ROWS
    full = net(source, lengths, TEXT, FULL)[0].log_softmax(-1)
    mask, states, ours = (torch.arange(ROWS + 9) < lengths[:, None]).unsqueeze(1), [None, None], DecoderScorer(net)
    parent = torch.tensor([[0], [0]])
    with torch.no_grad():
        ours.begin(source, mask)
        for t in range(1, 7):
            theirs, states = net.batch_score(TEXT[:, :t], states, source, xs_mask=mask)
            torch.testing.assert_close(theirs, full[:, t - 1])
            rows = [0, 1] if t < 5 else [1]
            torch.testing.assert_close(ours.score(TEXT[rows, t - 1 : t])[:, 0], full[rows, t - 1])
            if t == 4:
                ours.keep(torch.tensor([1]))
                rows = [1]
            ours.extend(parent[rows])


def test_a_search_packs_once():
    net, calls = decoder(), []
    net.decoders[1].src_attn.core.linear_p.register_forward_hook(lambda *_: calls.append(1))
    scorer = DecoderScorer(net)
    with torch.no_grad():
        scorer.begin(inputs(2, ROWS + 9, 16), None)
        for t in range(4):
            scorer.score(TEXT[:, t : t + 1])
            scorer.extend(torch.tensor([[0], [0]]))
    assert len(calls) == 1


def test_gradcheck_through_both_sides():
    net, reader, x = encoder(num_blocks=1), decoder(num_blocks=2), inputs(1, 5, 8).requires_grad_()
    weight = net.encoders[0].self_attn.core.first.weight.detach().clone().requires_grad_()

    def both(x, weight):
        out, lengths, _ = torch.func.functional_call(net, {"encoders.0.self_attn.core.first.weight": weight}, (x, FIVE))
        return reader(out, lengths, TEXT[:1, :3], torch.tensor([3]))[0]

    assert torch.autograd.gradcheck(both, (x, weight))


FIVE = torch.tensor([5])


@pytest.mark.parametrize("again", [[], [1, 2, 3]])
def test_every_parameter_is_trained(again):
    """Also where layers are computed again; the rows alone carry a gradient to the encoder's first ones."""
    net, reader = encoder().train(), decoder(gradient_checkpoint_layers=again).train()
    out, lengths, _ = net(inputs(2, 9, 8), torch.tensor([9, 7]))
    (reader(out, lengths, TEXT, FULL)[0] * inputs(2, 6, 11)).sum().backward()
    parts = [*net.named_parameters(), *reader.named_parameters()]
    assert [name for name, parameter in parts if parameter.grad is None] == []
    assert not any("first" in name for name, _ in reader.named_parameters() if "src_attn" in name)


def test_adapters_act_on_frames_alone():
    adapter = {"by": "lang", "bottleneck": 4, "conditions": {"lang": ["de"]}}
    net, states = encoder(adapter=adapter), []
    net.encoders[-1].adapter.register_forward_pre_hook(lambda _, given: states.append(given[0].shape))
    with scope({"lang": torch.tensor([0])}, collect=False):
        net(inputs(2, 9, 8), torch.tensor([9, 5]))
    assert states == [(2, 9, 16)]


TOKENS = ["<blank>", "<unk>", "a", "b", "<sos/eos>"]
NETS = {"encoder": "diverse_transformer", "decoder": "diverse_transformer", "model": "diverse"}


def model(task="mt", of_encoder=LUNA, of_decoder=LUNA, **options):
    parser = TASKS[task].get_parser()
    small = {"output_size": 8, "attention_heads": 2, "linear_units": 8, "num_blocks": 2}
    nets = {"encoder_conf": small | {"attention": of_encoder}}
    nets |= {"decoder_conf": {k: v for k, v in small.items() if k != "output_size"} | {"cross_attention": of_decoder}}
    if task == "mt":
        nets["encoder_conf"]["input_layer"] = None
        nets |= {"src_token_list": TOKENS, "frontend": "embed", "frontend_conf": {"embed_dim": 8}}
    parser.set_defaults(token_list=TOKENS, **NETS, **nets, **options)
    torch.manual_seed(0)
    return TASKS[task].build_model(parser.parse_args([])).eval()


def test_a_translation_model_encodes_and_searches_with_the_rows():
    """Batches as single sentences, and ESPnet's search as ours; the text bounds the length."""
    net, texts = model(), [np.array([2, 3, 3, 2, 2]), np.array([3])]
    encoding = Encoding(net, "cpu")
    features = [encoding.features(text) for text in texts]
    source, lengths = encoding.encode(features, {})
    for row, text in enumerate(texts):
        given = torch.from_numpy(text).unsqueeze(0)
        alone, count = net.encode(given, torch.tensor([len(text)]))
        assert int(count) == int(lengths[row]) == len(text) + 1 + ROWS
        torch.testing.assert_close(source[row, : int(count)], alone[0])
    net.decoder.output_layer.bias.data[-1] = -100.0  # no hypothesis ends by itself
    options = SearchOptions(beam_size=2, ctc_weight=0.0, nbest=2)
    ours = BeamSearch(net.decoder, None, 4, of_text=True)(source, lengths, options)
    theirs = ESPnetBeamSearch(net, None, of_text=True)(source, lengths, options)
    for row, (found, expected) in enumerate(zip(ours, theirs, strict=True)):
        assert [hyp.tokens for hyp in found] == [hyp.tokens for hyp in expected]
        assert [len(hyp.tokens) for hyp in found] == [2 * len(texts[row]) + 10] * 2
    drawn = SamplingSearch(net.decoder, 4, of_text=True)(source, lengths, SearchOptions(search="sampling"), texts)
    assert [max(len(hyp.tokens) for hyp in each) for each in drawn] == [20, 12]


def test_half_of_the_connection_is_refused():
    for kind in ({"of_encoder": {"core": "luna"}}, {"of_decoder": None}, {"of_decoder": LUNA | {"length": 5}}):
        with pytest.raises(ConfigError, match=r"the encoder hands over \d rows, and cross-attention .* takes \d; give"):
            model(**kind)


def test_where_more_than_the_decoder_reads_the_output_it_is_refused():
    with pytest.raises(ConfigError, match="handed_over is for translation of text by an attention decoder; leave it"):
        model("asr", input_size=8)


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda: encoder(attention=LUNA | {"contextual": False}), "set contextual: true"),
        (
            lambda: encoder(memory={"kind": "xl", "segment": 4}),
            "'luna' with handed_over has no memory; leave out either",
        ),
        (lambda: decoder(cross_memory={"kind": "xl", "segment": 4}), "handed_over has no memory; leave out either"),
        (lambda: decoder(attention=LUNA), "causal self-attention has a P of its own; leave out handed_over"),
        (
            lambda: decoder(cross_attention=LUNA | {"layers": [1]}),
            "hands a state from layer to layer; leave out layers",
        ),
        (lambda: decoder().forward_partially_AR(), "decoding does not apply handed_over; set partial_ar to false"),
        (
            lambda: ConditionedTransformer(4, 16, None, LUNA, attention_heads=2),
            "takes no rows of the encoder; leave out",
        ),
    ],
)
def test_unsupported_combinations_are_refused(build, text):
    with pytest.raises(ConfigError, match=text):
        build()
