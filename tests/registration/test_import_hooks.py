import subprocess
import sys
from types import SimpleNamespace

import pytest

import espnet_diverse
from espnet_diverse.registration import import_hooks

FRESH = """
import sys
import espnet_diverse
assert "torch" not in sys.modules and "espnet2" not in sys.modules
from espnet2.bin.asr_inference import Speech2Text
from espnet2.tasks import asr, lm, mt, s2t, st
for task in (asr, mt, s2t, st):
    assert "diverse_conformer" in task.encoder_choices.classes, task
    assert "diverse_transformer" in task.decoder_choices.classes, task
for task in (asr, lm, mt, s2t):
    assert "diverse" in task.model_choices.classes, task
assert "diverse_transformer" in lm.lm_choices.classes
import g2p_en
assert "g2p_en.g2p" not in sys.modules
import numpy, soundfile
model_dir, audio = sys.argv[1:]
search = Speech2Text(f"{model_dir}/config.yaml", f"{model_dir}/valid.acc.ave.pth", lm_weight=0.0, beam_size=2)
assert type(search.asr_model.encoder).__name__ == "DiverseTransformerEncoder"
text, *_ = search(soundfile.read(audio, dtype="float32")[0])[0]
assert set(text) <= set("abcd")
"""


def test_espnets_own_recognizer_loads_our_model_from_another_directory_and_nothing_is_printed(tiny_run, tmp_path):
    audio = tiny_run.test_dir / "test-00.wav"
    command = [sys.executable, "-c", FRESH, str(tiny_run.model_dir), str(audio)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []


def test_tasks_that_were_imported_before_are_served_by_install(monkeypatch):
    from espnet2.tasks import asr

    monkeypatch.setattr(sys, "meta_path", [f for f in sys.meta_path if not isinstance(f, import_hooks._Finder)])
    monkeypatch.delitem(asr.model_choices.classes, "diverse")
    monkeypatch.delitem(asr.encoder_choices.classes, "diverse_transformer")
    espnet_diverse.install()
    assert "diverse" in asr.model_choices.classes and "diverse_transformer" in asr.encoder_choices.classes
    finders = len(sys.meta_path)
    espnet_diverse.install()
    assert len(sys.meta_path) == finders


def test_a_class_of_the_wrong_type_is_refused():
    choices = SimpleNamespace(name="encoder", base_type=int, classes={})
    with pytest.raises(TypeError, match="encoder 'x' is a str; it must be a int"):
        import_hooks._enter(choices, {"x": str})
    assert choices.classes == {}


def test_a_missing_g2p_en_is_an_ordinary_import_error(monkeypatch):
    finder = import_hooks._Finder()
    monkeypatch.setattr(sys, "meta_path", [finder])
    assert finder.find_spec("g2p_en") is None


def test_swapped_restores_names_and_builtins():
    module = SimpleNamespace(value=1)
    with import_hooks.swapped(module, value=2, print=3):
        assert (module.value, module.print) == (2, 3)
    assert vars(module) == {"value": 1}
