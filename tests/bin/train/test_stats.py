"""stats: the files that it reads and writes, and errors before anything is computed."""

import pytest

from espnet_diverse.bin.main import main
from espnet_diverse.errors import DataError


def test_a_wrong_key_is_one_line(tiny_run, tmp_path, capfd):
    arguments = [*tiny_run.config, *tiny_run.data(), "--output_dir", str(tmp_path / "stats")]
    assert main(["stats", *arguments, "--set", "encoder_conf.attention.core=sdmma"]) == 1
    error = capfd.readouterr().err.splitlines()[-1]
    begin = "espnet-diverse stats: error: --set encoder_conf.attention.core=sdmma: encoder_conf.attention: "
    assert error == f"{begin}unknown attention 'sdmma'; did you mean 'sdma'? (register_core adds others)"
    assert main(["stats", *arguments, "--set", "max_epok=1"]) == 1
    assert "--set max_epok=1: unknown option 'max_epok'; did you mean 'max_epoch'?" in capfd.readouterr().err
    assert not (tmp_path / "stats").exists()


@pytest.mark.parametrize(("task", "names"), [("asr", {"speech_shape", "feats_stats.npz"}), ("lm", {"text_shape"})])
def test_outputs_depend_on_the_task(tiny_run, parse, task, names):
    module, args = parse("stats", [*tiny_run.config, *tiny_run.data(), "--output_dir", "out", "--task", task])
    assert {path.name for path in module.stage(args).outputs()} == names


def test_inputs_and_outputs_exist_after_the_run(tiny_run, parse):
    module, args = parse("stats", [*tiny_run.config, *tiny_run.data(), "--output_dir", str(tiny_run.stats_dir)])
    assert len(module.stage(args).inputs()) >= 6 and len(module.stage(args).outputs()) == 4
    assert all(path.exists() for path in module.stage(args).inputs() + module.stage(args).outputs())


def test_no_directory_of_others_is_replaced(tiny_run, tmp_path, capfd, parse):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "one.tex").write_text("mine")
    arguments = [*tiny_run.config, *tiny_run.data(), "--output_dir", str(tmp_path / "thesis")]
    assert main(["stats", *arguments]) == 1
    assert "thesis: has one.tex, which `stats` has not written; move it away" in capfd.readouterr().err
    assert [path.name for path in (tmp_path / "thesis").iterdir()] == ["one.tex"]
    module, args = parse("stats", arguments)
    with pytest.raises(DataError, match="has one.tex"):
        module.stage(args).check_options([])


def test_own_statistics_are_replaced(tiny_translation, tmp_path):
    arguments = [*tiny_translation.config, *tiny_translation.data(), "--output_dir", str(tmp_path / "stats")]
    assert main(["stats", *arguments]) == 0
    (shapes,) = (tmp_path / "stats" / "train").glob("text_shape")
    before = shapes.read_text()
    shapes.write_text("of other data 3\n")
    assert main(["stats", *arguments]) == 0 and shapes.read_text() == before
