"""Synthetic mTEDx: all languages and directions, the same bytes every time."""

import pytest

from espnet_diverse.corpora import Selection
from espnet_diverse.corpora import mtedx as official_mtedx
from espnet_diverse.corpora.synthetic import mtedx, utterances
from espnet_diverse.data.checks.validate import validate
from espnet_diverse.data.normalisation import for_wer


@pytest.fixture(scope="module")
def tiny_mtedx(tmp_path_factory):
    return mtedx.make(tmp_path_factory.mktemp("corpus") / "mtedx", size="tiny", nj=2)


def test_mtedx_has_all_languages_and_directions(tiny_mtedx):
    folders = {path.name for path in tiny_mtedx.iterdir()} - {"synthetic.json"}
    assert folders == {f"{language}-{language}" for language in official_mtedx.LANGUAGES} | {
        *official_mtedx.TRAINED,
        *official_mtedx.ZERO_SHOT,
    }
    trained = {path.parent.parent.name for path in tiny_mtedx.glob("*/data/train")}
    assert folders - trained == set(official_mtedx.ZERO_SHOT)


@pytest.mark.parametrize("task", ["asr", "st"])
def test_mtedx_prepares_without_faults_or_drops(tiny_mtedx, task):
    sets = official_mtedx.prepare(tiny_mtedx, Selection(task))
    folders = {"asr": (8, 8, 8), "st": (11, 10, 13)}[task]
    for data, each, count in zip(sets.values(), (16, 4, 4), folders, strict=True):
        validate(data)
        assert len(data.text) == each * count
        assert not data.dropped


def test_mtedx_texts_and_segments_are_consistent(tiny_mtedx):
    """es-en has the talks of es-es with the same sentences in English, and yaml and segments say the same."""
    st = official_mtedx.prepare(tiny_mtedx, Selection("st", pairs=("es-en",)))["train"]
    asr = official_mtedx.prepare(tiny_mtedx, Selection(languages=("es",)))["train"]
    sentences = {
        for_wer(utterance.sentence.texts[0]): utterance.sentence.texts[1]
        for utterance in utterances(["es", "en"], "train", 16, 0, mtedx.SPEAKERS["train"])
    }
    assert {st.src_text[name]: text for name, text in st.text.items()} == sentences
    assert sorted(asr.text.values()) == sorted(st.src_text.values())
    assert st.segments["es-en-es01talk00_0001"].start == st.segments["es-en-es01talk00_0000"].end
    txt = tiny_mtedx / "es-en/data/train/txt"
    (txt / "segments").rename(txt / "aside")
    try:
        assert official_mtedx.prepare(tiny_mtedx, Selection("st", pairs=("es-en",)))["train"] == st
    finally:
        (txt / "aside").rename(txt / "segments")
