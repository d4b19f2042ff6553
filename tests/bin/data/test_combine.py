"""`espnet-diverse combine`, as a user calls it."""

import numpy as np
import pytest
import soundfile

from espnet_diverse.bin.main import main
from espnet_diverse.data.kaldi import DataDir, read_data_dir, write_data_dir


@pytest.fixture
def parts(tmp_path, monkeypatch):
    """Two directories a and b in the working directory, the first with utt2lang."""
    monkeypatch.chdir(tmp_path)
    for name in "ab":
        soundfile.write(tmp_path / f"{name}.wav", np.zeros(8000, np.int16), 16000)
        conditions = {"utt2lang": {name: "de"}} if name == "a" else {}
        write_data_dir(
            DataDir({name: f"{tmp_path}/{name}.wav"}, {name: "w"}, {name: "s"}, conditions=conditions), tmp_path / name
        )
    return tmp_path


def test_combine(parts, capsys):
    assert main(["combine", "x=a", "y=b", "--output_dir", "all/train", "--fill", "utt2lang=zh"]) == 0
    said = "all/train: 2 utterances of 2 directories, 1 speakers, 2 in utt2domain, 2 in utt2lang\n"
    assert capsys.readouterr().out == said
    assert read_data_dir(parts / "all/train").conditions == {
        "utt2lang": {"a": "de", "b": "zh"},
        "utt2domain": {"a": "x", "b": "y"},
    }


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ([], "b: has no utt2lang, which a has"),
        (["--fill", "utt2lang"], "--fill utt2lang: must be TABLE=NAME, such as utt2lang=zh"),
        (["--fill", "utt2lang=zh", "--fill", "utt2lang=de"], "--fill utt2lang=zh utt2lang=de: must be TABLE=NAME"),
        (["--fill", "utt2lang=z h"], "utt2lang: b: has 3 columns"),
    ],
)
def test_bad_input_is_one_line(parts, capsys, options, what):
    assert main(["combine", "a", "b", "--output_dir", "all", *options]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"espnet-diverse combine: error: {what}")
    assert not (parts / "all").exists()


def test_a_plan_combines_again_only_where_a_part_changed(parts, capsys):
    (parts / "plan").write_text("data\tespnet-diverse combine a --output_dir all\n")
    assert main(["plan", "plan"]) == 0
    assert main(["plan", "plan"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "[data] up to date"
    (parts / "a" / "text").write_text("a other words\n")
    assert main(["plan", "plan"]) == 0
    assert read_data_dir(parts / "all").text == {"a": "other words"}
