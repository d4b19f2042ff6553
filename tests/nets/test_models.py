import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from espnet2.mt import espnet_model
from espnet2.mt.espnet_model import ESPnetMTModel
from references.espnet_twin import PROMPTED

from espnet_diverse.errors import ConfigError
from espnet_diverse.nets.models import MODELS, Diverse
from espnet_diverse.runs.tasks import TASKS
from espnet_diverse.scope import current, scope

TOKENS = ["<blank>", "<unk>", "a", "b", "<sos>", "<eos>", "<sop>", "<na>", "<sos/eos>"]
ENCODER = {"output_size": 8, "attention_heads": 2, "linear_units": 8, "num_blocks": 1}
DECODER = {"attention_heads": 2, "linear_units": 8, "num_blocks": 1}
LENGTHS = torch.tensor([3, 2])
TEXT = torch.tensor([[2, 3, 2], [3, 2, -1]])


class Plain(torch.nn.Module):
    """Stands in for a model of ESPnet whose attention adds two losses and a statistic."""

    def forward(self, x):
        current().add_loss("kl", x.sum())
        current().add_loss("kl", 3 * x.sum())
        current().add_stat("clusters", 5.0)
        self.kept = current().keep_attention
        loss = (10 * x).sum()[None]
        return loss, {"loss": loss.detach(), "acc": None}, torch.tensor([2])


class DiversePlain(Diverse, Plain):
    pass


def test_losses_of_attention_join_the_loss_and_the_statistics():
    x = torch.ones(1, requires_grad=True)
    loss, stats, weight = DiversePlain()(x)
    loss.backward()
    assert (loss.tolist(), weight.tolist(), x.grad.tolist()) == ([12.0], [2], [12.0])
    assert stats.pop("acc") is None
    assert {name: value.tolist() for name, value in stats.items()} == {
        "loss": [12.0],
        "loss_task": [10.0],
        "aux_kl": [2.0],
        "clusters": [5.0],
    }
    assert not any(value.requires_grad for value in stats.values())


def test_attention_is_kept_if_the_outer_scope_asks_for_it():
    model = DiversePlain()
    model(torch.ones(1))
    assert not model.kept
    with scope(keep_attention=True):
        model(torch.ones(1))
    assert model.kept


def build(task: str, **options):
    parser = TASKS[task].get_parser()
    parser.set_defaults(**{"token_list": TOKENS} | options)
    return TASKS[task].build_model(parser.parse_args([]))


@pytest.mark.parametrize("task", ["asr", "st", "mt", "s2t", "s2t_ctc"])
def test_every_task_builds_and_trains_our_model(task):
    model_conf = {"asr_weight": 0.0, "mt_weight": 0.0} if task == "st" else {}
    options = {
        "encoder": "diverse_transformer",
        "encoder_conf": ENCODER | {"attention": {"core": "sdma"}},
        "decoder": "diverse_transformer",
        "decoder_conf": DECODER,
        "model_conf": model_conf,
        "specaug": None,
    }
    if task == "st":
        options["src_token_list"] = TOKENS
    else:
        options["model"] = "diverse"
    if task == "mt":
        options |= {"src_token_list": TOKENS, "frontend": "embed", "frontend_conf": {"embed_dim": 8}}
        options["encoder_conf"] = options["encoder_conf"] | {"input_layer": None}
        batch = {"src_text": TEXT, "src_text_lengths": LENGTHS}
    else:
        options["frontend_conf"] = {"n_mels": 16}
        batch = {"speech": torch.randn(2, 8000), "speech_lengths": torch.tensor([8000, 6000])}
    if task == "s2t_ctc":
        del options["decoder"], options["decoder_conf"]
        options |= {"encoder": "diverse_e_branchformer_ctc", "promptencoder_conf": ENCODER | {"output_size": 8}}
        options["encoder_conf"] = PROMPTED | {"input_layer": "conv2d", "attention": {"core": "sdma"}}
        options["model_conf"] = {"interctc_weight": 0.5, "ctc_asr_only": [True, False, False]}
        batch |= {"prefix": TEXT[:, :2].clamp(min=0), "prefix_lengths": torch.tensor([2, 2])}
    if task.startswith("s2t"):
        for name in ("text_prev", "text_ctc"):
            batch |= {name: TEXT.clone(), f"{name}_lengths": LENGTHS}
    model = build(task, **options)
    assert type(model) is MODELS[task]
    # Copies: ESPnet's model of CTC alone changes texts in place.
    loss, stats, _ = model(text=TEXT.clone(), text_lengths=LENGTHS, **batch)
    assert stats["loss"] == loss and stats["aux_kl_z"].shape == (1,)
    added = sum(value for name, value in stats.items() if name.startswith("aux_"))
    torch.testing.assert_close(loss - stats["loss_task"], added)
    loss.backward()
    attention = model.encoder.encoders[0].get_submodule(model.encoder.attribute)
    assert attention.core.query_mixture.mean.grad.abs().sum() > 0


def test_the_share_of_ctc_in_translation_has_two_names():
    names = {"token_list": TOKENS, "src_token_list": TOKENS, "encoder_conf": ENCODER, "decoder_conf": DECODER}
    nets = {"encoder": "diverse_transformer", "decoder": "diverse_transformer"}
    assert build("st", **nets, **names, model_conf={"ctc_weight": 0.2}).st_mtlalpha == 0.2
    with pytest.raises(ConfigError, match=r"ctc_weight 0\.2 and st_mtlalpha 0\.1 are the same option; give one"):
        build("st", **nets, **names, model_conf={"ctc_weight": 0.2, "st_mtlalpha": 0.1})


def test_the_language_model_trains_too():
    lm_conf = {"embed_unit": 8, "att_unit": 8, "head": 2, "unit": 8, "layer": 1, "attention": {"core": "sma"}}
    model = build("lm", lm="diverse_transformer", lm_conf=lm_conf, model="diverse")
    assert type(model) is MODELS["lm"]
    loss, stats, _ = model(torch.tensor([[2, 3, 2], [3, 2, 0]]), LENGTHS)
    loss.backward()
    assert loss > stats["loss_task"] and stats["aux_diversity_z"] > 0


def translation_model(**options):
    """A text translation model without dropout, and a batch for it."""
    plain = {"dropout_rate": 0.0, "positional_dropout_rate": 0.0}
    options = {
        "src_token_list": TOKENS,
        "frontend": "embed",
        "frontend_conf": {"embed_dim": 8, "positional_dropout_rate": 0.0},
        "encoder": "diverse_transformer",
        "encoder_conf": ENCODER | plain | {"input_layer": None, "attention_dropout_rate": 0.0},
        "decoder": "diverse_transformer",
        "decoder_conf": DECODER | plain | {"self_attention_dropout_rate": 0.0, "src_attention_dropout_rate": 0.0},
        "model_conf": {"report_bleu": True, "lsm_weight": 0.1},
    } | options
    torch.manual_seed(0)
    batch = {"text": TEXT, "text_lengths": LENGTHS, "src_text_lengths": LENGTHS}
    batch["src_text"] = torch.tensor([[3, 3, 2], [2, 3, -1]])
    return build("mt", **options), batch


def random_batch(seed: int) -> dict[str, torch.Tensor]:
    """Texts of one to seven tokens; source and target are padded by one column more than the longest text."""
    random = torch.Generator().manual_seed(seed)
    batch = {}
    for name in ("text", "src_text"):
        lengths = torch.randint(1, 8, (5,), generator=random)
        tokens = torch.randint(1, len(TOKENS) - 1, (5, int(lengths.max()) + 1), generator=random)
        padding = torch.arange(tokens.size(1)) >= lengths[:, None]
        batch |= {name: tokens.masked_fill(padding, -1), f"{name}_lengths": lengths}
    return batch


@pytest.mark.parametrize("patch_size", [1, 3])
@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_text_translation_matches_espnet(seed, patch_size):
    conf = {"model_conf": {"report_bleu": True, "lsm_weight": 0.1, "patch_size": patch_size}}
    ours, batch = translation_model(model="diverse", **conf)
    theirs, _ = translation_model(model="mt", **conf)
    assert type(theirs) is ESPnetMTModel
    theirs.load_state_dict(ours.state_dict())
    batch = batch if seed is None else random_batch(seed)
    for training in (True, False):
        results = [model.train(training)(**batch) for model in (ours, theirs)]
        (loss, stats, weight), (expected, expected_stats, expected_weight) = results
        torch.testing.assert_close(loss, expected)
        assert stats["acc"] == expected_stats["acc"] and weight == expected_weight
        assert stats["bleu"] == expected_stats["bleu"] and (stats["bleu"] is None) == training
    source = batch["src_text"], batch["src_text_lengths"]
    for encoded, wanted in zip(ours.encode(*source), theirs.encode(*source), strict=True):
        assert torch.equal(encoded, wanted)
    assert encoded.tolist() == (source[1] + patch_size).tolist()


def test_forward_passes_that_overlap_in_two_threads_leave_espnet_unchanged():
    model, batch = translation_model(model="diverse")
    before = espnet_model.add_sos_eos
    expected = model(**batch)[0]
    inside = {name: threading.Event() for name in ("first", "second")}
    first_done = threading.Event()

    def meet(*_):
        name = threading.current_thread().name.partition("_")[0]
        inside[name].set()
        # The second pass begins within the first and ends after it.
        assert (inside["second"] if name == "first" else first_done).wait(20)

    model.decoder.register_forward_pre_hook(meet)
    with ThreadPoolExecutor(1, "first") as first_pool, ThreadPoolExecutor(1, "second") as second_pool:
        first = first_pool.submit(model, **batch)
        assert inside["first"].wait(20)
        second = second_pool.submit(model, **batch)
        losses = [first.result(20)[0]]  # `result` raises what was raised in the thread
        first_done.set()
        losses.append(second.result(20)[0])
    assert [loss.tolist() for loss in losses] == [expected.tolist()] * 2
    assert espnet_model.add_sos_eos is before


def translator(**model_conf):
    """A text translation model with SDMA in its encoder, without noise; always the same weights."""
    torch.manual_seed(0)
    attention = {"core": "sdma", "noise_std": 0.0}
    options = {"encoder": "diverse_transformer", "decoder": "diverse_transformer", "decoder_conf": DECODER}
    options |= {"encoder_conf": ENCODER | {"attention": attention, "input_layer": None, "dropout_rate": 0.0}}
    options |= {"src_token_list": TOKENS, "frontend": "embed", "frontend_conf": {"embed_dim": 8}, "model": "diverse"}
    return build("mt", **options, model_conf=model_conf).eval()


def texts():
    names = ("text", "src_text")
    return dict.fromkeys(names, TEXT) | {f"{name}_lengths": LENGTHS for name in names}


def test_length_normalized_loss_scales_auxiliary_losses_too():
    sentences, tokens = len(LENGTHS), int((LENGTHS + 1).sum())
    by_sentence, stats, _ = translator(length_normalized_loss=False)(**texts())
    by_token, token_stats, _ = translator(length_normalized_loss=True)(**texts())
    torch.testing.assert_close(by_token * tokens, by_sentence * sentences)
    for name in (name for name in stats if name.startswith(("aux_", "loss_task"))):
        torch.testing.assert_close(token_stats[name] * tokens, stats[name] * sentences)
    model = translator(length_normalized_loss=True)
    args = [texts()[name] for name in ("text", "text_lengths", "src_text", "src_text_lengths")]
    torch.testing.assert_close(model(*args)[0], by_token)  # by position, too


def test_the_auxiliary_factor_scales_the_losses_of_attention():
    one, three, none = (translator(auxiliary_factor=factor)(**texts())[1] for factor in (1.0, 3, 0))
    assert one["loss_task"] == three["loss_task"] == none["loss"]
    torch.testing.assert_close(three["loss"] - three["loss_task"], 3 * (one["loss"] - one["loss_task"]))
    with pytest.raises(ConfigError, match=r"auxiliary_factor must be at least 0, but is -1"):
        translator(auxiliary_factor=-1)


def test_losses_of_a_language_model_are_per_token(monkeypatch):
    lm_conf = {"embed_unit": 8, "att_unit": 8, "head": 2, "unit": 8, "layer": 1, "attention": {"core": "sma"}}
    model = build("lm", lm="diverse_transformer", lm_conf=lm_conf, model="diverse").eval()
    batch = torch.tensor([[2, 3, 2], [3, 2, 0]]), LENGTHS
    by_token = model(*batch)[1]
    monkeypatch.setattr(model, "loss_per_token", False)
    by_sentence = model(*batch)[1]
    assert by_token["aux_diversity_z"] > 0
    torch.testing.assert_close(by_token["aux_diversity_z"] * 7, by_sentence["aux_diversity_z"] * 2)


def test_statistics_of_attention_come_from_every_tenth_batch_of_an_epoch():
    model = DiversePlain()
    seen = ["clusters" in model(torch.ones(1))[1] for _ in range(12)]
    assert [i for i, there in enumerate(seen) if there] == [0, 10]
    model.eval()
    assert all("clusters" in model(torch.ones(1))[1] for _ in range(2))
    for module in model.modules():  # as Lightning does it
        module.training = True
    assert ["clusters" in model(torch.ones(1))[1] for _ in range(2)] == [True, False]
    assert all("aux_kl" in model(torch.ones(1))[1] for _ in range(2))
