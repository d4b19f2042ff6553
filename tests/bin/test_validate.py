"""The command validate: all faults of directories in one pass."""

import json

import kaldiio
import numpy as np
import pytest

from espnet_diverse.bin.main import main
from espnet_diverse.data.tables import write_table


def test_sound_directories_have_no_faults(data_dir, tmp_path, capsys):
    assert main(["validate", str(data_dir), str(data_dir), "--json", str(tmp_path / "faults.json")]) == 0
    assert capsys.readouterr().out == 2 * f"{data_dir}: no faults\n"
    assert json.loads((tmp_path / "faults.json").read_text()) == []


def test_all_faults_are_listed_and_written(data, data_dir, tmp_path, capsys):
    write_table(data_dir / "text", {name: text for name, text in data.text.items() if name != "a1"})
    write_table(data_dir / "wav.scp", data.wav_scp | {"a2": "touch ran |", "b1": f"{tmp_path}/gone.wav"})
    assert main(["validate", str(data_dir), str(tmp_path / "nowhere"), "--json", str(tmp_path / "faults.json")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{data_dir}/wav.scp:2: 'touch ran |' contains a pipe; commands are not run")
    assert lines[1:3] == [
        f"{data_dir}/wav.scp: a1: audio without transcript in text; add it or remove the line",
        f"{data_dir}/wav.scp: b1: {tmp_path}/gone.wav: no such audio file; correct the path or get the file",
    ]
    assert lines[3] == f"{data_dir}: 3 faults" and lines[5] == f"{tmp_path}/nowhere: 1 fault"
    rows = json.loads((tmp_path / "faults.json").read_text())
    assert [(row["file"].rpartition("/")[2], row["where"]) for row in rows] == [
        ("wav.scp", 2),
        ("wav.scp", "a1"),
        ("wav.scp", "b1"),
        ("nowhere", None),
    ]
    assert rows[0].keys() == {"directory", "file", "where", "what"} and rows[3]["directory"] == f"{tmp_path}/nowhere"


def test_segments_and_arks_are_read_and_samples_only_on_request(data, data_dir, write_wav, capsys):
    spoilt = np.zeros(8000, np.float32)
    spoilt[100] = np.nan
    coding = {"write_function": "soundfile", "write_kwargs": {"format": "wav", "subtype": "FLOAT"}}
    kaldiio.save_ark(str(data_dir / "x.ark"), {"r": (16000, spoilt)}, **coding)
    write_table(data_dir / "wav.scp", {"r": f"{data_dir}/x.ark:2"})
    write_table(data_dir / "segments", {"a1": "r 0 0.1", "a2": "r 0.1 0.2", "b1": "r 0.2 1.3"})
    assert main(["validate", str(data_dir), "--headers"]) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert "segments: b1: segment from 0.2 to 1.3 s lies past the end" in first and second.endswith("1 fault")
    assert main(["validate", str(data_dir)]) == 1
    assert "r: " in (line := capsys.readouterr().out.splitlines()[0]) and "holds NaN or infinite samples" in line


def test_features_are_checked_where_there_is_no_audio(data_dir, capsys):
    (data_dir / "wav.scp").unlink()
    content = {name: np.ones((3, 2), np.float32) for name in ("a1", "a2")} | {"b1": np.ones((3, 4), np.float32)}
    kaldiio.save_ark(str(data_dir / "x.ark"), content, scp=str(data_dir / "feats.scp"))
    assert main(["validate", str(data_dir)]) == 1
    said = f"{data_dir}/feats.scp: b1: has features of size 4, and 2 is expected; compute them alike"
    assert capsys.readouterr().out.splitlines()[0] == said
    content |= {"b1": np.full((3, 2), np.nan, np.float32)}
    kaldiio.save_ark(str(data_dir / "x.ark"), content, scp=str(data_dir / "feats.scp"))
    assert main(["validate", str(data_dir)]) == 1
    assert "feats.scp: b1: " in (line := capsys.readouterr().out.splitlines()[0]) and "NaN or infinite values" in line
    assert main(["validate", str(data_dir), "--headers"]) == 0


def test_the_number_of_threads(data_dir, capsys):
    assert main(["validate", str(data_dir), "--nj", "0"]) == 1
    assert "--nj 0: must be 1 or more" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--json", "x.json"], []])
def test_inputs_and_outputs(parse, arguments):
    module, args = parse("validate", ["one", "two", *arguments])
    assert [str(path) for path in module.inputs(args)] == ["one", "two"]
    assert [str(path) for path in module.outputs(args)] == arguments[1:]
