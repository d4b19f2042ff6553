"""Adopted models begin as the trained one, with the same kernels to the bit, and depart from it as they are trained."""

import copy

import numpy as np
import pytest
import torch
from espnet2.tasks.asr import ASRTask as ESPnetASRTask
from espnet2.tasks.st import STTask as ESPnetSTTask
from references.espnet_models import write_model
from references.language_models import write_lm
from references.owsm_ctc import RATE, write_ctc_model
from references.tones import tones

from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.inference import Recognizer, SegmentationOptions
from espnet_diverse.nets import CLASSIFIERS
from espnet_diverse.nets.models import DiverseClassificationModel
from espnet_diverse.packing.adoption import adopt, largest_difference
from espnet_diverse.runs import checkpoint
from espnet_diverse.runs.config import merge, save
from espnet_diverse.runs.tasks import load_model
from espnet_diverse.scope import scope
from espnet_diverse.training.initialisation import initialise

TOKENS = ["<blank>", "<unk>", "a", "b", "c", "d", "<sos/eos>"]
FRONTEND = {"fs": "16k", "n_fft": 512, "win_length": 400, "hop_length": 160, "n_mels": 20}
SIZES = {"output_size": 16, "attention_heads": 2, "linear_units": 24, "num_blocks": 2}
ENCODERS = {
    "transformer": SIZES,
    "conformer": SIZES | {"rel_pos_type": "latest", "cnn_module_kernel": 3},
    "e_branchformer": SIZES
    | {"rel_pos_type": "latest", "cgmlp_linear_units": 24, "cgmlp_conv_kernel": 3}
    | {"merge_conv_kernel": 3, "attention_layer_type": "rel_selfattn", "pos_enc_layer_type": "rel_pos"},
}


def write_espnets(folder, encoder="transformer", decoder="transformer", task=ESPnetASRTask, **options):
    """A directory with an untrained model of ESPnet, which knows nothing of this package."""
    parser = task.get_parser()
    parser.set_defaults(**options)
    decoder_conf = {"attention_heads": 2, "linear_units": 24, "num_blocks": 2} if decoder == "transformer" else {}
    encoder_conf = ENCODERS.get(encoder, {"hidden_size": 8, "output_size": 8, "num_layers": 1})
    parser.set_defaults(encoder=encoder, encoder_conf=encoder_conf, decoder=decoder, decoder_conf=decoder_conf)
    args = parser.parse_args([])
    args.token_list, args.init, args.frontend_conf, args.normalize = TOKENS, None, FRONTEND, None
    args.specaug = None
    if task is ESPnetSTTask:
        args.task, args.src_token_list = "st", TOKENS
    torch.manual_seed(0)
    model = task.build_model(args)
    folder.mkdir(parents=True)
    checkpoint.save(model.state_dict(), folder / "valid.acc.ave.pth")
    save(vars(args), folder / "config.yaml")
    return folder, model


def write_languages(folder):
    """A data directory's tables of two languages."""
    folder.mkdir()
    for table in ("utt2lang", "utt2tgtlang"):
        (folder / table).write_text("u1 ar\nu2 de\nu3 el\n")
    return folder


def with_pool(size, *more):
    return [
        f"{part}_conf.attention.selection.{option}"
        for part in ("encoder", "decoder")
        for option in (f"pool={size}", *more)
    ]


@pytest.fixture(scope="module", params=ENCODERS)
def of_espnet(request, tmp_path_factory):
    """The directory of a model of ESPnet, the model, and the same model after adoption without a change."""
    root = tmp_path_factory.mktemp(request.param)
    folder, trained = write_espnets(root / "exp", request.param)
    adopt(folder, root / "softmax", merge([]))
    return folder, trained, load_model(root / "softmax")[0]


@pytest.mark.parametrize(
    ("fragments", "options"),
    [
        (["attention/sma"], []),
        (["attention/sdma"], []),
        (["heads/group"], with_pool(4)),
        (["heads/group"], with_pool(6, "group_layout=contiguous")),
        (["heads/subset"], with_pool(4)),
        (["heads/subset"], with_pool(5, "subset_order=score")),
        (["heads/static"], []),
        (["attention/sdma", "heads/group"], with_pool(4)),
        ([], [f"{net}_conf.attention={{core: gated, start: zero, scale: 2.0}}" for net in ("encoder", "decoder")]),
        (["modifiers/dex"], []),
        (["attention/talking_heads"], []),
        ([], ["encoder_conf.attention={core: sanm, start: zero, residual: false}"]),
        ([], ["encoder_conf.attention={core: value_residual, first: 0.0, own: 1.0, learned: true}"]),
        ([], ["encoder_conf.attention={core: softmax, head_patterns: [[window: 64, window: 512], [window: 128]]}"]),
    ],
)
def test_an_adopted_model_equals_its_espnet_model(tmp_path, of_espnet, fragments, options):
    folder, trained, softmax = of_espnet
    done = adopt(folder, tmp_path / "new", merge(fragments, options), write_languages(tmp_path / "data"))
    assert done.weights == tmp_path / "new" / "valid.acc.ave.pth"
    assert done.difference < 1e-5  # ESPnet's softmax rounds otherwise than the fused kernel
    adopted, _ = load_model(tmp_path / "new")
    assert type(adopted.encoder).__name__.startswith("Diverse")
    conditions = adopted.conditions
    languages = ["ar", "de", "el"]
    assert conditions == ({"lang": languages, "tgtlang": languages} if "heads/" in str(fragments) else {})
    others = "attention/talking_heads" in fragments or "window" in str(options)  # which cannot use the fused kernel
    rounding = 1e-6 if others else 0.0
    assert largest_difference(softmax, adopted, "asr", conditions) <= rounding
    with torch.no_grad():
        for parameter in adopted.parameters():
            parameter.mul_(1.1)
    assert largest_difference(trained, adopted, "asr", conditions) > 1e-3


def test_training_moves_it_and_the_copies_apart(tmp_path):
    folder, trained = write_espnets(tmp_path / "exp")
    changes = merge(["attention/sdma", "heads/group", "heads/as_released"], with_pool(4))
    adopt(folder, tmp_path / "new", changes, write_languages(tmp_path / "data"))
    model, _ = load_model(tmp_path / "new")
    weight = model.encoder.encoders[0].self_attn.linear_q.weight
    assert torch.equal(*weight.detach().chunk(2))
    optimiser = torch.optim.SGD(model.train().parameters(), 0.1)
    ids = {name: torch.tensor([[0], [1]]) for name in ("lang", "tgtlang")}
    lengths = torch.tensor([8000, 8000])
    for _ in range(3):
        loss, _, _ = model(torch.randn(2, 8000), lengths, torch.tensor([[2, 3]] * 2), torch.tensor([2, 2]), **ids)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert not torch.equal(*weight.detach().chunk(2))
    assert model.encoder.encoders[0].self_attn.core.gamma() > 0
    assert largest_difference(trained, model.eval(), "asr", model.conditions) > 0


def test_a_tag_begins_as_the_start_of_a_sentence(tmp_path):
    folder, _ = write_espnets(tmp_path / "exp")
    changes = merge(["tag/target_language", "adapter/bottleneck"])
    assert adopt(folder, tmp_path / "new", changes, write_languages(tmp_path / "data")).difference < 1e-5


def test_training_begins_with_the_weights(tmp_path):
    folder, _ = write_espnets(tmp_path / "exp")
    done = adopt(folder, tmp_path / "new", merge(["heads/group"], []), write_languages(tmp_path / "data"))
    adopted, _ = load_model(tmp_path / "new")
    fresh, _ = load_model(tmp_path / "new")
    with torch.no_grad():
        for parameter in fresh.parameters():
            parameter.zero_()
    initialise(str(done.weights), fresh)
    assert largest_difference(fresh, adopted, "asr", adopted.conditions) == 0.0
    assert done.new == sum(value.numel() for name, value in adopted.named_parameters() if "logits" in name)


def test_a_translation_model_is_adopted_with_both_token_lists(tiny_translation, tmp_path):
    """The trained model has SDMA, which stays beside the added head selection."""
    changes = merge(["heads/group"], with_pool(4))
    done = adopt(tiny_translation.model_dir, tmp_path / "new", changes, tiny_translation.train_dir)
    assert done.difference == 0.0
    for name in ("tokens.txt", "src_tokens/tokens.txt"):
        assert (tmp_path / "new" / name).read_bytes() == (tiny_translation.model_dir / name).read_bytes()


@pytest.mark.parametrize("weight", [0.3, 1.0])
def test_ctc_over_a_translation_is_compared_too_and_may_be_all_there_is(tmp_path, weight):
    weights = {"st_mtlalpha": weight, "asr_weight": 0.0}
    folder, model = write_espnets(tmp_path / "st", task=ESPnetSTTask, model_conf=weights)
    new = tmp_path / "new"
    done = adopt(folder, new, merge([], ["encoder_conf.attention.core=sdma"]), model_file="valid.acc.ave.pth")
    adopted, _ = load_model(new, task="st")
    assert done.difference < 1e-5 and done.new > 0
    adopted.st_ctc.ctc_lo.bias.data[1] += 1
    assert largest_difference(model, adopted, "st", {}) > 0.1


def test_a_classifier_is_adopted(tiny_classifier, tmp_path):
    done = adopt(tiny_classifier.model_dir, tmp_path / "new", merge([], ["classifier_conf.frobenius=0.1"]))
    assert (done.new, done.difference) == (0, 0)
    trained, _ = load_model(tiny_classifier.model_dir, task="cls")
    adopted, _ = load_model(tmp_path / "new", task="cls")
    assert adopted.classifier.pooling.penalty == 0.1
    adopted.classifier.output.bias.data[0] += 1
    assert largest_difference(trained, adopted, "cls", {}) > 0.1


def test_a_language_model_is_found_by_its_own_name_of_weights(tmp_path):
    run = write_lm(tmp_path / "run", TOKENS, "diverse_transformer")
    done = adopt(run, tmp_path / "new", merge([], ["lm_conf.attention.core=sma"]))
    assert done.weights == tmp_path / "new" / "valid.loss.ave.pth" and done.difference == 0.0 and done.new > 0


def write_multitask(folder, task):
    return write_model(folder, "multitask") if task == "s2t" else write_ctc_model(folder)


@pytest.mark.parametrize("task", ["s2t", "s2t_ctc"])
def test_a_multitask_model_is_adopted(tmp_path, task):
    folder = write_multitask(tmp_path / "exp", task)
    nets = ["encoder", "decoder"] if task == "s2t" else ["encoder"]
    assert adopt(folder, tmp_path / "softmax", merge([])).difference < 1e-5
    done = adopt(folder, tmp_path / "new", merge([], [f"{net}_conf.attention.core=sdma" for net in nets]))
    assert done.difference < 1e-5 and done.new > 0
    trained, softmax, adopted = (load_model(tmp_path / name, task=task)[0] for name in ("exp", "softmax", "new"))
    assert type(adopted.encoder).__name__.startswith("DiverseEBranchformer")
    assert largest_difference(softmax, adopted, task, {}) == 0.0
    cut = {"options": SearchOptions(beam_size=2), "segmentation": SegmentationOptions(vad="none")}
    found = [Recognizer(tmp_path / name, **cut)(tones(1, 0), RATE, language="deu") for name in ("exp", "new")]
    assert found[0].text == found[1].text
    with torch.no_grad():
        adopted.encoder.after_norm.weight.mul_(1.1)
    assert largest_difference(trained, adopted, task, {}) > 1e-3


@pytest.mark.parametrize("task", ["s2t", "s2t_ctc"])
def test_languages_of_a_multitask_model_stay_in_its_prompt(tmp_path, task):
    folder, data = write_multitask(tmp_path / "exp", task), write_languages(tmp_path / "data")
    said = f"parts that depend on lang, and a model of task {task} has its languages in prompts; leave"
    with pytest.raises(ConfigError, match=said):
        adopt(
            folder,
            tmp_path / "new",
            merge([], ["encoder_conf.attention.selection={strategy: group, pool: 4, by: [lang]}"]),
            data,
        )
    assert not (tmp_path / "new").exists()


def test_statistics_of_features_come_along(tiny_run, tmp_path):
    assert adopt(tiny_run.model_dir, tmp_path / "new", merge([])).difference == 0.0
    ours, theirs = (np.load(folder / "feats_stats.npz") for folder in (tmp_path / "new", tiny_run.model_dir))
    assert all(np.array_equal(ours[name], theirs[name]) for name in theirs.files)
    assert load_model(tmp_path / "new")[1].normalize_conf["stats_file"].startswith(str(tmp_path / "new"))


def test_after_a_kill_it_can_be_run_again(tmp_path, killed):
    folder, _ = write_espnets(tmp_path / "exp")
    (folder / "tokens.txt").write_text("<blank>\n")  # copied before the weights
    with killed(checkpoint, "save"):
        adopt(folder, tmp_path / "new", merge([]))
    assert load_model(adopt(folder, tmp_path / "new", merge([])).weights.parent)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (["encoder_conf.attention.core=sdm"], "encoder_conf.attention: unknown attention 'sdm'; did you mean"),
        (
            ["encoder_conf.num_blocks=1"],
            "the new configuration does not use",
        ),
        (
            ["encoder_conf.linear_units=48"],
            r"\(24, 16\), and \(48, 16\) in the new configuration; leave its size",
        ),
        (
            ["encoder_conf.attention.selection={strategy: group, pool: 4, by: [lang]}"],
            "selection: conditions has no names for lang",
        ),
    ],
)
def test_changes_that_cannot_be_made_are_named(tmp_path, changes, text):
    folder, _ = write_espnets(tmp_path / "exp")
    with pytest.raises(ConfigError, match=text):
        adopt(folder, tmp_path / "new", merge([], changes))
    assert not (tmp_path / "new").exists()


def test_a_configuration_that_changes_nothing_is_refused(tiny_run, tmp_path):
    with pytest.raises(ConfigError, match="changes nothing"):
        adopt(tiny_run.model_dir, tmp_path / "out", merge(["attention/sdma"], []))
    assert not (tmp_path / "out").exists()


def test_a_layer_of_ctc_is_new(tmp_path):
    folder, _ = write_espnets(tmp_path / "exp", model_conf={"ctc_weight": 0.0})
    done = adopt(folder, tmp_path / "new", merge([], ["model_conf.ctc_weight=0.3"]))
    ctc = load_model(tmp_path / "new")[0].ctc
    assert done.difference < 1e-5 and done.new == sum(each.numel() for each in ctc.parameters())


def test_nets_without_a_counterpart_and_wrong_folders_are_refused(tmp_path):
    folder, _ = write_espnets(tmp_path / "exp", decoder="rnn")
    with pytest.raises(ConfigError, match="decoder 'rnn' cannot be adopted; those that can: transformer"):
        adopt(folder, tmp_path / "new", merge(["attention/sma"]))
    with pytest.raises(ConfigError, match="is the directory of the model itself; give another one"):
        adopt(folder, folder, merge([]))
    other, _ = write_espnets(tmp_path / "other")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="has no table utt2lang"):
        adopt(other, tmp_path / "new", merge(["heads/group"]), tmp_path / "empty")


def test_the_state_of_the_caller_stays(tmp_path):
    folder, model = write_espnets(tmp_path / "exp")
    torch.manual_seed(5)
    before = torch.get_rng_state()
    with scope(collect=False):
        assert largest_difference(model, model, "asr", {}) == 0.0
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("run", ["tiny_run", "tiny_translation"])
def test_a_model_differs_from_one_with_other_weights_alone(run, request):
    task = "asr" if run == "tiny_run" else "mt"
    model, _ = load_model(request.getfixturevalue(run).model_dir, task=task)
    other = copy.deepcopy(model)
    assert largest_difference(model, other, task, {}) == 0.0
    with torch.no_grad():
        other.decoder.output_layer.bias[3] += 0.5
    assert 0.1 < largest_difference(model, other, task, {}) <= 0.5
    with torch.no_grad():
        other.decoder.output_layer.bias[3] = float("nan")
    assert largest_difference(model, other, task, {}) == largest_difference(other, other, task, {}) == float("inf")


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_classifiers_of_texts_and_of_pairs(kind):
    encoder = {"output_size": 6, "attention_heads": 2, "num_blocks": 1}
    of_kind = encoder if kind == "transformer" else {"embed_dim": 6, "hidden_size": 5}
    size = {"pooling_width": 4, "heads": 3, "linear_units": 8, **of_kind}
    model = DiverseClassificationModel(CLASSIFIERS[kind](9, "lang", {"lang": ["de", "en"]}, **size))
    other = copy.deepcopy(model)
    assert largest_difference(model, other, "cls", {}) == 0.0
    with torch.no_grad():
        other.classifier.output.bias[1] += 0.5
    assert 0.1 < largest_difference(model, other, "cls", {}) <= 0.5
