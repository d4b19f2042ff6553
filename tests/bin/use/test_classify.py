"""classify: what is printed and written for a data directory. The numbers are tested in decoding."""

from espnet_diverse.bin.main import main


def test_the_row_and_the_printed_line(tiny_classifier, tmp_path, capsys):
    out, results = tmp_path / "decode" / "test", tmp_path / "RESULTS.md"
    arguments = ["classify", str(tiny_classifier.model_dir), "--data_dir", str(tiny_classifier.test_dir)]
    assert main([*arguments, "--output_dir", str(out), "--results", str(results)]) == 0
    assert capsys.readouterr().out.startswith("5 texts: Accuracy 100.00, Dist ")
    assert "### Classification\n" in results.read_text() and "|decode/test|5|100.00|" in results.read_text()
    assert set((out / "label").read_text().split()[1::2]) == {"yy", "zz"}


def test_a_model_of_speech_has_no_classes(tiny_run, tmp_path, capfd):
    paths = ["--data_dir", str(tiny_run.test_dir), "--output_dir", str(tmp_path)]
    assert main(["classify", str(tiny_run.model_dir), *paths]) == 1
    assert "a model of task asr has no classes; give a run of task cls" in capfd.readouterr().err
    assert not (tmp_path / "label").exists()


def test_what_is_read_and_written(parse):
    module, args = parse("classify", ["exp", "--data_dir", "data", "--output_dir", "out"])
    assert [str(path) for path in module.inputs(args)] == ["exp/config.yaml", "exp/valid.acc.ave.pth", "data"]
    assert [str(path) for path in module.outputs(args)] == ["out/label", "out/confidence", "out/classification.json"]
