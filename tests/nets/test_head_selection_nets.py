"""Head selection in whole encoders and decoders: weights, mixed batches, cached decoding, errors, fragments."""

from pathlib import Path

import pytest
import torch
import yaml
from references.cached import assert_cached_equals_full
from references.espnet_twin import ENCODER_CASES, SMALL, cases_of_cores

from espnet_diverse.attention import CORES
from espnet_diverse.attention.selection.selection_options import SelectionOptions
from espnet_diverse.errors import ConfigError
from espnet_diverse.nets import DECODERS, ENCODERS
from espnet_diverse.nets.replace_attention import Attention
from espnet_diverse.runs.config import merge
from espnet_diverse.scope import scope

ROOT = Path(__file__).resolve().parents[2]
# Head selection does not fit the contextual block encoder.
CASES = [case for case in ENCODER_CASES if "contextual_block" not in case[0]]
NAMES = {"lang": ["ar", "de", "el"], "tgtlang": ["en", "es"]}

#: Cores that can be used for all that is tested here; a core that supports less has tests of its own.
USES = ("head_selection", "relative_position", "causal", "cached_decoding", "cross_attention")
SELECTABLE = {name: core for name, core in CORES.items() if core.supports.head_selection}
each_core = pytest.mark.parametrize("core", [c for c in CORES if CORES[c].supports.missing(USES) is None])


def selected(strategy="group", by="lang", **options):
    return {"strategy": strategy, "pool": 4, "by": [by], "conditions": NAMES, **options}


def count(net):
    return sum(parameter.numel() for parameter in net.parameters())


@pytest.mark.parametrize(("name", "options"), CASES)
@pytest.mark.parametrize("strategy", ["group", "subset", "static"])
def test_a_mixed_batch_equals_its_samples_in_every_encoder(name, options, strategy):
    torch.manual_seed(0)
    net = ENCODERS[name](20, attention={"selection": selected(strategy)}, **options).double().eval()
    speech, ids = torch.randn(3, 90, 20, dtype=torch.double), [2, 0, 2]
    lengths = torch.tensor([90, 90, 90])
    with scope({"lang": torch.tensor(ids)}):
        mixed, _, _ = net(speech, lengths)
    for i, condition in enumerate(ids):
        with scope({"lang": torch.tensor([condition])}):
            alone, _, _ = net(speech[i : i + 1], lengths[:1])
        torch.testing.assert_close(mixed[i : i + 1], alone)


@pytest.mark.parametrize(("core", "name", "options"), cases_of_cores(SELECTABLE, CASES))
def test_every_core_trains_with_a_pool_in_every_encoder(core, name, options):
    torch.manual_seed(0)
    net = ENCODERS[name](20, attention={"core": core, "selection": selected(kl_weight=0.1)}, **options)
    with scope({"lang": torch.tensor([0, 1])}) as shared:
        out, _, _ = net(torch.randn(2, 90, 20), torch.tensor([90, 61]))
        (out.square().mean() + shared.total_loss()).backward()
    for parameter_name, parameter in net.named_parameters():
        assert parameter.grad is None or torch.isfinite(parameter.grad).all(), parameter_name
    logits = net.encoders[0].get_submodule(net.attribute).selection.logits_lang
    assert (logits.grad[:2].abs().sum(1) > 0).all() and (logits.grad[2] == 0).all()
    assert "head_kl" in shared.losses()


@each_core
def test_cached_decoding_equals_the_full_pass_of_a_mixed_batch(core):
    torch.manual_seed(0)
    attention = {"core": core, "selection": selected(by="tgtlang")}
    cross = attention if CORES[core].supports.cross_attention else None
    net = DECODERS["diverse_transformer"](
        11, 16, attention_heads=2, num_blocks=2, attention=attention, cross_attention=cross
    )
    net = net.double().eval()
    memory, ys = torch.randn(3, 13, 16, dtype=torch.double), torch.randint(1, 11, (3, 6))
    with scope({"tgtlang": torch.tensor([1, 0, 1])}, collect=False):
        assert_cached_equals_full(net, memory, ys)


def test_a_beam_has_the_condition_of_its_utterance():
    torch.manual_seed(0)
    options = {"attention_heads": 2, "num_blocks": 1}
    net = DECODERS["diverse_transformer"](11, 16, attention={"selection": selected(by="tgtlang")}, **options).eval()
    memory, ys = torch.randn(1, 13, 16), torch.randint(1, 11, (4, 3))
    with scope({"tgtlang": torch.tensor([1])}):
        beam, _ = net.batch_score(ys, [None] * 4, memory.expand(4, -1, -1))
        single, _ = net.batch_score(ys[2:3], [None], memory)
    torch.testing.assert_close(beam[2:3], single)


def test_a_pool_adds_the_papers_parameters_and_keeps_espnets_names():
    """H' instead of H heads in queries, keys and values, and a logit for each condition and candidate."""
    plain = ENCODERS["diverse_transformer"](20, **SMALL)
    net = ENCODERS["diverse_transformer"](20, attention={"selection": selected()}, **SMALL)
    assert count(net) - count(plain) == 2 * (3 * (4 - 2) * 8 * (16 + 1) + 3 * 4)
    assert set(plain.state_dict()) < set(net.state_dict())
    assert net.encoders[0].self_attn.linear_q.weight.shape == (32, 16)
    assert isinstance(net.encoders[0].self_attn, Attention)


def test_initial_weights_match_espnet_except_query_key_value():
    torch.manual_seed(7)
    plain = ENCODERS["diverse_transformer"](20, **SMALL)
    torch.manual_seed(7)
    net = ENCODERS["diverse_transformer"](20, attention={"selection": selected()}, **SMALL)
    own = ("linear_q", "linear_k", "linear_v")
    for name, tensor in plain.state_dict().items():
        assert any(f".{part}." in name for part in own) or torch.equal(tensor, net.state_dict()[name]), name
    bound = net.encoders[0].self_attn.linear_q.weight.abs().max()
    assert 0.9 * 16**-0.5 < float(bound.detach()) <= 16**-0.5


@pytest.mark.parametrize(
    ("encoder", "selection", "text"),
    [
        ("diverse_transformer", selected("groups"), "strategy must be one of none .* but is 'groups'"),
        ("diverse_transformer", selected(pool=5), "a pool of 5 does not make 2 groups; give a multiple of 2"),
        *(
            (f"diverse_contextual_block_{net}", selected(), "head selection does not fit the contextual block encoder")
            for net in ("transformer", "conformer")
        ),
    ],
)
def test_invalid_or_unsupported_selection_is_refused(encoder, selection, text):
    with pytest.raises(ConfigError, match=text):
        ENCODERS[encoder](20, attention={"selection": selection}, **SMALL)


def test_selection_that_is_off_fits_the_contextual_block_encoder():
    off = {"selection": {"strategy": "none"}}
    net = ENCODERS["diverse_contextual_block_transformer"](20, attention=off, **SMALL)
    assert all(layer.self_attn.selection is None for layer in net.encoders)


STRATEGIES = [ROOT / "conf" / "heads" / f"{name}.yaml" for name in ("group", "static", "subset")]


@pytest.mark.parametrize("path", STRATEGIES, ids=lambda path: path.stem)
@each_core
def test_the_fragments_build_around_every_core(path, core):
    assert path.stem == yaml.safe_load(path.read_text())["encoder_conf"]["attention"]["selection"]["strategy"]
    config = merge(["model/small", f"attention/{core}", f"heads/{path.stem}"])
    for section, condition in (("encoder_conf", "lang"), ("decoder_conf", "tgtlang")):
        config[section]["attention"]["selection"]["conditions"] = {condition: NAMES[condition]}
    encoder = ENCODERS[config["encoder"]](80, **config["encoder_conf"])
    decoder = DECODERS[config["decoder"]](10, encoder.output_size(), **config["decoder_conf"])
    assert encoder.encoders[0].self_attn.selection.options.strategy == path.stem
    assert decoder.decoders[0].self_attn.selection.names == {"tgtlang": ["en", "es"]}
    assert decoder.decoders[0].src_attn.selection is None


@each_core
def test_heads_by_token_build_around_every_core(core):
    config = merge(["model/small", f"attention/{core}", "heads/token"])
    encoder = ENCODERS[config["encoder"]](80, **config["encoder_conf"])
    decoder = DECODERS[config["decoder"]](10, encoder.output_size(), **config["decoder_conf"])
    layer = decoder.decoders[0]
    for attention in (encoder.encoders[0].self_attn, layer.self_attn, layer.src_attn):
        assert attention.changes[0].router.out_features == attention.h - 1


@pytest.mark.parametrize("strategy", ["group", "subset"])
def test_as_released_fragment_restores_the_defaults(strategy):
    released = merge([f"heads/{strategy}", "heads/as_released"])
    for section, condition in (("encoder_conf", "lang"), ("decoder_conf", "tgtlang")):
        given = {**released[section]["attention"]["selection"], "conditions": NAMES}
        defaults = SelectionOptions(strategy=strategy, by=[condition], conditions=NAMES)  # the released values
        assert SelectionOptions(**given) == defaults
