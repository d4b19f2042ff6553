"""A model that depends on languages and domains, a subcommand that copies a file, and parsed arguments."""

import argparse
import shutil
import sys
import types
from pathlib import Path

import pytest

from espnet_diverse.bin.main import COMMANDS, command_parser, main

SELECTIONS = (
    *("--set", "encoder_conf.attention.selection={strategy: group, pool: 4, by: [lang, domain]}"),
    *("--set", "decoder_conf.attention.selection={strategy: subset, pool: 4, by: tgtlang}"),
)


def name_utterances(data_dir, table, names):
    """Give the utterances of a data directory names in turns."""
    utterances = [line.split()[0] for line in (data_dir / "wav.scp").read_text().splitlines()]
    lines = (f"{utterance} {names[number % len(names)]}\n" for number, utterance in enumerate(utterances))
    (data_dir / table).write_text("".join(lines))


@pytest.fixture(scope="package")
def translation(tiny_run, tmp_path_factory):
    """Speech translation by head selection after two batches: es, ar -> en, de in two domains, never es -> de."""
    root = tmp_path_factory.mktemp("translation")
    for source in (tiny_run.train_dir, tiny_run.valid_dir, tiny_run.test_dir):
        data_dir = root / source.name
        shutil.copytree(source, data_dir)
        name_utterances(data_dir, "utt2lang", ["es", "ar", "ar"])
        name_utterances(data_dir, "utt2tgtlang", ["en", "en", "de"])
        name_utterances(data_dir, "utt2domain", ["news", "talk"])
        shutil.copy(data_dir / "text", data_dir / "src_text")
    arguments = ["--config", "model/tiny", *tiny_run.config[2:], *SELECTIONS, "--set", "model_conf={ctc_weight: 0.0}"]
    arguments += ["--set", "max_epoch=1", "--task", "st", "--tokens_dir", str(tiny_run.tokens_dir)]
    arguments += ["--train_dir", str(root / "train"), "--valid_dir", str(root / "valid")]
    assert main(["stats", *arguments, "--output_dir", str(root / "stats")]) == 0
    assert main(["train", *arguments, "--stats_dir", str(root / "stats"), "--output_dir", str(root / "exp")]) == 0
    return root


@pytest.fixture
def of_translation(translation):
    """Arguments that name the model of `translation` and its test set."""
    return [
        str(translation / "exp"),
        "--model_file",
        "1epoch.pth",
        "--data_dir",
        str(translation / "test"),
    ]


@pytest.fixture
def parse():
    """A function that returns the module of a command and its parsed arguments."""

    def parsed(command, arguments):
        module, parser = command_parser(command)
        args = parser.parse_args(arguments)
        return module, args

    return parsed


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """An empty working directory and the subcommand `fake`, which copies a file; `fake.action` runs inside it."""
    module = types.ModuleType("espnet_diverse.bin.fake")
    module.action, module.code, module.calls = lambda: None, 0, 0

    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--source", type=Path, required=True)
        parser.add_argument("--target", type=Path, required=True)
        parser.add_argument("--rate", type=float, default=0.5)
        parser.add_argument("--nj", type=int, default=1)

    def run(args: argparse.Namespace) -> int:
        module.calls += 1
        args.target.write_text(args.source.read_text())
        module.action()
        return module.code

    module.add_arguments, module.run = add_arguments, run
    module.inputs, module.outputs = lambda args: [args.source], lambda args: [args.target]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(COMMANDS, "fake", ("fake", "copy a file"))
    monkeypatch.setitem(sys.modules, "espnet_diverse.bin.fake", module)
    Path("a").write_text("1")
    return module


@pytest.fixture
def unchecked_paths(monkeypatch):
    """Paths that need not exist: a test of what a command refuses after them."""
    monkeypatch.setattr("espnet_diverse.bin.main.check_paths", lambda actions, args: None)
