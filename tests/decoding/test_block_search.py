import json
import logging
from dataclasses import replace

import numpy as np
import pytest
import torch
import yaml
from espnet2.bin.asr_inference_streaming import Speech2TextStreaming
from references.language_models import write_lm
from references.streaming import TOKENS, tones, write_run

from espnet_diverse.decoding.block_search import load_block_search
from espnet_diverse.decoding.fusion import Fusion
from espnet_diverse.decoding.options import Options
from espnet_diverse.decoding.predictor import load_predictor
from espnet_diverse.errors import ConfigError, ModelError

OPTIONS = Options(beam_size=3, ctc_weight=0.3)
ESPNET = replace(OPTIONS, search="espnet")
KINDS = {
    "contextual_block_transformer": {},
    "contextual_block_conformer": {"cnn_module_kernel": 3},
    "diverse_contextual_block_transformer": {"attention": {"core": "sdma"}},
}
SIZES = ("block_size", "hop_size", "look_ahead")


def of_espnet(run, sizes=True, **lm):
    """ESPnet's own class, without detection of repetitions; its search has the block sizes of the encoder."""
    files = [str(run / name) for name in ("config.yaml", "valid.acc.ave.pth")]
    options = {"beam_size": 3, "ctc_weight": 0.3, "lm_weight": 0.3, "disable_repetition_detection": True}
    theirs = Speech2TextStreaming(*files, **options, **lm)
    if sizes:
        for name in SIZES:
            setattr(theirs.beam_search, name, getattr(theirs.asr_model.encoder, name))
    return theirs


def heard(search, samples, part):
    """The texts after each part of an utterance."""
    return [search.add(samples[i : i + part], i + part >= len(samples)) for i in range(0, len(samples), part)]


@pytest.fixture(scope="module")
def search(streaming_run):
    return load_block_search(streaming_run, options=OPTIONS)


@pytest.fixture(scope="module")
def blockwise(streaming_run):
    """The blockwise search alone."""
    return load_block_search(streaming_run, options=ESPNET)


@pytest.mark.parametrize("encoder", KINDS)
def test_the_final_text_is_that_of_the_recording(encoder, tmp_path):
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


def test_ctc_alone_is_possible(streaming_run):
    options, samples = Options(beam_size=3, ctc_weight=1.0), tones(1.0, 8)
    search, offline = (load(streaming_run, options=options) for load in (load_block_search, load_predictor))
    texts = [each.text for each in heard(search, samples, 1600)]
    assert texts[-1] == offline.batch([offline.features(samples)], [{}])[0][0].text and any(texts[:-1])


@pytest.mark.parametrize("which", ["search", "blockwise"])
def test_sizes_of_parts_make_no_difference(which, request):
    samples, search = tones(1.2, 7), request.getfixturevalue(which)
    found = [heard(search, samples, part)[-1] for part in (len(samples), 8000, 2560, 333)]
    assert {one.text for one in found} == {found[0].text} != {""}
    np.testing.assert_allclose([one.score for one in found], found[0].score, atol=1e-3)


def test_block_sizes_of_espnet_need_no_change_of_its_search(tmp_path):
    run = write_run(tmp_path / "run", block_size=40, hop_size=16, look_ahead=16)
    search, samples = load_block_search(run, options=ESPNET), tones(2.9, 1)
    texts = [each.text for each in heard(search, samples, 2560)]
    assert texts[-1] == of_espnet(run, sizes=False)(samples)[0][0]
    # The first block has 40 frames of 40 ms and those that the subsampling needs; ESPnet waits for the second.
    assert not texts[9] and texts[11]


def test_a_text_comes_a_hop_before_that_of_espnet(streaming_run, search):
    theirs, samples = of_espnet(streaming_run), tones(1.0, 3)
    ours = next(i for i, each in enumerate(heard(search, samples, 640)) if each.text)
    for start in range(0, len(samples), 640):
        theirs(samples[start : start + 640], is_final=False)
        if theirs.beam_search.process_idx:
            break
    assert start // 640 - ours in (3, 4, 5)  # a hop of 4 frames of 40 ms


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


@pytest.mark.parametrize("count", [0, 10, 500, 1279])
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


def test_hypotheses_as_long_as_the_audio_do_not_stop_the_stream(tmp_path):
    """ESPnet ends all hypotheses at a block where they have as many tokens as there are frames, and has none left."""
    run = write_run(tmp_path / "run")
    weights = torch.load(run / "valid.acc.ave.pth", weights_only=True)
    weights["decoder.output_layer.bias"][-1] = -100  # <sos/eos>
    torch.save(weights, run / "valid.acc.ave.pth")
    search = load_block_search(run, options=Options(beam_size=2, ctc_weight=0.0, search="espnet"))
    found = heard(search, tones(1.0, 0), 1600)
    lengths = [len(each.tokens) for each in found]
    assert lengths == sorted(lengths) and lengths[-1] == 24


def test_nothing_is_logged_for_a_block(search, caplog):
    with caplog.at_level(logging.WARNING):
        heard(search, tones(1.0, 2), 1600)
    assert caplog.messages == []


def test_sizes_that_the_configuration_leaves_to_espnet_are_known(tmp_path):
    run = write_run(tmp_path / "run", block_size=40, hop_size=16, look_ahead=16)
    config = yaml.safe_load((run / "config.yaml").read_text())
    for name in SIZES:
        del config["encoder_conf"][name]
    (run / "config.yaml").write_text(json.dumps(config))
    with pytest.raises(AssertionError):
        of_espnet(run)
    online = load_block_search(run, options=OPTIONS).speech2text.beam_search
    assert (online.block_size, online.hop_size, online.look_ahead) == (40, 16, 16)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "st"}, "streaming is for models of task asr, and this one has task st"),
        ({"encoder": "conformer"}, "encoder conformer does not stream; those that do are contextual_block_tr"),
        ({"encoder_conf": {"input_layer": "linear"}}, "input_layer linear needs a whole utterance; streaming needs "),
        ({"encoder_conf": {"block_size": 0}}, "block_size 0 is a single block"),
        ({"normalize": "utterance_mvn"}, "normalize utterance_mvn needs a whole utterance; .* global_mvn or None"),
        ({"frontend": "wav2vec_cnn"}, "frontend wav2vec_cnn needs a whole utterance; streaming needs frontend default"),
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
        load_block_search(streaming_run, options=Options(**options))


def test_hotwords_are_refused(streaming_run, tmp_path):
    with pytest.raises(ConfigError, match="hotwords are not possible while streaming"):
        load_block_search(streaming_run, fusion=Fusion(hotwords=tmp_path / "words"))
