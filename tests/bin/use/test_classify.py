"""classify: the printed line and the files for a data directory. The numbers are tested in decoding."""

from espnet_diverse.bin.main import main

GIVEN = ["exp", "--data_dir", "data", "--output_dir", "out"]


def test_the_row_and_the_printed_line(tiny_classifier, tmp_path, capsys):
    out, results = tmp_path / "decode" / "test", tmp_path / "RESULTS.md"
    former = [
        "|dataset|Texts|Accuracy|Dist|ECE|OE|",
        "|---|---|---|---|---|---|",
        "|decode/dev|4|50.00|0.100|9.00|8.00|",
    ]
    results.write_text("\n".join(["# RESULTS", "", "### Classification", "", *former, ""]))
    arguments = ["classify", str(tiny_classifier.model_dir), "--data_dir", str(tiny_classifier.test_dir)]
    assert main([*arguments, "--output_dir", str(out), "--results", str(results)]) == 0
    assert capsys.readouterr().out.startswith("5 texts: Accuracy 100.00, Dist ")
    assert (
        "|OE|F1|AUC|AUC-PR|MCC|Entropy|\n" in results.read_text()
        and "|decode/dev|4|50.00|0.100|" in results.read_text()
    )
    assert "|decode/test|5|100.00|" in results.read_text() and "|100.00|100.00|100.00|1.000|" in results.read_text()
    assert set((out / "label").read_text().split()[1::2]) == {"yy", "zz"}


def test_texts_of_another_domain(tiny_classifier, tmp_path, capsys):
    other = tmp_path / "other"
    other.mkdir()
    (other / "text").write_text("v1 aB\nv2 Ab\n")  # half of each language
    arguments = ["classify", str(tiny_classifier.model_dir), "--data_dir", str(tiny_classifier.test_dir)]
    assert main([*arguments, "--output_dir", str(tmp_path / "out"), "--out_of_domain_dir", str(other)]) == 0
    assert "; 2 out of domain: Entropy 0." in capsys.readouterr().out


def test_a_model_of_speech_has_no_classes(tiny_run, tmp_path, capfd):
    paths = ["--data_dir", str(tiny_run.test_dir), "--output_dir", str(tmp_path)]
    assert main(["classify", str(tiny_run.model_dir), *paths]) == 1
    assert "a model of task asr has no classes; give a run of task cls" in capfd.readouterr().err
    assert not (tmp_path / "label").exists()


def test_inputs_and_outputs(parse):
    module, args = parse("classify", GIVEN)
    assert [str(path) for path in module.inputs(args)] == ["exp/config.yaml", "exp/valid.acc.ave.pth", "data"]
    assert module.inputs(parse("classify", [*GIVEN, "--out_of_domain_dir", "other"])[1])[-1].name == "other"
    assert [str(path) for path in module.outputs(args)] == ["out/label", "out/confidence", "out/classification.json"]
