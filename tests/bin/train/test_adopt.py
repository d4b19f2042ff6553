"""adopt: the command; its result is tested in packing, and the choice of windows in analysis."""

import html
import json
import re
import shutil

import numpy as np
import pytest
import soundfile
import yaml
from references.espnet_models import TRANSFORMER, write_model
from references.figures import leave_pictures_empty
from references.whisper import write_whisper

from espnet_diverse import Recognizer
from espnet_diverse.bin.main import main
from espnet_diverse.data.kaldi import read_data_dir
from espnet_diverse.packing import adoption

RATE = 16_000


def write_dev(folder, texts):
    """A data directory of noise with these texts, in German."""
    folder.mkdir()
    random = np.random.default_rng(0)
    tables = {"wav.scp": "", "text": "", "utt2spk": "", "spk2utt": "", "utt2lang": ""}
    for number, text in enumerate(texts):
        path = folder / f"u{number}.wav"
        soundfile.write(path, 0.1 * random.standard_normal(RATE // 2 + 8000 * number), RATE)
        for table, value in zip(tables, (path, text, f"u{number}", f"u{number}", "de"), strict=True):
            tables[table] += f"u{number} {value}\n"
    for table, content in tables.items():
        (folder / table).write_text(content)
    return folder


def write_conformer(folder):
    """A conformer as ESPnet leaves it."""
    sizes = TRANSFORMER | {"num_blocks": 2, "cnn_module_kernel": 3, "rel_pos_type": "latest"}
    return write_model(folder, "conformer", encoder_conf=sizes)


def windows_of(folder):
    """Widths by layer and head in the configuration of a run."""
    config = yaml.safe_load((folder / "train.yaml").read_text())
    return [[each["window"] for each in layer] for layer in config["encoder_conf"]["attention"]["head_patterns"]]


@pytest.mark.parametrize("kind", ["conformer", "whisper"])
def test_windows_are_chosen_and_the_run_has_them(tmp_path, monkeypatch, capsys, kind):
    leave_pictures_empty(monkeypatch)
    monkeypatch.setenv("ESPNET_DIVERSE_CACHE", str(tmp_path / "cache"))
    model = write_conformer(tmp_path / "exp") if kind == "conformer" else write_whisper(tmp_path / "exp")
    texts = ["abc", "dab", "cab"] if kind == "conformer" else ["hello", "gut", "tag"]
    data, out = write_dev(tmp_path / "dev", texts), tmp_path / "out"
    arguments = [str(model), "--data_dir", str(data), "--output_dir", str(out), "--windows", "auto"]
    assert main(["adopt", *arguments, "--tolerance", "20", "--lengths", "1", "40"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == str(out / "valid.acc.ave.pth") and said[-1] == str(out / "windows.html")
    assert re.match(
        r"The loss changes by \S+ % \(95 % interval \S+ to \S+\), within the tolerance of 20 %, and", said[2]
    )
    assert said[3].startswith("At 1 s the encoder takes ")
    if kind == "whisper":
        assert said[4].startswith("At 40 s the encoder was not measured: 40.0 s are more than the 30 s that Whisper")
    numbers = json.loads((out / "windows.json").read_text())
    assert windows_of(out) == numbers["windows"] and numbers["loss"]["rise"] <= 20
    assert list(numbers["utterances"]) == ["u0", "u1", "u2"] and numbers["pairs"] < 1
    page = html.unescape((out / "windows.html").read_text())
    assert said[2] in page and said[3] in page and " on dev</h1>" in page
    transcript = Recognizer(out).transcribe(data / "u0.wav", language="de" if kind == "whisper" else None)
    assert isinstance(transcript.text, str)
    assert main(["adopt", *arguments, "--tolerance", "0.001", "--utterances", "2", "--lengths", "1"]) == 0  # again
    numbers = json.loads((out / "windows.json").read_text())
    assert list(numbers["utterances"]) == ["u0", "u2"] and numbers["loss"]["rise"] <= 0.001


def test_windows_come_after_the_other_changes_and_skipped_utterances_are_told(tmp_path, monkeypatch):
    leave_pictures_empty(monkeypatch)
    model, data, out = write_conformer(tmp_path / "exp"), write_dev(tmp_path / "dev", ["abc", "dab"]), tmp_path / "out"
    read_data_dir(data)
    (data / "u1.wav").write_bytes(b"no audio")
    arguments = [str(model), "--data_dir", str(data), "--output_dir", str(out), "--windows", "auto", "--passes", "4"]
    assert main(["adopt", *arguments, "--set", "model_conf.ctc_weight=0.5", "--lengths", "1"]) == 2
    config, numbers = yaml.safe_load((out / "config.yaml").read_text()), json.loads((out / "windows.json").read_text())
    assert config["model_conf"]["ctc_weight"] == 0.5 and list(numbers["skipped"]) == ["u1"]
    assert numbers["passes"] <= 4 + 8  # proposals are measured in any case


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--tolerance", "1"], "--tolerance is for --windows auto; give that as well, or leave it out"),
        (["--language", "de"], "--language is for --windows auto"),
        (["--lengths", "10"], "--lengths is for --windows auto"),
        (["--windows", "auto"], "--windows auto needs utterances with texts; give a data directory by --data_dir"),
        (["--windows", "auto", "--tolerance", "0"], "--tolerance must be above 0, but is 0"),
        (["--windows", "auto", "--tolerance", "inf"], "--tolerance must be a finite number"),
        (["--windows", "auto", "--data_dir", "DEV", "--lengths", "-1"], "--lengths must be above 0, but is -1"),
        (["--windows", "auto", "--data_dir", "DEV", "--utterances", "0"], "--utterances must be at least 1, but is 0"),
    ],
    ids=str,
)
def test_options_of_windows_that_do_not_fit_are_refused(tmp_path, capsys, options, said):
    data, model = write_dev(tmp_path / "dev", ["abc"]), write_conformer(tmp_path / "exp")
    options = [str(data) if each == "DEV" else each for each in options]
    assert main(["adopt", str(model), "--output_dir", str(tmp_path / "out"), *options]) == 1
    assert said in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_windows_for_other_attention_or_a_model_of_text_are_refused(tiny_run, tiny_translation, tmp_path, capsys):
    for run, said in (
        (tiny_run, "layer 1 of the encoder has attention sdma; windows are for softmax over all positions"),
        (tiny_translation, "--windows is for speech, and the model is of task mt"),
    ):
        arguments = [str(run.model_dir), "--data_dir", str(run.test_dir), "--output_dir", str(tmp_path / "out")]
        assert main(["adopt", *arguments, "--windows", "auto"]) == 1
        assert said in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_a_run_is_adopted_and_the_difference_is_printed(tiny_translation, tmp_path, capsys, parse):
    arguments = [str(tiny_translation.model_dir), "--output_dir", str(tmp_path / "new"), "--config", "heads/static"]
    arguments += ["--data_dir", str(tiny_translation.train_dir)]
    assert main(["adopt", *arguments]) == 0
    path, said = capsys.readouterr().out.splitlines()
    assert path == str(tmp_path / "new" / "valid.acc.ave.pth")
    assert said == "0 new parameters; largest difference of the outputs: 0"
    module, args = parse("adopt", arguments)
    assert all(each.exists() for each in module.inputs(args) + module.outputs(args))
    assert "static.yaml" in {each.name for each in module.inputs(args)}


def test_the_weights_keep_the_name_that_they_are_found_under(tmp_path, parse):
    (tmp_path / "valid.acc.ave.safetensors").touch()
    for command in ("adopt", "prune"):
        module, args = parse(command, [str(tmp_path), "--output_dir", "new"])
        assert [each.name for each in module.outputs(args)] == ["config.yaml", "valid.acc.ave.safetensors"]


def test_another_beginning_is_spoken_of(tiny_translation, tmp_path, capsys):
    change = ["--set", "encoder_conf.attention={core: window, window: 1}"]
    changed = ["--set", "decoder_conf.normalize_before=false"]
    arguments = [str(tiny_translation.model_dir), "--output_dir", str(tmp_path / "new")]
    assert main(["adopt", *arguments, *change]) == 1
    assert "of the trained model is sdma, and only softmax becomes window" in capsys.readouterr().err
    assert main(["adopt", *arguments, *changed]) == 1
    assert "has decoder.after_norm.weight, which the new configuration does not use" in capsys.readouterr().err
    assert main(["adopt", *arguments, "--set", "encoder_conf.normalize_before=true"]) == 0
    assert capsys.readouterr().err.count("does not begin as the trained one") == 0


@pytest.mark.parametrize(("command", "options"), [("adopt", []), ("prune", ["--language", "de"])])
def test_another_run_is_not_written_to(tiny_translation, tmp_path, capsys, command, options):
    other = shutil.copytree(tiny_translation.model_dir, tmp_path / "other")
    before = {path: path.stat().st_mtime_ns for path in other.rglob("*")}
    assert main([command, str(tiny_translation.model_dir), "--output_dir", str(other), *options]) == 1
    said = f"other: exists, and nothing shows that `{command}` has written it (an earlier version left no .prepared"
    assert said in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in other.rglob("*")} == before


def test_a_model_may_be_adopted_twice(tiny_translation, tmp_path):
    arguments = [str(tiny_translation.model_dir), "--output_dir", str(tmp_path / "new")]
    assert main(["adopt", *arguments]) == 0
    (weights,) = (tmp_path / "new").glob("*.pth")
    before = weights.read_bytes()
    assert main(["adopt", *arguments]) == 0
    assert weights.read_bytes() == before


def test_another_attention_than_softmax_is_not_adopted_as_a_third(tiny_translation, tmp_path, capsys):
    arguments = [str(tiny_translation.model_dir), "--output_dir", str(tmp_path / "new")]
    assert main(["adopt", *arguments, "--config", "attention/window"]) == 1
    said = capsys.readouterr().err
    assert "conf/attention/window.yaml:" in said and said.endswith(
        ": encoder_conf.attention of the trained model is sdma, and only softmax becomes window; give a model with "
        "softmax attention\n"
    )
    assert not (tmp_path / "new").exists()


@pytest.mark.usefixtures("unchecked_paths")
def test_a_difference_of_the_outputs_is_noticed(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(adoption, "adopt", lambda *_: adoption.Adopted(tmp_path / "w.pth", 3, 0.25))
    assert main(["adopt", str(tmp_path), "--output_dir", str(tmp_path / "new"), "--set", "max_epoch=1"]) == 0
    printed, said = capsys.readouterr()
    assert printed.endswith("3 new parameters; largest difference of the outputs: 0.25\n")
    assert said == "notice: with this configuration the model does not begin as the trained one\n"
