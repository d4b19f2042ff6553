"""The page docs/fine_tuning.md, followed on a synthetic corpus; a trained model learns more than one from nothing."""

import json
import shlex
import shutil

import pytest
import soundfile
from conftest import OVERRIDES, train_run, write_data_dir
from references.markdown import ROOT, lines, run_here

from espnet_diverse.bin.main import main
from espnet_diverse.runs import checkpoint
from espnet_diverse.text.vocabulary import Vocabulary

pytestmark = pytest.mark.recipes

COMMANDS = [line for line in lines(ROOT / "docs" / "fine_tuning.md") if line.startswith("espnet-diverse ")]
SMALL = OVERRIDES | {"max_epoch": 30, "optim_conf.lr": 3e-3, "encoder_conf.output_size": 32}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a trained model, and a table of recordings of other lengths and in two languages."""
    root = tmp_path_factory.mktemp("fine_tuning")
    Vocabulary.train(["abcd"], "char").save(root / "tokens")
    for name, count, seed in (("train", 90, 1), ("valid", 12, 2)):
        write_data_dir(root / name, count, seed)
    settings = [f"--set={key}={value}" for key, value in SMALL.items()]
    run = train_run(root, ["--config", "model/tiny,attention/sdma", *settings])
    shutil.move(run.model_dir, root / "trained")
    (root / "exp").mkdir()
    shutil.move(root / "trained", root / "exp" / "trained")
    (root / "recordings").mkdir()
    rows = ["audio,text,language,split"]
    for seed, (name, count) in enumerate((("train", 24), ("dev", 8), ("test", 6)), start=5):
        source = write_data_dir(root / "mine" / name, count, seed)
        for number, line in enumerate((source / "text").read_text().splitlines()):
            utterance, text = line.split()
            samples, rate = soundfile.read(source / f"{utterance}.wav")
            step = 1 + number % 2
            soundfile.write(root / "recordings" / f"{utterance}.wav", samples[::step], rate // step)
            rows.append(f"{utterance}.wav,{text},{('de', 'en')[number % 2]},{name}")
    (root / "recordings" / "table.csv").write_text("\n".join(rows) + "\n")
    return root


def test_every_command_follows_from_the_one_before(folder):
    for line in COMMANDS:
        words = shlex.split(line)
        if words[1] == "fine-tune":
            words += ["--set", "max_epoch=1"]
        if words[1] == "train":
            names = ("train_dir data/train", "stats_dir exp/stats", "tokens_dir data/tokens")
            assert all(f"--{name}" in line for name in names)
            continue  # of another size; tests of `train` have it
        done = run_here(words, folder)
        assert done.returncode == 0, f"{line}\n{done.stderr}"
    assert [name for name in ("tuned.zip", "german.zip", "all.zip") if not (folder / name).is_file()] == []
    assert json.loads((folder / "exp" / "after" / "score.json").read_text())["baseline"]["name"]


def best(run):
    stats = checkpoint.load(run / "checkpoint.pth")["reporter"]["stats"]
    return min(phases["valid"]["loss"] for phases in stats.values())


def test_a_trained_model_learns_more_than_one_from_nothing(folder, tmp_path):
    """At an equal number of epochs, on the same data."""
    data = tmp_path / "data"
    for name, source in (("train", "train"), ("dev", "dev")):
        shutil.copytree(folder / "mine" / source, data / name)
    same = ["--set", "max_epoch=4", "--set", "optim_conf.lr=1.0e-3", "--set", "scheduler_conf.warmup_steps=4"]
    trained, output = folder / "exp" / "trained", tmp_path / "tuned"
    assert main(["fine-tune", str(trained), str(data), *same, "--output_dir", str(output)]) == 0
    config = ["--config", f"{output}/start.yaml,update/fine_tune", *same, "--tokens_dir", str(trained)]
    paths = ["--train_dir", str(data / "train"), "--valid_dir", str(data / "dev"), "--stats_dir", str(output / "stats")]
    assert main(["train", *config, *paths, "--output_dir", str(tmp_path / "new")]) == 0
    assert best(output) < 0.5 * best(tmp_path / "new")
