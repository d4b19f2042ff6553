"""A Kaldi directory with pipes, arks, segments and unsorted tables: prepared, trained and decoded; and features."""

import gzip
import json
from pathlib import Path

import kaldiio
import numpy as np
import pytest
import soundfile
from conftest import FREQUENCY, OVERRIDES, RATE

from espnet_diverse.audio.reading import read_audio
from espnet_diverse.bin.main import main
from espnet_diverse.data.kaldi import read_data_dir

pytestmark = pytest.mark.slow
SETS = {"tr": 8, "cv": 4, "tt": 3}


def spoken(letters: str, random: np.random.Generator) -> np.ndarray:
    """A tone of a quarter of a second for each letter, and noise, (T,) int16."""
    time = np.arange(RATE // 4) / RATE
    signal = np.concatenate([0.3 * np.sin(2 * np.pi * FREQUENCY[letter] * time) for letter in letters])
    return np.rint(32768 * (signal + 0.01 * random.standard_normal(signal.size))).astype(np.int16)


def write_kaldi(folder: Path, count: int, random: np.random.Generator) -> dict[str, np.ndarray]:
    """A directory of `count` recordings of two utterances: a pipe, a longer pipe, two arks and a file in turns.

    Returns:
        The samples of each utterance.
    """
    folder.mkdir(parents=True)
    arks: dict[str, dict[str, tuple[int, np.ndarray]]] = {"wav": {}, "flac": {}}
    lines: dict[str, list[str]] = {name: [] for name in ("wav.scp", "text", "segments", "utt2lang")}
    samples = {}
    for number in range(count):
        name = f"{folder.name}-{number}"
        letters = ["".join(random.choice(list(FREQUENCY), 3)) for _ in "ab"]
        audio = np.concatenate([spoken(part, random) for part in letters])
        wav = folder / "audio" / f"{name}.wav"
        wav.parent.mkdir(exist_ok=True)
        soundfile.write(wav, audio, RATE)
        if number % 5 == 1:
            Path(f"{wav}.gz").write_bytes(gzip.compress(wav.read_bytes()))
            lines["wav.scp"].append(f"{name} cat {wav}.gz | gunzip -c |")
        elif number % 5 in (2, 3):
            arks["wav" if number % 5 == 2 else "flac"][name] = (RATE, audio)
        else:
            lines["wav.scp"].append(f"{name} cat '{wav}' |" if number % 5 == 0 else f"{name} {wav}")
        for part, text in enumerate(letters):
            utterance = f"{name}-{part}"
            lines["text"].append(f"{utterance} {text}")
            lines["segments"].append(f"{utterance} {name} {0.75 * part} {0.75 * part + 0.75}")
            lines["utt2lang"].append(f"{utterance} xx")
            samples[utterance] = audio[part * 12000 : part * 12000 + 12000]
    for kind, content in arks.items():
        coding = {"write_function": "soundfile", "write_kwargs": {"format": "flac"}} if kind == "flac" else {}
        kaldiio.save_ark(str(folder / f"{kind}.ark"), content, scp=str(folder / "scp"), **coding)
        lines["wav.scp"] += (folder / "scp").read_text().splitlines()
    (folder / "scp").unlink()
    for table, content in lines.items():
        (folder / table).write_text("".join(f"{line}\n" for line in sorted(content, reverse=True)))
    return samples


@pytest.fixture(scope="module")
def kaldi(tmp_path_factory) -> tuple[Path, dict[str, np.ndarray]]:
    """A folder of three directories, and the samples of the test set."""
    root, random = tmp_path_factory.mktemp("kaldi"), np.random.default_rng(0)
    samples = {name: write_kaldi(root / "data" / name, count, random) for name, count in SETS.items()}
    return root, samples["tt"]


def train(root: Path, train_dir: Path, valid_dir: Path, *changes: str) -> Path:
    """Collect statistics, train for two epochs and average; returns the directory of the run."""
    assert main(["tokens", "--text", str(train_dir / "text"), "--output_dir", str(root / "tokens")]) == 0
    settings = [f"--set={key}={value}" for key, value in OVERRIDES.items()] + list(changes)
    data = ["--train_dir", str(train_dir), "--valid_dir", str(valid_dir), "--tokens_dir", str(root / "tokens")]
    arguments = ["--config", "model/tiny,attention/sdma", *settings, *data]
    assert main(["stats", *arguments, "--output_dir", str(root / "stats")]) == 0
    assert main(["train", *arguments, "--stats_dir", str(root / "stats"), "--output_dir", str(root / "exp")]) == 0
    assert main(["average", str(root / "exp")]) == 0
    return root / "exp"


def decoded(model: Path, data_dir: Path, output: Path, *options: str) -> dict[str, str]:
    """Decode; the contents of text and score."""
    given = [str(model), "--data_dir", str(data_dir), "--output_dir", str(output)]
    assert main(["decode", *given, *options]) == 0
    return {name: (output / name).read_text() for name in ("text", "score")}


def test_a_directory_of_everything_is_prepared_trained_and_decoded(kaldi, tmp_path, monkeypatch):
    root, samples = kaldi
    monkeypatch.chdir(root)  # relative paths, as in a recipe
    names = ["--set_names", "train=tr", "dev=cv", "test=tt"]
    arks = ["--audio_format", "ark", "--shards", "2", "--allow_pipes", "--download_dir", str(tmp_path / "downloads")]
    assert main(["prepare", "kaldi", "data", *names, *arks, "--output_dir", "out"]) == 0
    assert main(["validate", "out/train", "out/dev", "out/test"]) == 0
    prepared = read_data_dir(Path("out/test"))
    assert {Path(entry).name.partition(":")[0] for entry in prepared.wav_scp.values()} == {"wav.1.ark", "wav.2.ark"}
    for utterance, expected in samples.items():
        np.testing.assert_array_equal(32768 * read_audio(Path(prepared.wav_scp[utterance]))[0], expected)
    model = train(tmp_path, Path("out/train"), Path("out/dev"))
    whole = decoded(model, Path("out/test"), tmp_path / "prepared")
    assert [line.split()[0] for line in whole["text"].splitlines()] == sorted(samples)
    # What has no pipes is decoded as it is, segments and arks included, and gives the same.
    table = root / "data" / "tt" / "wav.scp"
    wavs = {name: str(root / "data" / "tt" / "audio" / f"{name}.wav") for name in ("tt-0", "tt-1")}
    lines = [line for line in table.read_text().splitlines() if "|" not in line]
    table.write_text("".join(f"{line}\n" for line in [*lines, *(f"{name} {wav}" for name, wav in wavs.items())]))
    assert any("wav.ark:" in line for line in lines)
    assert decoded(model, root / "data" / "tt", tmp_path / "raw") == whole
    assert main(["validate", "data/tt", "--json", str(tmp_path / "faults.json")]) == 0
    assert {fault["kind"] for fault in json.loads((tmp_path / "faults.json").read_text())} == {"format"}  # one ark


def test_a_model_of_features_is_trained_and_decodes(tmp_path):
    """Energies in eight bands, in compressed arks; the search of ESPnet decodes them too."""
    random = np.random.default_rng(1)
    for name, count in (("train", 12), ("valid", 4), ("test", 3)):
        folder, features = tmp_path / name, {}
        folder.mkdir()
        lines = []
        for number in range(count):
            letters = "".join(random.choice(list(FREQUENCY), 3))
            frames = spoken(letters, random)[: 75 * 160].reshape(75, 160) / 32768
            power = np.abs(np.fft.rfft(frames)[:, 1:81]).reshape(75, 8, 10).sum(axis=2)
            features[f"{name}-{number:02d}"] = np.log(power).astype(np.float32)
            lines.append(f"{name}-{number:02d} {letters}\n")
        (folder / "text").write_text("".join(lines))
        kaldiio.save_ark(str(folder / "f.ark"), features, scp=str(folder / "feats.scp"), compression_method=2)
    model = train(tmp_path, tmp_path / "train", tmp_path / "valid", "--set=input_size=8", "--set=seed=1")
    found = decoded(model, tmp_path / "test", tmp_path / "ours", "--ctc_weight", "0.3", "--beam_size", "3")
    theirs = decoded(
        model, tmp_path / "test", tmp_path / "theirs", "--search", "espnet", "--ctc_weight", "0.3", "--beam_size", "3"
    )
    assert found["text"] == theirs["text"] and len(found["text"].splitlines()) == 3
    scores = [[float(line.split()[1]) for line in each["score"].splitlines()] for each in (found, theirs)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-3)
    assert main(["validate", str(tmp_path / "test")]) == 0
