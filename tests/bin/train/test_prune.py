"""prune: the arguments reach the function, whose result is tested in packing."""

from pathlib import Path

import pytest

from espnet_diverse.bin.main import main
from espnet_diverse.packing import pruning


@pytest.mark.usefixtures("unchecked_paths")
def test_the_arguments_arrive_and_the_path_is_printed(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("exp").mkdir()

    def prune(model_dir, output_dir, conditions, model_file):
        asked.append((model_dir, output_dir, conditions, model_file))
        return output_dir / model_file

    asked = []
    monkeypatch.setattr(pruning, "prune", prune)
    arguments = ["exp", "--output_dir", "new", "--target_language", "de", "--domain", "news"]
    assert main(["prune", *arguments, "--model_file", "9epoch.pth"]) == 0
    assert asked == [(Path("exp"), Path("new"), {"tgtlang": "de", "domain": "news"}, "9epoch.pth")]
    assert capsys.readouterr().out == "new/9epoch.pth\n"


def test_a_model_without_conditions_is_refused(tiny_run, tmp_path, capsys):
    arguments = [str(tiny_run.model_dir), "--output_dir", str(tmp_path / "new")]
    assert main(["prune", *arguments, "--language", "de"]) == 1
    assert "error: no part of this model depends on a language" in capsys.readouterr().err.replace(
        f"{tiny_run.model_dir}: ", ""
    )
    assert not (tmp_path / "new").exists()


def test_outputs_keep_the_name_of_the_weights(parse):
    module, args = parse("prune", ["exp", "--output_dir", "new", "--model_file", "else/where.pth"])
    assert module.outputs(args) == [Path("new/config.yaml"), Path("new/where.pth")]
    assert module.inputs(args) == [Path("exp/config.yaml"), Path("else/where.pth")]
