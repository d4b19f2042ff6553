"""The page docs/first_hour.md, followed from the tables of one's own recordings to the comparison of two runs."""

import shlex

import pytest
import soundfile
from conftest import write_data_dir
from references.markdown import ROOT, blocks, lines, run_here
from references.speech import write_speech

pytestmark = pytest.mark.recipes

PAGE = ROOT / "docs" / "first_hour.md"
COMMANDS = [line for line in lines(PAGE) if line.startswith("espnet-diverse ")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with tables and recordings of 8 kHz, as the page begins with them."""
    root = tmp_path_factory.mktemp("first_hour")
    for seed, (name, count) in enumerate((("train", 12), ("dev", 4), ("test", 3))):
        for path in write_data_dir(root / "mine" / name, count, seed).glob("*.wav"):
            samples, _ = soundfile.read(path)
            soundfile.write(path, samples, 8000)
    (root / "recordings").mkdir()
    write_speech(root / "talk.wav", "good morning to all of you")
    write_speech(root / "recordings" / "second.wav", "the train leaves at nine")
    (config,) = blocks(PAGE, "yaml")
    small = "".join(f"{net}_conf: {{num_blocks: 1}}\n" for net in ("encoder", "decoder"))
    (root / "mine.yaml").write_text(config.replace("max_epoch: 20", "max_epoch: 2") + small)
    return root


@pytest.mark.slow
def test_every_step_follows_from_the_one_before(folder):
    said = {}
    for line in COMMANDS:
        done = run_here(shlex.split(line), folder)
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        said[line.split()[1]] = done.stdout
    assert said["prepare"].startswith("train: 12 utterances")
    assert "| encoder self-attention |" in said["analyse"]
    assert [f"| {run} |" in said["compare"] for run in ("mine", "softmax")] == [True, True], said["compare"]
    written = ["exp/mine/decode/test/score.md", "transcripts/second.srt", "mine.zip", "exp/mine/analysis/analysis.html"]
    assert [name for name in written if not (folder / name).is_file()] == []


def test_the_page_names_every_command_that_a_first_model_takes():
    names = [line.split()[1] for line in COMMANDS]
    steps = [
        "prepare",
        "tokens",
        "stats",
        "train",
        "average",
        "decode",
        "score",
        "transcribe",
        "transcribe",
        "pack",
        "analyse",
    ]
    assert names == [*steps, "train", "average", "decode", "score", "compare"]
