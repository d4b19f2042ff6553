"""A wheel, installed without the repository, holds all that it needs: it trains, decodes, packs and transcribes."""

import importlib.metadata
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import numpy as np
import pytest
import soundfile
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from references.markdown import blocks
from test_notebooks import program

from espnet_diverse import __version__

pytestmark = pytest.mark.recipes

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "install.md"
SOURCES = ("setup.py", "pyproject.toml", "README.md", "LICENSE", "espnet_diverse", "conf")
OFFLINE = ("--quiet", "--no-index", "--no-deps", "--no-build-isolation")
RATE = 16_000
FREQUENCY = {"a": 300, "b": 600, "c": 1200}
TRAINING = {
    "max_epoch": 1,
    "batch_type": "unsorted",
    "batch_size": 4,
    "num_workers": 0,
    "optim": "adam",
    "encoder_conf.num_blocks": 1,
    "best_model_criterion": "[[valid, acc, max]]",
}
SEARCH = ("--beam_size", "3", "--ctc_weight", "0.3", "--minlenratio", "0.2")  # a length: it has learned so little
ALONE = """
import importlib, pkgutil, sys
sys.modules.update(dict.fromkeys(sys.argv[1:]))
from espnet_diverse import attention, functional, nets
for package in (attention, functional, nets):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
from espnet2.bin import asr_inference
from espnet2.tasks import asr, mt
assert "diverse_conformer" in asr.encoder_choices.classes and "flow" in mt.decoder_choices.classes
"""
"""Imports the attention and the nets, by themselves and for ESPnet, without the packages that are its arguments."""


def environment_of_a_user() -> dict[str, str]:
    """The environment of this process without what leads Python to the repository."""
    return {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}


def run(*command, cwd):
    """Run a command as a user does who has no repository: nothing of this process's paths reaches it."""
    words = [str(part) for part in command]
    done = subprocess.run(words, cwd=cwd, env=environment_of_a_user(), capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def pip(*arguments, cwd):
    return run(sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments, cwd=cwd)


@pytest.fixture(scope="module")
def sources(tmp_path_factory) -> Path:
    """A copy of what a wheel is built from: setuptools writes beside it, and would take up what an old build left."""
    folder = tmp_path_factory.mktemp("sources")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture(scope="module")
def wheel(sources, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", *OFFLINE, "--wheel-dir", folder, sources, cwd=folder)
    return next(folder.glob("*.whl"))


def environment(folder: Path, *installed) -> Path:
    """The bin of a new virtual environment with one package installed, which sees the packages of this environment.

    They are on its path by a .pth file, and .pth files of a folder that is named in one are not read. So the editable
    installation of the repository here does not reach it; `distutils`, which setuptools adds in such a file and ESPnet
    imports, is added here.
    """
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder.parent)
    here = Path(sysconfig.get_paths()["purelib"])
    inside = next(folder.glob("lib/python*/site-packages"))
    distutils = "import _distutils_hack; _distutils_hack.add_shim()"
    (inside / "packages.pth").write_text(f"{here}\n{distutils}\n", encoding="utf-8")
    pip("--python", folder / "bin" / "python", "install", "--ignore-installed", *OFFLINE, *installed, cwd=folder)
    return folder / "bin"


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """The bin of an environment with the wheel."""
    return environment(tmp_path_factory.mktemp("installed") / "venv", wheel)


def run_all(bin_dir: Path, commands: list[list[str]], cwd: Path) -> str:
    """Run commands of espnet-diverse by `espnet-diverse plan`, in one process that imports ESPnet once."""
    lines = [f"{words[0]}\t{shlex.join(['espnet-diverse', *words])}\n" for words in commands]
    (cwd / "plan.tsv").write_text("".join(lines), encoding="utf-8")
    return run(bin_dir / "espnet-diverse", "plan", "plan.tsv", cwd=cwd)


def write_data_dir(folder: Path, count: int) -> None:
    """A data directory of `count` utterances: three letters each, and a tone for each letter."""
    folder.mkdir()
    random = np.random.default_rng(count)
    time = np.arange(RATE // 4) / RATE
    tables: dict[str, list[str]] = {"wav.scp": [], "text": [], "utt2spk": [], "spk2utt": []}
    for index in range(count):
        name = f"{folder.name}-{index:02d}"
        letters = "".join(random.choice(list(FREQUENCY), 3))
        signal = np.concatenate([np.sin(2 * np.pi * FREQUENCY[letter] * time) for letter in letters])
        soundfile.write(folder / f"{name}.wav", 0.3 * signal + 0.01 * random.standard_normal(signal.size), RATE)
        row = {"wav.scp": f"{folder.name}/{name}.wav", "text": letters, "utt2spk": name, "spk2utt": name}
        for table, value in row.items():
            tables[table].append(f"{name} {value}\n")
    for table, lines in tables.items():
        (folder / table).write_text("".join(lines), encoding="utf-8")


def test_a_wheel_holds_the_package_its_fragments_and_its_page_and_no_tests(wheel):
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
        metadata = archive.read(f"espnet_diverse-{__version__}.dist-info/METADATA").decode()
    package = [
        path for path in (ROOT / "espnet_diverse").rglob("*") if path.suffix in {".py", ".html", ".css", ".js", ".yaml"}
    ]
    expected = {path.relative_to(ROOT).as_posix() for path in [*package, ROOT / "espnet_diverse" / "py.typed"]}
    fragments = {f"espnet_diverse/{path.relative_to(ROOT).as_posix()}" for path in ROOT.glob("conf/*/*.yaml")}
    assert fragments and held == expected | fragments
    assert f"\nVersion: {__version__}\n" in metadata and "\nLicense-File: LICENSE\n" in metadata


@pytest.fixture(scope="module")
def work(installed, tmp_path_factory) -> Path:
    """A folder in which the wheel has trained exp/sdma, decoded, and packed sdma.zip."""
    work = tmp_path_factory.mktemp("work")
    for name, count in (("train", 8), ("valid", 3), ("test", 2)):
        write_data_dir(work / name, count)
    changes = [f"--set={key}={value}" for key, value in TRAINING.items()]
    config = ["--config", "model/tiny,attention/sdma", *changes]
    data = ["--train_dir", "train", "--valid_dir", "valid", "--tokens_dir", "tokens"]
    steps = [
        ["tokens", "--text", "train/text", "--output_dir", "tokens"],
        ["stats", *config, *data, "--output_dir", "exp/stats"],
        ["train", *config, *data, "--stats_dir", "exp/stats", "--output_dir", "exp/sdma"],
        ["average", "exp/sdma"],
        ["decode", "exp/sdma", "--data_dir", "test", *SEARCH, "--output_dir", "exp/sdma/test"],
        ["pack", "exp/sdma", "--output", "sdma.zip"],
    ]
    assert "decoded 2 of 2" in run_all(installed, steps, work)
    return work


@pytest.mark.slow
def test_a_wheel_trains_decodes_packs_and_transcribes_in_an_empty_folder(installed, work):
    where = run(installed / "python", "-c", "import espnet_diverse; print(espnet_diverse.__file__)", cwd=work)
    assert Path(where.strip()).is_relative_to(installed.parent)
    assert run(installed / "espnet-diverse", "--version", cwd=work).strip() == f"espnet-diverse {__version__}"
    out = ["--beam_size", "2", "--output_dir", "transcripts", "--output_format", "json"]
    run(installed / "espnet-diverse", "transcribe", "sdma.zip", "test/test-00.wav", *out, cwd=work)
    assert (work / "transcripts" / "test-00.json").is_file()


@pytest.mark.slow
def test_espnets_own_programs_know_our_names_and_each_decodes_what_the_other_trains(installed, work):
    """Without an import of this package, which torch finds by its entry point."""
    theirs = ["--config", "exp/sdma/train.yaml", "--encoder", "diverse_conformer", "--output_dir", "exp/theirs"]
    theirs += ["--token_type", "char", "--token_list", "tokens/tokens.txt", "--num_att_plot", "0"]
    for name in ("train", "valid"):
        theirs += [f"--{name}_shape_file", f"exp/stats/{name}/speech_shape"]
        for table in ("wav.scp,speech,sound", "text,text,text"):
            theirs += [f"--{name}_data_path_and_name_and_type", f"{name}/{table}"]
    run(installed / "python", "-m", "espnet2.bin.asr_train", *theirs, cwd=work)
    run_all(
        installed, [["decode", "exp/theirs", "--data_dir", "test", *SEARCH, "--output_dir", "exp/theirs/test"]], work
    )
    for model in (work / "exp" / "sdma", work / "exp" / "theirs"):
        files = ["--asr_train_config", model / "config.yaml", "--asr_model_file", model / "valid.acc.ave.pth"]
        data = ["--data_path_and_name_and_type", "test/wav.scp,speech,sound", "--output_dir", model / "espnet"]
        search = [*SEARCH, "--lm_weight", "0"]
        run(installed / "python", "-m", "espnet2.bin.asr_inference", *files, *data, *search, cwd=work)
        texts = (model / "test" / "text").read_text(encoding="utf-8")
        assert texts == (model / "espnet" / "1best_recog" / "text").read_text(encoding="utf-8")
        assert all(line.split(maxsplit=1)[1:] for line in texts.splitlines())


def needed(name: str, found: set[str]) -> set[str]:
    """Names of an installed distribution and of all that it requires, added to `found`."""
    if name not in found:
        found.add(name)
        for need in map(Requirement, importlib.metadata.requires(name) or []):
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                needed(canonicalize_name(need.name), found)
    return found


def test_attentions_and_nets_need_torch_and_espnet_alone_in_espnet_too():
    """Without all that an installation adds to ESPnet's, which docs/install.md lists."""
    added = needed("espnet-diverse", set()) - needed("espnet", set()) - {"espnet-diverse"}
    listed = re.search(r"adds (\d+) packages [^:]*: ([^.]*)\.", PAGE.read_text(encoding="utf-8"))
    assert set(re.findall(r"[\w-]+", listed[2])) == added and int(listed[1]) == len(added)
    packages = importlib.metadata.packages_distributions()
    blocked = [name for name, owners in packages.items() if {canonicalize_name(owner) for owner in owners} <= added]
    assert {"jiwer", "sacrebleu", "matplotlib", "safetensors"} <= set(blocked)
    done = subprocess.run([sys.executable, "-c", ALONE, *blocked], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_wheel_leads_from_a_table_to_a_transcript(installed, tmp_path):
    """The commands of docs/own_data.md for those who have no recipes, with one epoch."""
    work = tmp_path / "work"
    (work / "recordings").mkdir(parents=True)
    write_data_dir(work / "tones", 20)
    texts = dict(line.split() for line in (work / "tones" / "text").read_text(encoding="utf-8").splitlines())
    for name in texts:
        samples, _ = soundfile.read(work / "tones" / f"{name}.wav")
        soundfile.write(work / "recordings" / f"{name}.flac", samples[::2], RATE // 2)
    rows = "".join(f"{name}.flac,{text}\n" for name, text in texts.items())
    (work / "recordings" / "table.csv").write_text(f"audio,text\n{rows}", encoding="utf-8")
    shutil.copy(work / "recordings" / f"{min(texts)}.flac", work / "new.wav")
    steps = [line for line in blocks(ROOT / "docs" / "own_data.md", "sh")[-1].splitlines() if line]
    names = [line.split()[1] for line in steps]
    assert names == ["prepare", "tokens", "stats", "train", "average", "transcribe"]
    *training, transcription = [line.replace("max_epoch=30", "max_epoch=1").split()[1:] for line in steps]
    said = run_all(installed, training, work)
    assert "\ntrain: 16 utterances" in said and "2 utterances of 8000 Hz converted to 16 kHz mono" in said
    assert (work / "exp" / "own" / "valid.acc.ave.pth").is_file()
    assert len(run(installed / "espnet-diverse", *transcription, cwd=work).splitlines()) <= 1


@pytest.mark.slow
def test_a_wheel_walks_through_the_first_hour(installed, tmp_path):
    """The first seven commands of docs/first_hour.md, from tables to scores, with one epoch of a small model."""
    page = ROOT / "docs" / "first_hour.md"
    (tmp_path / "mine").mkdir()
    for name, count in (("train", 8), ("dev", 3), ("test", 2)):
        write_data_dir(tmp_path / name, count)
        (tmp_path / "mine" / name).symlink_to(tmp_path / name)
    (config,) = blocks(page, "yaml")
    small = "".join(f"{net}_conf: {{num_blocks: 1}}\n" for net in ("encoder", "decoder"))
    (tmp_path / "mine.yaml").write_text(config.replace("max_epoch: 20", "max_epoch: 1") + small, encoding="utf-8")
    shown = [line for block in blocks(page, "sh") for line in block.splitlines()]
    steps = [shlex.split(line)[1:] for line in shown if line.startswith("espnet-diverse ")][:7]
    assert [step[0] for step in steps] == ["prepare", "tokens", "stats", "train", "average", "decode", "score"]
    assert "decoded 2 of 2" in run_all(installed, steps, tmp_path)
    assert (tmp_path / "exp" / "mine" / "decode" / "test" / "alignment.cer.html").is_file()


@pytest.mark.slow
def test_openais_client_asks_a_server_of_the_wheel(installed, work):
    from openai import OpenAI

    command = [installed / "espnet-diverse", "serve", "--model", "mine=sdma.zip", "--port", "0"]
    words = list(map(str, command))
    with subprocess.Popen(words, cwd=work, env=environment_of_a_user(), stdout=subprocess.PIPE) as server:
        try:
            address = re.match(r"http://\S+/", server.stdout.readline().decode())[0]
            with OpenAI(base_url=f"{address}v1", api_key="none") as client:
                with (work / "test" / "test-00.wav").open("rb") as file:
                    answer = client.audio.transcriptions.create(file=file, model="mine")
                assert isinstance(answer.text, str) and [each.id for each in client.models.list()] == ["mine"]
        finally:
            server.terminate()


@pytest.mark.slow
def test_a_notebook_runs_where_only_the_wheel_is(installed, tmp_path):
    script = program(ROOT / "examples" / "choose_attention.ipynb")
    assert "sdma " in run(installed / "python", "-c", script, cwd=tmp_path)


def test_an_editable_installation_finds_the_fragments_of_the_repository(sources, tmp_path):
    bin_dir = environment(tmp_path / "venv", "--editable", sources)
    code = "from espnet_diverse.runs.config import find; print(find(['model/tiny'])[0])"
    found = Path(run(bin_dir / "python", "-c", code, cwd=tmp_path).strip())
    assert found.samefile(sources / "conf" / "model" / "tiny.yaml")


def test_a_cpu_build_of_torch_that_is_installed_stays(wheel, tmp_path):
    """With a bound of setuptools that torch does not share, installers took another torch, with all of CUDA."""
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv", cwd=tmp_path)
    packages = next((tmp_path / "venv").glob("lib/python*/site-packages"))
    for name in ("torch", "torchaudio"):
        own = importlib.metadata.metadata(name)
        needs = [need for need in own.get_all("Requires-Dist", []) if not re.match("cuda|nvidia|triton", need)]
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {own['Version'].partition('+')[0]}+cpu"]
        folder = packages / f"{name}-{lines[-1].removeprefix('Version: ')}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text("\n".join([*lines, *(f"Requires-Dist: {need}" for need in needs)]) + "\n")
    uv = [sys.executable, "-m", "uv", "pip", "install", "--dry-run", "--python", tmp_path / "venv", wheel]
    said = subprocess.run(uv, capture_output=True, text=True).stderr
    if re.search("dns error|error sending request|Network connectivity", said):
        pytest.skip("no package index can be reached")
    changed = re.findall(r"^ [-+] (\S+)==", said, re.MULTILINE)
    assert "espnet" in changed, said
    assert not [name for name in changed if re.match("torch(audio)?$|cuda|nvidia|triton", name)]
