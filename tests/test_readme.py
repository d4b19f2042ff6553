"""Statements of the README: every command in it is run, every block of code works."""

import json
import re
import shlex
import sys

import pytest
import yaml
from references.markdown import ROOT, blocks, lines, printed, recipe_lines, run, run_here
from references.recipes import planned
from references.speech import write_speech
from references.whisper import write_whisper

README = ROOT / "README.md"
TEXT = README.read_text(encoding="utf-8")
COMMANDS = [line for line in lines(README) if line.startswith("espnet-diverse ")]


def test_it_fits_two_screens():
    assert len(TEXT.splitlines()) <= 110


@pytest.mark.parametrize("line", [line for line in lines(README) if line.startswith("make ")])
def test_make_targets_exist(line):
    """They set up an environment and run for minutes, this test among them; here make only plans them."""
    done = run(["make", "-n", *line.split()[1:]])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("folder", "line"), recipe_lines(README))
def test_recipe_commands_plan(folder, line, tmp_path):
    """The recipe itself runs from end to end in tests/recipes/test_end_to_end.py."""
    assert "[train] espnet-diverse train" in planned(folder, line, tmp_path)


def run_line(line, places, cwd):
    done = run_here([str(places.get(word, word)) for word in shlex.split(line)], cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def commands(name):
    return [line for line in COMMANDS if line.startswith(f"espnet-diverse {name} ")]


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """A folder with a recording and a folder of recordings, as the README names them; someone speaks in each."""
    folder = tmp_path_factory.mktemp("recordings")
    (folder / "recordings").mkdir()
    write_whisper(folder / "whisper")
    write_speech(folder / "talk.wav", "good morning to all of you")
    write_speech(folder / "recordings" / "second.wav", "the train leaves at nine")
    return folder


@pytest.mark.parametrize("line", commands("transcribe"))
def test_transcribe_runs(line, tiny_run, recordings, monkeypatch):
    monkeypatch.setenv("ESPNET_DIVERSE_CACHE", str(recordings / "cache"))
    if "hf:" in line:
        line += " --maxlenratio -6"  # a model of random weights does not find the end
    models = {"exp/mine": tiny_run.model_dir, "hf:openai/whisper-base": recordings / "whisper"}
    said = run_line(line, models, recordings)
    if "--output_dir" in line:
        names = {path.name for path in (recordings / "transcripts").iterdir()}
        assert {"talk.json", "talk.srt", "second.txt"} <= names
        written = json.loads((recordings / "transcripts" / "talk.json").read_text())
        assert [segment["end"] for segment in written["segments"]] == [written["duration"]]
    else:
        assert said.count("\n") <= 1  # an untrained model has nothing to say


def test_the_quick_start_transcribes(recordings, monkeypatch):
    monkeypatch.setenv("ESPNET_DIVERSE_CACHE", str(recordings / "cache"))
    (block,) = blocks(README, "python")
    assert len(block.split("\n\n")) == 2  # two lines, with an empty line after the import
    line = commands("transcribe")[0] + " --maxlenratio -6"
    block = block.replace('hf:openai/whisper-base"', 'whisper", options={"maxlenratio": -6.0}')
    done = run([sys.executable, "-c", block], recordings)
    assert done.returncode == 0, done.stderr
    assert printed(done) == run_line(line, {"hf:openai/whisper-base": "whisper"}, recordings).strip()


@pytest.mark.parametrize("line", commands("translate"))
def test_translate_runs(line, tiny_translation, tmp_path):
    assert run_line(line, {"exp/mt": tiny_translation.model_dir}, tmp_path).count("\n") == 1


def test_every_command_line_is_run():
    assert sorted(COMMANDS) == sorted(line for name in ("transcribe", "translate") for line in commands(name))


def test_no_command_is_left_out():
    known = ("make ", "./run.sh", "cd egs/aishell/asr1", "espnet-diverse ")
    assert [line for line in lines(README) if not line.startswith(known)] == []


def test_the_yaml_builds():
    from espnet_diverse.nets import DECODERS, ENCODERS

    (block,) = blocks(README, "yaml")
    config = yaml.safe_load(block)
    encoder = ENCODERS[config["encoder"]](80, **config["encoder_conf"])
    assert len(encoder.encoders[0].self_attn.patterns.groups()) == 3
    (other,) = re.findall(r"# or ({core: .*})", block)
    for options in (config["decoder_conf"], config["decoder_conf"] | {"attention": yaml.safe_load(other)}):
        decoder = DECODERS[config["decoder"]](10, encoder.output_size(), **options)
        for part, name in (("self_attn", "attention"), ("src_attn", "cross_attention")):
            assert getattr(decoder.decoders[0], part).core.name == options[name]["core"]


def test_the_first_page_of_the_site_has_the_same_configuration():
    assert blocks(ROOT / "docs" / "index.md", "yaml") == blocks(README, "yaml")


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", TEXT):
        assert (ROOT / target).exists(), target


def test_the_number_of_recipes_is_right():
    (count,) = re.findall(r"There are \[(\d+) recipes\]", TEXT)
    assert int(count) == len(list((ROOT / "egs").glob("*/*/run.sh")))
