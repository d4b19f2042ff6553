"""Consistency of two passes: against two passes, against ESPnet's loss, and in each model."""

import pytest
import torch
import torch.nn.functional as F
from espnet2.asr.ctc import CTC
from espnet2.layers.time_warp import TimeWarp
from references.markdown import ROOT
from references.two_passes import LENGTHS, SMALL, TOKENS, batch, build
from torch import nn

from espnet_diverse.errors import ConfigError
from espnet_diverse.nets.losses.consistency import (
    Branches,
    Consistency,
    PairedCTC,
    PairedLabelSmoothingLoss,
    SharedTimeWarp,
    add_consistency,
    doubled,
    doubled_conditions,
)
from espnet_diverse.nets.losses.label_smoothing import LabelSmoothingLoss
from espnet_diverse.nets.whisper.byte_ctc import ByteCTC
from espnet_diverse.runs.config import merge
from espnet_diverse.runs.tasks import TASKS
from espnet_diverse.scope import scope

BOTH = {"r_drop": 2.0, "cr_ctc": 0.5}
GIVEN = {"asr": BOTH, "st": BOTH, "mt": {"r_drop": 2.0}, "s2t": BOTH}
"""Weights for each task."""

each_task = pytest.mark.parametrize("task", GIVEN)


def terms_of(model, monkeypatch):
    """A list to which each forward pass adds the weighted terms, with their graph."""
    found, take = [], Consistency.take
    monkeypatch.setattr(Consistency, "take", lambda self, losses: found.append(take(self, losses)) or found[-1])
    return found


class Masks:
    """Dropout with masks that one pass draws, and that later passes repeat for one half of their samples."""

    def __init__(self, monkeypatch):
        self.drawn, self.half = [], None
        monkeypatch.setattr(F, "dropout", self)

    def begin(self, half):
        self.half, self.left = half, list(self.drawn)

    def __call__(self, x, p=0.5, training=True, inplace=False):
        if not training or not p:
            return x
        if self.half is None:
            self.drawn.append((torch.rand_like(x) > p) / (1 - p))
            return x * self.drawn[-1]
        return x * self.left.pop(0).chunk(2)[self.half]


def divergence(first, second, valid):
    """The mean of both divergences, summed over valid positions, by PyTorch's function."""
    log_p, log_q = first.log_softmax(-1), second.log_softmax(-1)
    both = [F.kl_div(a, b, reduction="none", log_target=True) for a, b in ((log_p, log_q), (log_q, log_p))]
    return sum((kl.sum(-1) * valid).sum() for kl in both) / 2


@each_task
@pytest.mark.parametrize("by_token", [False, True])
def test_one_doubled_pass_equals_two_passes_with_the_same_dropout(task, by_token, monkeypatch):
    masks, conf = Masks(monkeypatch), {"length_normalized_loss": by_token}
    loss, stats, weight = build(task, GIVEN[task], model_conf=conf)(**batch(task))
    model, scores, frames = build(task, model_conf=conf), [], []
    criterion = getattr(model, {"st": "criterion_st", "mt": "criterion_mt"}.get(task, "criterion_att"))
    criterion.register_forward_pre_hook(lambda module, given: scores.extend(given))
    ctc = getattr(model, "st_ctc", getattr(model, "ctc", None))
    if ctc is not None:
        ctc.register_forward_pre_hook(lambda module, given: frames.append(given[1]))
        ctc.ctc_lo.register_forward_hook(lambda module, given, output: frames.append(output))
    losses = []
    for half in (0, 1):
        masks.begin(half)
        losses.append(model(**batch(task))[0])
        assert not masks.left
    assert len(masks.drawn) > 4 and not torch.equal(*losses)
    torch.testing.assert_close(stats["loss_task"], (losses[0] + losses[1]) / 2)
    first, targets, second, _ = scores
    valid = targets != -1
    number = valid.sum() if by_token else len(LENGTHS)
    assert not valid.all()
    r_drop = 2.0 * (1.0 if task == "mt" else 0.7) * divergence(first, second, valid) / number
    torch.testing.assert_close(stats["aux_r_drop"], r_drop[None])
    expected = stats["loss_task"] + r_drop
    if ctc is not None:
        lengths, first, _, second = frames
        valid = torch.arange(first.size(1)) < lengths[:, None]
        assert not valid.all()
        cr_ctc = 0.5 * 0.3 * divergence(first, second, valid) / len(LENGTHS)
        torch.testing.assert_close(stats["aux_cr_ctc"], cr_ctc[None])
        expected = expected + cr_ctc
    torch.testing.assert_close(loss, expected)
    assert weight.tolist() == [3] and r_drop > 0


@each_task
def test_without_noise_the_terms_vanish_and_the_loss_is_espnets(task):
    loss, stats, weight = build(task, GIVEN[task], dropout=0.0)(**batch(task))
    expected, plain, count = build(task, dropout=0.0)(**batch(task))
    assert stats.pop("aux_r_drop").abs() < 1e-9 and stats.pop("aux_cr_ctc", torch.zeros(1)).abs() < 1e-9
    torch.testing.assert_close(loss, expected)
    assert stats.keys() == plain.keys() and weight == count
    for name in plain:
        torch.testing.assert_close(stats[name], plain[name], msg=name)


@each_task
def test_evaluation_and_parameters_match_a_plain_model(task):
    model, plain = build(task, GIVEN[task]).eval(), build(task).eval()
    assert [*model.state_dict()] == [*plain.state_dict()]
    assert all(torch.equal(*pair) for pair in zip(model.parameters(), plain.parameters(), strict=True))
    results = []
    for each in (model, plain):
        torch.manual_seed(3)  # ESPnet's CTC has dropout in evaluation, too
        results.append(each(**batch(task)))
    (loss, stats, _), (expected, plain_stats, _) = results
    assert torch.equal(loss, expected) and stats == plain_stats


@each_task
@pytest.mark.parametrize("given", [None, {}, {"r_drop": 0.0, "cr_ctc": 0}])
def test_weights_of_zero_change_nothing(task, given):
    model = build(task, given)
    assert model.consistency is None
    assert not any(isinstance(part, PairedCTC | PairedLabelSmoothingLoss) for part in model.modules())
    losses = []
    for each in (model, build(task)):
        torch.manual_seed(3)
        loss, stats, _ = each(**batch(task))
        losses.append(loss)
        assert not any(name.endswith(("r_drop", "cr_ctc")) for name in stats)
    assert torch.equal(*losses)


@each_task
def test_with_dropout_the_gradient_of_each_term_reaches_encoder_and_decoder(task, monkeypatch):
    model = build(task, GIVEN[task])
    found = terms_of(model, monkeypatch)
    loss, stats, _ = model(**batch(task))
    assert found[0].keys() == GIVEN[task].keys()
    torch.testing.assert_close(loss - stats["loss_task"], sum(found[0].values())[None])
    for name, term in found[0].items():
        assert term > 0
        ctc = "st_ctc" if task == "st" else "ctc"
        for part in (model.encoder, model.decoder if name == "r_drop" else getattr(model, ctc)):
            gradients = torch.autograd.grad(term, [*part.parameters()], retain_graph=True, allow_unused=True)
            assert sum(gradient.abs().sum() for gradient in gradients if gradient is not None) > 0, name


@each_task
def test_a_single_sentence_has_two_passes_too(task):
    loss, stats, weight = build(task, GIVEN[task])(**batch(task, slice(0, 1)))
    assert weight.tolist() == [1] and stats["aux_r_drop"] > 0 and loss.isfinite()


@each_task
def test_in_half_precision_loss_and_gradients_are_finite(task):
    model = build(task, GIVEN[task])
    with torch.autocast("cpu", torch.bfloat16):
        loss, stats, _ = model(**batch(task))
    loss.backward()
    assert loss.isfinite() and stats["aux_r_drop"] > 0 and stats["aux_r_drop"].dtype == torch.float32
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


MASKED = {"apply_time_warp": False, "time_mask_width_range": [5, 15], "freq_mask_width_range": [1, 4]}


@pytest.mark.parametrize("warped", [False, True])
def test_the_halves_have_masks_of_their_own_and_one_time_warping(warped):
    conf = MASKED | {"apply_time_warp": warped}
    model = build("asr", {"cr_ctc": 0.2}, dropout=0.0, specaug="specaug", specaug_conf=conf, normalize=None)
    features = []
    model.encoder.register_forward_pre_hook(lambda module, given: features.append(given[0]))
    loss, stats, _ = model(**batch("asr"))
    first, second = features[0].chunk(2)
    assert stats["aux_cr_ctc"] > 1e-6 and not torch.equal(first, second)
    kept = (first != 0) & (second != 0)
    assert kept.any() and torch.equal(first[kept], second[kept])
    assert isinstance(model.specaug.time_warp, SharedTimeWarp) is warped


@pytest.mark.parametrize(
    ("channels", "lengths"),
    [((), None), ((), [60, 60]), ((), [60, 45]), ((2,), None), ((2,), [60, 60])],  # ESPnet cuts the channels otherwise
)
def test_the_shared_time_warping_is_espnets_for_each_half(channels, lengths):
    x = torch.randn(4, *channels, 60, 5)
    lengths = None if lengths is None else torch.tensor(lengths)
    ours, theirs = SharedTimeWarp(12), TimeWarp(12)
    expected = []
    for half in x.chunk(2):
        torch.manual_seed(4)
        expected.append(theirs(half.clone(), lengths)[0])
    both = None if lengths is None else torch.cat([lengths, lengths])
    torch.manual_seed(4)
    with scope(paired=True):
        found, kept = ours(x.clone(), both)
    torch.testing.assert_close(found, torch.cat(expected))
    assert kept is both and not torch.equal(found, x)
    for warp in (ours, theirs):
        torch.manual_seed(5)
        expected.append(warp(x.clone(), both)[0])
    assert torch.equal(*expected[2:])


def test_samples_keep_their_conditions():
    """Languages choose the heads of both attentions' inputs, by argument and by the scope around."""
    selection = {"selection": {"strategy": "static", "by": ["lang"], "conditions": {"lang": ["de", "en"]}}}
    nets = {"encoder_conf": {"attention": selection}, "decoder_conf": {"attention": selection}}
    nets["model_conf"] = {"conditions": {"lang": ["de", "en"]}}
    ids = torch.tensor([0, 1, 1])
    losses = []
    for given in (BOTH, None):
        model = build("asr", given, dropout=0.0, **nets)
        losses.append(model(**batch("asr"), lang=ids[:, None])[0])
        with scope({"lang": ids}):
            losses.append(model(**batch("asr"))[0])
        losses.append(model(**batch("asr"), lang=1 - ids[:, None])[0])
    torch.testing.assert_close(losses[:3], losses[3:])
    assert torch.equal(losses[0], losses[1]) and not torch.equal(losses[0], losses[2])
    with scope({"lang": torch.tensor([1])}):
        assert build("asr", BOTH, dropout=0.0, **nets)(**batch("asr"))[0].isfinite()


def test_losses_of_attention_are_added_as_without_consistency():
    nets = {"encoder_conf": {"attention": {"core": "sdma", "noise_std": 0.0}}}
    stats, plain = (build("mt", given, dropout=0.0, **nets)(**batch("mt"))[1] for given in (GIVEN["mt"], None))
    torch.testing.assert_close(stats["aux_head_mi"], plain["aux_head_mi"])
    added = sum(value for name, value in stats.items() if name.startswith("aux_"))
    torch.testing.assert_close(stats["loss"] - stats["loss_task"], added)


def test_a_recogniser_beside_translation_is_compared_too(monkeypatch):
    source = {"extra_asr_decoder": "transformer", "extra_asr_decoder_conf": SMALL}
    conf = {"asr_weight": 0.4, "mtlalpha": 0.25, "ctc_weight": 0.5}
    model = build("st", BOTH, model_conf=conf, **source)
    assert model.consistency.weights == {
        "r_drop": pytest.approx({"r_drop.criterion_st": 2.0 * 0.6 * 0.5, "r_drop.criterion_asr": 2.0 * 0.4 * 0.75}),
        "cr_ctc": pytest.approx({"cr_ctc.st_ctc": 0.5 * 0.6 * 0.5, "cr_ctc.ctc": 0.5 * 0.4 * 0.25}),
    }
    found = terms_of(model, monkeypatch)
    loss, stats, _ = model(**batch("st"))
    torch.testing.assert_close(loss - stats["loss_task"], sum(found[0].values())[None])


def test_parts_of_a_batch_add_up_to_the_term_of_the_whole():
    """As for a batch that is computed in halves, whose tokens are counted beforehand."""
    random = torch.Generator().manual_seed(2)
    first, second = torch.randn(2, 4, 3, 7, generator=random, dtype=torch.float64)
    targets = torch.tensor([[2, 3, 1], [2, -1, -1], [4, 4, -1], [1, 2, 3]])
    loss, tokens = PairedLabelSmoothingLoss("r_drop", -1, 0.1, by_token=True), 2 * 9

    def term(rows, count):
        with scope(paired=True, token_count=count) as shared:
            loss(torch.cat([first[rows], second[rows]]), torch.cat([targets[rows], targets[rows]]))
        return shared.losses()["r_drop"]

    parts = [
        term(rows, lambda own, sentences: sentences * torch.tensor(tokens) / 8) for rows in (slice(1), slice(1, 4))
    ]
    torch.testing.assert_close(parts[0] / 4 + parts[1] * 3 / 4, term(slice(4), None), rtol=1e-6, atol=0)


def test_intermediate_ctc_is_averaged():
    nets = {"encoder_conf": {"num_blocks": 2, "interctc_layer_idx": [1], "interctc_use_conditioning": True}}
    model = build("asr", {"cr_ctc": 0.5}, model_conf={"interctc_weight": 0.5}, **nets)
    logits = []
    loss_fn = model.ctc.loss_fn
    model.ctc.loss_fn = lambda scores, *rest: logits.append((scores, rest[1])) or loss_fn(scores, *rest)
    stats = model(**batch("asr"))[1]
    terms = []
    for scores, lengths in logits:
        valid = torch.arange(scores.size(0)) < lengths[:3, None]
        terms.append(divergence(*scores.transpose(0, 1).chunk(2), valid) / 3)
    assert len(terms) == 2
    torch.testing.assert_close(stats["aux_cr_ctc"], 0.5 * 0.3 * (terms[0] + terms[1])[None] / 2)


@pytest.mark.parametrize(
    ("task", "given", "changes", "said"),
    [
        ("asr", {"r_drop": 1.0}, {"model_conf": {"ctc_weight": 1.0}}, r"^r_drop 1\.0 needs .* decoder; set ctc_weight"),
        ("asr", {"cr_ctc": 0.2}, {"model_conf": {"ctc_weight": 0.0}}, r"^cr_ctc 0\.2 needs a loss of CTC; set ctc_wei"),
        ("st", {"cr_ctc": 0.2}, {"model_conf": {"ctc_weight": 0.0}}, r"^cr_ctc 0\.2 needs a loss of CTC"),
        ("mt", {"r_drop": 1.0, "cr_ctc": 0.2}, {}, r"^cr_ctc 0\.2 needs a loss of CTC; .* where the task has it"),
        ("asr", {"r_drop": -1}, {}, "r_drop must be at least 0, but is -1"),
        ("asr", {"r_drop": float("nan")}, {}, "r_drop must be a number, but is nan"),
        ("asr", {"rdrop": 1.0}, {}, "unknown option 'rdrop' of consistency; did you mean 'r_drop'"),
        ("asr", [1.0], {}, "consistency must be a mapping of options"),
    ],
)
def test_unsupported_or_invalid_options_are_refused_in_one_line(task, given, changes, said):
    with pytest.raises(ConfigError, match=said) as error:
        build(task, given, **changes)
    assert "\n" not in str(error.value)


BARE = {"attention_heads": 2, "linear_units": 8, "num_blocks": 1}
LM = {"lm": "diverse_transformer", "lm_conf": {"embed_unit": 8, "att_unit": 8, "head": 2, "unit": 8, "layer": 1}}
RNNT = {"encoder": "diverse_transformer", "encoder_conf": {"output_size": 8, **BARE}, "frontend_conf": {"n_mels": 16}}
RNNT |= {"decoder": "transducer", "decoder_conf": {"hidden_size": 8}}
REPORTS = {"report_cer": False, "report_wer": False}


@pytest.mark.parametrize(
    ("task", "nets", "conf"),
    [
        ("lm", LM | {"model": "diverse"}, {}),
        ("asr", RNNT | {"joint_net_conf": {}, "model": "diverse"}, REPORTS),
        ("st", RNNT | {"st_joint_net_conf": {}, "src_token_list": TOKENS}, {"asr_weight": 0.0, "mt_weight": 0.0}),
    ],
)
def test_models_without_such_losses_are_refused(task, nets, conf):
    parser = TASKS[task].get_parser()
    parser.set_defaults(token_list=TOKENS, model_conf=conf | {"consistency": {"r_drop": 1.0}}, **nets)
    with pytest.raises(ConfigError, match="^consistency does not fit .*: it is for asr, .* leave it out$"):
        TASKS[task].build_model(parser.parse_args([]))


def test_other_losses_of_ctc_and_of_the_decoder_are_refused():
    model = torch.nn.Module()
    model.ctc, model.criterion = CTC(9, 4), torch.nn.CrossEntropyLoss()
    model.ctc.ctc_type = "gtnctc"
    with pytest.raises(
        ConfigError, match=r"cr_ctc does not fit ctc_type gtnctc; set ctc_conf\.ctc_type builtin or buil"
    ):
        add_consistency(model, {"cr_ctc": 0.2}, Branches({}, {"ctc": 1.0}))
    with pytest.raises(ConfigError, match="r_drop needs a loss of smoothed labels; set lsm_weight below 1"):
        add_consistency(model, {"r_drop": 1.0}, Branches({"criterion": 1.0}, {}))


def test_the_fragments_build_a_model_after_the_configuration_of_a_recipe():
    recipe = ROOT / "egs" / "common" / "conf" / "train_speech.yaml"
    config = merge(["model/tiny", recipe, "losses/r_drop", "losses/cr_ctc"])
    parser = TASKS["asr"].get_parser()
    parser.set_defaults(**config, token_list=TOKENS)
    model = TASKS["asr"].build_model(parser.parse_args([])).train()
    assert model.consistency.weights == {
        "r_drop": {"r_drop.criterion_att": pytest.approx(2.5 * 0.7)},
        "cr_ctc": {"cr_ctc.ctc": pytest.approx(0.2 * 0.3)},
    }
    assert model.specaug.time_mask.num_mask == 5
    loss, stats, _ = model(**batch("asr"))
    assert loss.isfinite() and stats["aux_r_drop"] > 0 and stats["aux_cr_ctc"] > 0


def test_batches_are_doubled_with_all_that_they_have():
    x = torch.arange(3)
    given = {"x": x, "utt_id": ["a", "b"], "none": None, "args": (x, 3)}
    found = doubled(given)
    assert found["x"].tolist() == [0, 1, 2, 0, 1, 2] == found["args"][0].tolist()
    assert (found["utt_id"], found["none"], found["args"][1]) == (["a", "b", "a", "b"], None, 3)
    conditions = doubled_conditions({"lang": torch.tensor([1, 0]), "domain": torch.tensor([1])})
    assert {name: ids.tolist() for name, ids in conditions.items()} == {"lang": [1, 0, 1, 0], "domain": [1]}


def test_ctc_takes_over_the_parts_and_draws_no_random_numbers():
    torch.manual_seed(0)
    ctc = CTC(9, 4, dropout_rate=0.2, ctc_type="builtin2")
    state = torch.random.get_rng_state()
    ours = PairedCTC(ctc, "cr_ctc")
    assert torch.equal(torch.random.get_rng_state(), state)
    assert ours.ctc_lo is ctc.ctc_lo and ours.ctc_loss is ctc.ctc_loss
    assert (ours.dropout_rate, ours.ctc_type, ours.reduce) == (0.2, "builtin2", True)
    assert isinstance(build("asr", {"r_drop": 1.0}).ctc, CTC)
    assert type(build("asr", {"cr_ctc": 1.0}).criterion_att) is LabelSmoothingLoss


def test_ctc_over_bytes_stays_over_bytes():
    tokens = ["<blank>", "<unk>", "a", "Ġb", "Ã¼b", "<sos/eos>"]
    model = nn.Module()
    model.ctc = ByteCTC(CTC(len(tokens), 8), tokens)
    batch = torch.randn(2, 12, 8), torch.tensor([12, 9]), torch.tensor([[4, 3, 2], [3, 2, -1]]), torch.tensor([3, 2])
    expected = model.ctc(*batch)
    add_consistency(model, {"cr_ctc": 0.2}, Branches({}, {"ctc": 0.3}))
    assert isinstance(model.ctc, ByteCTC) and torch.equal(model.ctc(*batch), expected)
    with scope(paired=True) as shared:
        torch.testing.assert_close(model.ctc(*map(doubled, batch)), expected)
    assert "cr_ctc.ctc" in shared.losses()
