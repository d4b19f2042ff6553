"""The batched search on a trained model, against ESPnet's."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import soundfile
import torch
import yaml

from espnet_diverse.data.kaldi import read_data_dir
from espnet_diverse.data.writing.format_options import FormatOptions
from espnet_diverse.data.writing.formatting import format_data
from espnet_diverse.decoding.condition_ids import KnownConditions
from espnet_diverse.decoding.ctc_alignment import align
from espnet_diverse.decoding.directory.decode_dir import decode
from espnet_diverse.decoding.espnet.espnet_search import load_search
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.predictor import load_predictor
from espnet_diverse.decoding.search.fusion import Fusion
from espnet_diverse.errors import ConfigError, ModelError
from espnet_diverse.runs import checkpoint
from espnet_diverse.scope import current


@pytest.mark.parametrize("changed", [{}, {"ctc_weight": 0.0}, {"batch_size": 1, "penalty": 0.1}], ids=str)
def test_texts_and_scores_match_espnet(tiny_run, tmp_path, changed):
    options = SearchOptions(**{"beam_size": 4, "ctc_weight": 0.4} | changed)
    theirs = decode(load_search(tiny_run.model_dir, options=options), tiny_run.test_dir, tmp_path / "theirs")
    ours = decode(load_predictor(tiny_run.model_dir, options=options), tiny_run.test_dir, tmp_path / "ours")
    for one, other in zip(ours, theirs, strict=True):
        assert (one.utterance, one.text, one.tokens) == (other.utterance, other.text, other.tokens)
        assert one.score == pytest.approx(other.score, abs=1e-4)


def test_the_best_hypotheses_come_in_order(tiny_run):
    search = load_predictor(tiny_run.model_dir, options=SearchOptions(beam_size=4, nbest=3))
    frames, seconds = search.read(str(tiny_run.test_dir / "test-00.wav"))
    (best,) = search.batch([frames], [{}])
    assert seconds == 0.75 and len(best) == 3
    assert [text.score for text in best] == sorted((text.score for text in best), reverse=True)
    assert best[0].text == "".join(best[0].tokens)


def test_greedy_search_reads_ctc_alone(tiny_run, tmp_path):
    search = load_predictor(tiny_run.model_dir, options=SearchOptions(search="greedy"))
    results = decode(search, tiny_run.test_dir, tmp_path)
    assert len(results) == 3
    for result in results:
        output, _, _ = search.encode([search.read(str(tiny_run.test_dir / f"{result.utterance}.wav"))[0]], [{}])
        with torch.inference_mode():
            best, path = search.ctc.log_softmax(output)[0].max(-1)
        assert result.score == pytest.approx(float(best.sum()), abs=1e-3)
        ids = [label for label in path.unique_consecutive().tolist() if label]
        assert result.text == search.tokens.decode(ids, 0.0).text and result.tokens == len(ids)


def test_each_utterance_is_decoded_for_its_own_tasks(tiny_run, tmp_path):
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    shutil.copy(tiny_run.test_dir / "wav.scp", data_dir)
    (data_dir / "utt2lang").write_text("test-00 de\ntest-01 ar\ntest-02 de\n")
    search, heard = load_predictor(tiny_run.model_dir), []

    def listen(source, lengths, options):
        heard.append({condition: ids.tolist() for condition, ids in current().conditions.items()})
        return [[] for _ in lengths]

    search.conditions, search.search = KnownConditions({"lang": ["ar", "de"], "tgtlang": ["ar", "de"]}), listen
    decode(search, data_dir, tmp_path / "out")
    assert heard == [{"lang": [1, 0, 1], "tgtlang": [1, 0, 1]}] and current().conditions == {}


@pytest.mark.parametrize("load", [load_predictor, load_search])
def test_data_prepared_at_the_rate_of_the_model_are_not_resampled(telephone_run, tiny_run, tmp_path, load):
    data = read_data_dir(tiny_run.test_dir)
    format_data({"test": data}, tmp_path / "data", FormatOptions(rate=8000))
    search = load(telephone_run.model_dir, options=SearchOptions(beam_size=3, batch_size=1, maxlenratio=-4))
    results = decode(search, tmp_path / "data" / "test", tmp_path / "out")
    prepared = read_data_dir(tmp_path / "data" / "test").wav_scp
    for result in results:
        samples, rate = soundfile.read(prepared[result.utterance], dtype="float32")
        assert rate == 8000 and len(samples) == 6000
        read = search.features(samples) if load is load_predictor else samples
        np.testing.assert_array_equal(search.read(prepared[result.utterance])[0], read)
        assert result.seconds == 0.75 and result.text == search.batch([read], [{}])[0][0].text
        # The source, at 16 kHz, gives the same but for the 16 bits of the prepared file.
        same, seconds = search.read(data.wav_scp[result.utterance])
        np.testing.assert_allclose(same, read, atol=0.02 if load is load_predictor else 2**-15)
        assert seconds == 0.75


def test_a_model_of_features_is_refused(tiny_run, tmp_path):
    shutil.copytree(tiny_run.model_dir, tmp_path / "model")
    config = yaml.safe_load((tiny_run.model_dir / "config.yaml").read_text())
    config |= {"input_size": 20, "frontend": None, "frontend_conf": {}}
    (tmp_path / "model" / "config.yaml").write_text(yaml.safe_dump(config))
    state = checkpoint.load(tiny_run.model_dir / "valid.acc.ave.pth")
    del state["frontend.logmel.melmat"]
    torch.save(state, tmp_path / "model" / "valid.acc.ave.pth")
    for load in (load_predictor, load_search):
        with pytest.raises(ModelError, match=r"^the model reads features of size 20 \(input_size\), not audio"):
            load(tmp_path / "model")


@pytest.fixture(scope="module")
def predictor(tiny_run):
    return load_predictor(tiny_run.model_dir, options=SearchOptions(beam_size=1))


def test_options_of_a_call_match_a_predictor_with_these_options(tiny_run, predictor):
    frames = predictor.read(str(tiny_run.test_dir / "test-00.wav"))[0]
    for changed in ({"beam_size": 4, "nbest": 3}, {"ctc_weight": 0.0}, {"ctc_weight": 0.9, "penalty": 0.5}):
        options = SearchOptions(**changed)
        alone = load_predictor(tiny_run.model_dir, options=options)
        assert predictor.batch([frames], [{}], options) == alone.batch([frames], [{}])
    assert predictor.options == SearchOptions(beam_size=1, ctc_weight=0.3, lm_weight=0.0)


def test_threads_with_other_options_do_not_change_each_other(tiny_run, predictor):
    frames = predictor.read(str(tiny_run.test_dir / "test-01.wav"))[0]
    several = [
        SearchOptions(beam_size=1),
        SearchOptions(beam_size=8, nbest=8),
        SearchOptions(beam_size=2, nbest=2, penalty=2.0),
    ]
    alone = [predictor.batch([frames], [{}], options) for options in several]
    assert [len(best) for (best,) in alone] == [1, 8, 2]
    with ThreadPoolExecutor(3) as pool:
        together = list(pool.map(lambda options: predictor.batch([frames], [{}], options), several * 8))
    assert together == alone * 8


def test_options_of_a_call_that_are_not_possible(tiny_run, tiny_translation, predictor):
    with pytest.raises(ConfigError, match="search=greedy is not possible: the model was loaded with search=batched"):
        predictor.batch([], [], SearchOptions(search="greedy"))
    by_ctc = load_predictor(tiny_run.model_dir, options=SearchOptions(ctc_weight=1.0))
    with pytest.raises(ConfigError, match="ctc_weight 0.5 needs a decoder, .* set ctc_weight=1"):
        by_ctc.resolve(SearchOptions(ctc_weight=0.5))
    with pytest.raises(ConfigError, match="ctc_weight 0.3 is not possible: the model was trained without CTC"):
        load_predictor(tiny_translation.model_dir).resolve(SearchOptions(ctc_weight=0.3))


def test_ctc_is_computed_once_for_a_batch(tiny_run, monkeypatch):
    search = load_predictor(tiny_run.model_dir, options=SearchOptions(beam_size=2, ctc_weight=0.3))
    features, calls, compute = search.read(str(tiny_run.test_dir / "test-00.wav"))[0], [], search.ctc.log_softmax
    (expected,) = search.find([features], [{}])
    monkeypatch.setattr(search.ctc, "log_softmax", lambda source: calls.append(len(source)) or compute(source))
    (found,) = search.find([features], [{}], posteriors=True)
    assert calls == [1] and found.texts == expected.texts
    spans = search.spans(features, {}, search.tokens.indices(found.texts[0].tokens))
    assert spans == align(found.log_probs, search.tokens.indices(found.texts[0].tokens))


@pytest.mark.parametrize(
    "use",
    [
        lambda search, features: search.batch([features], [{}]),
        lambda search, features: search.batch([features] * 2, [{}] * 2),
        lambda search, features: search.spans(features, {}, [2]),
        lambda search, features: search.find_long(features, {}),
    ],
    ids=["one", "two", "spans", "long"],
)
def test_weights_that_are_not_finite_are_said(tiny_run, tmp_path, use):
    state = checkpoint.load(tiny_run.model_dir / "valid.acc.ave.pth")
    state["encoder.after_norm.bias"][0] = torch.inf
    torch.save(state, tmp_path / "bad.pth")
    search = load_predictor(tiny_run.model_dir, tmp_path / "bad.pth")
    features, _ = search.read(str(tiny_run.test_dir / "test-00.wav"))
    with pytest.raises(ModelError, match="the encoder's output is not finite: .* use another checkpoint"):
        use(search, features)


def test_weights_are_checked(tiny_run, tmp_path):
    state = checkpoint.load(tiny_run.model_dir / "valid.acc.ave.pth")
    del state["ctc.ctc_lo.bias"]
    torch.save(state, tmp_path / "bad.pth")
    with pytest.raises(ModelError, match=r"bad\.pth does not fit .* 1 missing: ctc\.ctc_lo\.bias"):
        load_predictor(tiny_run.model_dir, tmp_path / "bad.pth")


@pytest.mark.parametrize(
    ("changed", "options", "error", "said"),
    [
        (
            {"task": "lm"},
            SearchOptions(),
            ModelError,
            "config.yaml: a model of task lm writes no text; known: asr st mt",
        ),
        (
            {"model_conf": {"ctc_weight": 0.0}},
            SearchOptions(ctc_weight=0.4),
            ConfigError,
            "0.4 is not possible: .* without",
        ),
        (
            {"model_conf": {"ctc_weight": 0.0}},
            SearchOptions(search="greedy"),
            ConfigError,
            "greedy is not possible: .* without",
        ),
    ],
)
def test_a_model_that_cannot_be_searched_so_is_refused(tiny_run, tmp_path, changed, options, error, said):
    for name in ("valid.acc.ave.pth", "feats_stats.npz"):
        shutil.copy(tiny_run.model_dir / name, tmp_path)
    config = yaml.safe_load((tiny_run.model_dir / "config.yaml").read_text()) | changed
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    with pytest.raises(error, match=said):
        load_predictor(tmp_path, options=options)


def test_a_model_of_ctc_alone_needs_no_option(tiny_run, tmp_path):
    """ESPnet builds no decoder for a model that is trained by CTC alone."""
    folder = shutil.copytree(tiny_run.model_dir, tmp_path / "exp")
    config = yaml.safe_load((folder / "config.yaml").read_text())
    config["model_conf"]["ctc_weight"] = 1.0
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    weights = folder / "valid.acc.ave.pth"
    state = {name: value for name, value in checkpoint.load(weights).items() if not name.startswith("decoder.")}
    checkpoint.save(state, weights)
    ours, theirs = (
        load_predictor(folder, options=SearchOptions(beam_size=3)),
        load_search(folder, options=SearchOptions(beam_size=3)),
    )
    assert ours.options.ctc_weight == ours.resolve(SearchOptions(beam_size=3)).ctc_weight == 1.0
    audio = str(tiny_run.test_dir / "test-00.wav")
    (found,), (expected,) = (search.batch([search.read(audio)[0]], [{}]) for search in (ours, theirs))
    assert found[0].text == expected[0].text and found[0].score == pytest.approx(expected[0].score, abs=1e-4)


def test_hotwords_of_a_call_match_a_file_and_leave_the_predictor_as_it_is(tiny_run, tmp_path, caplog):
    options = SearchOptions(beam_size=4, minlenratio=-3, maxlenratio=-6)
    (tmp_path / "words").write_text("dddd\ncb\n")
    plain = load_predictor(tiny_run.model_dir, options=options)
    of_file = load_predictor(tiny_run.model_dir, options=options, fusion=Fusion(hotwords=tmp_path / "words"))
    frames, _ = plain.read(str(tiny_run.test_dir / "test-00.wav"))
    before = plain.batch([frames], [{}])
    found = [each.texts for each in plain.find([frames], [{}], hotwords=plain.hotwords_of(["dddd", "cb"]))]
    assert found == of_file.batch([frames], [{}]) != before == plain.batch([frames], [{}])
    caplog.clear()
    fewer = [plain.find([frames], [{}], hotwords=plain.hotwords_of(each))[0].texts for each in (["d", "dxd"], ["d"])]
    assert fewer[0] == fewer[1] and "'dxd' is left out" in caplog.text
    none = plain.find([frames], [{}], hotwords=of_file.hotwords_of(["xyz"]))[0].texts
    assert none == before[0] and "no hotword is left" in caplog.text


def test_hotwords_of_a_call_need_a_search_that_has_them(tiny_run, monkeypatch):
    plain = load_predictor(tiny_run.model_dir)
    monkeypatch.setattr(plain, "search", object())  # such as the search of a model that translates in one pass
    assert plain.hotwords_of(None) is None
    with pytest.raises(ConfigError, match="^hotwords are not possible with the search of this model; leave them out$"):
        plain.hotwords_of(["ab"])


def test_hotwords_need_no_decoder(tiny_run):
    by_ctc = load_predictor(tiny_run.model_dir, options=SearchOptions(ctc_weight=1.0, beam_size=4, hotword_weight=30.0))
    frames, _ = by_ctc.read(str(tiny_run.test_dir / "test-00.wav"))
    (without,), (found,) = (
        by_ctc.find([frames], [{}]),
        by_ctc.find([frames], [{}], hotwords=by_ctc.hotwords_of(["dda"])),
    )
    assert "dda" in found.texts[0].text and "dda" not in without.texts[0].text


def test_a_text_that_is_too_long_for_the_encoder_fails_alone(tiny_translation, tmp_path):
    data_dir = tmp_path / "data"
    shutil.copytree(tiny_translation.test_dir, data_dir)
    first, *others = (data_dir / "src_text").read_text().splitlines()
    name = first.split()[0]
    (data_dir / "src_text").write_text("\n".join([f"{name} {'a' * 5001}", *others, ""]))
    search = load_predictor(tiny_translation.model_dir, options=SearchOptions(beam_size=2))
    found = decode(search, data_dir, tmp_path / "decoded")
    failures = json.loads((tmp_path / "decoded" / "failures.json").read_text())
    assert list(failures) == [name] and failures[name].startswith("a text of 5001 tokens is too long: at most 5000")
    assert [one.utterance for one in found if one.utterance != name] == [line.split()[0] for line in others]
