"""Pruning: the model of one language equals the multilingual one, and ESPnet loads it by itself."""

import shutil

import numpy as np
import pytest
import torch
import yaml
from espnet2.tasks.asr import ASRTask as ESPnetASRTask

from espnet_diverse.bin.main import main
from espnet_diverse.errors import ConfigError
from espnet_diverse.packing.adoption import _log_probabilities
from espnet_diverse.packing.pruning import prune, prune_model, pruned_config
from espnet_diverse.runs import checkpoint
from espnet_diverse.runs.config import merge, save
from espnet_diverse.runs.tasks import TASKS, load_model
from espnet_diverse.scope import scope

TOKENS = ["<blank>", "<unk>", "a", "b", "c", "d", "<sos/eos>"]
NAMES = {"lang": ["ar", "de", "el"], "tgtlang": ["ar", "de", "el"], "domain": ["news", "talk"]}
POOL = [f"{part}_conf.attention.selection.pool=4" for part in ("encoder", "decoder")]
TAG = ["decoder_conf.start_tag.by=tgtlang"]


def fill_in(section):
    """Names of conditions where training fills them in."""
    for value in section.values():
        if isinstance(value, dict):
            fill_in(value)
    if "by" in section:
        by = [section["by"]] if isinstance(section["by"], str) else section["by"]
        section["conditions"] = {condition: NAMES[condition] for condition in by}


def write_model(folder, fragments, overrides=(), conditions=("lang", "tgtlang"), task="asr"):
    """A directory with an untrained model."""
    config = merge(["model/tiny", *fragments] if task == "asr" else fragments, overrides)
    for part in ("encoder_conf", "decoder_conf"):
        fill_in(config[part])
    config["model_conf"]["conditions"] = {condition: NAMES[condition] for condition in conditions}
    parser = TASKS[task].get_parser()
    parser.set_defaults(**config)
    args = parser.parse_args([])
    args.token_list = args.src_token_list = TOKENS
    args.init = None
    if task == "asr":
        args.frontend_conf = {"fs": "16k", "n_fft": 512, "win_length": 400, "hop_length": 160, "n_mels": 20}
    torch.manual_seed(0)
    model = TASKS[task].build_model(args)
    folder.mkdir(parents=True)
    checkpoint.save(model.state_dict(), folder / "valid.acc.ave.pth")
    save(vars(args) | {"task": task}, folder / "config.yaml")
    return folder


@torch.no_grad()
def logits(model, ids):
    """Outputs of encoder, CTC and decoder for random speech, in double precision."""
    model = model.double().eval()
    torch.manual_seed(1)
    speech, ys = torch.randn(1, 8000, dtype=torch.double), torch.tensor([[6, 2, 3, 4]])
    with scope(ids, collect=False):
        encoded, lengths = model.encode(speech, torch.tensor([8000]))
        decoded, _ = model.decoder(encoded, lengths, ys, torch.tensor([4]))
        step, _ = model.decoder.batch_score(ys, [None], encoded)
    return encoded, model.ctc.log_softmax(encoded), decoded, step


def indices(**names):
    return {condition: torch.tensor([NAMES[condition].index(name)]) for condition, name in names.items()}


@pytest.mark.parametrize("strategy", ["group", "subset", "static"])
@pytest.mark.parametrize("encoder", ["diverse_transformer", "diverse_conformer"])
def test_espnet_alone_matches_the_multilingual_model(tmp_path, strategy, encoder):
    set_encoder = ["encoder=" + encoder, *(["encoder_conf.rel_pos_type=latest"] if "conformer" in encoder else [])]
    pool = POOL if strategy != "static" else []
    model_dir = write_model(tmp_path / "exp", ["attention/softmax", f"heads/{strategy}"], [*set_encoder, *pool, *TAG])
    whole, _ = load_model(model_dir)
    for language in ("ar", "el"):
        weights = prune(model_dir, tmp_path / language, {"lang": language})
        alone, args = ESPnetASRTask.build_model_from_file(weights.parent / "config.yaml", weights)
        assert (args.encoder, args.decoder, args.model) == (encoder.removeprefix("diverse_"), "transformer", "espnet")
        assert {type(module).__module__.split(".")[0] for module in alone.modules()} <= {"espnet", "espnet2", "torch"}
        assert alone.state_dict().keys() == checkpoint.load(weights).keys()
        expected = logits(whole, indices(lang=language, tgtlang=language))
        for ours, theirs in zip(expected, logits(alone, {}), strict=True):
            torch.testing.assert_close(ours, theirs, atol=1e-10, rtol=1e-10)


def test_languages_differ_and_a_direction_has_its_own_model(tmp_path):
    model_dir = write_model(tmp_path / "exp", ["heads/subset"], [*POOL, *TAG])
    whole, _ = load_model(model_dir)
    prune(model_dir, tmp_path / "pruned", {"lang": "de", "tgtlang": "el"})
    pruned, _ = load_model(tmp_path / "pruned")
    expected = logits(whole, indices(lang="de", tgtlang="el"))
    assert not torch.allclose(expected[2], logits(whole, indices(lang="de", tgtlang="de"))[2])
    torch.testing.assert_close(logits(pruned, {})[2], expected[2], atol=1e-10, rtol=1e-10)


def test_after_a_kill_it_can_be_run_again(tmp_path, killed):
    model_dir = write_model(tmp_path / "exp", ["heads/group"], POOL)
    (model_dir / "tokens.txt").write_text("\n".join(TOKENS))  # copied before the weights
    with killed(checkpoint, "save"):
        prune(model_dir, tmp_path / "pruned", {"lang": "de"})
    assert load_model(prune(model_dir, tmp_path / "pruned", {"lang": "de"}).parent)


def test_our_core_and_adapters_by_domain_are_kept(tmp_path):
    overrides = [*POOL, "encoder_conf.adapter.by=domain", "encoder_conf.adapter.bottleneck=4"]
    model_dir = write_model(
        tmp_path / "exp", ["attention/sdma", "heads/group"], overrides, conditions=("lang", "tgtlang", "domain")
    )
    whole, _ = load_model(model_dir)
    prune(model_dir, tmp_path / "pruned", {"lang": "de"})
    pruned, args = load_model(tmp_path / "pruned")
    assert (args.encoder, args.decoder, args.model) == ("diverse_transformer", "diverse_transformer", "diverse")
    assert pruned.conditions == {"domain": NAMES["domain"]}
    assert "selection" not in yaml.safe_dump(vars(args))
    expected = logits(whole, indices(lang="de", tgtlang="de", domain="talk"))
    torch.testing.assert_close(logits(pruned, indices(domain="talk")), expected, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize(
    "patterns", ["[global,previous]", "[global,previous,global,previous]"], ids=["for a layer", "for the pool"]
)
def test_heads_keep_their_patterns(tmp_path, patterns):
    overrides = [*POOL, f"encoder_conf.attention.head_patterns={patterns}"]
    overrides += [
        f"decoder_conf.{name}.head_patterns=[global,{{window: {width}}}]"
        for width, name in enumerate(("attention", "cross_attention"))
    ]
    model_dir = write_model(tmp_path / "exp", ["heads/group"], overrides)
    expected = logits(load_model(model_dir)[0], indices(lang="de", tgtlang="de"))
    prune(model_dir, tmp_path / "pruned", {"lang": "de"})
    torch.testing.assert_close(logits(load_model(tmp_path / "pruned")[0], {}), expected, atol=1e-10, rtol=1e-10)


def test_learned_patterns_are_pruned_by_layer(tmp_path):
    patterns = "encoder_conf.attention.head_patterns=[global,global,previous,next]"
    model_dir = write_model(tmp_path / "exp", ["heads/group"], [*POOL, patterns, "encoder_conf.num_blocks=2"])
    weights = checkpoint.load(model_dir / "valid.acc.ave.pth")
    first, second = (logits for name, logits in weights.items() if "encoder.encoders" in name and "logits" in name)
    first[:] = torch.tensor([0.0, 1.0, 1.0, 0.0])
    kept = {"alike": ["previous", "global"], "different": [["previous", "global"], ["global", "next"]]}
    for name, expected in kept.items():
        second[:] = first if name == "alike" else 1 - first
        checkpoint.save(weights, model_dir / "valid.acc.ave.pth")
        prune(model_dir, tmp_path / name, {"lang": "de"})
        written = yaml.safe_load((tmp_path / name / "config.yaml").read_text())
        assert written["encoder_conf"]["attention"]["head_patterns"] == expected
        whole = logits(load_model(model_dir)[0], indices(lang="de", tgtlang="de"))
        torch.testing.assert_close(logits(load_model(tmp_path / name)[0], {}), whole, atol=1e-10, rtol=1e-10)


def test_each_head_keeps_the_pattern_of_its_largest_gate(tmp_path):
    given = ["encoder_conf.attention.patterns=[previous,{window: 1},global]", "encoder_conf.num_blocks=2"]
    model_dir = write_model(tmp_path / "exp", ["attention/pattern_gates"], given)
    weights = checkpoint.load(model_dir / "valid.acc.ave.pth")
    for name, each in weights.items():
        if name.endswith("core.gates"):  # differences that decide, at any temperature
            rows = [0, 1] if "encoders.1" not in name else [1, 0]
            each[:] = 500.0 * torch.eye(each.size(1))[rows]
    checkpoint.save(weights, model_dir / "valid.acc.ave.pth")
    assert main(["prune", str(model_dir), "--output_dir", str(tmp_path / "pruned")]) == 0
    config = yaml.safe_load((tmp_path / "pruned" / "config.yaml").read_text())
    first, second = ["previous", {"window": 1}], [{"window": 1}, "previous"]
    assert config["encoder_conf"]["attention"] == {"head_patterns": [first, second]}
    kept = checkpoint.load(tmp_path / "pruned" / "valid.acc.ave.pth")
    assert not any("gates" in name for name in kept)
    whole, alone = (logits(load_model(folder)[0], {}) for folder in (model_dir, tmp_path / "pruned"))
    torch.testing.assert_close(alone, whole, atol=1e-9, rtol=1e-9)


def test_the_command_copies_tokens_and_statistics(tmp_path, capsys):
    np.savez(tmp_path / "stats.npz", count=2.0, sum=np.zeros(20), sum_square=np.ones(20))
    stats = ["normalize=global_mvn", f"normalize_conf.stats_file={tmp_path}/stats.npz"]
    model_dir = write_model(tmp_path / "exp", ["heads/group"], [*POOL, *stats])
    (tmp_path / "stats.npz").rename(model_dir / "stats.npz")
    for name in ("tokens.txt", "tokens.yaml", "src_tokens/tokens.txt"):
        (model_dir / name).parent.mkdir(exist_ok=True)
        (model_dir / name).write_text(name)
    output_dir = tmp_path / "pruned"
    assert main(["prune", str(model_dir), "--language", "de", "--output_dir", str(output_dir)]) == 0
    assert capsys.readouterr().out.strip() == str(output_dir / "valid.acc.ave.pth")
    for name in ("tokens.txt", "tokens.yaml", "src_tokens/tokens.txt", "stats.npz"):
        assert (output_dir / name).read_bytes() == (model_dir / name).read_bytes()
    written = yaml.safe_load((output_dir / "config.yaml").read_text())
    assert written["normalize_conf"]["stats_file"] == str(output_dir / "stats.npz")


def test_nothing_of_the_model_that_was_there_before_is_used(tmp_path):
    """Weights in ESPnet's format, here of the other language, take precedence over safetensors."""
    model_dir, output_dir = write_model(tmp_path / "exp", ["heads/group"], POOL), tmp_path / "pruned"
    whole, _ = load_model(model_dir)
    (model_dir / "src_tokens").mkdir()
    (model_dir / "src_tokens" / "tokens.txt").touch()
    prune(model_dir, output_dir, {"lang": "de"})
    (output_dir / ".notes").touch()
    weights = model_dir / "valid.acc.ave.pth"
    checkpoint.save(checkpoint.load(weights), weights.with_suffix(".safetensors"))
    weights.unlink()
    shutil.rmtree(model_dir / "src_tokens")
    prune(model_dir, output_dir, {"lang": "el"})
    expected = logits(whole, indices(lang="el", tgtlang="el"))
    torch.testing.assert_close(logits(load_model(output_dir)[0], {}), expected, atol=1e-10, rtol=1e-10)
    there = {".notes", ".prepared.json", "config.yaml", "valid.acc.ave.safetensors"}
    assert {path.name for path in output_dir.iterdir()} == there


NARROW = ["frontend_conf.embed_dim=16", "encoder_conf.output_size=16"]
NARROW += [f"{part}_conf.{size}" for part in ("encoder", "decoder") for size in ("linear_units=16", "num_blocks=1")]


def pruned_translation(tmp_path, fragments, overrides, **names):
    """Outputs of a text translation model and its pruned model for a condition, and the configuration of the latter.

    Both are loaded from the directories of models, the first untrained.
    """
    model_dir = write_model(tmp_path / "exp", ["model/mt_mini", *fragments], [*NARROW, *overrides], task="mt")
    weights = prune(model_dir, tmp_path / "pruned", names)
    found = []
    for folder, ids in ((model_dir, indices(**names)), (weights.parent, {})):
        model, args = load_model(folder, task="mt")
        with scope(ids, collect=False):
            torch.manual_seed(1)
            found.append(_log_probabilities(model.eval(), "mt", None))
    return *found, args


@pytest.mark.parametrize("shared", [[], ["model/shared_embeddings"]])
def test_a_pruned_tag_does_not_change_the_output_layer(tmp_path, shared):
    """The embedding of <sos/eos>, which the tag becomes, is also the weight by which the output scores the end."""
    fragments = ["heads/group", "tag/target_language", *shared]
    whole, pruned, args = pruned_translation(
        tmp_path, fragments, [pool.replace("=4", "=8") for pool in POOL], lang="de", tgtlang="el"
    )
    torch.testing.assert_close(pruned, whole)
    assert args.model == "mt" and args.model_conf.get("length_normalized_loss")


def test_a_model_with_flows_stays_one(tmp_path):
    selection = "encoder_conf.attention={selection: {strategy: group, by: lang, pool: 8}}"
    whole, pruned, args = pruned_translation(tmp_path, ["model/flow"], [selection], lang="de")
    torch.testing.assert_close(pruned, whole)
    assert (args.encoder, args.decoder, args.model) == ("transformer", "flow", "flow")


def test_a_model_of_translation_keeps_its_ctc_weight_under_espnets_name(tmp_path):
    config = {
        "task": "st",
        "model": "diverse",
        "model_conf": {"ctc_weight": 0.3, "asr_weight": 0.1, "conditions": NAMES},
    }
    config |= {"encoder": "diverse_transformer", "encoder_conf": {"input_layer": None, "adapter": None}}
    written = pruned_config(config, torch.nn.Identity())
    assert written["model_conf"] == {"asr_weight": 0.1, "st_mtlalpha": 0.3}
    assert (written["encoder"], written["encoder_conf"]) == ("transformer", {"input_layer": None})


@pytest.mark.parametrize(
    ("task", "model"),
    [("asr", "maskctc"), ("lm", "lm_multitask"), ("mt", "discrete_asr"), ("st", None), ("cls", "diverse")],
)
def test_only_our_models_are_renamed_and_a_classifier_keeps_its_classes(task, model):
    config = {"task": task, "model_conf": {"a": 1, "conditions": NAMES}} | ({"model": model} if model else {})
    net = torch.nn.Identity()
    net.by = "lang"
    written = pruned_config(config, net)
    assert written == config | {"model_conf": {"a": 1, "conditions": {"lang": NAMES["lang"]}}}


@pytest.mark.parametrize(
    ("conditions", "text"),
    [
        ({}, "--language is missing; this model knows: ar de el"),
        ({"lang": "fr"}, "--language 'fr' is unknown; this model knows: ar de el"),
        ({"lang": "de", "tgtlang": "fr"}, "--target_language 'fr' is unknown; this model knows: ar de el"),
        ({"lang": "de", "domain": "talk"}, "--domain talk: no part of this model depends on the domain; leave it out"),
        ({"language": "de"}, "condition 'language' is unknown; known: lang tgtlang domain"),
    ],
)
def test_a_task_that_is_wrong_is_named(tmp_path, conditions, text):
    model_dir = write_model(tmp_path / "exp", ["heads/group"], POOL)
    with pytest.raises(ConfigError, match=text):
        prune(model_dir, tmp_path / "pruned", conditions)
    assert not (tmp_path / "pruned").exists()


def test_there_must_be_something_to_prune_and_another_place_for_it(tiny_run, tmp_path):
    with pytest.raises(
        ConfigError, match="no part of this model depends on a language or domain, so it cannot be pruned"
    ):
        prune(tiny_run.model_dir, tmp_path / "pruned", {"lang": "de"})
    with pytest.raises(ConfigError, match="is the directory of the model itself; give another one"):
        prune(tiny_run.model_dir, tiny_run.model_dir, {"lang": "de"})


def test_pruning_in_memory_leaves_plain_attention(tmp_path):
    model, _ = load_model(write_model(tmp_path / "exp", ["heads/group"], POOL))
    prune_model(model, {"lang": "de"})
    assert all(getattr(module, "selection", None) is None for module in model.modules())
    assert not any("selection" in name for name in model.state_dict())
