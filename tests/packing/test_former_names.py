"""A packed model whose config.yaml has the names that options had in earlier versions."""

import logging
import zipfile

import numpy as np
import pytest
import yaml
from references.former_names import NAMES, build, with_former_names

from espnet_diverse import option_checks
from espnet_diverse.decoding.options import Options
from espnet_diverse.inference import Recognizer, SegmentationOptions
from espnet_diverse.packing.archive import unpacked
from espnet_diverse.packing.model_card import Facts
from espnet_diverse.packing.pack import pack
from espnet_diverse.training import checkpoint
from espnet_diverse.training.config import save

SAMPLES = np.random.default_rng(1).standard_normal(8000).astype(np.float32) / 10


@pytest.fixture
def present(tmp_path):
    """The directory of a run with present names."""
    model, args = build()
    folder = tmp_path / "run"
    save(vars(args) | {"task": "asr", "token_type": "char"}, folder / "config.yaml")
    checkpoint.save(model.state_dict(), folder / "valid.acc.ave.pth")
    return folder


@pytest.fixture
def former(present, tmp_path):
    """The packed model of the run, with a config.yaml as an earlier version wrote it."""
    packed = pack(present, tmp_path / "present.zip", Facts())
    with zipfile.ZipFile(packed) as source, zipfile.ZipFile(tmp_path / "former.zip", "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name == "config.yaml":
                content = yaml.safe_dump(with_former_names(yaml.safe_load(content))).encode()
                assert b"tasks:" in content and b"default_task:" in content and b"condition" not in content
            target.writestr(name, content)
    option_checks._warn.cache_clear()
    return tmp_path / "former.zip"


def recognized(model, language):
    """What a model says of noise: texts and scores of segments."""
    options = Options(beam_size=2, ctc_weight=0.4, maxlenratio=0.5)
    recognizer = Recognizer(model, options=options, segmentation=SegmentationOptions(vad="none"))
    assert recognizer.search.conditions.names == NAMES
    assert recognizer.search.conditions.defaults == {"lang": "el"}
    transcript = recognizer.transcribe(SAMPLES, 16_000, language=language)
    return transcript.conditions, [(segment.text, segment.score) for segment in transcript.segments]


def test_it_transcribes_as_the_run_with_present_names_and_warns_once(present, former, caplog):
    with caplog.at_level(logging.WARNING):
        found = [recognized(former, language) for language in ("ar", "de")]
    warned = [message for message in caplog.messages if "former name" in message]
    assert len(warned) == 1 and warned[0].startswith(f"{unpacked(former) / 'config.yaml'}: former names of options")
    assert found == [recognized(present, language) for language in ("ar", "de")]
    assert found[0][1] != found[1][1]


def test_it_is_packed_again_under_the_present_names(former, tmp_path):
    again = pack(unpacked(former), tmp_path / "again.zip", Facts())
    with zipfile.ZipFile(again) as archive:
        config = yaml.safe_load(archive.read("config.yaml"))
    assert "'tasks'" not in str(config) and "'default_task'" not in str(config)
    assert config["model_conf"]["conditions"] == NAMES
    assert config["encoder_conf"]["attention"]["selection"]["default_condition"] == {"lang": "el"}
    assert config["decoder_conf"]["adapter"]["conditions"] == config["decoder_conf"]["start_tag"]["conditions"] == NAMES
