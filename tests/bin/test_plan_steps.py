"""Steps of a plan: what they read, and their exit codes."""

import sys
from pathlib import Path

import pytest

from espnet_diverse.bin.plan_steps import make_step
from espnet_diverse.errors import ConfigError
from espnet_diverse.runs.model_files import INSIDE, weights_name
from espnet_diverse.stage_runs import run_stages


def test_a_plan_runs_a_stage_again_for_another_archive_under_the_same_name(tiny_run, tmp_path):
    (tmp_path / "model.zip").write_bytes(b"first")
    (tmp_path / "out").mkdir()
    arguments = ["--data_dir", str(tiny_run.test_dir), "--output_dir", str(tmp_path / "out")]
    step = make_step("look", ["espnet-diverse", "figure", str(tmp_path / "model.zip"), *arguments])
    step.record(tmp_path / "stamps").save(0)
    assert step.record(tmp_path / "stamps").reason() is None
    (tmp_path / "model.zip").write_bytes(b"second")
    assert step.record(tmp_path / "stamps").reason() == f"{tmp_path / 'model.zip'} changed"


def test_a_plan_runs_a_stage_again_for_other_weights_under_the_same_name(tmp_path):
    model, lm, out = (tmp_path / name for name in ("exp", "lm", "out"))
    for folder, task in ((model, "asr"), (lm, "lm"), (model / INSIDE, "lm")):
        folder.mkdir()
        (folder / "config.yaml").write_text(f"task: {task}\n")
        (folder / weights_name({"task": task})).write_text("first")
    out.mkdir()
    for name in ("text", "score", "failures.json", "decode.json", "nbest.jsonl"):
        (out / name).touch()
    decode = ["decode", str(model), "--data_dir", "d", "--output_dir", str(out), "--lm", str(lm)]
    rescore = ["rescore", str(lm), "--decode_dir", "d", "--output_dir", str(out)]
    pack = ["pack", str(model), "--output", str(out / "text")]
    for argv, read in ((decode, [model, lm, model / INSIDE]), (rescore, [lm]), (pack, [model, model / INSIDE])):
        step = make_step("look", ["espnet-diverse", *argv])
        for folder in read:
            step.record(tmp_path / "stamps").save(0)
            assert step.record(tmp_path / "stamps").reason() is None
            weights = next(folder.glob("*.pth"))
            weights.write_text(f"{weights.read_text()} and more")
            assert step.record(tmp_path / "stamps").reason() == f"{weights} changed"


COPY = ["espnet-diverse", "fake", "--source", "a", "--target", "b"]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["espnet-diverse"], "^espnet-diverse: no such command; known: prepare"),
        (["espnet-diverse", "fakes", "a b"], "^espnet-diverse fakes 'a b': no such command; known: prepare"),
        (COPY[:4], "^espnet-diverse fake: the following arguments are required: --target; espnet-diverse fake"),
        ([*COPY, "--nj", "x"], "^espnet-diverse fake: argument --nj: invalid int value: 'x'; espnet-diverse fake"),
    ],
)
def test_a_command_that_cannot_run_is_refused_when_the_step_is_made(fake, argv, said):
    with pytest.raises(ConfigError, match=said):
        make_step("copy", argv)
    assert fake.calls == 0


def test_a_stage_that_was_done_alone_is_not_done_again_on_a_cluster(tiny_run, tmp_path):
    argv = ["espnet-diverse", "decode", str(tiny_run.model_dir), "--data_dir", str(tiny_run.test_dir)]
    argv += ["--output_dir", str(tmp_path)]
    alone, spread = (make_step("decode", [*argv, *more]).record(tmp_path) for more in ((), ("--cluster", "slurm")))
    alone.save(0)
    assert spread.reason() == alone.reason() == f"{tmp_path / 'decode.json'} is missing"


@pytest.mark.parametrize(("stop", "code"), [(0, 0), (None, 0), (2, 1), (3, 1)])
def test_a_library_that_exits_is_a_failure_unless_with_0(fake, stop, code):
    fake.action = lambda: sys.exit(stop)
    assert run_stages([make_step("copy", COPY)], Path(".stamps")) == code


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 3", 3), ("exit 2", 1), ("kill -9 $$", 137)])
def test_exit_codes_of_other_programs(script, code):
    assert make_step("x", ["bash", "-c", script]).run() == code


def test_nothing_is_handed_to_a_shell(fake):
    assert make_step("x", ["touch", "$(touch trap)", ";", ">", "out"]).run() == 0
    assert {path.name for path in Path().iterdir()} == {"a", "$(touch trap)", ";", ">", "out"}


def test_a_program_that_is_not_there_is_named():
    with pytest.raises(ConfigError, match="^no_such_program cannot be run: No such file or directory; check the path$"):
        make_step("x", ["no_such_program", "1"]).run()
