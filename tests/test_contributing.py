"""The worked examples of CONTRIBUTING.md work."""

import argparse
import re
import shlex
import shutil

import pytest
from references.markdown import ROOT, blocks, lines, run
from test_docs import load

from espnet_diverse.errors import DataError

PAGE = ROOT / "CONTRIBUTING.md"


def module(word, path):
    """The block of Python that has a word, as a module."""
    (block,) = [block for block in blocks(PAGE, "python") if word in block]
    return load(block, path)


def test_files_to_change_exist_and_new_ones_do_not():
    rows = re.findall(r"^\| `([^|]+)` \| (.+?) \|$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    files = [
        (name, what.startswith("new"))
        for names, what in rows
        for name in re.findall(r"[\w./]+/?", names)
        if "/" in name or "." in name
    ]
    assert len(files) > 20
    for name, new in files:
        assert (ROOT / name).exists() != (new or name == "egs/librispeech/asr1/"), name


def test_files_of_the_index_exist():
    section = PAGE.read_text(encoding="utf-8").split("## Where is ...?")[1].split("\n## ")[0]
    files = re.findall(r"^\| [^|]+ \| `([\w/]+\.py)` \|$", section, flags=re.MULTILINE)
    assert len(set(files)) == 20
    assert [file for file in files if not (ROOT / "espnet_diverse" / file).is_file()] == []


def test_the_corpus_reads_a_tree(tmp_path):
    corpus = module("LibriSpeech", tmp_path / "librispeech.py")
    for folder in corpus.FOLDERS.values():
        chapter = tmp_path / folder / "19" / "198"
        chapter.mkdir(parents=True)
        (chapter / "19-198.trans.txt").write_text("19-198-0000 NORTHANGER ABBEY\n")
        (chapter / "19-198-0000.flac").touch()
    sets = corpus.prepare(tmp_path)
    assert tuple(sets) == corpus.SETS
    assert sets["dev"].text == {"19-198-0000": "northanger abbey"}
    assert sets["dev"].utt2spk == {"19-198-0000": "19"}
    (chapter / "19-198-0000.flac").unlink()
    with pytest.raises(DataError, match="utterance 19-198-0000 has no 19-198-0000.flac"):
        corpus.prepare(tmp_path)
    shutil.rmtree(tmp_path / "dev-clean")
    with pytest.raises(DataError, match="give the folder that holds train-clean-100"):
        corpus.prepare(tmp_path)


def test_the_recipe_plans(tmp_path):
    """In a copy of what recipes share; aishell, which is a corpus that is known, stands for that of the example."""
    root = tmp_path / "house"
    shutil.copytree(ROOT / "egs" / "common", root / "egs" / "common", symlinks=True)
    shutil.copytree(ROOT / "conf", root / "conf")
    folder = root
    for line in (line.replace("librispeech", "aishell") for line in lines(PAGE)):
        if line.startswith("cd "):
            folder = folder / line.removeprefix("cd ")
        elif line.startswith(("mkdir ", "ln ")):
            assert run(shlex.split(line), folder).returncode == 0
    (block,) = blocks(PAGE, "bash")
    (folder / "run.sh").write_text(block)
    (folder / "conf" / "train.yaml").write_text("max_epoch: 1\n")
    assert all(path.exists() for path in folder.rglob("*"))  # no link leads nowhere
    done = run(["bash", "run.sh", "--corpus", "synthetic", "--dry_run"], folder)
    assert done.returncode == 0, done.stderr
    assert "espnet-diverse prepare aishell" in done.stdout
    assert "[train] espnet-diverse train" in done.stdout


def test_the_command_counts(tmp_path, capsys):
    command = module("Count the utterances", tmp_path / "count.py")
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    for table, line in (("wav.scp", "a a.wav"), ("text", "a x"), ("utt2spk", "a s")):
        (tmp_path / table).write_text(f"{line}\n")
    args = parser.parse_args([str(tmp_path)])
    assert command.inputs(args) == [tmp_path]
    assert command.run(args) == 0
    assert capsys.readouterr().out == "1\n"
