import numpy as np
import pytest
import soundfile
import torch

from espnet_diverse.analysis.collect import KINDS, VECTORS, attentions, observe
from espnet_diverse.analysis.teacher_forcing import load
from espnet_diverse.functional.semantic import semantic_mask
from espnet_diverse.runs.tasks import TASKS, load_model
from espnet_diverse.training import espnet_command

FRAMES = 18  # 12000 samples, a hop of 160, and two convolutions of stride 2
TEXT = [2, 3, 4]


@pytest.fixture
def model(tiny_run):
    return load_model(tiny_run.model_dir)[0].eval()


@pytest.fixture
def speech(tiny_run):
    return soundfile.read(tiny_run.test_dir / "test-00.wav", dtype="float32")[0]


def test_observed_weights_and_posteriors_of_every_kind(model, speech):
    seen = observe(model, speech, TEXT)
    assert list(seen) == list(KINDS)
    shapes = {kind: tuple(each.weights.shape[1:]) for kind, each in seen.items()}
    assert shapes == {"encoder": (2, FRAMES, FRAMES), "decoder": (2, 4, 4), "cross": (2, 4, FRAMES)}
    for each in seen.values():
        torch.testing.assert_close(each.weights.sum(-1), torch.ones_like(each.weights[..., 0]))
    assert [list(each.posteriors) for each in seen.values()] == [
        ["frames", "queries"],
        ["tokens", "queries"],
        ["tokens", "frames", "queries"],
    ]


def test_posteriors_match_the_semantic_mask(model, speech):
    seen = observe(model, speech, TEXT)
    p = seen["cross"].posteriors
    torch.testing.assert_close(seen["cross"].maps["semantic"].values, semantic_mask(p["tokens"], p["frames"]))
    p = seen["decoder"].posteriors["tokens"]
    causal = torch.ones(4, 4, dtype=torch.bool).tril()
    torch.testing.assert_close(seen["decoder"].maps["semantic"].values, semantic_mask(p, p, causal))


def test_queries_match_the_last_layer(model, speech):
    seen = observe(model, speech, TEXT)["cross"]
    mixture = attentions(model)["cross"][-1].core.query_mixture
    with torch.no_grad():
        torch.testing.assert_close(mixture(seen.queries[None]).p[0], seen.posteriors["queries"][-1])


@pytest.mark.parametrize(("patterns", "layer"), [([["global"] * 2, ["previous", "next"]], 0), (["start", "end"], None)])
def test_heads_with_one_key_have_no_queries(patterns, layer):
    net = {"output_size": 8, "attention_heads": 2, "linear_units": 8, "num_blocks": 2, "input_layer": None}
    model = TASKS["mt"].build_whole_model(
        espnet_command.arguments(
            TASKS["mt"],
            {
                "model": "diverse",
                "token_list": (tokens := ["<blank>", "<unk>", "a", "b", "<sos/eos>"]),
                "src_token_list": tokens,
                "frontend": "embed",
                "frontend_conf": {"embed_dim": 8},
                "encoder": "diverse_transformer",
                "encoder_conf": net | {"attention": {"core": "softmax", "head_patterns": patterns}},
                "decoder": "diverse_transformer",
                "decoder_conf": {"attention_heads": 2, "linear_units": 8, "num_blocks": 1},
            },
        )
    )
    seen = observe(model.eval(), np.array([2, 3, 2]), [2, 3])
    assert list(seen) == list(KINDS) and (seen["encoder"].queries is None) == (layer is None)
    if layer is not None:
        assert seen["encoder"].queries.abs().max() > 0


def test_nothing_of_the_utterance_before_stays(model, speech):
    alone = observe(model, speech, TEXT)
    observe(model, np.concatenate([speech, speech]), TEXT * 2)
    again = observe(model, speech, TEXT)
    for kind in KINDS:
        assert torch.equal(alone[kind].weights, again[kind].weights)
    assert not any(module._forward_hooks for module in model.modules())


def test_attention_that_keeps_no_matrix_of_weights_is_missing(model, speech, monkeypatch):
    (cross,) = attentions(model)["cross"]
    forward = cross.forward

    def fused(*args, **options):
        context = forward(*args, **options)
        cross.attn = None
        return context

    monkeypatch.setattr(cross, "forward", fused)
    assert list(observe(model, speech, TEXT)) == ["encoder", "decoder"]


def test_keys_that_a_decoder_makes_of_the_source_are_no_tokens_of_it(tiny_autoencoder):
    model, _ = load(tiny_autoencoder.model_dir)
    seen = observe(model, np.array([2, 3, 4, 5]), [2, 3])
    assert {kind: each.of_vectors for kind, each in seen.items()} == {"encoder": False, "decoder": False, "cross": True}
    assert {name: each.shape[2] for name, each in seen["cross"].posteriors.items()} == {
        **{"queries": 3, "tokens": 3},
        VECTORS: 2,
    }
