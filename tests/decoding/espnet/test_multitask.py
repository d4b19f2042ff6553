"""Multitask models; tests/test_espnet_models.py compares their texts and scores with ESPnet's program."""

from argparse import Namespace

import numpy as np
import pytest
from espnet2.bin.s2t_inference import Speech2Text
from references.espnet_models import LANGUAGES, MULTITASK, PREPROCESSOR, RATE, write_model
from references.tones import tones

from espnet_diverse.decoding.espnet.multitask import DecoderPrompt
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.errors import ConfigError, DataError, ModelError
from espnet_diverse.inference import Fusion, Recognizer, SegmentationOptions

NAMES = [symbol[1:-1] for symbol in LANGUAGES]
UNCUT = SegmentationOptions(vad="none")


def prompt(tokens=MULTITASK, settings=PREPROCESSOR):
    return DecoderPrompt(Namespace(preprocessor_conf=settings, token_list=tokens))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("models") / "multitask", "multitask")


@pytest.fixture(scope="module")
def recognizer(folder):
    return Recognizer(folder, options=SearchOptions(beam_size=2), segmentation=UNCUT)


def test_a_prompt_has_the_language_and_the_task():
    one = prompt()
    assert one.languages == NAMES and one.conditions.names == {"lang": NAMES, "tgtlang": NAMES}

    def symbols(*languages):
        return [MULTITASK[index] for index in one.indices(MULTITASK.index("<sos>"), *languages)]

    assert symbols(2, 2) == ["<sos>", "<jpn>", "<asr>", "<notimestamps>"]
    assert symbols(0, 1) == ["<sos>", "<eng>", "<st_deu>", "<notimestamps>"]
    with pytest.raises(DataError, match="--target_language jpn: the model translates into deu"):
        one.indices(0, 0, 2)
    assert {MULTITASK.index("<asr>"), MULTITASK.index("<space>")} <= one.special
    assert MULTITASK.index("a") not in one.special


@pytest.mark.parametrize(
    ("left_out", "said"),
    [
        (["<asr>"], "lack <asr>, which a model of task s2t needs for its prompts; use the token_list that it was"),
        (["<notimestamps>", "<asr>"], "lack <asr> <notimestamps>, which"),
        (LANGUAGES, "have no language, which .*; languages have two or three letters of ISO 639, such as <eng>"),
    ],
    ids=str,
)
def test_a_vocabulary_of_another_kind_is_refused(left_out, said):
    tokens = [token for token in MULTITASK if token not in left_out]
    with pytest.raises(ModelError, match=f"^the {len(tokens)} tokens of the vocabulary {said}"):
        prompt(tokens)


def test_settings_that_are_missing_are_named():
    settings = {name: value for name, value in PREPROCESSOR.items() if name not in ("fs", "notime_symbol")}
    with pytest.raises(ModelError, match="^preprocessor_conf lacks fs notime_symbol, which a model of task s2t has"):
        prompt(settings=settings)


def test_audio_is_padded_and_never_cut():
    samples = tones(1, 0)
    padded = prompt().padded(samples)
    assert len(padded) == 2 * RATE and not padded[RATE:].any()
    np.testing.assert_array_equal(padded[:RATE], samples)
    with pytest.raises(DataError, match=r"2\.5 s are more than the 2 s that the model reads; use transcribe"):
        prompt().padded(np.zeros(5 * RATE // 2, np.float32))


@pytest.mark.parametrize(
    ("names", "symbols"),
    [
        ({"language": "eng"}, ("<eng>", "<asr>")),
        ({"language": "jpn"}, ("<jpn>", "<asr>")),
        ({"language": "eng", "target_language": "deu"}, ("<eng>", "<st_deu>")),
    ],
)
def test_requested_language_and_task_match_espnet(folder, recognizer, names, symbols):
    samples = tones(1, 0)
    files = (folder / "config.yaml", folder / "valid.acc.ave.pth")
    (expected,) = Speech2Text(*files, beam_size=2)(samples, lang_sym=symbols[0], task_sym=symbols[1])
    (segment,) = recognizer(samples, RATE, **names).segments
    assert segment.text == expected[3] and segment.score == pytest.approx(float(expected[4].score), abs=1e-4)


def test_the_model_names_the_language_where_it_is_not_given(recognizer):
    found = recognizer(tones(1, 0), RATE)
    chances = found.language_probabilities
    assert sorted(chances) == sorted(NAMES) and sum(chances.values()) == pytest.approx(1)
    best = max(chances, key=chances.get)
    assert found.language == best and found.conditions == {"lang": best, "tgtlang": best}
    assert found.text == recognizer(tones(1, 0), RATE, language=best).text


def test_a_target_language_alone_translates_from_the_language_that_the_model_names(recognizer, monkeypatch):
    monkeypatch.setattr(recognizer.search.search, "languages", lambda source: {"jpn": 0.7, "deu": 0.2, "eng": 0.1})
    found = recognizer(tones(1, 0), RATE, target_language="deu")
    assert found.conditions == {"lang": "jpn", "tgtlang": "deu"} and found.language == "jpn"
    expected = recognizer(tones(1, 0), RATE, language="jpn", target_language="deu")
    assert found.segments == expected.segments != recognizer(tones(1, 0), RATE, language="deu").segments


def test_unknown_language_and_unsupported_options_are_refused(folder, recognizer):
    with pytest.raises(DataError, match="--language xyz: unknown language; this model knows: eng deu jpn"):
        recognizer(tones(1, 0), RATE, language="xyz")
    with pytest.raises(ConfigError, match="times of words need CTC that was trained on the output text"):
        recognizer(tones(1, 0), RATE, language="eng", word_timestamps=True)
    with pytest.raises(ConfigError, match=r"whole \(--no_segmentation\) is not possible: it decodes by CTC, which"):
        Recognizer(folder, segmentation=SegmentationOptions(whole=True))(tones(1, 0), RATE, language="eng")
    for search in ("greedy", "sampling"):
        with pytest.raises(ConfigError, match=f"search={search} is not possible with a multitask model; set search=ba"):
            Recognizer(folder, options=SearchOptions(search=search))
    with pytest.raises(ConfigError, match="hotwords are not possible with a multitask model; leave them out"):
        Recognizer(folder, fusion=Fusion(hotwords=["abc"]))
    with pytest.raises(ConfigError, match=r"length_penalty 1\.0 is not possible with a multitask model, which"):
        Recognizer(folder, options=SearchOptions(length_penalty=1.0))
