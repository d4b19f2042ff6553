"""The page docs/whisper.md: every command and its block of Python, with a small model of random weights."""

import shlex
import shutil
import sys

import pytest
from conftest import write_data_dir
from references.markdown import ROOT, blocks, lines, printed, run, run_here
from references.openai_whisper import write_espnets
from references.speech import write_speech
from references.whisper import write_whisper

from espnet_diverse.serve.application import Server

PAGE = ROOT / "docs" / "whisper.md"
COMMANDS = [line for line in lines(PAGE) if line.startswith("espnet-diverse ")]
MOST = ("--maxlenratio", "-6")  # a model of random weights does not find the end


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files that the page names."""
    root = tmp_path_factory.mktemp("whisper")
    write_whisper(root / "whisper-base")
    write_espnets(root / "exp" / "asr_whisper")
    shutil.copytree(root / "whisper-base", root / "downloaded")
    for number, name in enumerate(("test", "train", "dev")):
        write_data_dir(root / "data" / name, 2, 3 + number)
        utterances = (line.split()[0] for line in (root / "data" / name / "text").read_text().splitlines())
        (root / "data" / name / "utt2lang").write_text("".join(f"{each} de\n" for each in utterances))
    (root / "recordings").mkdir()
    write_speech(root / "talk.wav", "good morning to all of you")
    write_speech(root / "recordings" / "second.wav", "the train leaves at nine")
    (root / "names.txt").write_text("Guten Tag\n")
    return root


@pytest.mark.recipes
def test_every_command_runs(folder, monkeypatch):
    monkeypatch.setenv("ESPNET_DIVERSE_CACHE", str(folder / "cache"))
    monkeypatch.setattr(Server, "run", lambda self, app: None)  # as if it had been stopped
    assert len(COMMANDS) == len(lines(PAGE))
    for line in COMMANDS:
        words = ["downloaded" if word.startswith("hf:") else word for word in shlex.split(line)]
        words += MOST if words[1] in ("transcribe", "decode") else ()
        words += ("--set", "max_epoch=1") if words[1] == "fine-tune" else ()
        words += ("--port", "0") if words[1] in ("serve", "demo") else ()
        done = run_here(words, folder)
        assert done.returncode == 0, f"{line}\n{done.stderr}"
    written = (
        "transcripts/second.srt",
        "exp/base/score.md",
        "exp/full/train.yaml",
        "exp/heads/analysis.html",
        "sdma.zip",
    )
    assert [name for name in written if not (folder / name).is_file()] == []


def test_the_python_runs(folder, monkeypatch):
    monkeypatch.setenv("ESPNET_DIVERSE_CACHE", str(folder / "cache"))
    (block,) = blocks(PAGE, "python")
    done = run([sys.executable, "-c", block.replace('"beam_size": 3', '"beam_size": 3, "maxlenratio": -6')], folder)
    assert done.returncode == 0, done.stderr
    said = printed(done).splitlines()
    assert len(said) == 4 and "'tgtlang': 'en'" in said[1]
