import json
from dataclasses import replace

import numpy as np
import pytest
import torch
import yaml
from references.language_models import write_lm
from references.streaming import TOKENS, heard, of_espnet, tones, write_run

from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.predictor import load_predictor
from espnet_diverse.decoding.search.fusion import Fusion
from espnet_diverse.decoding.streaming.block_search import load_block_search
from espnet_diverse.errors import ConfigError, ModelError
from espnet_diverse.runs import checkpoint

OPTIONS = SearchOptions(beam_size=3, ctc_weight=0.3)
ESPNET = replace(OPTIONS, search="espnet")
KINDS = {
    "contextual_block_transformer": {},
    "contextual_block_conformer": {"cnn_module_kernel": 3},
    "diverse_contextual_block_transformer": {"attention": {"core": "sdma"}},
    "diverse_contextual_block_conformer": {"attention": {"core": "sdma"}, "cnn_module_kernel": 3},
}
MEMORIES = {
    "cdt": {"kind": "cdt", "slots": 3},
    "xl": {"kind": "xl", "slots": 5},
    "compressive": {"kind": "compressive", "slots": 2, "compressed_slots": 3, "ratio": 2},
}


@pytest.fixture(scope="module")
def search(streaming_run):
    return load_block_search(streaming_run, options=OPTIONS)


@pytest.fixture(scope="module")
def blockwise(streaming_run):
    """The blockwise search alone."""
    return load_block_search(streaming_run, options=ESPNET)


@pytest.mark.parametrize("encoder", KINDS)
def test_the_final_text_matches_the_recording(encoder, tmp_path):
    """It is that of the search of `transcribe` and `decode`; blockwise alone, that of ESPnet's class."""
    run = write_run(tmp_path / "run", encoder, **KINDS[encoder])
    search, offline = load_block_search(run, options=OPTIONS), load_predictor(run, options=OPTIONS)
    blockwise, theirs = load_block_search(run, options=ESPNET), of_espnet(run)
    for seed, seconds in enumerate((0.9, 1.57)):
        samples = tones(seconds, seed)
        ((expected,),) = offline.batch([offline.features(samples)], [{}])
        partial, final = heard(search, samples, 1600)[-2:]
        assert (final.text, final.tokens) == (expected.text, expected.tokens) and partial.text != final.text != ""
        assert final.score == pytest.approx(expected.score, abs=1e-3)
        ((text, tokens, _, hypothesis),) = theirs(samples)
        before, last = heard(blockwise, samples, 1600)[-2:]
        assert (last.text, last.tokens) == (text, tokens) and before.text == partial.text
        assert last.score == pytest.approx(float(hypothesis.score), abs=1e-3)


@pytest.mark.parametrize("memory", MEMORIES.values(), ids=MEMORIES)
def test_the_final_text_of_an_encoder_with_a_memory_matches_the_recording(memory, tmp_path):
    run = write_run(tmp_path / "run", "diverse_transformer", memory={"segment": 4, **memory})
    search, offline = load_block_search(run, options=OPTIONS), load_predictor(run, options=OPTIONS)
    texts = set()
    for seed, (seconds, part) in enumerate(((0.9, 1600), (1.57, 333), (1.57, 40_000))):
        samples = tones(seconds, seed)
        ((expected,),) = offline.batch([offline.features(samples)], [{}])
        *before, final = heard(search, samples, part)
        assert (final.text, final.tokens) == (expected.text, expected.tokens)
        assert final.score == pytest.approx(expected.score, abs=1e-3)
        assert any(each.text for each in before) == (part < len(samples))
        texts.add(final.text)
    assert len(texts) == 3 and "" not in texts


@pytest.mark.parametrize("options", [OPTIONS, ESPNET], ids=["batched", "espnet"])
def test_weights_that_are_not_finite_are_said(streaming_run, tmp_path, options):
    state = checkpoint.load(streaming_run / "valid.acc.ave.pth")
    state["encoder.after_norm.bias"][0] = torch.inf
    torch.save(state, tmp_path / "bad.pth")
    search = load_block_search(streaming_run, tmp_path / "bad.pth", options)
    with pytest.raises(ModelError, match="the encoder's output is not finite"):
        heard(search, tones(1.0, 1), 1600)


def test_a_language_model_is_used(streaming_run, blockwise, tmp_path):
    lm, samples = write_lm(tmp_path / "lm", TOKENS), tones(1.0, 8)
    files = {"lm_train_config": lm / "config.yaml", "lm_file": lm / "valid.loss.ave.pth"}
    ((text, *_),) = of_espnet(streaming_run, **files)(samples)
    fused = load_block_search(streaming_run, options=ESPNET, fusion=Fusion(lm))
    assert heard(fused, samples, 4000)[-1].text == text != heard(blockwise, samples, 4000)[-1].text
    offline = load_predictor(streaming_run, options=OPTIONS, fusion=Fusion(lm))
    fused = load_block_search(streaming_run, options=OPTIONS, fusion=Fusion(lm))
    expected = offline.batch([offline.features(samples)], [{}])[0][0].text
    assert heard(fused, samples, 4000)[-1].text == expected


def test_a_text_of_the_greatest_length_has_no_second_end(tmp_path):
    run = write_run(tmp_path / "run", "diverse_contextual_block_conformer", cnn_module_kernel=3)
    for penalty in (0.0, 2.0, 20.0):
        search = load_block_search(run, options=replace(ESPNET, penalty=penalty))
        texts = [heard(search, tones(seconds, 1), 4000)[-1].text for seconds in (0.6, 1.3, 2.57)]
        assert any(texts) and not any("<sos/eos>" in text for text in texts)


def test_ctc_alone_is_possible(streaming_run):
    options, samples = SearchOptions(beam_size=3, ctc_weight=1.0), tones(1.0, 8)
    search, offline = (load(streaming_run, options=options) for load in (load_block_search, load_predictor))
    texts = [each.text for each in heard(search, samples, 1600)]
    assert texts[-1] == offline.batch([offline.features(samples)], [{}])[0][0].text and any(texts[:-1])


@pytest.mark.parametrize("which", ["search", "blockwise"])
def test_sizes_of_parts_make_no_difference(which, request):
    samples, search = tones(1.2, 7), request.getfixturevalue(which)
    found = [heard(search, samples, part)[-1] for part in (len(samples), 8000, 2560, 333)]
    assert {one.text for one in found} == {found[0].text} != {""}
    np.testing.assert_allclose([one.score for one in found], found[0].score, atol=1e-3)


@pytest.mark.parametrize(("window", "hop"), [(400, 160), (512, 128)], ids=str)
def test_short_ends_and_beginnings_lose_no_frame(window, hop, tmp_path):
    """ESPnet's class alone loses two, or fails."""
    run = write_run(tmp_path / "run", window=window, hop=hop)
    theirs, ours, samples = of_espnet(run), load_block_search(run, options=ESPNET), tones(1.02, 4)[:16_156]
    ((whole, *_, hypothesis),) = theirs(samples)
    for cuts in ([16_146], [30, 90], [401, 15_000], [520, 16_155]):
        *_, found = [ours.add(part, i == len(cuts)) for i, part in enumerate(np.split(samples, cuts))]
        assert found.text == whole and found.score == pytest.approx(float(hypothesis.score), abs=1e-3)
    theirs(samples[:30], is_final=False)
    assert abs(float(theirs(samples[30:])[0][3].score) - float(hypothesis.score)) > 1e-3


@pytest.mark.parametrize(("window", "hop", "layer"), [(400, 160, "conv2d"), (400, 160, "conv2d8"), (512, 64, "conv2d")])
def test_an_utterance_of_one_frame_has_the_text_of_the_recording(window, hop, layer, tmp_path):
    """It has 7 or 15 frames of features, or less samples than a window, which ESPnet's frontend pads."""
    run, least = write_run(tmp_path / "run", window=window, hop=hop, input_layer=layer), 15 if layer == "conv2d8" else 7
    search, offline = load_block_search(run, options=OPTIONS), load_predictor(run, options=OPTIONS)
    samples = tones(0.3, 4)[: (least - 1) * hop]
    ((expected,),) = offline.batch([offline.features(samples)], [{}])
    for part in (len(samples), 100):
        found = heard(search, samples, part)[-1]
        assert (found.text, found.tokens) == (expected.text, expected.tokens) and found.text
        assert found.score == pytest.approx(expected.score, abs=1e-3)
    assert heard(load_block_search(run, options=ESPNET), samples, 100)[-1].text
    assert heard(search, samples[:-1], 100)[-1] == ("", [], 0.0)


@pytest.mark.parametrize("count", [0, 10, 500, 959])
def test_an_utterance_that_is_too_short_has_no_text(search, count):
    assert search.add(np.zeros(count, np.float32), last=True) == ("", [], 0.0)
    assert heard(search, tones(0.9, 0), 2560)[-1].text


def test_utterances_do_not_see_each_other(search):
    one, other = tones(1.0, 5), tones(1.3, 6)
    alone = [heard(search, each, 4000)[-1].text for each in (one, other)]
    search.add(other[:12_000])
    search.reset()
    again = [heard(search, each, 4000)[-1].text for each in (other, one)]
    assert alone == again[::-1] and alone[0] != alone[1]


def test_a_fault_ends_the_utterance(search, monkeypatch):
    samples = tones(1.0, 5)
    expected = heard(search, samples, 4000)[-1].text

    def fail(*_args, **_options):
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patch, pytest.raises(RuntimeError):
        search.add(samples[:8000])
        patch.setattr(search.speech2text.asr_model.encoder, "forward", fail)
        search.add(samples[8000:])
    assert heard(search, samples, 4000)[-1].text == expected


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "st"}, "streaming is for models of task asr, and this one has task st"),
        ({"encoder": "conformer"}, "encoder conformer does not stream; those that do are contextual_block_tr"),
        ({"encoder_conf": {"input_layer": "linear"}}, "input_layer linear needs a whole utterance; streaming needs "),
        ({"encoder_conf": {"block_size": 0}}, "block_size 0 is a single block"),
        ({"postencoder": "length_adaptor"}, "a model with a postencoder has no batched search"),
        ({"normalize": "utterance_mvn"}, "normalize utterance_mvn needs a whole utterance; .* global_mvn or None"),
        ({"frontend": "wav2vec_cnn"}, "frontend wav2vec_cnn needs a whole utterance; streaming needs frontend default"),
        ({"frontend_conf": {"center": False}}, "frontend_conf.center False needs a whole .*; streaming needs .* True$"),
        ({"decoder": "rnn"}, "decoder rnn scores one hypothesis at a time; streaming needs one that scores several"),
        ({"decoder": "transducer"}, "decoder transducer scores one hypothesis at a time"),
        ({"input_size": 80}, "the model reads features of size 80"),
    ],
    ids=str,
)
def test_models_that_do_not_stream_are_refused(streaming_run, changes, message, tmp_path):
    config = yaml.safe_load((streaming_run / "config.yaml").read_text())
    (tmp_path / "config.yaml").write_text(json.dumps(config | changes))
    (tmp_path / "valid.acc.ave.pth").touch()
    with pytest.raises(ModelError, match=message):
        load_block_search(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"search": "greedy"}, "search=greedy is not possible while streaming; set search=batched"),
        ({"nbest": 2}, "nbest 2 is not possible while streaming, which gives one text; leave it out"),
        ({"search": "espnet", "maxlenratio": 0.5}, "minlenratio and maxlenratio need the whole utterance"),
    ],
    ids=str,
)
def test_options_that_do_not_fit_are_refused(streaming_run, options, message):
    with pytest.raises(ConfigError, match=message):
        load_block_search(streaming_run, options=SearchOptions(**options))


def test_hotwords_are_in_final_texts(streaming_run, search):
    fusion, options = Fusion(hotwords=["xyx", "qq"]), replace(OPTIONS, hotword_weight=5.0)
    with_words = load_block_search(streaming_run, options=options, fusion=fusion)
    offline, samples = load_predictor(streaming_run, options=options, fusion=fusion), tones(1.57, 1)
    ((expected,),) = offline.batch([offline.features(samples)], [{}])
    *partial, final = heard(with_words, samples, 1600)
    *plain, without = heard(search, samples, 1600)
    assert final.text == expected.text != without.text and partial == plain


def test_hotwords_need_the_search_of_ours(streaming_run):
    with pytest.raises(ConfigError, match="search=espnet has no hotwords; set search=batched, or leave them out"):
        load_block_search(streaming_run, options=ESPNET, fusion=Fusion(hotwords=["xyx"]))
