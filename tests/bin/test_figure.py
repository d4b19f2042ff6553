"""figure: pictures of the heads on one utterance."""

from espnet_diverse.bin.main import main


def test_figure_draws_the_named_utterance(tiny_run, tmp_path, capfd, parse):
    arguments = ["--model_dir", str(tiny_run.model_dir), "--data_dir", str(tiny_run.test_dir)]
    arguments += ["--output_dir", str(tmp_path / "figures")]
    assert main(["figure", *arguments, "--utterance", "test-01"]) == 0
    printed = capfd.readouterr().out.split()
    assert printed == [str(tmp_path / "figures" / f"test-01.{net}.png") for net in ("encoder", "decoder")]
    module, args = parse("figure", arguments)
    assert all(path.exists() for path in module.inputs(args) + module.outputs(args))
    assert main(["figure", *arguments, "--utterance", "test-99"]) == 1
    assert "utterance 'test-99' is not in text and wav.scp; give another, such as 'test-00'" in capfd.readouterr().err


def test_figures_of_translation_by_tasks(of_translation, tmp_path, capfd):
    assert main(["figure", *of_translation, "--output_dir", str(tmp_path), "--language", "es"]) == 0
    assert len(capfd.readouterr().out.split()) == len(list(tmp_path.glob("test-00.*.png"))) == 2
