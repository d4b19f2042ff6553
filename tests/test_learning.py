"""Training from Python, by the stages of the commands, with their errors raised and the process left as it was."""

import inspect
import logging
import math
import os
import random
import runpy
import signal
import sys
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import OVERRIDES
from references.markdown import ROOT, blocks

from espnet_diverse import FineTuningOptions, TrainingOptions, fine_tune, learning, train
from espnet_diverse.bin.main import main
from espnet_diverse.errors import ConfigError, DataError, InterruptedRunError, ModelError, TrainingError
from espnet_diverse.runs import checkpoint
from espnet_diverse.training.loop.trainer import Loop

SETTINGS = {**OVERRIDES, "best_model_criterion": [["valid", "acc", "max"], ["valid", "loss", "min"]]}
CONFIG = ["model/tiny", "attention/sdma"]
ONE = {"max_epoch": 1, "scheduler_conf": {"warmup_steps": 4}}


def weights(folder):
    return checkpoint.load_weights(folder / "valid.acc.ave.pth")


def state():
    """The state of the process."""
    cudnn = torch.backends.cudnn
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD)]
    generators = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    flags = cudnn.enabled, cudnn.benchmark, cudnn.deterministic, torch.get_num_threads(), torch.is_grad_enabled()
    root = logging.getLogger()
    return handlers, generators, flags, root.handlers[:], root.level, dict(os.environ), Path.cwd(), sys.argv[:]


def test_training_gives_the_weights_of_the_commands_and_leaves_the_process_as_it_was(tiny_run, tmp_path, capfd):
    before, output = state(), tmp_path / "run"
    given = {"tokens_dir": tiny_run.tokens_dir, "settings": SETTINGS, "options": TrainingOptions(number=2)}
    run = train(CONFIG, tiny_run.train_dir.parent, output, **given)
    assert state() == before
    for name, value in weights(tiny_run.model_dir).items():
        torch.testing.assert_close(weights(run)[name], value, rtol=0, atol=0, msg=name)
    capfd.readouterr()
    assert train(CONFIG, tiny_run.train_dir.parent, output, **given) == run == output
    assert capfd.readouterr().out.count("up to date") == 3


@pytest.fixture(scope="module")
def tuned(tiny_run, tmp_path_factory):
    """A run of `fine_tune`."""
    output = tmp_path_factory.mktemp("tuned")
    data = tiny_run.train_dir.parent
    options = FineTuningOptions(number=1)
    return fine_tune(tiny_run.model_dir, data, output, config="adapter/lora", settings=ONE, options=options)


def test_fine_tuning_equals_the_command(tiny_run, tuned, tmp_path):
    words = [tiny_run.model_dir, tiny_run.train_dir.parent, "--output_dir", tmp_path / "shell", "--number", 1]
    words += ["--config", "adapter/lora", "--set", "max_epoch=1", "--set", "scheduler_conf.warmup_steps=4"]
    assert main(["fine-tune", *map(str, words)]) == 0
    of_python, of_shell = map(weights, (tuned, tmp_path / "shell"))
    assert of_python.keys() == of_shell.keys() and any("lora_" in name for name in of_python)
    for name, value in of_shell.items():
        torch.testing.assert_close(of_python[name], value, rtol=0, atol=0, msg=name)


def test_settings_match_the_command_line():
    settings = {"grad_clip": math.inf, "pretrained": Path("a/b"), "sizes": (1, None)}
    assert learning._changes(settings) == ["grad_clip=.inf", "pretrained=a/b", "sizes=[1, null]"]


def test_errors_are_raised(tiny_run, tuned, tmp_path, monkeypatch):
    data = tiny_run.train_dir.parent
    with pytest.raises(ConfigError, match="stage 'stats': --set max_epochs=3: unknown option 'max_epochs'; did you"):
        train(CONFIG, data, tmp_path / "a", settings={"max_epochs": 3})
    with pytest.raises(ConfigError, match="config is empty; give fragments, such as model/small,attention/sdma"):
        train([], data, tmp_path / "a")
    for call in (partial(train, CONFIG), partial(fine_tune, tiny_run.model_dir)):
        with pytest.raises(DataError, match="needs two data directories, train and dev"):
            call(tmp_path, tmp_path / "a")
    with pytest.raises(ModelError, match="absent: no such"):
        fine_tune(tmp_path / "absent", data, tmp_path / "a")
    with pytest.raises(ConfigError, match="max_epoch: 1 -> 2"):
        fine_tune(tiny_run.model_dir, data, tuned, config="adapter/lora", settings={**ONE, "max_epoch": 2})
    monkeypatch.setattr(learning, "run_stages", lambda stages, cache: 1)
    with pytest.raises(TrainingError, match="a: a stage ended with exit code 1; its log is in this folder"):
        train(CONFIG, data, tmp_path / "a")


def test_a_signal_saves_and_raises(tiny_run, tmp_path, monkeypatch):
    before, train_epoch = signal.getsignal(signal.SIGTERM), Loop.train_epoch

    def interrupted(*args, **options):
        os.kill(os.getpid(), signal.SIGTERM)
        return train_epoch(*args, **options)

    monkeypatch.setattr(Loop, "train_epoch", interrupted)
    with pytest.raises(InterruptedRunError, match="SIGTERM: saved in epoch 1"):
        fine_tune(tiny_run.model_dir, tiny_run.train_dir.parent, tmp_path / "run", settings=ONE)
    assert signal.getsignal(signal.SIGTERM) == before


def test_other_threads_keep_their_environment_and_directory(tiny_run, tmp_path, monkeypatch):
    """While the stages run, another thread sets a variable, and looks where it is."""
    monkeypatch.delenv("OF_ANOTHER_THREAD", raising=False)
    monkeypatch.setattr(sys, "argv", ["mine"])
    seen, ended, train_epoch = [], threading.Event(), Loop.train_epoch

    def watch():
        while not ended.wait(0.01):
            seen.append((os.getcwd(), sys.argv))  # noqa: PTH109, as other libraries ask

    def epoch(*args, **options):
        setter = threading.Thread(target=os.environ.__setitem__, args=("OF_ANOTHER_THREAD", "kept"))
        setter.start()
        setter.join()
        return train_epoch(*args, **options)

    monkeypatch.setattr(Loop, "train_epoch", epoch)
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        options = TrainingOptions(number=1)
        settings = {**SETTINGS, "max_epoch": 1}
        train(CONFIG, tiny_run.train_dir.parent, tmp_path / "run", settings=settings, options=options)
    finally:
        ended.set()
        watcher.join()
    assert os.environ["OF_ANOTHER_THREAD"] == "kept"
    assert len(seen) > 10 and all(each == (str(Path.cwd()), ["mine"]) for each in seen)


@pytest.mark.parametrize("function", [train, fine_tune])
def test_a_call_has_few_parameters(function):
    assert len(inspect.signature(function).parameters) <= 6


def test_the_page_runs(tiny_run, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    Path("exp").mkdir()
    Path("exp/trained").symlink_to(tiny_run.model_dir)
    Path("data").symlink_to(tiny_run.train_dir.parent)
    Path("talk.wav").symlink_to(tiny_run.test_dir / "test-00.wav")
    (block,) = blocks(ROOT / "docs" / "fine_tuning.md", "python")
    assert len(block.splitlines()) <= 10
    Path("block.py").write_text(block.replace('"max_epoch": 10', '"max_epoch": 1').replace("model/small", "model/tiny"))
    runpy.run_path("block.py")
    assert Path("exp/new/tokens/tokens.txt").is_file() and Path("exp/new/valid.acc.ave.pth").is_file()


@pytest.mark.parametrize(("task", "names"), [("mt", ["text", "src_text"]), ("st", ["text"])])
def test_the_vocabulary_covers_a_source_text_that_shares_it(tmp_path, monkeypatch, task, names):
    for name in ("train", "dev"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "src_text").write_text("a größe\n", encoding="utf-8")
        (tmp_path / name / "text").write_text("a size\n", encoding="utf-8")
    stages = []
    monkeypatch.setattr(learning, "_run", lambda made, folder: stages.extend(made))
    train("model/mt_tiny", tmp_path, tmp_path / "run", options=TrainingOptions(task=task))
    assert [path.name for path in stages[0].text] == names
