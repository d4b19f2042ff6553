"""The command validate: all faults of directories in one pass."""

import json
import re

import kaldiio
import numpy as np
import pytest
from references.figures import leave_pictures_empty

from espnet_diverse.bin.main import main
from espnet_diverse.data.tables import write_table
from espnet_diverse.text.vocabulary import Vocabulary


def test_sound_directories_have_no_faults(data_dir, tmp_path, capsys):
    assert main(["validate", str(data_dir), str(data_dir), "--json", str(tmp_path / "faults.json")]) == 0
    assert capsys.readouterr().out == 2 * f"{data_dir}: no faults\n"
    assert json.loads((tmp_path / "faults.json").read_text()) == []


@pytest.mark.parametrize("content", [b"b1 x\na1 y\na2 z\n", b"a1 x\n\na2 y\nb1 z\n", b"a1 x\xc2\xa0y\na2 y\nb1 z\n"])
def test_format_faults_are_reported_and_repaired_by_fix(content, data_dir, tmp_path, capsys):
    (data_dir / "text").write_bytes(content)
    assert main(["validate", str(data_dir)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{data_dir}: no faults" and len(lines) == 2
    said = f"{data_dir}: --fix OUT writes plain tables, which stats and train need: {data_dir}/text:"
    assert lines[1].startswith(said) and "is blank, out of order, or has other than plain single spaces" in lines[1]
    assert main(["validate", str(data_dir), "--fix", str(tmp_path / "fixed")]) == 0
    capsys.readouterr()
    assert main(["validate", str(tmp_path / "fixed")]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'fixed'}: no faults\n"


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
    assert rows[0].keys() == {"directory", "file", "where", "what", "kind", "action"}
    assert rows[3]["directory"] == f"{tmp_path}/nowhere"


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


def test_kinds_can_be_refused_dropped_or_warned_of(data, data_dir, tmp_path, capsys):
    write_table(data_dir / "text", data.text | {"a1": "x &amp; y", "b1": "x" * 99})
    assert main(["validate", str(data_dir)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"warning: {data_dir}/text: a1: the transcript has the HTML entity &amp;")
    assert lines[1].startswith(f"{data_dir}/text: b1: the transcript has 99 characters for 0.50 s")
    assert lines[2:] == [f"{data_dir}: 1 fault, 1 warning", f"{data_dir}: --fix OUT leaves out 1 of 3 utterances: b1"]
    assert main(["validate", str(data_dir), "--on", "crowded=warn"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"{data_dir}: no faults, 2 warnings"
    assert main(["validate", str(data_dir), "--on", "crowded=keep"]) == 1
    assert "'crowded=keep': must be KIND=ACTION" in capsys.readouterr().err
    fixed, listed = str(tmp_path / "fixed"), str(tmp_path / "x.json")
    assert main(["validate", str(data_dir), "--fix", fixed, "--json", listed]) == 2
    assert (
        capsys.readouterr().out.splitlines()[-1] == f"{fixed}: 2 utterances, 1 dropped (listed in {fixed}/dropped.tsv)"
    )
    assert [(row["kind"], row["action"]) for row in json.loads((tmp_path / "x.json").read_text())] == [
        ("entity", "warn"),
        ("crowded", "drop"),
    ]
    assert main(["validate", fixed, "--against", str(data_dir), "--on", "shared_text=refuse"]) == 1
    assert "this sentence is also in" in capsys.readouterr().out
    assert main(["validate", fixed, "--fix", str(tmp_path / "again"), "--min_seconds", "0.2"]) == 0


def test_a_vocabulary_counts_tokens(data_dir, tmp_path, capsys):
    Vocabulary.train(["abcd"], "char").save(tmp_path / "tokens")
    write_table(data_dir / "text", {"a1": "a" * 8, "a2": "b", "b1": "c"})
    assert main(["validate", str(data_dir)]) == 0
    assert main(["validate", str(data_dir), "--tokens_dir", str(tmp_path / "tokens")]) == 1
    assert "a1: the transcript needs 15 frames for CTC, and the audio has 12" in capsys.readouterr().out


def test_the_vocabulary_is_read_once_for_all_directories(data_dir, tmp_path, monkeypatch):
    Vocabulary.train(["abcd"], "char").save(tmp_path / "tokens")
    read, load = [], Vocabulary.load
    monkeypatch.setattr(Vocabulary, "load", lambda folder: read.append(folder) or load(folder))
    main(["validate", str(data_dir), str(data_dir), "--tokens_dir", str(tmp_path / "tokens")])
    assert read == [tmp_path / "tokens"]


@pytest.mark.usefixtures("unchecked_paths")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--nj", "0"], "--nj must be at least 1, but is 0"),
        (["--min_seconds", "0"], "--min_seconds 0 must be above 0 and below --max_seconds"),
        (["--against", "."], "--against .: is a directory that is checked itself; give the others as DIR"),
        (["--utterances", "3"], "--utterances 3 is for the check of a model; give --model and --data_dir"),
        (["more", "--fix", "x"], "--fix x: mends one directory, and 2 are given"),
    ],
)
def test_options_that_are_wrong(data_dir, monkeypatch, capsys, options, said):
    monkeypatch.chdir(data_dir)
    assert main(["validate", str(data_dir), *options]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--json", "x.json"], ["--fix", "x"], []])
def test_inputs_and_outputs(parse, arguments):
    module, args = parse("validate", ["one", "two", *arguments])
    assert [str(path) for path in module.inputs(args)] == ["one", "two"]
    assert [str(path) for path in module.outputs(args)] == arguments[1:]


@pytest.mark.parametrize("content", [None, "{}", "[3]", '[{"what": "mine"}]', b"\xff"])
def test_no_file_of_others_is_replaced(data_dir, tmp_path, capsys, content):
    path = data_dir / "text" if content is None else tmp_path / "mine.json"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    before = path.read_bytes()
    assert main(["validate", str(data_dir), "--json", str(path)]) == 1
    assert f"--json {path}: exists, and `validate` has not written it; give another file" in capsys.readouterr().err
    assert path.read_bytes() == before


def test_former_lists_of_faults_are_replaced(data, data_dir, tmp_path):
    path = tmp_path / "faults.json"
    write_table(data_dir / "text", {name: text for name, text in data.text.items() if name != "a1"})
    assert main(["validate", str(data_dir), "--json", str(path)]) == 1 and json.loads(path.read_text())
    write_table(data_dir / "text", data.text)
    for _ in range(2):
        assert main(["validate", str(data_dir), "--json", str(path)]) == 0 and json.loads(path.read_text()) == []


def test_faults_that_are_alike_are_printed_once(data_dir, capsys):
    rows = [f"u{number:02} flac -c u{number:02}.flac |" for number in range(40)]
    (data_dir / "wav.scp").write_text("\n".join(rows) + "\n")
    assert main(["validate", str(data_dir), "--most", "2"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert sum("contains a pipe" in line for line in lines) == 2
    assert lines[2] == "and 38 more like the last; --json FILE lists all" and len(lines) < 20
    assert main(["validate", str(data_dir), "--most", "0"]) == 1
    assert "--most must be at least 1, but is 0" in capsys.readouterr().err


def test_figures_show_levels_only_if_samples_are_read(data_dir, tmp_path, capsys, monkeypatch):
    leave_pictures_empty(monkeypatch)
    assert main(["validate", str(data_dir), "--headers", "--figures", str(tmp_path / "new/figures")]) == 0
    names = {path.name.split(".", 1)[1] for path in (tmp_path / "new/figures").glob("*.png")}
    assert names == {"seconds.png", "rates.png", "speakers.png", "texts.png"}
    assert "Quietest" not in (tmp_path / "new/figures/validate.html").read_text()
    assert main(["validate", str(data_dir), "--figures", str(tmp_path / "figures")]) == 0
    assert "Quietest" in (tmp_path / "figures/validate.html").read_text()


def test_a_model_is_compared_on_this_machine(tiny_run, capsys, monkeypatch):
    monkeypatch.setattr("espnet_diverse.decoding.predictor.compile_layers", lambda *_: None)  # takes minutes
    words = ["validate", "--model", str(tiny_run.model_dir), "--data_dir", str(tiny_run.test_dir)]
    code = main([*words, "--utterances", "2"])
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split("  ")[0] == "compared with float32 in 1 thread"
    names = ["2 threads", "--kernels onednn", "--kernels mkl", "--compile", "--precision bfloat16", "--precision int8"]
    assert [row.split("  ")[0] for row in rows[:6]] == names and re.search(r"  [012] of 2 +(\d\.\de|-)", rows[0])
    exact = [row for row in rows[:4] if not re.search("  0 of 2|  not possible", row)]
    assert code == bool(exact) == (len(rows) == 7)


@pytest.mark.parametrize(
    ("more", "named"),
    [((), "no data directory is given"), (("--data_dir", "{}"), "needs --model"), (("--model", "{}"), "--data_dir")],
)
def test_a_check_without_data_or_model_is_refused(more, named, data_dir, capsys):
    assert main(["validate", *(word.format(data_dir) for word in more)]) == 1
    assert named in capsys.readouterr().err


def test_options_of_faults_are_refused_with_a_model(tiny_run, data_dir, capsys):
    words = ["--model", str(tiny_run.model_dir), "--data_dir", str(data_dir)]
    limit = ["--min_seconds", "1"]
    for option, more in (("--headers", ["--headers"]), ("DIR", [str(data_dir)]), ("--min_seconds", limit)):
        assert main(["validate", *words, *more]) == 1
        assert f"error: {option} is for faults" in capsys.readouterr().err
