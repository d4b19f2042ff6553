"""Classification of text, by the commands that a user gives: classes are learned, heads repelled, faults named."""

import re

import pytest
import torch
import yaml

from espnet_diverse.bin.main import main
from espnet_diverse.runs.tasks import TASKS, load_model


def test_the_classes_are_learned_and_kept_with_the_model(tiny_classifier):
    assert {path.name for path in (tiny_classifier.stats_dir / "train").iterdir()} == {"text_shape", "text_shape.char"}
    config = yaml.safe_load((tiny_classifier.model_dir / "config.yaml").read_text())
    assert config["classifier_conf"]["by"] == ["tgtlang"]
    assert config["classifier_conf"]["conditions"] == config["model_conf"]["conditions"] == {"tgtlang": ["yy", "zz"]}
    assert config["token_list"][2:-1] == sorted("abcdABCD") and config["task"] == "cls"
    model, _ = load_model(tiny_classifier.model_dir, task="cls")
    assert model.eval().classifier.labels == ["yy", "zz"]
    tokens = {letter: config["token_list"].index(letter) for letter in "abAB"}
    texts = torch.tensor([[tokens[letter] for letter in text] for text in ("aabb", "ABBA")])
    assert model.classifier(texts, torch.tensor([4, 4])).scores.argmax(-1).tolist() == [0, 1]


def test_the_heads_move_apart(tiny_classifier, tmp_path):
    run, distances = tiny_classifier, {}
    for alpha in (0.0, 1.0):
        out = tmp_path / str(alpha)
        paths = ["--stats_dir", str(run.stats_dir), "--output_dir", str(out)]
        changes = ["--set", f"repulsion.alpha={alpha}", "--set", "max_epoch=1"]
        assert main(["train", *run.config, *run.data(), *paths, *changes]) == 0
        queries = load_model(out, "1epoch.pth", task="cls")[0].classifier.pooling.linear_v.weight
        distances[alpha] = torch.pdist(queries).mean().item()
    assert distances[1.0] > 1.2 * distances[0.0]


def test_pairs_are_learned(tiny_classifier, tmp_path, capfd):
    """Whether the second text is a translation of the first, by texts that are common in both classes."""
    pairs = {f"p{number:02d}": ("ab" if number % 2 else "ba", "AB" if number % 4 < 2 else "BA") for number in range(16)}
    tables = {"src_text": {}, "text": {}, "utt2domain": {}}
    for name, (first, second) in pairs.items():
        label = "same" if first.upper() == second else "other"
        for table, value in zip(tables.values(), (first, second, label), strict=True):
            table[name] = value
    for folder in ("train", "dev"):
        (tmp_path / folder).mkdir()
        for name, table in tables.items():
            (tmp_path / folder / name).write_text("".join(f"{key} {value}\n" for key, value in table.items()))
    changes = {
        "classifier": "self_attentive_pair",
        "classifier_conf.by": "domain",
        "max_epoch": 12,
        "repulsion": "null",
    }
    data = ["--train_dir", str(tmp_path / "train"), "--valid_dir", str(tmp_path / "dev")]
    given = [*tiny_classifier.config, *data, "--tokens_dir", str(tiny_classifier.tokens_dir)]
    given += [f"--set={key}={value}" for key, value in changes.items()]
    assert main(["stats", *given, "--output_dir", str(tmp_path / "stats")]) == 0
    shapes = {path.name for path in (tmp_path / "stats" / "train").iterdir()}
    assert shapes == {"text_shape", "text_shape.char", "src_text_shape", "src_text_shape.char"}
    paths = ["--stats_dir", str(tmp_path / "stats"), "--output_dir", str(tmp_path / "exp")]
    assert main(["train", *given, *paths]) == 0
    found = ["classify", str(tmp_path / "exp"), "--model_file", "valid.acc.best.pth", "--data_dir", str(data[1])]
    assert main([*found, "--output_dir", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "label").read_text() == (tmp_path / "train" / "utt2domain").read_text()
    (tmp_path / "dev" / "src_text").unlink()
    assert main(["stats", *given, "--output_dir", str(tmp_path / "other")]) == 1
    assert "dev/src_text: no such file; espnet-diverse prepare writes it" in capfd.readouterr().err


def test_weights_are_initialised_as_asked(tiny_classifier):
    args = TASKS["cls"].get_parser().parse_args(["--init", "xavier_uniform"])
    args.token_list = ["<blank>", "<unk>", "a"]
    args.classifier_conf = {"by": "lang", "conditions": {"lang": ["de", "en"]}}
    model = TASKS["cls"].build_model(args)
    assert not model.classifier.output.bias.any()  # ESPnet sets biases to 0 where it initialises


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("classifier_conf.by=domain", "classifier_conf: depends on domain, but .* has no table utt2domain; add it, or"),
        ("classifier_conf.by=lang", "lang has 1 values in the training data; a classifier needs 2 or more"),
        ("classifier_conf.head=3", "unknown option 'classifier_conf.head'"),
        ("model_conf.lsm_weight=0.1", "unknown option 'model_conf.lsm_weight'"),
        ("classifier=bow", "unknown classifier 'bow'; known: self_attentive self_attentive_pair"),
    ],
)
def test_wrong_options_are_refused(tiny_classifier, tmp_path, capfd, option, said):
    run = tiny_classifier
    paths = ["--stats_dir", str(run.stats_dir), "--output_dir", str(tmp_path / "exp")]
    assert main(["train", *run.config, *run.data(), *paths, "--set", option]) == 1
    assert re.search(said, capfd.readouterr().err)


PRETRAINING = """
classifier: transformer
classifier_conf: {by: tgtlang, output_size: 16, attention_heads: 4, linear_units: 32, num_blocks: 1, dropout_rate: 0.0}
model_conf: {mask_rate: 0.3, generator: {dropout_rate: 0.0, output_size: 8, attention_heads: 2}}
repulsion: {method: svgd, alpha: 0.01}
batch_type: sorted
batch_size: 8
max_epoch: 8
num_iters_per_epoch: 20
num_workers: 0
optim: adam
optim_conf: {lr: 1.0e-2}
best_model_criterion: [[valid, loss, min]]
"""


def test_a_classifier_starts_from_an_encoder_that_was_pretrained_without_labels(tiny_classifier, tmp_path, capfd):
    config = tmp_path / "net.yaml"
    config.write_text(PRETRAINING)
    given = [*tiny_classifier.data(), "--config", str(config)]
    task = ["--task", "electra", "--set", "classifier_conf.by=null"]
    assert main(["stats", *given, *task, "--output_dir", str(tmp_path / "stats")]) == 0
    paths = ["--stats_dir", str(tmp_path / "stats"), "--output_dir"]
    assert main(["train", *given, *task, *paths, str(tmp_path / "pretrained")]) == 0
    losses = [float(each) for each in re.findall(r"^ +\d+/8 +(\S+)", capfd.readouterr().out, re.MULTILINE)]
    assert len(losses) == 8 and losses[-1] < losses[0]
    first, _ = load_model(tmp_path / "pretrained", "valid.loss.best.pth", task="electra")
    start = f"{tmp_path}/pretrained/valid.loss.best.pth:classifier.encoder:classifier.encoder"
    still = ["model_conf=null", "freeze_param=[classifier.encoder]", "max_epoch=1", "repulsion=null"]
    changes = [word for change in still for word in ("--set", change)]
    assert main(["train", *given, "--task", "cls", *changes, "--init_param", start, *paths, str(tmp_path / "cls")]) == 0
    second, _ = load_model(tmp_path / "cls", "1epoch.pth", task="cls")
    pretrained, used = (model.classifier.encoder.state_dict() for model in (first, second))
    assert pretrained.keys() == used.keys() and all(torch.equal(pretrained[name], used[name]) for name in used)
