"""Normalisations by name: texts that count as the same, and options that are refused."""

import json
import sys
import unicodedata

import pytest

from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.scoring.error_rate import ErrorRate
from espnet_diverse.scoring.normalisation import Normalisation

SAME = {
    "none": ("it's", "it's"),
    "wer": ("It's, well-known!", "it's well-known"),
    "unvocalised": ("كِتَابٌ، جديـــد!", "كتاب جديد"),
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


@pytest.mark.parametrize(
    "text",
    [
        "हिन्दी में बोलूँ",
        "বাংলা ভাষায়",
        "தமிழ் மொழி",
        "తెలుగు భాష",
        "മലയാളം",
        "مُحَمَّدٌ كبير",
        "שָׁלוֹם עולם",
        "ขี่ม้า",
        "ខ្ញុំ ទៅ",
        "မြန်မာ",
        "ẹ̀kọ́ yorùbá",
    ],
)
def test_whispers_basic_rules_keep_the_marks_of_words(text):
    rules = Normalisation("whisper")
    assert rules(f"“{text}!” (x) ❤️ 1️⃣").split() == [*unicodedata.normalize("NFKC", text).split(), "1"]
    (note,) = rules.notes(set(text), set(text))
    assert "whisper keeps the marks" in note and "U+" in note and "|marks:kept|" in rules.signature
    (note,) = Normalisation("whisper_en").notes(set(text), set(text))
    assert "whisper_en is for English" in note
    assert Normalisation("wer").notes(set(text), set(text)) == rules.notes(set("déjà vu"), set()) == []


def test_the_dotted_i_has_no_mark():
    assert [Normalisation(name)("İzmir I", "tr").strip() for name in ("wer", "whisper")] == ["izmir ı"] * 2
    assert [Normalisation(name)("İzmir", "de").strip() for name in ("wer", "whisper")] == ["izmir"] * 2


@pytest.mark.parametrize("marked", ["كَتَب", "كــتب", "כָּתַב"])
def test_marks_of_one_side_alone_have_a_note(marked):
    bare = Normalisation("unvocalised")(marked)
    assert len(bare) == 3 and Normalisation("wer")(marked) == unicodedata.normalize("NFC", marked)
    for sides, which in (((marked, bare), "references"), ((bare, marked), "hypotheses")):
        (note,) = Normalisation("wer").notes(*map(set, sides))
        assert note.startswith(f"only the {which} ") and "unvocalised" in note
    assert Normalisation("unvocalised").notes(set(marked), set(bare)) == []


def test_spellings_of_a_file(tmp_path):
    (tmp_path / "normalizer.json").write_text(json.dumps({"colour": "color"}))
    rules = Normalisation("whisper_en", tmp_path / "normalizer.json")
    assert rules("Colour").strip() == "color" != Normalisation("whisper_en")("Colour").strip()
    assert "rules:whisper_en|spelling:" in rules.signature and "spelling:none" in Normalisation("whisper_en").signature


def test_invalid_options_and_a_missing_package_are_refused(tmp_path, monkeypatch):
    with pytest.raises(
        ConfigError, match="^unknown normalisation 'asr'; choose one of none, wer, unvocalised, whisper, whisper_en$"
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
