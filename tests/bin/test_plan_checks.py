"""Checks of a plan before its first stage, so that a known mistake does not surface after hours."""

import subprocess
import sys
from pathlib import Path

import pytest

from espnet_diverse.bin.main import run_command
from espnet_diverse.errors import DataError

COPY = "copy\tespnet-diverse fake --source a --target b"


def plan(*lines: str, options: tuple[str, ...] = ()) -> int:
    Path("plan.tsv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return run_command("plan", ["plan.tsv", *options])


def test_what_a_command_can_check_is_checked_before_anything_runs(fake, capfd):
    def refuse(args, before):
        seen.append(list(before))
        raise DataError(f"{args.source} is odd")

    seen = []
    fake.check = refuse
    for options in ((), ("--dry_run",)):
        assert plan("first\ttouch first", "vocabulary\t" + TOKENS, COPY, options=options) == 1
        assert capfd.readouterr().err == "espnet-diverse plan: error: stage 'copy': a is odd\n"
    assert seen == [["tokens"]] * 2
    assert not Path("first").exists()


def test_a_finished_stage_is_not_checked_until_its_arguments_or_files_change(fake):
    fake.check = lambda args, before: seen.append(args.rate)
    seen = []
    plan(COPY)
    plan(COPY)
    plan(COPY + " --rate 0.7")
    Path("a").write_text("2")
    plan(COPY + " --rate 0.7")
    assert seen == [0.5, 0.7, 0.7]


def test_what_this_machine_lacks_stops_a_run_and_is_told_in_a_dry_run(fake, capfd):
    def refuse(args):
        raise DataError("no GPU")

    fake.check_machine = refuse
    assert plan("first\ttouch first", COPY) == 1
    assert capfd.readouterr().err == "espnet-diverse plan: error: stage 'copy': no GPU\n"
    assert not Path("first").exists()
    assert plan(COPY, options=("--dry_run",)) == 0
    assert capfd.readouterr().out.endswith("would run: not finished before\n[copy] not on this machine: no GPU\n")


CONFIG = "--config model/tiny --set 'best_model_criterion=[[valid, acc, max]]'"
DATA = "--train_dir data/train --valid_dir data/dev --tokens_dir data/tokens"
TOKENS = "espnet-diverse tokens --text data/text --output_dir data/tokens"
TRAIN = f"espnet-diverse train {CONFIG} {DATA} --stats_dir exp/stats --output_dir exp"
SCORE = "espnet-diverse score --reference a --hypothesis a --output_dir exp"
AUGMENT = "espnet-diverse augment back exp --data_dir mono --output_dir back --target_language de"
RESCORE = "espnet-diverse rescore lm --decode_dir exp/test --output_dir exp/again"
DECODE = "espnet-diverse decode exp --data_dir data/test --output_dir exp/test"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([SCORE + " --metric cerr"], "unknown metric 'cerr'; choose from cer, wer"),
        ([SCORE + " --metric wer --count_spaces"], "--count_spaces is for cer, and the metrics are wer; leave it out"),
        (
            [TRAIN, "espnet-diverse average exp --metric valid.cer"],
            "unknown metric 'valid.cer'; best_model_criterion of this run has: valid.acc",
        ),
        ([TRAIN + " --set max_epochs=3"], "unknown option 'max_epochs'; did you mean 'max_epoch'?"),
        (
            [TRAIN.replace("train ", "stats ", 1).replace("--stats_dir exp/stats", "") + " --set a=3"],
            "unknown option 'a'",
        ),
        (["espnet-diverse prepare aishell --corpus synthetic --size small --output_dir data"], "unknown size 'small'"),
        ([TOKENS + " --type word"], "unknown vocabulary type 'word'; choose one of char, bpe, unigram, bert"),
        ([TOKENS + " --type bpe"], "vocab_size is None; type bpe needs a number of tokens, for example 500"),
        ([DECODE + " --set beam_sise=3"], "unknown option 'beam_sise'; did you mean 'beam_size'?"),
        ([AUGMENT + " --set beam_sise=3"], "unknown option 'beam_sise'; did you mean 'beam_size'?"),
        ([AUGMENT + " --max_ratio 0"], "--max_ratio 0 would leave no pair; give a number of at least 1"),
        ([RESCORE + " --weight nan"], "--weight nan is not allowed; give a finite number"),
    ],
)
def test_mistakes_that_are_known_at_the_start_are_told_then(fake, capfd, lines, said):
    for options in ((), ("--dry_run",)):
        assert plan("first\ttouch first", *(f"last\t{line}" for line in lines), options=options) == 1
        error = capfd.readouterr().err
        assert error.startswith("espnet-diverse plan: error: stage 'last': ") and said in error
    assert not Path("first").exists()


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--ngpu 99", "--ngpu 99 is not possible; this machine has "),
        (
            "--init_param /nosuch.pth:encoder",
            "--init_param /nosuch.pth:encoder: there is no file /nosuch.pth; give the",
        ),
    ],
)
def test_what_training_lacks_here_is_refused_before_anything_runs(fake, capfd, option, said):
    assert plan("first\ttouch first", f"train\t{TRAIN} {option}") == 1
    assert f"stage 'train': {said}" in capfd.readouterr().err
    assert not Path("first").exists()
    assert plan(f"train\t{TRAIN} {option}", options=("--dry_run",)) == 0
    assert f"[train] not on this machine: {said}" in capfd.readouterr().out


def test_a_plan_without_training_does_not_import_torch(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("plan.tsv").write_text(f"tokens\t{TOKENS}\ndecode\t{DECODE}\nscore\t{SCORE}\n")
    code = "import sys; from espnet_diverse.bin.main import main\nmain(['plan', 'plan.tsv', '--dry_run'])\n"
    code += "print(sorted({'torch', 'espnet2'} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.endswith("[]\n")


def test_an_error_in_a_generated_plan_names_the_stage_alone(fake, capfd):
    advice = "espnet-diverse train --help lists the options"
    for options, where in (((), "plan.tsv:1: "), (("--generated",), "")):
        assert plan(f"train\t{TRAIN} --bogus 3", options=options) == 1
        said = f"{where}stage 'train': espnet-diverse train: unrecognized arguments: --bogus 3; {advice}\n"
        assert capfd.readouterr().err == f"espnet-diverse plan: error: {said}"
