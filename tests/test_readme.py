"""What the README says is so: every command in it is run, every block of code works."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from espnet_diverse.audio.writing import write_audio
from espnet_diverse.bin.main import COMMANDS
from espnet_diverse.corpora.synthetic.speech_synthesis import Line, Voice, synthesize

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def lines():
    """Each command of the README, without its comment."""
    return [line.split("#")[0].strip() for block in blocks("sh") for line in block.splitlines() if line.strip()]


def shell(command, cwd=ROOT):
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, shell=False)


@pytest.mark.parametrize("line", [line for line in lines() if line.startswith("make ")])
def test_make_targets_exist(line):
    """They set up an environment and run for minutes, this test among them; here make only plans them."""
    done = shell(["make", "-n", *line.split()[1:]])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("line", [line for line in lines() if line.startswith("./run.sh")])
def test_recipe_commands_plan(line, tmp_path):
    """The recipe itself runs from end to end in tests/recipes/test_end_to_end.py."""
    words = [str(tmp_path) if word.startswith("/path/to") else word for word in line.split()]
    done = shell([*words, *([] if "--dry_run" in words else ["--dry_run"])], cwd=ROOT / "egs/aishell/asr1")
    assert done.returncode == 0, done.stderr
    assert "[train] espnet-diverse train" in done.stdout


def run_line(line, places, cwd):
    done = shell([str(places.get(word, word)) for word in shlex.split(line)], cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def commands(name):
    return [line for line in lines() if line.startswith(f"espnet-diverse {name} ")]


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """A folder with a recording and a folder of recordings, as the README names them; someone speaks in each."""
    folder = tmp_path_factory.mktemp("recordings")
    (folder / "recordings").mkdir()
    voice = Voice("m3", 160, 50)
    lines = [Line(text, "en", voice, 40.0, 0) for text in ("good morning to all of you", "the train leaves at nine")]
    for name, samples in zip(("talk.wav", "recordings/second.wav"), synthesize(lines, 1), strict=True):
        write_audio(folder / name, samples)
    return folder


@pytest.mark.parametrize("line", commands("analyse"))
def test_analyse_runs(line, tiny_run, tmp_path):
    analysis = tmp_path / "analysis"
    places = {"exp/sdma/analysis": analysis, "exp/sdma": tiny_run.model_dir, "data/test": tiny_run.test_dir}
    assert "| encoder self-attention |" in run_line(line, places, ROOT)
    assert (analysis / "analysis.html").exists()


@pytest.mark.parametrize("line", commands("transcribe"))
def test_transcribe_runs(line, tiny_run, recordings):
    said = run_line(line, {"exp/sdma": tiny_run.model_dir}, recordings)
    if "--output_dir" in line:
        names = {path.name for path in (recordings / "transcripts").iterdir()}
        assert {"talk.json", "talk.srt", "second.txt", "failures.json"} <= names
        written = json.loads((recordings / "transcripts" / "talk.json").read_text())
        assert [segment["end"] for segment in written["segments"]] == [written["duration"]]
    else:
        assert said.count("\n") <= 1  # an untrained model has nothing to say


def printed(done: subprocess.CompletedProcess) -> str:
    """What a script printed, without the line that ESPnet prints when it is imported."""
    return re.sub("Failed to import Flash Attention.*\n", "", done.stdout).strip()


def test_the_quick_start_transcribes(tiny_run, recordings):
    (block,) = [block for block in blocks("python") if "Recognizer" in block]
    assert len(block.split("\n\n")) == 2  # two lines, parted as imports are
    (recordings / "exp").mkdir()
    (recordings / "exp" / "sdma").symlink_to(tiny_run.model_dir)
    done = shell([sys.executable, "-c", block], recordings)
    assert done.returncode == 0, done.stderr
    assert printed(done) == run_line(commands("transcribe")[0], {}, recordings).strip()


@pytest.mark.parametrize("line", commands("translate"))
def test_translate_runs(line, tiny_translation, tmp_path):
    assert run_line(line, {"exp/mt": tiny_translation.model_dir}, tmp_path).count("\n") == 1


def test_every_command_line_is_run():
    run = [line for name in ("analyse", "transcribe", "translate") for line in commands(name)]
    assert sorted(run) == sorted(line for line in lines() if line.startswith("espnet-diverse "))


def test_no_command_is_left_out():
    known = ("make ", "./run.sh", "cd egs/aishell/asr1", "espnet-diverse ")
    assert [line for line in lines() if not line.startswith(known)] == []


def test_commands_named_are_the_commands_there_are():
    listed = re.search(r"`espnet-diverse ([a-z]+ \| [a-z| ]+)`", README).group(1).split(" | ")
    assert sorted(listed) == sorted(COMMANDS)


def test_the_yaml_builds():
    from espnet_diverse.nets import DECODERS, ENCODERS

    (block,) = blocks("yaml")
    config = yaml.safe_load(block)
    encoder = ENCODERS[config["encoder"]](80, **config["encoder_conf"])
    decoder = DECODERS[config["decoder"]](10, encoder.output_size(), **config["decoder_conf"])
    assert type(encoder.encoders[0].self_attn.core).__name__ == "SDMA"
    assert type(decoder.decoders[0].src_attn.core).__name__ == "SDMA"


def test_the_python_runs(tiny_run):
    (block,) = [block for block in blocks("python") if "speech2text" in block]
    block = block.replace('"exp/sdma/', f'"{tiny_run.model_dir}/')
    done = shell([sys.executable, "-c", block + "\nprint(type(speech2text.asr_model).__name__)"], cwd=ROOT / "tests")
    assert done.returncode == 0, done.stderr
    assert printed(done) == "DiverseASRModel"


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
