"""ESPnet without this package uses what this package trains and packs with nets of ESPnet."""

import json
import shutil
import subprocess
import sys

import yaml
from conftest import OVERRIDES
from espnet2.main_funcs.pack_funcs import unpack
from fixtures.recordings import TEST
from references.espnet_fixtures import Model
from references.fixture_utterances import write_utterances
from references.train_command import train

from espnet_diverse.bin.main import main

WITHOUT_US = "import sys; sys.modules['espnet_diverse'] = None\n"
SPEECH2TEXT = """
import json, soundfile
from espnet2.bin.asr_inference import Speech2Text
given, paths = json.loads(sys.argv[1]), sys.argv[2:]
search = Speech2Text(**given, lm_weight=0.0, beam_size=3, ctc_weight=0.3)
print(json.dumps([search(soundfile.read(path, dtype="float32")[0])[0][0] for path in paths]))
"""
TRANSCRIBE = """
from espnet2.bin.cli import main
from espnet2.bin.s2t_inference import Speech2Text
config, weights, audio, *sys.argv[1:] = sys.argv[1:]
assert not main()
search = Speech2Text(config, weights)
print()
print(*(text for _, _, text in search.decode_long(audio, lang_sym="<eng>", task_sym="<asr>")))
"""


def espnet(code, *arguments, cwd=None):
    """The lines that a program of ESPnet prints, in a process that cannot import this package."""
    command = [sys.executable, "-c", WITHOUT_US + code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_model_with_nets_of_espnet_is_read_by_its_speech2text(tiny_run, tmp_path):
    nets = ["encoder=transformer", "decoder=transformer", "model=espnet", "max_epoch=1"]
    settings = [f"--set={key}={value}" for key, value in OVERRIDES.items() if ".attention." not in key]
    run = tiny_run._replace(config=["--config", "model/tiny", *settings], model_dir=tmp_path / "exp")
    assert train(run, run.model_dir, *nets) == 0
    assert main(["average", "--model_dir", str(run.model_dir), "--number", "1"]) == 0
    archive = tmp_path / "model.zip"
    assert main(["pack", str(run.model_dir), "--output", str(archive), "--weights", "pth", "--license", "mit"]) == 0
    search = ["--beam_size", "3", "--ctc_weight", "0.3", "--output_dir", str(tmp_path / "decode")]
    assert main(["decode", str(run.model_dir), "--data_dir", str(run.test_dir), *search]) == 0
    lines = (tmp_path / "decode" / "text").read_text().splitlines()
    files = {key: str(path) for key, path in unpack(str(archive), str(tmp_path / "unpacked")).items()}
    audio = [line.split(maxsplit=1)[1] for line in (run.test_dir / "wav.scp").read_text().splitlines()]
    found = json.loads(espnet(SPEECH2TEXT, json.dumps(files), *audio)[-1])
    assert found == [line.partition(" ")[2] for line in lines] and len(found) == 3


def test_a_packed_multitask_model_is_read_by_espnet_transcribe(tmp_path):
    model = Model("202611", "s2t_e_branchformer")
    data = write_utterances(tmp_path / "data", TEST.values(), ["eng"] * len(TEST))
    folder = shutil.copytree(model.root, tmp_path / "root", symlinks=True) / "exp" / model.name
    config = yaml.safe_load((folder / "config.yaml").read_text())
    config["encoder_conf"]["input_layer"] = "conv2d"  # the default, which espnet transcribe asks for
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    archive, audio = tmp_path / "ours.zip", data / "t1.wav"
    assert main(["pack", str(folder), "--output", str(archive), "--weights", "pth", "--license", "mit"]) == 0
    files = [f"exp/{model.name}/{name}" for name in ("config.yaml", model.kind.weights)]
    command = ["transcribe", "--language", "eng", "--device", "cpu", "--model", archive, audio]
    *_, said, _, expected = espnet(TRANSCRIBE, *files, audio, *command, cwd=tmp_path / "root")
    assert said == expected != ""
