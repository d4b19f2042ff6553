"""A small conformer whose encoder has our attention, and utterances for it."""

import numpy as np
import pytest
import soundfile
from references.espnet_models import RATE, TRANSFORMER, write_model

from espnet_diverse.analysis.teacher_forcing import load, target_vocabulary
from espnet_diverse.analysis.windows.choice import choose_windows
from espnet_diverse.packing.adoption import adopt
from espnet_diverse.runs.config import merge

SIZES = TRANSFORMER | {"num_blocks": 2, "cnn_module_kernel": 3, "rel_pos_type": "latest"}


@pytest.fixture(scope="package")
def conformer(tmp_path_factory):
    """The directory of a conformer of ESPnet, adopted as it is."""
    root = tmp_path_factory.mktemp("windows")
    write_model(root / "exp", "conformer", encoder_conf=SIZES)
    adopt(root / "exp", root / "plain", merge([]))
    return root / "plain"


@pytest.fixture(scope="package")
def dev_dir(tmp_path_factory):
    """A data directory of three recordings of noise, and a fourth, u3, that is too short for the model."""
    folder, random = tmp_path_factory.mktemp("dev"), np.random.default_rng(0)
    tables = {"wav.scp": "", "text": "", "utt2spk": "", "spk2utt": ""}
    for number, seconds in enumerate((0.5, 1.1, 0.8, 0.01)):
        path = folder / f"u{number}.wav"
        soundfile.write(path, 0.1 * random.standard_normal(round(seconds * RATE)), RATE)
        for table, value in zip(tables, (path, "abc dab"[number:], f"u{number}", f"u{number}"), strict=True):
            tables[table] += f"u{number} {value}\n"
    for table, content in tables.items():
        (folder / table).write_text(content)
    return folder


@pytest.fixture(scope="package")
def choose(conformer, dev_dir):
    """A function that loads the conformer and chooses windows: `choose(tolerance)` -> the model, and the windows."""

    def chosen(tolerance, names=("u0", "u1", "u2"), **options):
        model, rate = load(conformer)
        indices, vocabulary = {name: {} for name in names}, target_vocabulary(conformer)
        return model, choose_windows(model, vocabulary, dev_dir, indices, rate, tolerance, **options)

    return chosen
