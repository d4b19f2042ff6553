"""ESPnet's searches on encoder outputs; tests/test_espnet_models.py compares them with ESPnet's programs."""

import dataclasses
import shutil

import pytest
import torch
from espnet2.asr.decoder.mlm_decoder import MLMDecoder
from references.espnet_models import write_model
from references.tones import tones

from espnet_diverse.decoding.espnet.espnet_beam import TransducerSearch, check_decoder
from espnet_diverse.decoding.espnet.espnet_search import load_search
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.predictor import load_predictor
from espnet_diverse.decoding.search.fusion import Fusion
from espnet_diverse.errors import ConfigError, ModelError
from espnet_diverse.inference import Translator
from espnet_diverse.runs import checkpoint
from espnet_diverse.runs.config import load, save
from espnet_diverse.runs.tasks import MTTask, load_model

SHORT = SearchOptions(beam_size=2, maxlenratio=-3)
PHRASE = Fusion(hotwords=["bad"])


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    return {name: write_model(root / name, name) for name in ("rnn", "transducer")}


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("rnn", {"length_penalty": 1.0}, "length_penalty 1.0 is not possible with RNNDecoder, which ESPnet's search"),
        ("transducer", {"penalty": 0.1}, "penalty 0.1 is not possible with TransducerDecoder, .* leave it out"),
        ("transducer", {"maxlenratio": -5}, "maxlenratio -5 is not possible with TransducerDecoder"),
        ("rnn", {"search": "sampling"}, "search=sampling needs a transformer decoder; set search=batched"),
    ],
)
def test_unsupported_options_are_refused_at_loading_and_in_a_call(models, name, options, said):
    with pytest.raises(ConfigError, match=said):
        load_predictor(models[name], options=SearchOptions(**options))
    if "search" not in options:
        with pytest.raises(ConfigError, match=said):
            load_predictor(models[name]).resolve(SearchOptions(**options))


def test_greedy_search_and_ctc_alone_do_without_the_decoder(models, caplog):
    for options in (SearchOptions(search="greedy"), SearchOptions(ctc_weight=1.0, beam_size=2)):
        predictor = load_predictor(models["transducer"], options=options)
        assert predictor.batch([predictor.features(tones(1, 0))], [{}])[0]
    assert "ESPnet's is used" not in caplog.text


def test_options_of_a_call_hold_for_that_call(models):
    predictor = load_predictor(models["rnn"], options=SHORT)
    features = [predictor.features(tones(seconds, 0)) for seconds in (1, 0.5)]
    several = SearchOptions(beam_size=3, nbest=3)
    (first, _), (other, _) = (predictor.batch(features, [{}, {}], each) for each in (SHORT, several))
    assert len(first) == 1 and len(first[0].tokens) <= 3 and len(other) == 3
    assert other[0].score >= other[1].score >= other[2].score
    (alone,) = predictor.batch(features[:1], [{}])
    assert alone[0].text == first[0].text and alone[0].score == pytest.approx(first[0].score, abs=1e-4)


def test_a_beam_may_be_larger_than_the_vocabulary(models):
    predictor = load_predictor(models["rnn"], options=SHORT)
    features, count = [predictor.features(tones(1, 0))], len(predictor.tokens)
    wide, all_of_them = (
        predictor.batch(features, [{}], dataclasses.replace(SHORT, beam_size=size)) for size in (3 * count, count)
    )
    assert wide == all_of_them


def test_a_transducer_is_searched_in_full_precision(models):
    with pytest.raises(ConfigError, match="precision int8 is not possible with a transducer; set float32"):
        load_predictor(models["transducer"], precision="int8")
    rough, exact = (load_predictor(models["rnn"], options=SHORT, precision=kind) for kind in ("int8", "float32"))
    found, expected = (each.batch([each.features(tones(1, 0))], [{}])[0][0] for each in (rough, exact))
    assert found.score != expected.score and found.score == pytest.approx(expected.score, rel=0.05)


def test_hotwords_are_refused(models, tmp_path):
    (tmp_path / "words").write_text("abc\n")
    with pytest.raises(ConfigError, match="hotwords are not possible: RNNDecoder has no batched search; leave it out"):
        load_predictor(models["rnn"], fusion=Fusion(hotwords=tmp_path / "words"))


def test_hotwords_of_a_transducer_are_for_the_model_or_for_a_call(models, caplog):
    options = SearchOptions(beam_size=8, hotword_weight=5.0)
    plain, fused = (load_predictor(models["transducer"], options=options, fusion=each) for each in (None, PHRASE))
    source = [plain.features(tones(0.5, 0))], [{}]
    without, found = (each.batch(*source)[0][0] for each in (plain, fused))
    assert PHRASE.hotwords[0] in found.text and PHRASE.hotwords[0] not in without.text
    (called,) = plain.find(*source, hotwords=plain.hotwords_of(PHRASE.hotwords))
    assert called.texts[0].text == found.text and called.texts[0].score == pytest.approx(found.score)
    (zero,) = fused.find(*source, dataclasses.replace(options, hotword_weight=0.0))
    assert (zero.texts[0].text, zero.texts[0].score) == (without.text, without.score)
    with pytest.raises(ConfigError, match="a transducer has hotwords from beam_size 2 on, not with 1; set 2 or more"):
        fused.find(*source, SearchOptions(beam_size=1))


def test_several_blanks_are_refused(tmp_path):
    folder = write_model(tmp_path / "big", "transducer", model_conf={"ctc_weight": 0.0})
    model, _ = load_model(folder)
    model.transducer_multi_blank_durations = [2]
    with pytest.raises(ModelError, match="a transducer with several blanks is not supported"):
        TransducerSearch(model)


def test_a_decoder_that_writes_no_text_token_by_token_is_refused():
    with pytest.raises(ModelError, match="MLMDecoder has no search here; ESPnet's programs may run the model"):
        check_decoder(MLMDecoder(10, 16, attention_heads=2, linear_units=8, num_blocks=1))


def test_a_recurrent_decoder_translates_text(tiny_translation, tmp_path):
    """ESPnet's bound would cut the text at the length of the source, and its end detection would be off."""
    folder = shutil.copytree(tiny_translation.model_dir, tmp_path / "exp")
    config = load(folder / "config.yaml")
    config |= {"decoder": "rnn", "decoder_conf": {"hidden_size": 8}}
    save(config, folder / "config.yaml")
    torch.manual_seed(0)
    model, _ = MTTask.build_model_from_file(folder / "config.yaml")
    checkpoint.save(model.state_dict(), folder / "valid.acc.ave.pth")
    translator = Translator(folder, options=SearchOptions(beam_size=3))
    found = translator.translate(["abc", "a"])
    bound = 2 * len("abc") + 10
    assert all(0 < len(each.tokens) <= bound for each in found)
    assert translator.translate("abc").text == found[0].text
    search = load_search(folder, options=SearchOptions(beam_size=3))
    assert search.batch([translator.search.read("abc")[0]], [{}])[0][0].text == found[0].text
