import argparse
import os
from dataclasses import fields
from pathlib import Path

import pytest

from espnet_diverse.bin.main import COMMANDS, command_parser, main
from espnet_diverse.bin.options import options
from espnet_diverse.bin.options.options import add_config, fragments
from espnet_diverse.bin.use import decode, translate
from espnet_diverse.cpu import linear_kernels
from espnet_diverse.cpu.machine import KERNELS_VARIABLE
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.errors import ConfigError

SEARCHING = ("decode", "transcribe", "translate", "augment")
READING = (*SEARCHING, "perplexity", "classify", "analyse", "figure", "export", "pack", "prune", "adopt")
READING += ("average", "demo", "rescore")
OTHERS = {"decode": ["--data_dir", "d", "--output_dir", "o"], "transcribe": [], "translate": []}
OTHERS |= dict.fromkeys(("perplexity", "classify", "analyse", "figure"), OTHERS["decode"])
OTHERS |= {"augment": ["back", *OTHERS["decode"]], "export": ["onnx", "--output", "o"], "pack": ["--output", "o"]}
OTHERS |= {"rescore": ["--decode_dir", "d", "--output_dir", "o"], "adopt": ["--output_dir", "o"]}
OTHERS |= {"prune": ["--output_dir", "o"], "average": [], "demo": []}


def parse(command, *arguments):
    _, parser = command_parser(command)
    return parser.parse_intermixed_args([*OTHERS[command], *map(str, arguments)])


@pytest.mark.parametrize("command", SEARCHING)
def test_every_search_option_has_the_name_and_the_default_of_its_field(command, capsys):
    args = parse(command, "m")
    defaults = translate._DEFAULTS if command == "translate" else {}
    assert options.search_options(args, **defaults) == SearchOptions(**defaults)
    assert set(defaults) <= {"batch_size"}
    _, parser = command_parser(command)
    actions = {action.dest: action for action in parser._actions}
    for option in fields(SearchOptions):
        action = actions[option.name]
        assert action.option_strings == [f"--{option.name}"] and action.default is None
        rule = option.metadata["rule"]
        shown = defaults.get(option.name, rule.shown or option.default)
        assert action.help == f"{rule.help} (default: {shown})"


@pytest.mark.parametrize("command", SEARCHING)
@pytest.mark.parametrize(
    ("name", "value"),
    [("beam_size", 5), ("ctc_weight", 0.25), ("nbest", 2), ("maxlenratio", -3.0), ("length_penalty", 1.0)],
)
def test_the_three_ways_to_give_a_search_option_are_one(command, name, value, tmp_path):
    (tmp_path / "search.yaml").write_text(f"{name}: {value}\n")
    ways = [f"--{name}", value], ["--set", f"{name}={value}"], ["--config", tmp_path / "search.yaml"]
    found = [options.search_options(parse(command, "m", *way)) for way in ways]
    assert found == [SearchOptions(**{name: value})] * 3


def test_the_command_line_comes_before_a_file_and_does_not_contradict_itself(tmp_path):
    (tmp_path / "search.yaml").write_text("beam_size: 7\nnbest: 3\n")
    file = ("m", "--config", tmp_path / "search.yaml")
    assert options.search_options(parse("decode", *file, "--beam_size", 5)) == SearchOptions(beam_size=5, nbest=3)
    twice = parse("decode", *file, "--beam_size", 5, "--set", "beam_size=5")
    assert options.search_options(twice) == SearchOptions(beam_size=5, nbest=3)
    with pytest.raises(ConfigError, match="--beam_size 5 and --set beam_size=3 contradict each other; give one"):
        options.search_options(parse("decode", *file, "--beam_size", 5, "--set", "beam_size=3"))
    with pytest.raises(ConfigError, match="--set beam=3: unknown option 'beam'; did you mean 'beam_size'"):
        options.search_options(parse("translate", "m", "--set", "beam=3"))


def test_options_of_sampling_need_sampling(tmp_path, capsys):
    sampling = parse("decode", "m", "--search", "sampling", "--top_k", 5, "--seed", 1)
    assert options.search_options(sampling) == SearchOptions(search="sampling", top_k=5, seed=1)
    with pytest.raises(ConfigError, match="--top_k 5: top_k is for --search sampling; add that, or leave it out"):
        options.search_options(parse("decode", "m", "--top_k", 5))
    with pytest.raises(ConfigError, match="--set temperature=2: temperature is for --search sampling; add that"):
        options.search_options(parse("decode", "m", "--set", "temperature=2"))
    (tmp_path / "search.yaml").write_text("beam_size: 5\nseed: 1\n")
    with pytest.raises(ConfigError, match="search.yaml:2: seed is for --search sampling; add that, or leave it out"):
        options.search_options(parse("decode", "m", "--config", tmp_path / "search.yaml"))


def test_a_wrong_value_is_told_with_its_origin(tmp_path):
    (tmp_path / "search.yaml").write_text("nbest: 2\nbeam_size: 2.5\n")
    said = "search.yaml:2: beam_size must be a whole number, but is 2.5"
    with pytest.raises(ConfigError, match=said):
        options.search_options(parse("decode", "m", "--config", tmp_path / "search.yaml"))
    with pytest.raises(ConfigError, match="^--beam_size 0: beam_size must be at least 1 .* but is 0"):
        options.search_options(parse("decode", "m", "--beam_size", 0))
    with pytest.raises(ConfigError, match="^--penalty nan: penalty must be a number, but is nan"):
        options.search_options(parse("decode", "m", "--penalty", "nan"))
    with pytest.raises(ConfigError, match="^--set ctc_weight=abc: ctc_weight must be a number, but is 'abc'"):
        options.search_options(parse("decode", "m", "--set", "ctc_weight=abc"))
    with pytest.raises(ConfigError, match="^--length_penalty 1.0: length_penalty 1.0 cannot be combined"):
        options.search_options(parse("decode", "m", "--length_penalty", 1, "--search", "greedy"))


@pytest.mark.parametrize(
    ("command", "searches"),
    [
        ("decode", ("batched", "greedy", "sampling", "espnet")),
        ("transcribe", ("batched", "greedy", "sampling")),
        ("translate", ("batched", "sampling")),
    ],
)
def test_a_command_offers_the_searches_that_it_has(command, searches):
    _, parser = command_parser(command)
    (action,) = (action for action in parser._actions if action.dest == "search")
    assert action.choices == searches


@pytest.mark.parametrize("command", ["transcribe", "demo"])
def test_segmentation_has_choices_and_a_group(command):
    _, parser = command_parser(command)
    (group,) = (group for group in parser._action_groups if group.title == "segmentation")
    action, *others = group._group_actions
    assert action.dest == "vad" and action.choices == ("auto", "silero", "energy", "none", "whisper")
    of_transcribe = ["max_seconds", "min_silence_seconds", "padding_seconds", "no_segmentation"]
    assert [other.dest for other in others] == (of_transcribe if command == "transcribe" else [])


@pytest.mark.parametrize("command", READING)
def test_the_model_is_a_positional_argument(command, capsys):
    assert parse(command, "exp/a").model_dir == Path("exp/a")
    with pytest.raises(SystemExit, match="1"):
        parse(command)
    assert "the following arguments are required: MODEL" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["transcribe", "translate"])
def test_files_follow_the_model(command):
    args = parse(command, "exp/a", "./b", "--nbest", 2, "-")
    assert (args.model_dir, args.sources) == (Path("exp/a"), ["./b", "-"])


def test_no_other_command_reads_a_model():
    actions = {name: {action.dest for action in command_parser(name)[1]._actions} for name in COMMANDS}
    found = {name for name, there in actions.items() if "model_dir" in there}
    assert found == {*READING, "align", "fine-tune", "latent"}


@pytest.mark.parametrize("command", ["decode", "transcribe", "translate", "perplexity"])
def test_a_device_that_is_not_there_is_refused(command, tmp_path, capsys):
    for name in ("config.yaml", "valid.acc.ave.pth"):
        (tmp_path / name).write_text("task: asr\n")
    arguments = ["--data_dir", str(tmp_path), "--output_dir", str(tmp_path / "out")]
    if command in ("transcribe", "translate"):
        arguments = ["a.wav"] if command == "transcribe" else []
    assert main([command, str(tmp_path), *arguments, "--device", "cuda:99"]) == 1
    assert "error: device 'cuda:99' is not possible on this machine; possible: cpu" in capsys.readouterr().err


def test_the_model_file_is_a_name_in_the_run_or_a_path_or_left_to_the_task(tmp_path):
    for name in ("9epoch.pth", "valid.acc.ave.safetensors", "valid.loss.ave.pth"):
        (tmp_path / name).touch()
    parser = argparse.ArgumentParser()
    options.add_model(parser)

    def read(*arguments):
        first, *others = options.model_inputs(parser.parse_args([str(tmp_path), *arguments]))
        assert first == tmp_path / "config.yaml"
        return others

    assert read("--model_file", "9epoch.pth") == [tmp_path / "9epoch.pth"]
    assert read("--model_file", "else/where.pth") == [Path("else/where.pth")]
    assert read() == [tmp_path / "valid.acc.ave.safetensors"]
    (tmp_path / "config.yaml").write_text("task: lm\n")
    assert read() == [tmp_path / "valid.loss.ave.pth"]


def test_the_weights_of_a_language_model_are_among_the_files(tmp_path):
    def read(*arguments):
        return options.fusion_inputs(parse("decode", "m", *arguments))

    for name in ("config.yaml", "valid.loss.ave.pth", "3epoch.pth"):
        (tmp_path / name).touch()
    assert read("--lm", tmp_path) == [tmp_path / "config.yaml", tmp_path / "valid.loss.ave.pth"]
    assert read("--lm", tmp_path, "--lm_file", "3epoch.pth")[1:] == [tmp_path / "3epoch.pth"]
    assert read("--lm", "lm.zip", "--hotwords", "words") == [Path("lm.zip"), Path("words")]


def test_fragments_of_several_options_are_merged_in_order():
    parser = argparse.ArgumentParser()
    add_config(parser)
    assert fragments(parser.parse_args(["--config", "a,b", "--config", "c"])) == ["a", "b", "c"]
    assert fragments(parser.parse_args(["--config", "a"])) == ["a"]


def test_commands_that_run_a_model_have_kernels():
    with_device, with_kernels = (
        {name for name in COMMANDS if option in command_parser(name)[1]._option_string_actions}
        for option in ("--device", "--kernels")
    )
    assert with_kernels == with_device | {"train"} and len(with_kernels) > 10


@pytest.mark.parametrize("asked", ["onednn", "mkl", None])
def test_kernels_go_before_the_environment_and_end_with_the_command(tiny_run, tmp_path, monkeypatch, asked):
    of_user = "mkl" if asked == "onednn" else "onednn"
    monkeypatch.setenv(KERNELS_VARIABLE, of_user)
    seen, run = [], decode.run

    def watched(args):
        code = run(args)
        seen.append((os.environ[KERNELS_VARIABLE], set(linear_kernels.choice().values())))
        return code

    monkeypatch.setattr(decode, "run", watched)
    options = ["--data_dir", str(tiny_run.test_dir), "--output_dir", str(tmp_path / "out")]
    assert main(["decode", str(tiny_run.model_dir), *options, *(["--kernels", asked] if asked else [])]) == 0
    used = asked or of_user
    assert seen == [(used, {used})] and os.environ[KERNELS_VARIABLE] == of_user


def test_another_library_of_kernels_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["train", "--kernels", "blas"])
    assert "argument --kernels: invalid choice: 'blas'" in capsys.readouterr().err
