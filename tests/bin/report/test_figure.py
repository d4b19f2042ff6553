"""figure: pictures of the heads on one utterance, and of head selection in training."""

import shutil

import numpy as np
import pytest
import soundfile
from references.figures import leave_pictures_empty

from espnet_diverse.bin.main import main
from espnet_diverse.errors import DataError


@pytest.fixture
def no_pictures(monkeypatch):
    leave_pictures_empty(monkeypatch)


def test_figure_draws_the_named_utterance(tiny_run, tmp_path, capfd, parse):
    arguments = [str(tiny_run.model_dir), "--data_dir", str(tiny_run.test_dir)]
    arguments += ["--output_dir", str(tmp_path / "figures")]
    assert main(["figure", *arguments, "--utterance", "test-01"]) == 0
    printed = capfd.readouterr().out.split()
    assert printed == [str(tmp_path / "figures" / f"test-01.{net}.png") for net in ("encoder", "decoder")]
    module, args = parse("figure", arguments)
    assert all(path.exists() for path in module.inputs(args) + module.outputs(args))
    assert main(["figure", *arguments, "--utterance", "test-99"]) == 1
    assert "utterance 'test-99' is not in text; text has 'test-00'" in capfd.readouterr().err


def test_an_utterance_that_is_too_short_is_named(tiny_run, tmp_path, capfd):
    data = tmp_path / "data"
    data.mkdir()
    soundfile.write(data / "a.wav", np.full(800, 0.1), 16_000)
    (data / "wav.scp").write_text(f"a {data / 'a.wav'}\n")
    (data / "text").write_text("a a\n")
    arguments = [str(tiny_run.model_dir), "--data_dir", str(data), "--output_dir", str(tmp_path / "figures")]
    assert main(["figure", *arguments]) == 1
    said = capfd.readouterr().err
    assert f"error: {data}: a: has " in said and "Traceback" not in said


@pytest.mark.parametrize(
    ("command", "listener"), [("figure", "figures.heads.head_maps"), ("analyse", "measurements.observe")]
)
def test_audio_is_read_at_the_rate_of_the_model(telephone_run, tiny_run, tmp_path, monkeypatch, command, listener):
    heard = []

    def listen(model, speech, *_):
        heard.append(speech)
        raise DataError("this is enough")

    monkeypatch.setattr(f"espnet_diverse.analysis.{listener}", listen)
    arguments = [command, str(telephone_run.model_dir), "--output_dir", str(tmp_path)]
    for run in (telephone_run, tiny_run):
        assert main([*arguments, "--data_dir", str(run.test_dir)]) == 1
    samples, rate = soundfile.read(telephone_run.test_dir / "test-00.wav", dtype="float32")
    np.testing.assert_array_equal(heard[0], samples)
    assert rate == 8000 and {len(speech) for speech in heard} == {6000}


@pytest.mark.usefixtures("no_pictures")
def test_figures_of_translation_by_tasks(of_translation, tmp_path, capfd):
    assert main(["figure", *of_translation, "--output_dir", str(tmp_path), "--language", "es"]) == 0
    names = ["test-00.decoder.png", "test-00.encoder.png", "head_selection.png"]
    assert sorted(capfd.readouterr().out.split()) == sorted(str(tmp_path / name) for name in names)
    assert all((tmp_path / name).exists() for name in names)


def test_nothing_to_draw_is_no_error(tiny_run, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr("espnet_diverse.analysis.figures.heads.observe", lambda *_: {})
    arguments = [str(tiny_run.model_dir), "--data_dir", str(tiny_run.test_dir)]
    assert main(["figure", *arguments, "--output_dir", str(tmp_path)]) == 0
    assert capfd.readouterr().out.split() == []


@pytest.mark.usefixtures("unchecked_paths")
@pytest.mark.parametrize("audio", [True, False])
def test_a_model_of_features_is_left_out_with_a_warning(data_dir, tmp_path, capfd, audio):
    """A recipe ends with this command."""
    shutil.copy(data_dir / "wav.scp", data_dir / "feats.scp")
    if not audio:
        (data_dir / "wav.scp").unlink()
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.yaml").write_text("input_size: 83\n")
    arguments = [str(tmp_path / "model"), "--data_dir", str(data_dir)]
    assert main(["figure", *arguments, "--output_dir", str(tmp_path / "figures")]) == 0
    assert "its heads are not drawn, for the model reads features and not audio\n" in capfd.readouterr().err
    assert (tmp_path / "figures").is_dir()


@pytest.mark.usefixtures("no_pictures")
def test_figures_of_text_translation(tiny_translation, tmp_path, capfd):
    arguments = [str(tiny_translation.model_dir), "--data_dir", str(tiny_translation.test_dir)]
    assert main(["figure", *arguments, "--output_dir", str(tmp_path)]) == 0
    assert len(capfd.readouterr().out.split()) == 2 == len(list(tmp_path.glob("*coder.png")))


def test_without_data_it_draws_head_selection_in_training(translation, tiny_run, tmp_path, capfd, parse):
    arguments = ["figure", str(translation / "exp"), "--output_dir", str(tmp_path / "new")]
    assert main(arguments) == 0
    assert capfd.readouterr().out.split() == [str(tmp_path / "new" / "head_selection.png")]
    assert (tmp_path / "new" / "head_selection.png").stat().st_size > 5000
    module, args = parse("figure", arguments[1:])
    assert args.data_dir is None and None not in module.inputs(args)
    for option in ("--utterance", "--language"):
        assert main([*arguments, option, "x"]) == 1
        assert f"{option} is for --data_dir; give that too, or leave it out" in capfd.readouterr().err
    assert main(["figure", str(tiny_run.model_dir), "--output_dir", str(tmp_path)]) == 1
    said = "no checkpoint.pth has statistics of head selection; for the heads on an utterance give --data_dir"
    assert said in capfd.readouterr().err


@pytest.mark.usefixtures("no_pictures")
def test_figures_of_a_classifier(tiny_classifier, tiny_run, tmp_path, capfd, parse):
    data = ["--data_dir", str(tiny_classifier.test_dir), "--output_dir", str(tmp_path)]
    other = ["--out_of_domain_dir", str(tiny_classifier.train_dir)]
    assert main(["figure", str(tiny_classifier.model_dir), *data, *other]) == 0
    assert capfd.readouterr().out.split() == [
        str(tmp_path / f"{name}.png") for name in ("pooling", "entropy", "reliability")
    ]
    module, args = parse("figure", [str(tiny_classifier.model_dir), *data, *other])
    assert tiny_classifier.train_dir in module.inputs(args)
    assert main(["figure", str(tiny_run.model_dir), *data, *other]) == 1
    assert "is for a classifier with --data_dir; for other models use analyse --calibration" in capfd.readouterr().err
