"""Normalisations by name: texts that count as the same, and options that are refused."""

import json
import sys

import pytest

from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.scoring.error_rate import ErrorRate
from espnet_diverse.scoring.normalisation import Normalisation

SAME = {
    "none": ("it's", "it's"),
    "wer": ("It's, well-known!", "it's well-known"),
    "whisper": ("Ça [noise] va (laughs) bien?", "ça va bien"),
    "whisper_en": ("It's twenty dollars, Mr. Smith.", "it is $20 mister smith"),
}
"""For each name two texts without a difference."""


@pytest.mark.parametrize("name", SAME)
def test_texts_are_alike(name):
    rules = Normalisation(name)
    assert rules(SAME[name][0]).split() == rules(SAME[name][1]).split()
    metric = ErrorRate("word", normalisation=rules)
    assert metric.statistics([SAME[name][0]], [SAME[name][1]], [""])[:, 1:].sum() == 0


def test_only_english_rules_read_contractions_and_numbers():
    words = [Normalisation(name)("I can't do 2,000.").split() for name in ("whisper", "whisper_en")]
    assert words == [["i", "can", "t", "do", "2", "000"], ["i", "can", "not", "do", "2000"]]


def test_spellings_of_a_file(tmp_path):
    (tmp_path / "normalizer.json").write_text(json.dumps({"colour": "color"}))
    rules = Normalisation("whisper_en", tmp_path / "normalizer.json")
    assert rules("Colour").strip() == "color" != Normalisation("whisper_en")("Colour").strip()
    assert "rules:whisper_en|spelling:" in rules.signature and "spelling:none" in Normalisation("whisper_en").signature


def test_invalid_options_and_a_missing_package_are_refused(tmp_path, monkeypatch):
    with pytest.raises(
        ConfigError, match="^unknown normalisation 'asr'; choose one of none, wer, whisper, whisper_en$"
    ):
        Normalisation("asr")
    with pytest.raises(ConfigError, match="^--spelling x is for --normalise whisper_en, not wer; leave it out$"):
        Normalisation("wer", "x")
    (tmp_path / "list.json").write_text("[1]")
    for name in ("list.json", "gone.json"):
        with pytest.raises(DataError, match=f"{name}: .*; give normalizer.json of a Whisper model"):
            Normalisation("whisper_en", tmp_path / name)
    monkeypatch.setitem(sys.modules, "transformers.models.whisper.english_normalizer", None)
    with pytest.raises(ConfigError, match=r"--normalise whisper needs .*pip install 'espnet_diverse\[bert\]'"):
        Normalisation("whisper")
