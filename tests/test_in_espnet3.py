"""The page docs/in_espnet3.md, followed: ESPnet3 trains and decodes by our names, and our commands read its model."""

import re
import shlex
import subprocess
import sys

import numpy as np
import pytest
import soundfile
import torch
import yaml
from conftest import write_data_dir
from references.markdown import ROOT, blocks, lines

from espnet_diverse.bin.main import main
from espnet_diverse.runs.tasks import load_model

pytestmark = [pytest.mark.slow, pytest.mark.recipes]
PAGE = ROOT / "docs" / "in_espnet3.md"
PROGRAM, TRAINING, INFERENCE = *blocks(PAGE, "python"), *blocks(PAGE, "yaml")
THEIRS, OURS = ([line for line in lines(PAGE) if line.startswith(name)] for name in ("python ", "espnet-diverse "))
AVERAGE = "valid.acc.ave_1best.pth"  # two epochs, of which ESPnet averages the first
LENGTH = 0.3  # least length of a text for its audio: a model that has learned so little would give none
BEAM = 3  # the page's 10 is the size of this vocabulary, of which ESPnet's search takes the blank for a token then
DATASET = """
from pathlib import Path

import soundfile
from espnet3.components.data.base_dataset import BaseDataset
from espnet3.contract import Field


def column(path):
    return [line.split(maxsplit=1)[1] for line in Path(path).read_text(encoding="utf-8").splitlines()]


class Dataset(BaseDataset):
    fields = (Field("speech", "audio"), Field("text", "text"))

    def __init__(self, folder):
        self.audio, self.texts = column(f"{folder}/wav.scp"), column(f"{folder}/text")

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        speech, _ = soundfile.read(self.audio[index], dtype="float32")
        return {"speech": speech, "text": self.texts[index]}
"""
PARALLEL = {"env": "local", "n_workers": 1, "options": {"processes": False}}  # ESPnet3 would start a process
RECIPE = {
    "dataset_dir": "data",
    "dataset": {
        "train": [{"data_src_args": {"folder": "data/train"}}],
        "valid": [{"data_src_args": {"folder": "data/valid"}}],
        "preprocessor": {
            "_target_": "espnet2.train.preprocessor.CommonPreprocessor",
            "token_type": "bpe",
            "token_list": "${tokenizer.save_path}/tokens.txt",
            "bpemodel": "${tokenizer.save_path}/bpe.model",
        },
    },
    "tokenizer": {
        "vocab_size": 10,
        "model_type": "bpe",
        "save_path": "${data_dir}/bpe",
        "text_builder": {"func": "dataset.column", "path": "data/train/text"},
    },
    "seed": 1,
    "optimizer": {"lr": 0.005},
    "scheduler": {"warmup_steps": 10},
    "dataloader": {"train": {"iter_factory": {"batches": {"batch_size": 2}}}},
    "trainer": {"max_epochs": 2, "log_every_n_steps": 1},
    "parallel": PARALLEL,
}
TINY = {"attention_heads": 2, "linear_units": 32, "num_blocks": 1}
SIZES = {
    "frontend": "default",
    "frontend_conf": {"n_mels": 20},
    "encoder_conf": {**TINY, "output_size": 16, "cnn_module_kernel": 3},
    "decoder_conf": TINY,
}
RUN = """
import runpy, shlex, sys
for line in sys.argv[1:]:
    sys.argv = shlex.split(line)[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Runs several programs in one process, which imports ESPnet once."""


def updated(config, changes):
    """A configuration with the values of another one, at any depth."""
    inside = {key: updated(config.get(key) or {}, value) for key, value in changes.items() if isinstance(value, dict)}
    return {**config, **changes, **inside}


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    """The folder of a recipe of ESPnet3 that has run all stages, with tiny nets, and what it printed."""
    root = tmp_path_factory.mktemp("recipe")
    for seed, (name, count) in enumerate((("train", 24), ("valid", 4), ("test", 3))):
        write_data_dir(root / "data" / name, count, seed)
    for times, path in enumerate(sorted((root / "data" / "test").glob("*.wav")), start=1):
        samples, rate = soundfile.read(path)
        soundfile.write(path, np.tile(samples, times), rate)
    test = {"test": [{"name": "test", "data_src_args": {"folder": "data/test"}}]}
    changes = {"dataset": test, "parallel": PARALLEL, "model": {"beam_size": BEAM, "minlenratio": LENGTH}}
    training = updated(yaml.safe_load(TRAINING), RECIPE | {"model": SIZES})
    inference = updated(yaml.safe_load(INFERENCE.replace("valid.acc.ave_10best.pth", AVERAGE)), changes)
    for folder in ("conf", "dataset"):
        (root / folder).mkdir()
    (root / "run.py").write_text(PROGRAM)
    (root / "dataset" / "__init__.py").write_text(DATASET)
    for name, config in (("training", training), ("inference", inference)):
        (root / "conf" / f"{name}.yaml").write_text(yaml.safe_dump(config))
    done = subprocess.run([sys.executable, "-c", RUN, *THEIRS], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-5000:]
    return root, done.stderr


def statistics(said, pattern):
    """The statistics in each line of the log that has this beginning."""
    found = re.findall(rf"{pattern}: (.*)", said)
    return [{name: float(value) for name, value in re.findall(r"(\S+)=([^,\s]+)", line)} for line in found]


def test_the_losses_of_the_attention_are_added_in_training_and_validation(recipe):
    steps, validation = (
        statistics(recipe[1], pattern) for pattern in (r"epoch:train:\d+-\d+batch", "epoch_summary:.epoch:valid")
    )
    assert (len(steps), len(validation)) == (24, 2)
    for found in (*steps, *validation):
        added = {name: value for name, value in found.items() if name.startswith("aux_")}
        assert {"aux_query_mi", "aux_head_mi", "aux_kl_z", "aux_diversity_z"} <= added.keys()
        assert found["loss"] == pytest.approx(found["loss_task"] + sum(added.values()), rel=1e-4)
        assert found["loss"] > found["loss_task"]


def test_schedules_count_the_updates_and_each_epoch_has_new_statistics(recipe):
    gamma = [found["gamma"] for found in statistics(recipe[1], r"epoch:train:\d+-\d+batch")]
    changes = [batch for batch in range(1, 24) if gamma[batch] != gamma[batch - 1]]
    assert changes == [10, 12, 22]  # every tenth batch of an epoch of 12, from the first
    one = 1 - (1 - gamma[10]) ** 0.1
    assert gamma[12] == pytest.approx(1 - (1 - one) ** 12, rel=0.02)


def test_weights_of_averages_and_of_checkpoints_are_read(recipe):
    folder = recipe[0] / "exp" / "training"
    assert load_model(folder, AVERAGE)[1].normalize == "global_mvn"
    (first,), (second,) = (folder.glob(f"epoch{epoch}_*.ckpt") for epoch in (0, 1))
    for name, file in ((AVERAGE, first), ("last.ckpt", second)):
        expected = torch.load(file, weights_only=True)["state_dict"]
        loaded = load_model(folder, name)[0].state_dict()
        assert all(torch.equal(tensor, expected[key]) for key, tensor in loaded.items()), name


def test_our_commands_give_the_texts_of_espnet3(recipe, monkeypatch):
    root, _ = recipe
    monkeypatch.chdir(root)
    monkeypatch.setenv("ESPNET_DIVERSE_CACHE", str(root / "cache"))
    rows = (root / "exp/training/inference/test/text.scp").read_text().splitlines()
    texts = [line.partition(" ")[2] for line in rows]
    assert len(set(texts)) == 3
    (root / "talk.wav").symlink_to(root / "data/test/test-00.wav")
    search = ["--beam_size", str(BEAM), "--minlenratio", str(LENGTH)]
    added = {"decode": search, "pack": [], "transcribe": [*search, "--vad", "none"]}  # tones are no speech
    for line in OURS:
        words = shlex.split(line.replace("valid.acc.ave_10best.pth", AVERAGE))[1:]
        assert main(words + added.pop(words[0])) == 0, line
    assert added == {}
    ours = (root / "exp/training/decode/text").read_text().splitlines()
    assert [line.partition(" ")[2] for line in ours] == texts
    assert (root / "transcripts" / "talk.txt").read_text().strip() == texts[0].strip()
