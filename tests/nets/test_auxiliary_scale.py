"""The factor of auxiliary losses, for each task and each loss that it may have."""

import pytest
import torch

from espnet_diverse.nets.classification.sentence_classifier import SelfAttentiveClassifier
from espnet_diverse.nets.models import DiverseClassificationModel
from espnet_diverse.runs.tasks import TASKS
from espnet_diverse.scope import Scope

TOKENS = ["<blank>", "<unk>", "a", "b", "<sos>", "<eos>", "<sop>", "<na>", "<sos/eos>"]
LENGTHS = torch.tensor([5, 2])
TEXT = torch.tensor([[2, 3, 2, 2, 3], [3, 2, -1, -1, -1]])
SENTENCES, TARGETS = 2, 9  # with the end of each sentence
FACTOR = 3.0
SMALL = {"attention_heads": 2, "linear_units": 8, "num_blocks": 1}
SDMA = {"attention": {"core": "sdma"}}


def build(task, model_conf, **options):
    """A model with SDMA in its encoder, or in the language model."""
    conf = {"auxiliary_factor": FACTOR, "length_normalized_loss": True} | model_conf
    if task == "lm":
        lm_conf = {"embed_unit": 8, "att_unit": 8, "head": 2, "unit": 8, "layer": 1}
        nets = {"lm": "diverse_transformer", "lm_conf": lm_conf | SDMA, "model": "diverse"}
        conf.pop("length_normalized_loss")
    else:
        nets = {"encoder": "diverse_transformer", "encoder_conf": {"output_size": 8} | SMALL | SDMA}
        nets |= {"decoder": "diverse_transformer", "decoder_conf": SMALL, "model": "diverse"}
    if task == "mt":
        nets |= {"frontend": "embed", "frontend_conf": {"embed_dim": 8}}
        nets["encoder_conf"] |= {"input_layer": None}
    elif task != "lm":
        nets |= {"frontend_conf": {"n_mels": 16}, "specaug": None}
    if task in ("st", "mt"):
        nets["src_token_list"] = TOKENS
    if task == "st":
        del nets["model"]  # the only one
    parser = TASKS[task].get_parser()
    parser.set_defaults(**{"token_list": TOKENS, "model_conf": conf} | nets | options)
    return TASKS[task].build_model(parser.parse_args([]))


def batch(task):
    """Two sentences of 5 and 2 tokens, with whatever else the task reads."""
    names = {"mt": ["src_text"], "st": ["src_text"], "s2t": ["text_prev", "text_ctc"]}.get(task, [])
    given = {name: TEXT.clone() for name in ["text", *names]}
    given |= {f"{name}_lengths": LENGTHS.clone() for name in list(given)}
    if task == "lm":
        given["text"] = TEXT.clamp(min=0)
    elif task != "mt":
        given |= {"speech": torch.randn(2, 8000), "speech_lengths": torch.tensor([8000, 6000])}
    return given


def recorded(monkeypatch):
    """A list to which each forward pass adds the losses of the modules, as the scope has them."""
    own, losses = [], Scope.losses
    monkeypatch.setattr(Scope, "losses", lambda self: own.append(losses(self)) or own[-1])
    return own


RNNT = {"decoder": "transducer", "decoder_conf": {"hidden_size": 8}}
RECOGNISER = {"extra_asr_decoder": "transformer", "extra_asr_decoder_conf": SMALL}
PER_TOKEN, PER_SENTENCE = SENTENCES / TARGETS, 1.0
ST = {"asr_weight": 0.0, "mt_weight": 0.0}


@pytest.mark.parametrize(
    ("task", "model_conf", "options", "scale"),
    [
        ("asr", {"ctc_weight": 0.3}, {}, PER_TOKEN),
        ("asr", {"ctc_weight": 0.0}, {}, PER_TOKEN),
        ("asr", {"ctc_weight": 0.3, "lang_token_id": 3}, {}, SENTENCES / (TARGETS + SENTENCES)),
        ("asr", {"ctc_weight": 0.3, "length_normalized_loss": False}, {}, PER_SENTENCE),
        ("asr", {"ctc_weight": 1.0}, {}, PER_SENTENCE),
        ("asr", {"report_cer": False, "report_wer": False}, RNNT | {"joint_net_conf": {}}, PER_SENTENCE),
        ("st", ST | {"ctc_weight": 0.3}, {}, PER_TOKEN),
        ("st", {"asr_weight": 0.3, "mtlalpha": 0.3}, RECOGNISER, PER_TOKEN),
        ("st", ST | {"ctc_weight": 1.0}, {}, PER_SENTENCE),
        ("st", ST, RNNT | {"st_joint_net_conf": {}}, PER_SENTENCE),
        ("mt", {}, {}, PER_TOKEN),
        ("mt", {"length_normalized_loss": False}, {}, PER_SENTENCE),
        ("lm", {}, {}, PER_TOKEN),
        ("s2t", {"ctc_weight": 0.3}, {}, PER_TOKEN),
        ("s2t", {"ctc_weight": 1.0}, {}, PER_SENTENCE),
    ],
)
def test_the_total_is_the_tasks_loss_and_the_scaled_sum_of_the_modules(task, model_conf, options, scale, monkeypatch):
    own = recorded(monkeypatch)
    loss, stats, _ = build(task, model_conf, **options)(**batch(task))
    assert set(own[0]) == {"kl_z", "diversity_z", "kl_q", "diversity_q", "head_mi", "query_mi"}
    torch.testing.assert_close(loss - stats["loss_task"], (FACTOR * scale * sum(own[0].values()))[None])
    for name, value in own[0].items():
        torch.testing.assert_close(stats[f"aux_{name}"], (FACTOR * scale * value.detach())[None])


@pytest.mark.parametrize(("task", "model_conf"), [("asr", {}), ("st", ST), ("s2t", {})])
def test_without_an_attention_decoder_the_option_of_its_loss_changes_nothing(task, model_conf):
    seen = []
    for by_token in (False, True):
        torch.manual_seed(0)
        model = build(task, {"ctc_weight": 1.0, "length_normalized_loss": by_token} | model_conf)
        stats = model(**batch(task))[1]
        seen.append([stats[name] for name in ("loss_task", "aux_kl_z", "aux_head_mi", "loss")])
    assert seen[0] == seen[1]


def test_losses_of_a_classifier_are_per_sentence(monkeypatch):
    own = recorded(monkeypatch)
    classes = {"domain": ["news", "talk"]}
    size = {"embed_dim": 6, "hidden_size": 5, "pooling_width": 4, "heads": 3, "linear_units": 8}
    net = SelfAttentiveClassifier(9, by="domain", conditions=classes, frobenius=2.0, **size)
    model = DiverseClassificationModel(net, conditions=classes, auxiliary_factor=FACTOR)
    loss, stats, _ = model(TEXT.clamp(min=0), LENGTHS, domain=torch.tensor([[0], [1]]))
    assert own[0]["frobenius"] > 0
    torch.testing.assert_close(loss - stats["loss_task"], (FACTOR * own[0]["frobenius"])[None])
