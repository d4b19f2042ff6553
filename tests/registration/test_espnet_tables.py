"""`import espnet_diverse` registers names with ESPnet through one finder, and does nothing else."""

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from espnet_diverse.registration import espnet_tables

STATE = """
import json, sys, warnings
finders, filters = list(sys.meta_path), list(warnings.filters)
{imports}
added = [type(finder).__module__ for finder in sys.meta_path if finder not in finders]
same_filters = warnings.filters == filters
heavy = [name for name in ("torch", "espnet2", "typeguard") if name in sys.modules]
import typeguard
from espnet2.tasks import asr, lm, mt, s2t, s2t_ctc, st
from espnet3.systems.esp2_asr import task as espnet3_asr
from espnet2.asr.decoder import hugging_face_transformers_decoder as decoder
from espnet2.asr.encoder import hugging_face_transformers_encoder as encoder
from espnet2.text import hugging_face_tokenizer as tokenizer
tables = {{
    f"{{task.__name__}} {{name}}": [str(each) for each in choices.classes]
    for task in (asr, lm, mt, s2t, s2t_ctc, st, espnet3_asr)
    for name, choices in vars(task).items()
    if isinstance(getattr(choices, "classes", None), dict)
}}
print("STATE", json.dumps({{
    "tables": tables,
    "transformers": [module.is_transformers_available for module in (decoder, encoder, tokenizer)],
    "typechecked": typeguard.typechecked.__code__.co_filename,
    "same_filters": same_filters,
    "added": added,
    "heavy": heavy,
    "lazy": [name for name, module in sys.modules.items() if "espnet_diverse" in type(module).__module__],
    "hidden": [name for name in ("transformers", "nltk", "g2p_en") if sys.modules.get(name, sys) is None],
}}))
"""


def state_after(imports: str, then: str = "", *arguments: str | Path, cwd: Path | None = None) -> tuple[dict, str]:
    """What ESPnet offers, and what the process looks like, in a fresh process that begins with `imports`.

    An import of ESPnet as it is takes 14 seconds, so the same process does what else is tested in one.

    Returns:
        The state, and what the process prints as it continues with `then`.
    """
    command = [sys.executable, "-c", STATE.format(imports=imports) + then, *map(str, arguments)]
    alone = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}  # torch does not import this package
    done = subprocess.run(command, cwd=cwd, env=alone, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    state, _, rest = done.stdout.partition("STATE")[2].partition("\n")
    return json.loads(state), rest


@pytest.fixture(scope="module")
def plain():
    """ESPnet without this package."""
    return state_after("")[0]


RECOGNISE = """
from pathlib import Path
from espnet2.bin.asr_inference import Speech2Text
import soundfile
model_dir, audio = sys.argv[1:]
search = Speech2Text(f"{model_dir}/config.yaml", f"{model_dir}/valid.acc.ave.pth", lm_weight=0.0, beam_size=2)
text, *_ = search(soundfile.read(audio, dtype="float32")[0])[0]
print("RECOGNISED", type(search.asr_model.encoder).__name__, text, *Path().iterdir())
"""
CONFIGURE = """
import runpy
sys.argv = ["asr_train", "--encoder", "diverse_conformer", "--print_config"]
runpy.run_module("espnet2.bin.asr_train", run_name="__main__", alter_sys=True)
"""


@pytest.fixture(scope="module")
def registered_and_used(tiny_run, tmp_path_factory):
    """ESPnet after `import espnet_diverse`, and what its recogniser and `asr_train --print_config` print then."""
    folder, given = tmp_path_factory.mktemp("elsewhere"), (tiny_run.model_dir, tiny_run.test_dir / "test-00.wav")
    return state_after("import espnet_diverse", RECOGNISE + CONFIGURE, *given, cwd=folder)


@pytest.fixture(scope="module")
def registered(registered_and_used):
    """ESPnet after `import espnet_diverse`."""
    return registered_and_used[0]


@pytest.mark.recipes
def test_espnets_tables_hold_its_own_classes_and_ours(plain, registered):
    nets = {"diverse_transformer", "diverse_conformer", "diverse_branchformer", "diverse_e_branchformer"}
    nets |= {"diverse_contextual_block_transformer", "diverse_contextual_block_conformer", "diverse_whisper"}
    decoders = {"diverse_transformer", "diverse_whisper"}
    ours = {"encoder_choices": nets, "decoder_choices": decoders, "lm_choices": {"diverse_transformer"}}
    assert registered["tables"].keys() == plain["tables"].keys()
    for key, classes in plain["tables"].items():
        task, table = key.split()
        added = ours.get(table, {"diverse"} if table == "model_choices" else set())
        if task.endswith(".mt"):
            of_text = {
                "frontend_choices": {"bert"},
                "decoder_choices": {"flow", "vae"},
                "model_choices": {"flow", "vae"},
            }
            added = added | of_text.get(table, set())
        if table == "frontend_choices" and not task.endswith(".mt"):
            # In tables that have ESPnet's, ours take their places.
            added = {"huggingface", "fused", "whisper_mel", "whisper_encoder"}
        if task.endswith(".s2t_ctc") and table == "encoder_choices":
            added = {"diverse_e_branchformer_ctc"}
        assert set(registered["tables"][key]) == set(classes) | added, key


@pytest.mark.recipes
def test_the_import_changes_nothing_else_of_the_process(plain, registered):
    assert plain["transformers"] == registered["transformers"] == [True] * 3
    assert registered["added"] == [f"espnet_diverse.registration.{name}" for name in ("espnet_tables", "edit_distance")]
    assert registered["heavy"] == registered["lazy"] == registered["hidden"] == []
    assert registered["same_filters"]
    assert registered["typechecked"] == plain["typechecked"]


@pytest.mark.recipes
def test_espnets_own_command_knows_our_names(registered_and_used):
    assert "encoder: diverse_conformer" in registered_and_used[1] and "conv_channels: 1024" in registered_and_used[1]


@pytest.mark.recipes
def test_espnets_own_recognizer_loads_our_model_from_another_directory(registered_and_used):
    (line,) = re.findall("^RECOGNISED (.*)$", registered_and_used[1], re.MULTILINE)
    encoder, _, text = line.partition(" ")
    assert encoder == "DiverseTransformerEncoder"  # and no file is written where it runs
    assert text and set(text) <= set("abcd")


def test_tasks_that_were_imported_before_are_served_at_once(monkeypatch):
    from espnet2.tasks import asr

    others = [finder for finder in sys.meta_path if not isinstance(finder, espnet_tables._Registering)]
    monkeypatch.setattr(sys, "meta_path", others)
    monkeypatch.delitem(asr.model_choices.classes, "diverse")
    monkeypatch.delitem(asr.encoder_choices.classes, "diverse_transformer")
    espnet_tables.register_on_import()
    assert "diverse" in asr.model_choices.classes and "diverse_transformer" in asr.encoder_choices.classes
    finders = len(sys.meta_path)
    espnet_tables.register_on_import()
    assert len(sys.meta_path) == finders


EXECUTED = """
import sys
from espnet_diverse.registration import espnet_tables
found = []
espnet_tables._after_import(sys.modules[__name__], lambda module: found.append(module.table))
table = 1
"""


def test_a_task_that_imports_torch_is_served_when_it_has_its_tables(tmp_path, monkeypatch):
    """torch imports this package while the task is executed."""
    (tmp_path / "executed_task.py").write_text(EXECUTED)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("executed_task")
    assert module.found == module.found == [1] and type(module) is type(sys)


def test_a_class_of_the_wrong_type_is_refused():
    choices = SimpleNamespace(name="encoder", base_type=int, classes={})
    with pytest.raises(TypeError, match="encoder 'x' is a str; it must be a int"):
        espnet_tables._add(choices, {"x": str})
    assert choices.classes == {}


def test_espnet_says_nothing_about_a_package_that_nobody_asked_for():
    code = "import sys; sys.modules['flash_attn'] = None; import espnet_diverse\n"
    code += "from espnet2.legacy.nets.pytorch_backend.transformer.attention import MultiHeadedAttention as a; print(a)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "MultiHeadedAttention" in done.stdout and "Flash Attention" not in done.stderr
