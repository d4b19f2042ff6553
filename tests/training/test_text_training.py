"""Text translation and language models, by the commands that a user gives: data, vocabularies, batches, models."""

import re
import shutil

import pytest
import torch
import yaml
from espnet2.tasks.mt import MTTask
from references.language_models import TRAINED as LM
from references.train_command import assert_packed_decodes_the_same

from espnet_diverse.bin.main import main
from espnet_diverse.data.tables import read_table
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.nets.models import Diverse
from espnet_diverse.nets.no_position import NoPosition
from espnet_diverse.packing.pruning import prune
from espnet_diverse.runs.config import merge
from espnet_diverse.runs.tasks import TASKS, load_model
from espnet_diverse.text.vocabulary import Vocabulary
from espnet_diverse.training import stages
from espnet_diverse.training.data.run_data import RunData


@pytest.fixture
def data(tiny_translation):
    root = tiny_translation.train_dir.parent
    run = tiny_translation
    return RunData(run.train_dir, run.valid_dir, root / "tokens", "mt", root / "src_tokens")


def train(run, tmp_path, *options):
    arguments = [*run.config, *run.data(), *options]
    assert main(["stats", *arguments, "--output_dir", str(tmp_path / "stats")]) == 0
    paths = ["--stats_dir", str(tmp_path / "stats"), "--output_dir", str(tmp_path / "exp")]
    assert main(["train", *arguments, *paths, "--set", "max_epoch=1"]) == 0
    return yaml.safe_load((tmp_path / "exp" / "config.yaml").read_text())


def test_shapes_are_numbers_of_tokens_as_espnet_counts_them(tiny_translation):
    run = tiny_translation
    assert {path.name for path in (run.stats_dir / "train").iterdir()} == {
        *("text_shape", "text_shape.char", "src_text_shape", "src_text_shape.char")
    }
    _, args = load_model(run.model_dir, task="mt")
    preprocess = MTTask.build_preprocess_fn(args, train=False)
    for name, size in (("text", 11), ("src_text", 7)):
        texts = read_table(run.train_dir / name)
        counted = {utterance: len(preprocess(utterance, {name: text})[name]) for utterance, text in texts.items()}
        expected = [f"{utterance} {count},{size}" for utterance, count in counted.items()]
        assert (run.stats_dir / "train" / f"{name}_shape.char").read_text().splitlines() == expected


def test_a_moved_run_loads_with_its_vocabularies(tiny_translation, tmp_path):
    run = tiny_translation
    config = yaml.safe_load((run.model_dir / "config.yaml").read_text())
    assert config["task"] == "mt" and "normalize" not in config and config["batch_type"] == "tokens"
    assert [entry[1] for entry in config["train_data_path_and_name_and_type"]] == ["text", "src_text"]
    assert "RowBatches(tokens, N-batch=" in (run.model_dir / "train.log").read_text()
    moved = shutil.copytree(run.model_dir, tmp_path / "moved")
    model, _ = load_model(moved, task="mt")
    assert model.decoder.decoders[0].self_attn.core.__class__.__name__ == "SDMA"
    assert Vocabulary.load(moved / "src_tokens").tokens[2:-1] == ("a", "b", "c", "d")


def test_embeddings_have_the_variance_of_the_width(tiny_translation):
    parser = TASKS["mt"].get_parser()
    tokens = [f"t{index}" for index in range(2000)]
    parser.set_defaults(**yaml.safe_load((tiny_translation.train_dir.parent / "mt.yaml").read_text()))
    parser.set_defaults(token_list=tokens, src_token_list=tokens, model="diverse", init="xavier_uniform")
    parser.set_defaults(
        model_conf={"share_encoder_decoder_input_embed": True, "share_decoder_input_output_embed": True}
    )
    model = TASKS["mt"].build_model(parser.parse_args([]))
    embedding = model.decoder.embed[0].weight
    assert model.frontend.embed[0].weight is embedding and model.decoder.output_layer.weight is embedding
    assert embedding.std().item() == pytest.approx(16**-0.5, rel=0.02)


def test_embeddings_of_different_vocabularies_are_not_shared(data):
    shared = ["model_conf.share_encoder_decoder_input_embed=true"]
    with pytest.raises(ConfigError, match=r"share_encoder_decoder_input_embed: the vocabularies differ \(7 and 11 tok"):
        build(data, *shared)


def test_embeddings_of_different_widths_are_not_shared(data):
    changes = ["model_conf.share_encoder_decoder_input_embed=true", "frontend_conf.embed_dim=8"]
    one = RunData(data.train_dir, data.valid_dir, data.tokens_dir, "mt")
    with pytest.raises(ConfigError, match="share_encoder_decoder_input_embed: frontend_conf.embed_dim is 8, and the"):
        build(one, *changes)


def build(data, *changes):
    parser = TASKS["mt"].get_parser()
    parser.set_defaults(model="diverse", **merge([data.train_dir.parent / "mt.yaml"], changes))
    folders = {"": data.tokens_dir, "src_": data.src_tokens_dir or data.tokens_dir}
    parser.set_defaults(**{f"{key}token_list": list(Vocabulary.load(path).tokens) for key, path in folders.items()})
    return TASKS["mt"].build_model(parser.parse_args([]))


def test_the_target_language_arrives_in_the_model(tiny_translation, tmp_path, monkeypatch):
    seen, forward = [], Diverse.forward

    def spy(self, *args, **kwargs):
        seen.append(kwargs["tgtlang"][:, 0].tolist())
        return forward(self, *args, **kwargs)

    monkeypatch.setattr(Diverse, "forward", spy)
    sampling = "sampling={by: tgtlang, temperature: 2, batches: single}"
    config = train(tiny_translation, tmp_path, "--set", "decoder_conf.start_tag={by: tgtlang}", "--set", sampling)
    assert config["model_conf"]["conditions"] == {"tgtlang": ["yy", "zz"]}
    assert {index for batch in seen for index in batch} == {0, 1}
    assert any(len(set(batch)) == 1 and len(batch) > 2 for batch in seen)


def test_a_vocabulary_of_another_text_is_refused(data, tmp_path):
    Vocabulary.train(["wxyz"], "char").save(tmp_path / "tokens")
    wrong = RunData(data.train_dir, data.valid_dir, tmp_path / "tokens", "mt", data.src_tokens_dir)
    config = merge([data.train_dir.parent / "mt.yaml"])
    with pytest.raises(DataError, match=r"train/text: the vocabulary .*tokens lacks \d+ of its \d+ tokens; make"):
        stages.collect_stats(config, wrong, tmp_path / "stats")


def test_data_without_a_source_is_refused(data, tmp_path):
    copy = shutil.copytree(data.train_dir, tmp_path / "train")
    (copy / "src_text").unlink()
    config = merge([data.train_dir.parent / "mt.yaml"])
    with pytest.raises(
        DataError, match="train: has no src_text with the source text that --task mt reads; give a directory"
    ):
        stages.collect_stats(config, RunData(copy, data.valid_dir, data.tokens_dir, "mt"), tmp_path / "stats")


def test_a_language_model_selects_heads_by_language(tiny_translation, tmp_path):
    run = tiny_translation
    (tmp_path / "lm.yaml").write_text(LM)
    by_language = "lm_conf.attention={core: softmax, selection: {strategy: group, by: tgtlang, pool: 4}}"
    arguments = ["--config", str(tmp_path / "lm.yaml"), "--task", "lm", *run.data(), "--set", by_language]
    assert main(["stats", *arguments, "--output_dir", str(tmp_path / "stats")]) == 0
    paths = ["--stats_dir", str(tmp_path / "stats"), "--output_dir", str(tmp_path / "exp")]
    assert main(["train", *arguments, *paths, "--set", "max_epoch=1"]) == 0
    model, _ = load_model(tmp_path / "exp", "1epoch.pth", task="lm")
    assert model.conditions == {"tgtlang": ["yy", "zz"]}
    logits = "lm.encoder.encoders.0.self_attn.selection.logits_tgtlang"
    state = model.state_dict()
    with torch.no_grad():  # the two languages use different heads for certain
        state[logits].copy_(torch.tensor([[1.0, 1, -1, -1], [-1, -1, 1, 1]]))
    torch.save(state, tmp_path / "exp" / "apart.pth")
    data = shutil.copytree(run.test_dir, tmp_path / "test")
    (data / "utt2tgtlang").unlink()  # the command line gives the language
    found = {}
    for name in ("yy", "zz"):
        scored = ["--data_dir", str(data), "--output_dir", str(tmp_path / name), "--target_language", name]
        model_file = [str(tmp_path / "exp"), "--model_file", "apart.pth"]
        assert main(["perplexity", *model_file, *scored]) == 0
        found[name] = yaml.safe_load((tmp_path / name / "perplexity.json").read_text())["perplexity"]
    assert abs(found["yy"] - found["zz"]) > 1e-4 * found["yy"]
    prune(tmp_path / "exp", tmp_path / "pruned", {"tgtlang": "zz"}, "apart.pth")
    scored = ["--data_dir", str(data), "--output_dir", str(tmp_path / "plain")]
    assert main(["perplexity", str(tmp_path / "pruned"), "--model_file", "apart.pth", *scored]) == 0
    plain = yaml.safe_load((tmp_path / "plain" / "perplexity.json").read_text())["perplexity"]
    assert plain == pytest.approx(found["zz"], rel=1e-5)
    assert yaml.safe_load((tmp_path / "pruned" / "config.yaml").read_text())["lm"] == "transformer"


def test_a_language_model_trains_and_its_last_epochs_are_averaged(tiny_translation, tmp_path):
    (tmp_path / "lm.yaml").write_text(LM)
    arguments = ["--config", str(tmp_path / "lm.yaml"), "--task", "lm", *tiny_translation.data()]
    assert main(["stats", *arguments, "--output_dir", str(tmp_path / "stats")]) == 0
    paths = ["--stats_dir", str(tmp_path / "stats"), "--output_dir", str(tmp_path / "exp")]
    assert main(["train", *arguments, *paths]) == 0
    assert main(["average", str(tmp_path / "exp"), "--metric", "valid.epoch", "--number", "2"]) == 0
    states = [torch.load(tmp_path / "exp" / f"{name}.pth") for name in ("1epoch", "2epoch", "valid.epoch.ave")]
    weight = [state["lm.decoder.weight"] for state in states]
    torch.testing.assert_close(weight[2], (weight[0] + weight[1]) / 2)
    scored = ["--data_dir", str(tiny_translation.test_dir), "--output_dir", str(tmp_path / "exp" / "test")]
    model = [str(tmp_path / "exp"), "--model_file", "valid.epoch.ave.pth"]
    results = tmp_path / "RESULTS.md"
    assert main(["perplexity", *model, *scored, "--results", str(results)]) == 0
    assert "|exp/test|5|" in results.read_text()
    numbers = yaml.safe_load((tmp_path / "exp" / "test" / "perplexity.json").read_text())
    assert 1 < numbers["perplexity"] < 30 and numbers["unknown_tokens"] == 0


MODIFIERS = "qk_norm: {}, position: rotary, drop_heads: {schedule: v}, relaxed: {}, routing: {active: 1}, dex: {}"


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        (
            [
                f"encoder_conf.attention={{head_patterns: [forward, next], {MODIFIERS}}}",
                f"decoder_conf.attention={{core: sma, head_patterns: [global, previous], {MODIFIERS}}}",
            ],
            {"HeadPatterns", "UnitKeys", "DropHeads", "Relaxed", "HeadRouting", "DifferentialExtension", "SMA"},
        ),
        (
            [
                "encoder_conf.num_blocks=2",
                "encoder_conf.attention={core: value_residual, learned: true, position: alibi}",
                "decoder_conf.attention={core: talking_heads, position: alibi}",
                "decoder_conf.cross_attention={core: talking_heads}",
            ],
            {"ValueResidual", "TalkingHeads"},
        ),
        (
            [
                "encoder_conf.attention={core: sanm}",
                "decoder_conf.attention={core: differential}",
                "decoder_conf.cross_attention={core: gated}",
                "model_conf.consistency={r_drop: 2.5}",
            ],
            {"SANM", "Differential", "Gated", "aux_r_drop"},
        ),
    ],
    ids=["modifiers", "alibi", "other cores"],
)
def test_every_part_trains_decodes_and_packs(tiny_translation, tmp_path, changes, parts):
    exp = tmp_path / "exp"
    train(tiny_translation, tmp_path, *(f"--set={change}" for change in changes))
    model, _ = load_model(exp, task="mt")
    found = {type(part).__name__ for module in model.modules() for part in (module, *vars(module).values())}
    assert parts <= found | set(re.findall(r"aux_\w+", (exp / "train.log").read_text()))
    for embed in (model.frontend.embed, model.decoder.embed):
        assert isinstance(embed[-1], NoPosition) == any("position" in change for change in changes)
    assert_packed_decodes_the_same(exp, tiny_translation.test_dir, tmp_path)
