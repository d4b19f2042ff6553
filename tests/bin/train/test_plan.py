"""The plan: stages run once, in order, in one process, and known mistakes surface before the first of them."""

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


def test_a_finished_stage_is_a_no_op(fake, capfd):
    assert plan("# copies a file", "", COPY) == 0
    first = capfd.readouterr().out.splitlines()
    assert first == ["[copy] espnet-diverse fake --source a --target b", "[copy] done in 0 s"]
    assert plan(COPY) == 0
    assert capfd.readouterr().out == "[copy] up to date\n"
    assert fake.calls == 1


@pytest.mark.parametrize(
    ("change", "line", "calls"),
    [
        (lambda: Path("a").write_text("2"), COPY, 2),
        (lambda: Path("b").unlink(), COPY, 2),
        (lambda: None, COPY + " --rate 0.7", 2),
        (lambda: None, COPY + " --rate 0.5", 1),
        (lambda: None, COPY + " --nj 4 --debug", 1),
        (lambda: None, "copy\tespnet-diverse fake --target=b --source=a", 1),
    ],
    ids=["input", "output", "option", "default given", "resources", "other spelling"],
)
def test_changed_inputs_outputs_and_options_rerun_a_stage(fake, change, line, calls):
    plan(COPY)
    change()
    assert plan(line) == 0
    assert fake.calls == calls
    assert Path("b").read_text() == Path("a").read_text()


def test_a_changed_output_runs_the_stages_behind_it_again(fake):
    chain = (COPY, "again\tespnet-diverse fake --source b --target c")
    plan(*chain)
    Path("a").write_text("2")
    assert plan(*chain) == 0
    assert (fake.calls, Path("c").read_text()) == (4, "2")


def test_a_module_that_declares_nothing_always_runs(fake, capfd):
    del fake.inputs, fake.outputs
    plan(COPY)
    assert plan(COPY, options=("--dry_run",)) == 0
    assert capfd.readouterr().out.endswith("[copy] would run: it always runs\n")
    plan(COPY)
    assert fake.calls == 2
    assert not Path(".stamps").exists()


def test_dry_run_shows_the_plan_and_runs_nothing(fake, capfd):
    other = "note\ttouch 'a file'"
    assert plan(COPY, other, options=("--dry_run",)) == 0
    assert capfd.readouterr().out.splitlines() == [
        "[copy] espnet-diverse fake --source a --target b",
        "[copy] would run: not finished before",
        "[note] touch 'a file'",
        "[note] would run: not finished before",
    ]
    assert fake.calls == 0 and {path.name for path in Path().iterdir()} == {"a", "plan.tsv"}
    plan(COPY)
    capfd.readouterr()
    plan(COPY, options=("--dry_run",))
    assert capfd.readouterr().out.endswith("[copy] up to date\n")


def test_dry_run_names_the_stages_behind_one_that_would_run(fake, capfd):
    chain = (
        COPY,
        "again\tespnet-diverse fake --source b --target c",
        "other\tespnet-diverse fake --source d --target e",
    )
    Path("d").write_text("1")
    plan(*chain)
    Path("a").write_text("2")
    capfd.readouterr()
    plan(*chain, options=("--dry_run",))
    assert capfd.readouterr().out.splitlines()[1::2] == [
        "[copy] would run: a changed",
        "[again] would run: its input b will be rewritten",
        "[other] up to date",
    ]


def test_the_first_failure_stops_the_plan_and_leaves_no_stamp(fake, capfd):
    def fail():
        raise DataError("utterance x has no audio")

    fake.action = fail
    assert plan(COPY, "later\ttouch later") == 1
    captured = capfd.readouterr()
    assert captured.out.endswith("[copy] failed after 0 s with exit code 1\n")
    assert captured.err == "espnet-diverse fake: error: utterance x has no audio\n"
    assert not Path("later").exists()
    fake.action = lambda: None
    assert plan(COPY) == 0
    assert fake.calls == 2


def test_a_failed_second_run_is_not_taken_for_the_finished_first(fake):
    plan(COPY)
    Path("a").write_text("2")
    fake.action = lambda: sys.exit("a library gives up")
    assert plan(COPY) == 1
    Path("a").write_text("1")
    fake.action = lambda: None
    assert plan(COPY) == 0
    assert (fake.calls, Path("b").read_text()) == (3, "1")


def test_an_unexpected_exception_names_the_stage(fake, capfd):
    fake.action = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        plan(COPY)
    assert "[copy] failed after 0 s" in capfd.readouterr().out


def test_items_left_out_do_not_stop_the_plan_and_are_remembered(fake, capfd):
    fake.code = 2
    assert plan(COPY, "later\ttouch later") == 2
    assert Path("later").exists()
    assert "[copy] done in 0 s, some items skipped\n" in capfd.readouterr().out
    assert plan(COPY) == 2
    assert capfd.readouterr().out == "[copy] up to date, some items skipped\n"


def test_a_stage_without_its_declared_output_fails(fake, capfd):
    fake.action = lambda: Path("b").unlink()
    assert plan(COPY) == 1
    assert "stage 'copy' ended without an error but did not write b\n" in capfd.readouterr().err
    assert not Path(".stamps").exists()


def test_other_programs_run_once_until_an_argument_that_is_a_file_changes(fake, capfd):
    Path("a b").write_text("first\n")
    cat = "show\tcat 'a b'"
    plan(cat)
    plan(cat)
    assert capfd.readouterr().out.count("first\n") == 1
    Path("a b").write_text("second\n")
    plan(cat)
    assert "second\n" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("copy espnet-diverse fake", "stage 'copy espnet-diverse fake': has no command; write the name of the stage"),
        ("copy\t", "stage 'copy': has no command"),
        ("copy\tcat 'x", "No closing quotation"),
        ("copy\tespnet-diverse fakes", "espnet-diverse fakes: no such command; known: prepare"),
        ("copy\tespnet-diverse plan plan.tsv", "espnet-diverse plan plan.tsv: a plan runs no plan; list"),
        ("copy\tespnet-diverse fake --help", "espnet-diverse fake: "),
    ],
)
def test_a_faulty_line_is_refused_before_anything_runs(fake, capfd, line, message):
    assert plan(COPY, line) == 1
    error = capfd.readouterr().err
    assert error.startswith("espnet-diverse plan: error: plan.tsv:2: stage 'copy")
    assert message in error
    assert fake.calls == 0


def test_a_plan_in_another_encoding_is_named(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    Path("plan.tsv").write_bytes(b"copy\tcp a \xe4\n")
    assert run_command("plan", ["plan.tsv"]) == 1
    said = "espnet-diverse plan: error: plan plan.tsv: not UTF-8 at byte 10; save the file as UTF-8\n"
    assert capfd.readouterr().err == said


def test_inputs_may_refuse_arguments_before_anything_runs(fake, capfd):
    def refuse(args):
        raise DataError(f"{args.source} is odd")

    fake.inputs = refuse
    assert plan("first\ttouch first", COPY) == 1
    assert "plan.tsv:2: stage 'copy': a is odd" in capfd.readouterr().err
    assert not Path("first").exists()


def test_a_missing_plan_or_program_is_one_line(fake, capfd):
    assert run_command("plan", ["nowhere.tsv"]) == 1
    assert "plan nowhere.tsv is not found; give the path" in capfd.readouterr().err
    assert plan("x\tno_such_program 1") == 1
    assert "espnet-diverse plan: error: no_such_program cannot be run" in capfd.readouterr().err


def test_the_stage_cache_is_where_it_is_asked_for(fake, capsys):
    plan(COPY, options=("--cache_dir", "exp/.stamps"))
    assert len(list(Path("exp/.stamps").iterdir())) == 1
    assert not Path(".stamps").exists()
    assert capsys.readouterr().err == ""


def test_a_real_command_runs_again_when_its_input_changes(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    Path("text").write_text("a 你好\n", encoding="utf-8")
    tokens = "tokens\tespnet-diverse tokens --text text --output_dir tokens --type char"
    assert plan(tokens) == 0
    assert plan(tokens) == 0
    assert capfd.readouterr().out.endswith("[tokens] up to date\n")
    Path("text").write_text("a 你们好\n", encoding="utf-8")
    assert plan(tokens) == 0
    assert "们" in Path("tokens/tokens.txt").read_text(encoding="utf-8")


def test_all_stages_are_checked_before_anything_runs(fake, capfd):
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


def test_a_failed_machine_check_stops_a_run_but_not_a_dry_run(fake, capfd):
    def refuse(args, made):
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


@pytest.mark.parametrize("weights", ["exp", "exp/valid.acc.ave.pth", "exp/valid.acc.ave.pth:encoder:encoder"])
def test_weights_that_an_earlier_stage_will_write_are_not_asked_for(fake, weights, capfd):
    second = f"second\t{TRAIN.replace('--output_dir exp', '--output_dir exp2')} --init_param {weights}"
    for _ in range(2):
        assert plan(f"first\t{TRAIN}", second, options=("--dry_run",)) == 0
        assert "not on this machine" not in capfd.readouterr().out
        Path("exp").mkdir(exist_ok=True)  # as a run that was stopped
    assert plan(second, options=("--dry_run",)) == 0
    assert "[second] not on this machine: " in capfd.readouterr().out


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
        ([TOKENS + " --type word"], "unknown vocabulary type 'word'; choose one of char, bpe, unigram, byte, bert"),
        ([TOKENS + " --type bpe"], "vocab_size is None; type bpe needs a number of tokens, for example 500"),
        ([DECODE + " --set beam_sise=3"], "unknown option 'beam_sise'; did you mean 'beam_size'?"),
        ([AUGMENT + " --set beam_sise=3"], "unknown option 'beam_sise'; did you mean 'beam_size'?"),
        ([AUGMENT + " --max_ratio 0"], "--max_ratio must be at least 1, but is 0.0"),
        ([RESCORE + " --weight nan"], "--weight must be a number, but is nan"),
        ([RESCORE + " --weight inf"], "--weight must be a finite number, but is inf"),
    ],
)
def test_mistakes_that_are_known_at_the_start_are_told_then(fake, capfd, lines, said):
    for options in ((), ("--dry_run",)):
        assert plan("first\ttouch first", *(f"last\t{line}" for line in lines), options=options) == 1
        error = capfd.readouterr().err
        assert error.startswith("espnet-diverse plan: error: ") and "stage 'last': " in error and said in error
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
def test_missing_gpus_and_weights_are_refused_before_anything_runs(fake, capfd, option, said):
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


def test_an_estimate_needs_a_gpu_and_a_corpus_and_no_file(tiny_run, capsys):
    config = ["--config", "model/tiny", "--set=batch_type=unsorted", "--set=best_model_criterion=[[valid, acc, max]]"]
    given = ["--gpu", "h200", "--corpus", str(tiny_run.train_dir.parent)]
    assert run_command("plan", [*config, *given, "--set=max_epoch=3", "--attention", "softmax", "window"]) == 0
    out = capsys.readouterr().out
    assert "3 epochs" in out and "| softmax |" in out and "| window |" in out
    for words in ([], given[:2], given[2:]):
        assert run_command("plan", words) == 1
        assert "error: give FILE, the plan to run, or --gpu and --corpus, to estimate" in capsys.readouterr().err
    assert run_command("plan", ["plan.tsv", *given]) == 1
    assert "plan.tsv: a plan has no --gpu and --corpus; give FILE, or these two" in capsys.readouterr().err
