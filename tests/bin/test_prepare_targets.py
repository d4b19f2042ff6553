"""`espnet-diverse prepare` deletes nobody's files."""

import json
from pathlib import Path

import pytest
import soundfile
from references.data_fixtures import digests, tone

from espnet_diverse.bin.main import main
from espnet_diverse.data.kaldi import read_data_dir

SETS = ("train", "dev", "test")
TABLES = ("wav.scp", "text", "utt2spk")


def make_set(folder: Path, audio: Path, *others: str) -> None:
    """A Kaldi directory of one utterance, and other files."""
    folder.mkdir(parents=True)
    for table, value in zip(TABLES, (audio, "one", "s1"), strict=True):
        (folder / table).write_text(f"s1-{folder.name} {value}\n")
    for name in others:
        (folder / name).write_text("precious\n")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder with `a`, which has three Kaldi directories, and their audio."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "audio").mkdir()
    for number, name in enumerate(SETS):
        soundfile.write(tmp_path / "audio" / f"{name}.wav", tone(0.5 + number / 10), 16000)
        make_set(tmp_path / "a" / name, tmp_path / "audio" / f"{name}.wav", "feats.scp", "cmvn.scp")
    return tmp_path


def refused(capsys, what: str, *argv: str) -> None:
    """The command stops with this one line, which ends in "choose another path", and leaves every file as it is."""
    before = digests(Path())
    assert main(["prepare", *argv]) == 1
    assert capsys.readouterr().err == f"espnet-diverse prepare: error: {what} choose another path\n"
    assert digests(Path()) == before


def test_kaldi_directories_that_are_read(here, capsys):
    refused(capsys, "a/train: is the directory to read, a/train;", "kaldi", "a", "--output_dir", "a")
    one = ["kaldi", "a/test", "--sets", "test"]
    refused(capsys, "a/test: is the directory to read, a/test;", *one, "--output_dir", "a")
    (here / "b").symlink_to("a")
    refused(capsys, "b/train: is the directory to read, a/train;", "kaldi", "a", "--output_dir", "b")
    (here / "c").mkdir()
    (here / "c" / "dev").symlink_to(here / "a" / "test")
    again = ["kaldi", "a", "--set_names", "dev=test"]
    refused(capsys, "c/dev: is the directory to read, a/test;", *again, "--output_dir", "c")


def test_prepared_directories_may_be_read_but_not_replaced_by_themselves(capsys):
    assert main(["prepare", "kaldi", "a", "--output_dir", "b"]) == 0
    assert main(["prepare", "kaldi", "b", "--output_dir", "c"]) == 0
    capsys.readouterr()
    refused(capsys, "b/train: is the directory to read, b/train;", "kaldi", "b", "--output_dir", "b")


def test_a_table_in_the_directory_to_write(here, capsys):
    (here / "out" / "train").mkdir(parents=True)
    (here / "out" / "train" / "t.csv").write_text(f"audio,text\n{here}/audio/dev.wav,yes\n")
    what = "out/train: contains out/train/t.csv, which is read;"
    refused(capsys, what, "table", "out/train/t.csv", "--output_dir", "out")


@pytest.mark.parametrize("others", [(), ("feats.scp",)])
@pytest.mark.parametrize("name", ["train", "test"])
def test_directories_in_the_way(here, capsys, name, others):
    rows = "".join(f"audio/{each}.wav\tyes {each}\t{each}\n" for each in SETS)
    (here / "t.tsv").write_text(f"audio\ttext\tsplit\n{rows}")
    make_set(here / "precious" / name, here / "audio" / "dev.wav", *others)
    shown = "exists, and nothing shows that espnet-diverse has written it (an earlier version left no .prepared.json)"
    for corpus in (["table", "t.tsv"], ["kaldi", "a"], ["aishell", "--corpus", "synthetic", "--size", "tiny"]):
        refused(capsys, f"precious/{name}: {shown}; move it away or", *corpus, "--output_dir", "precious")


def test_own_output_is_replaced_unless_it_has_foreign_files(here, capsys):
    for rate in ("8000", "16000"):
        assert main(["prepare", "kaldi", "a", "--rate", rate, "--output_dir", "out"]) == 0
        assert soundfile.info(read_data_dir(here / "out" / "dev").wav_scp["s1-dev"]).samplerate == int(rate)
    (here / "out" / "dev" / "utt2domain").write_text("s1-dev news\n")
    capsys.readouterr()
    before = digests(here)
    assert main(["prepare", "kaldi", "a", "--output_dir", "out"]) == 1
    what = "out/dev: has utt2domain, which espnet-diverse has not written; move it away or choose another path"
    assert what in capsys.readouterr().err
    assert digests(here) == before


def test_synthetic_corpora_do_not_replace_each_other(tmp_path):
    for name in ("multi30k", "tatoeba"):
        arguments = ["--corpus", "synthetic", "--size", "tiny", "--output_dir", str(tmp_path / name)]
        assert main(["prepare", name, *arguments]) == 0
    made = {json.loads(stamp.read_text())["layout"] for stamp in (tmp_path / "downloads").glob("*/synthetic.json")}
    assert made == {"multi30k", "tatoeba"}


def test_the_list_of_faults(here, capsys):
    Path("t.csv").write_text("audio,text\nmissing.wav,yes\n")
    options = ["--output_dir", "b", "--report"]
    refused(capsys, "a/../t.csv: is the file to read, t.csv;", "table", "t.csv", *options, "a/../t.csv")
    refused(capsys, "a/test: is the directory to read, a/test;", "kaldi", "a", *options, "a/test/text")
    assert main(["prepare", "table", "t.csv", *options, "faults"]) == 1
    assert "missing.wav does not exist" in Path("faults").read_text()
