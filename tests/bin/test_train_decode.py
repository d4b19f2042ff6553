import argparse
import json
import subprocess
import sys

import pytest

from espnet_diverse.bin import average, decode, figure, stats, train
from espnet_diverse.bin.main import main


def parsed(module, arguments):
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)
    return parser.parse_args(arguments)


@pytest.mark.parametrize("command", ["stats", "train", "average", "decode", "figure"])
def test_help_answers_at_once(command):
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "espnet_diverse.bin.main", command, "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert not imported & {"torch", "numpy", "espnet2", "espnet", "sacrebleu", "matplotlib", "soundfile"}
    assert f"espnet-diverse {command}" in done.stdout and "--debug" in done.stdout


def test_what_stages_read_and_write_is_there_after_the_run(tiny_run):
    model_dir = str(tiny_run.model_dir)
    paths = ["--stats_dir", str(tiny_run.stats_dir), "--output_dir", model_dir]
    stages = {
        stats: [*tiny_run.config, *tiny_run.data(), "--output_dir", str(tiny_run.stats_dir)],
        train: [*tiny_run.config, *tiny_run.data(), *paths],
        average: ["--model_dir", model_dir],
    }
    for module, arguments in stages.items():
        args = parsed(module, arguments)
        missing = [path for path in module.inputs(args) + module.outputs(args) if not path.exists()]
        assert missing == [] and module.outputs(args) and module.inputs(args)
    names = {path.name for path in train.inputs(parsed(train, stages[train]))}
    assert names >= {"tiny.yaml", "sdma.yaml", "train", "valid", "tokens.txt", "feats_stats.npz"}


def test_training_reads_the_models_and_vocabularies_that_it_is_given(tiny_run):
    arguments = [*tiny_run.config, *tiny_run.data(), "--stats_dir", "stats", "--output_dir", "exp", "--task", "st"]
    arguments += ["--src_tokens_dir", "source", "--init_param", "asr/ave.pth:encoder:encoder", "mt/ave.pth:decoder"]
    read = {str(path) for path in train.inputs(parsed(train, arguments))}
    assert read >= {"asr/ave.pth", "mt/ave.pth", "source/tokens.txt"}


def test_decode_writes_text_and_says_what_it_left_out(tiny_run, tmp_path, capfd):
    wav_scp = (tiny_run.test_dir / "wav.scp").read_text()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "wav.scp").write_text(wav_scp + "bad /no/such.wav\n")
    arguments = ["--model_dir", str(tiny_run.model_dir), "--data_dir", str(tmp_path / "data")]
    arguments += ["--output_dir", str(tmp_path / "out"), "--config", "decode/joint", "--set", "beam_size=2"]
    assert main(["decode", *arguments]) == 2
    shown = capfd.readouterr()
    assert "decoded 3 of 4 utterances (1 failed, 0 empty)" in shown.out
    assert "WARNING: bad was not decoded: /no/such.wav: no such audio file" in shown.err
    assert list(json.loads((tmp_path / "out" / "failures.json").read_text())) == ["bad"]
    assert main(["decode", *arguments, "--set", "search=espnet"]) == 2
    assert "BatchBeamSearch" in (tmp_path / "out" / "decode.log").read_text()
    args = parsed(decode, arguments)
    assert all(path.exists() for path in decode.inputs(args) + decode.outputs(args))


def test_decode_refuses_unknown_options_and_models(tiny_run, tmp_path, capfd):
    arguments = ["--model_dir", str(tiny_run.model_dir), "--data_dir", str(tiny_run.test_dir)]
    arguments += ["--output_dir", str(tmp_path / "out")]
    assert main(["decode", *arguments, "--set", "beam=2"]) == 1
    assert "--set beam=2: key 'beam' is unknown; did you mean 'beam_size'?" in capfd.readouterr().err
    assert main(["decode", *arguments, "--model_file", "best.pth"]) == 1
    assert "best.pth: no such model file; model files there: 1epoch.pth" in capfd.readouterr().err


def test_average_prints_what_it_wrote(tiny_run, capfd):
    assert main(["average", "--model_dir", str(tiny_run.model_dir), "--metric", "valid.loss", "--number", "1"]) == 0
    assert capfd.readouterr().out.strip() == str(tiny_run.model_dir / "valid.loss.ave.pth")


def test_figure_draws_the_named_utterance(tiny_run, tmp_path, capfd):
    arguments = ["--model_dir", str(tiny_run.model_dir), "--data_dir", str(tiny_run.test_dir)]
    arguments += ["--output_dir", str(tmp_path / "figures")]
    assert main(["figure", *arguments, "--utterance", "test-01"]) == 0
    printed = capfd.readouterr().out.split()
    assert printed == [str(tmp_path / "figures" / f"test-01.{net}.png") for net in ("encoder", "decoder")]
    args = parsed(figure, arguments)
    assert all(path.exists() for path in figure.inputs(args) + figure.outputs(args))
    assert main(["figure", *arguments, "--utterance", "test-99"]) == 1
    assert "utterance 'test-99' is not in text and wav.scp; give another, such as 'test-00'" in capfd.readouterr().err


def test_a_wrong_key_is_one_line(tiny_run, tmp_path, capfd):
    arguments = [*tiny_run.config, *tiny_run.data(), "--output_dir", str(tmp_path / "stats")]
    assert main(["stats", *arguments, "--set", "encoder_conf.attention.core=sdmma"]) == 1
    error = capfd.readouterr().err.splitlines()[-1]
    begin = "espnet-diverse stats: error: --set encoder_conf.attention.core=sdmma: encoder_conf.attention: "
    assert error == f"{begin}unknown attention 'sdmma'; did you mean 'sdma'? (register_core adds others)"
    assert main(["stats", *arguments, "--set", "max_epok=1"]) == 1
    assert "--set max_epok=1: key 'max_epok' is unknown; did you mean 'max_epoch'?" in capfd.readouterr().err
    assert not (tmp_path / "stats").exists()
