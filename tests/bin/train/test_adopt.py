"""adopt: the command; its result is tested in packing."""

import shutil

import pytest

from espnet_diverse.bin.main import main
from espnet_diverse.packing import adoption


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
