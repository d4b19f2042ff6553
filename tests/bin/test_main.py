"""The command line as a whole: help, errors in one line, exit codes."""

import argparse
import os
import re
import subprocess
import sys

import pytest

from espnet_diverse.bin.main import COMMANDS, command_parser, main, run_command
from espnet_diverse.errors import DataError, InterruptedRunError

COPY = ["--source", "a", "--target", "b"]
HEAVY = {
    *("torch", "numpy", "espnet", "espnet2", "sacrebleu", "matplotlib", "soundfile", "soxr", "onnxruntime", "yaml"),
    *("starlette", "uvicorn", "http.server"),
}


def test_help_answers_at_once():
    code = "import sys; from espnet_diverse.bin.main import COMMANDS, command_parser, main\n"
    code += "for name in COMMANDS: command_parser(name)[1].format_help()\n"
    code += f"try: main(['transcribe', '--help'])\nfinally: print(*{HEAVY} & sys.modules.keys(), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "" and done.stdout.startswith("usage: espnet-diverse transcribe [-h]")
    assert "--debug" in done.stdout and "MODEL [FILE|DIR|- ...]" in done.stdout
    assert "{auto,silero,energy,none,whisper}" in done.stdout


def test_every_command_is_a_module_with_help(capsys):
    for name, (_, text) in COMMANDS.items():
        module, _ = command_parser(name)
        assert callable(module.run) and text
    with pytest.raises(SystemExit) as stopped:
        main(["no_such_command"])
    said = "espnet-diverse: error: unknown command 'no_such_command'; known: prepare validate combine "
    assert stopped.value.code == 1 and capsys.readouterr().err.startswith(said)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_names_options_that_the_command_has(command):
    _, parser = command_parser(command)
    shown = re.sub(r"`(train|decode) [^`]*`", "", f"{parser.description} {parser.format_help()}")
    assert set(re.findall(r"--[a-z_]+\b", shown)) - {"--int"} <= set(parser._option_string_actions)


def test_without_a_command_the_commands_are_listed(capsys):
    assert main([]) == 1
    out = capsys.readouterr().out
    assert all(f"  {name}" in out for name in COMMANDS)


def test_the_module_is_the_command_too():
    done = subprocess.run([sys.executable, "-m", "espnet_diverse.bin.main", "tokens"], capture_output=True, text=True)
    assert done.returncode == 1 and "--output_dir" in done.stderr


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["train", "--no_such"], "espnet-diverse train: error: the following arguments are required: "),
        (["validate", "a", "--no_such"], "espnet-diverse validate: error: unrecognized arguments: --no_such"),
        (
            ["validate", "a", "--josn=x"],
            "espnet-diverse validate: error: unrecognized arguments: --josn=x; --josn: did you mean --json?",
        ),
        (["average", "a", "b c", "--numbr", "3"], "--numbr 3; --numbr: did you mean --number?"),
        (["train", "--confg", "x"], "--output_dir; --confg: did you mean --config?"),
        (["transcibe"], "espnet-diverse: error: unknown command 'transcibe'; did you mean 'transcribe'?"),
        (["validate", "a", "--m", "3"], "error: ambiguous option: --m could match --min_seconds, --max_seconds"),
        (["validate", "a", "--nj", "some"], "espnet-diverse validate: error: argument --nj: invalid int value: 'some'"),
    ],
)
def test_an_error_of_usage_is_no_skipped_item(capsys, argv, said):
    with pytest.raises(SystemExit) as stopped:
        main(argv)
    printed, shown = capsys.readouterr()
    assert stopped.value.code == 1 and printed == ""
    assert said in shown and shown.count("\n") == 1


def test_a_similar_option_is_named_where_argparse_parses_mixed_arguments_by_itself(capsys, monkeypatch):
    """Python 3.12.8 and 3.13.1 no longer call `parse_known_args` for them."""
    plain = argparse.ArgumentParser.parse_known_args
    monkeypatch.setattr(argparse.ArgumentParser, "parse_known_intermixed_args", lambda *given: plain(*given))
    test_an_error_of_usage_is_no_skipped_item(capsys, ["average", "a", "--numbr=3"], "--numbr: did you mean --number?")


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (DataError("a.wav is empty; leave it out"), 1, "error: a.wav is empty; leave it out"),
        (FileNotFoundError(2, "No such file or directory", "a.wav"), 1, "error: a.wav: No such file or directory"),
        (OSError("disk full"), 1, "error: disk full"),
        (BrokenPipeError(32, "Broken pipe"), 1, "error: Broken pipe"),  # of a program, where stdout is no pipe
        (InterruptedRunError("SIGTERM: saved"), 75, "SIGTERM: saved"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(fake, capsys, error, code, said):
    def fail():
        raise error

    fake.action = fail
    assert main(["fake", *COPY]) == code
    assert capsys.readouterr().err == f"espnet-diverse fake: {said}\n"
    with pytest.raises(type(error)):
        main(["fake", *COPY, "--debug"])


@pytest.mark.parametrize(("name", "more"), [("train", "; run the same command again to continue"), ("score", "")])
def test_only_commands_that_continue_say_so_when_they_are_interrupted(fake, capsys, monkeypatch, name, more):
    def interrupt():
        raise KeyboardInterrupt

    fake.action = interrupt
    monkeypatch.setitem(sys.modules, f"espnet_diverse.bin.{COMMANDS[name][0]}", fake)
    assert run_command(name, COPY) == 130
    assert capsys.readouterr().err == f"espnet-diverse {name}: interrupted{more}\n"


def test_an_interrupt_before_the_command_begins_is_one_line(fake, capsys, monkeypatch):
    def interrupt(parser):
        raise KeyboardInterrupt

    monkeypatch.setattr(fake, "add_arguments", interrupt)
    assert main(["fake", *COPY]) == 130
    assert capsys.readouterr().err == "espnet-diverse fake: interrupted\n"
    with pytest.raises(KeyboardInterrupt):
        main(["fake", *COPY, "--debug"])


def test_errors_of_the_program_keep_their_traceback(fake):
    fake.action = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        run_command("fake", COPY)


def test_the_exit_code_matches_the_command(fake):
    fake.code = 2
    assert main(["fake", *COPY]) == 2


@pytest.mark.parametrize(
    ("arguments", "code"), [(["--help"], {0, 141}), (["train", "--list_options", "model/tiny"], {141})]
)
def test_output_that_nobody_reads_any_more_is_no_error(arguments, code):
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "espnet_diverse", *arguments]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert done.stderr == "" and done.returncode in code


def test_only_a_pipe_without_a_reader_ends_a_command_quietly(fake, monkeypatch, capsys):
    def fail():
        raise BrokenPipeError(32, "Broken pipe")

    reader, writer = os.pipe()
    fake.action = fail
    with os.fdopen(writer, "w") as pipe:
        monkeypatch.setattr("sys.stdout", pipe)
        assert main(["fake", *COPY]) == 1
        assert capsys.readouterr().err == "espnet-diverse fake: error: Broken pipe\n"
        os.close(reader)
        fake.action = lambda: print("unread", flush=True)
        assert main(["fake", *COPY]) == 141 and capsys.readouterr().err == ""
        print("unread", flush=True)  # as Python does at its end


def test_closed_standard_output_is_no_error(fake, monkeypatch):
    monkeypatch.setattr("sys.stdout", None)  # as after `>&-`
    fake.action = lambda: print("unread", flush=True)
    assert main(["fake", *COPY]) == 0
    sys.stdout.close()


def test_output_is_utf8_in_every_locale(tmp_path):
    for name, text in {"text": "a 好", "utt2lang": "a 中文"}.items():
        (tmp_path / name).write_text(f"{text}\n", "utf-8")
    command = [sys.executable, "-m", "espnet_diverse", "score", "--metric", "cer", "--by", "utt2lang"]
    files = ["--reference", tmp_path / "text", "--hypothesis", tmp_path / "text", "--output_dir", tmp_path / "out"]
    done = subprocess.run([*command, *files], capture_output=True, env=os.environ | {"PYTHONIOENCODING": "latin-1"})
    assert done.returncode == 0 and "中文" in done.stdout.decode("utf-8")


def test_closed_standard_input_is_an_error_of_one_line(tiny_run, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", None)  # as after `<&-`
    assert main(["transcribe", str(tiny_run.model_dir), "-"]) == 1
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("espnet-diverse transcribe: error: -: the file is empty")
