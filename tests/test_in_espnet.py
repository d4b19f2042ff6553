"""ESPnet without this package uses what this package trains and packs with nets of ESPnet."""

import json
import os
import shutil
import subprocess
import sys

import pytest
import yaml
from conftest import OVERRIDES
from espnet2.main_funcs.pack_funcs import unpack
from fixtures.recordings import TEST
from references.espnet_fixtures import Model
from references.fixture_utterances import write_utterances
from references.train_command import train

from espnet_diverse.bin.main import main

pytestmark = pytest.mark.recipes
ALONE = """
import json, sys
sys.modules["espnet_diverse"] = None
given = json.loads(sys.argv[1])
import soundfile
from espnet2.bin import asr_inference, cli, s2t_inference
search = asr_inference.Speech2Text(**given["files"], lm_weight=0.0, beam_size=3, ctc_weight=0.3)
texts = [search(soundfile.read(path, dtype="float32")[0])[0][0] for path in given["recordings"]]
search = s2t_inference.Speech2Text(*given["multitask"])
long = [text for _, _, text in search.decode_long(given["audio"], lang_sym="<eng>", task_sym="<asr>")]
print(json.dumps([texts, long]))
sys.exit(cli.main(given["command"]))
"""
"""What ESPnet reads without this package, in one process, as its import takes 14 seconds."""


@pytest.fixture(scope="module")
def run(tiny_run, tmp_path_factory):
    """A run with nets of ESPnet, packed in its folder as model.zip and decoded in its folder as decode."""
    folder = tmp_path_factory.mktemp("nets of espnet") / "exp"
    nets = ["encoder=transformer", "decoder=transformer", "model=espnet", "max_epoch=1"]
    settings = [f"--set={key}={value}" for key, value in OVERRIDES.items() if ".attention." not in key]
    run = tiny_run._replace(config=["--config", "model/tiny", *settings], model_dir=folder)
    assert train(run, folder, *nets) == 0
    assert main(["average", str(folder), "--number", "1"]) == 0
    packing = ["--output", str(folder / "model.zip"), "--weights", "pth", "--license", "mit"]
    assert main(["pack", str(folder), *packing]) == 0
    search = ["--beam_size", "3", "--ctc_weight", "0.3", "--output_dir", str(folder / "decode")]
    assert main(["decode", str(folder), "--data_dir", str(run.test_dir), *search]) == 0
    return run


@pytest.fixture(scope="module")
def multitask(tmp_path_factory):
    """A folder with a recording, a multitask model, and that model as this package packs it."""
    model, root = Model("202611", "s2t_e_branchformer"), tmp_path_factory.mktemp("multitask")
    write_utterances(root / "data", TEST.values(), ["eng"] * len(TEST))
    folder = shutil.copytree(model.root, root / "root", symlinks=True) / "exp" / model.name
    config = yaml.safe_load((folder / "config.yaml").read_text())
    config["encoder_conf"]["input_layer"] = "conv2d"  # the default, which espnet transcribe asks for
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    packing = ["--output", str(root / "ours.zip"), "--weights", "pth", "--license", "mit"]
    assert main(["pack", str(folder), *packing]) == 0
    return root, [f"exp/{model.name}/{name}" for name in ("config.yaml", model.kind.weights)]


@pytest.fixture(scope="module")
def alone(run, multitask, tmp_path_factory):
    """Texts of the packed run, the text of the multitask model, and what `espnet transcribe` prints for its pack."""
    root, files = multitask
    audio, archive = str(root / "data" / "t1.wav"), str(root / "ours.zip")
    unpacked = unpack(str(run.model_dir / "model.zip"), str(tmp_path_factory.mktemp("unpacked")))
    given = {
        "files": {key: str(path) for key, path in unpacked.items()},
        "recordings": [line.split(maxsplit=1)[1] for line in (run.test_dir / "wav.scp").read_text().splitlines()],
        "multitask": files,
        "audio": audio,
        "command": ["transcribe", "--language", "eng", "--device", "cpu", "--model", archive, audio],
    }
    command = [sys.executable, "-c", ALONE, json.dumps(given)]
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}  # torch would import this package
    done = subprocess.run(command, capture_output=True, text=True, cwd=root / "root", env=environment)
    assert done.returncode == 0, done.stderr
    *_, found, said = done.stdout.splitlines()
    return *json.loads(found), said


def test_a_model_with_nets_of_espnet_is_read_by_its_speech2text(run, alone):
    lines = (run.model_dir / "decode" / "text").read_text().splitlines()
    assert alone[0] == [line.partition(" ")[2] for line in lines] and len(lines) == 3


def test_a_packed_multitask_model_is_read_by_espnet_transcribe(alone):
    _, long, said = alone
    assert said == " ".join(long) != ""
